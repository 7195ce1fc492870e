"""Imports point one way, optional libraries stay optional, and tensors stay in the torch files."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import manihash
from manihash.files import registry

SOURCE = Path(manihash.__file__).parent

# A part imports only parts above it in this list; parts on one line may import each other.
ORDER = [
    {"types", "errors"},
    {"codes", "progress", "checks", "display"},
    {"code_tables"},
    {"code_layout"},
    {"compute"},
    {"files"},
    {"rows"},
    {"estimator"},
    {"linalg"},
    {"rotation"},
    {"evaluation"},
    {"base"},
    {"embeddings"},
    {"induction"},
    {"maintenance"},
    {"hashers"},
    {"export"},
    {"search"},
    {"opening"},
    {"stores"},
    {"maintenance/stored_codes"},  # the maintenance of codes that indexes and stores hold
    {"datasets"},
    {"advice"},
    {"pages"},
    {"web"},
    {"notebook"},
    {"cli"},
    {"__main__"},
    {"reproduction"},  # beside src/: the paper and the demo
]
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
# scikit-learn takes a second to load: a command that shows its help or searches codes does not need it.
LIGHT = {
    "types",
    "display",
    "errors",
    "codes",
    "code_tables",
    "code_layout",
    "checks",
    "progress",
    "compute",
    "files",
    "rows",
    "evaluation",
}
LIGHT |= {"linalg", "datasets", "search", "opening", "stores", "cli"}
SLOW = {"sklearn", "scipy"}
OPTIONAL = {"faiss", "h5py", "matplotlib", "jinja2", "PIL", "torch", "dask", "distributed"}
OPTIONAL |= {"lancedb", "pyarrow", "psycopg", "pymilvus", "milvus_lite", "onnx", "onnxruntime"}
OPTIONAL |= {"duckdb", "apsw", "sqlite_vec", "clickhouse_connect", "chdb", "usearch", "qdrant_client"}
OPTIONAL |= {"anywidget", "traitlets", "pandas"}
# Imported by the files of web/, which are imported inside functions.
WEB = {"starlette", "uvicorn", "orjson", "msgspec", "simdjson"}
FILES = sorted(SOURCE.rglob("*.py"))
REPRODUCTION = SOURCE.parents[1] / "reproduction"
FILES += sorted(REPRODUCTION.rglob("*.py"))

# The files that compute with tensors; all others call a backend.
TORCH_FILES = {"compute/torch.py", "compute/cuda.py", "compute/fused.py"}
TORCH_FILES |= {"compute/triton.py", "compute/triton_float64.py"}
TORCH_FILES |= {"rows/torch.py", "rows/fused.py", "search/tensor_index.py", "compute/torch_pairs.py"}
TORCH_FILES |= {"compute/torch_arrays.py"}
# Methods of tensors that numpy arrays do not have, besides in-place methods, whose names end in _.
TENSOR_METHODS = {
    "abs",
    "amax",
    "amin",
    "clamp",
    "clamp_max",
    "clamp_min",
    "contiguous",
    "cpu",
    "cuda",
    "detach",
}
TENSOR_METHODS |= {"double", "exp", "float", "half", "index_select", "int", "is_complex", "isfinite", "isinf"}
TENSOR_METHODS |= {"isnan", "log", "long", "new_empty", "new_full", "new_ones", "new_zeros", "numel", "numpy"}
TENSOR_METHODS |= {"permute", "pin_memory", "sqrt", "square", "stride", "to", "topk", "type_as", "unbind"}
TENSOR_METHODS |= {"unsqueeze", "reciprocal"}
TENSOR_ATTRIBUTES = {"device", "is_cuda", "requires_grad"}
# Not tensors: numpy and math, a backend, and Rows, whose device is part of their interface.
NOT_TENSORS = {"np", "math", "xp", "numpy_backend", "rows"}


def part_of(path):
    """The part of a file or module: codes for codes.py, hashers for hashers/imh.py, "" for __init__.py."""
    if REPRODUCTION in path.parents:
        return "reproduction"
    name = path.relative_to(SOURCE).with_suffix("").as_posix()
    first = name.split("/")[0]
    return name if name in LEVEL else "" if first == "__init__" else first


@cache
def imports(path, *, top_level_only=False):
    """The full names of the modules that a file imports, except for type checkers only."""
    found = set()
    waiting = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if top_level_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = {home_of(alias.name) for alias in node.names}
            found |= names if node.module == "manihash" else {node.module}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "extra")):
            found |= {arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)}
        waiting += ast.iter_child_nodes(node)
    return found


def home_of(name):
    """The module that ``from manihash import name`` loads: a public name's home, or the module itself."""
    return manihash._HOMES.get(name, f"manihash.{name}")


def test_every_part_has_a_place_in_the_order():
    assert {part_of(path) for path in FILES} - {""} <= set(LEVEL)


def named(paths):
    return [pytest.param(path, id=short(path)) for path in paths]


def short(path):
    folder = SOURCE if SOURCE in path.parents else SOURCE.parents[1]
    return path.relative_to(folder).as_posix()


@pytest.mark.parametrize("path", named(path for path in FILES if part_of(path)))
def test_imports_point_one_way(path):
    names = [name.removeprefix("manihash.") for name in imports(path) if name.startswith("manihash.")]
    used = {part_of(SOURCE / name.replace(".", "/")) for name in names}
    level = LEVEL[part_of(path)]
    allowed = {name for name in LEVEL if LEVEL[name] <= level} | {"__version__"}
    assert used <= allowed, f"{path.name} imports {sorted(used - allowed)}, which come later in ORDER"
    if part_of(path) != "reproduction":
        assert not [name for name in imports(path) if name.startswith("reproduction")]


@pytest.mark.parametrize("library", sorted(OPTIONAL))
def test_an_optional_library_is_imported_in_one_file_inside_functions(library):
    users = [path for path in FILES if library in {name.split(".")[0] for name in imports(path)}]
    assert len(users) <= 1, users
    for path in users:
        assert library not in {name.split(".")[0] for name in imports(path, top_level_only=True)}


def test_the_libraries_of_servers_are_imported_in_web_alone_and_web_only_inside_functions():
    for path in FILES:
        if part_of(path) != "web":
            assert not WEB & {name.split(".")[0] for name in imports(path)}, path
            assert not [
                name for name in imports(path, top_level_only=True) if name.startswith("manihash.web")
            ]


def test_the_server_imports_no_page_and_commands_draw_nothing():
    for path in (SOURCE / "web" / "api").glob("*.py"):
        assert not [name for name in imports(path) if name.startswith("manihash.web.explore")], path
    for path in (SOURCE / "cli").glob("*.py"):
        drawing = {"manihash.pages.curves", "manihash.pages.pictures"}
        assert not drawing & imports(path), path


def test_triton_is_imported_in_two_files_that_are_imported_inside_functions():
    users = [path.name for path in FILES if "triton" in {name.split(".")[0] for name in imports(path)}]
    assert users == ["triton.py", "triton_float64.py"]
    for kernels in ("manihash.compute.triton", "manihash.compute.triton_float64"):
        assert not [path for path in FILES if kernels in imports(path, top_level_only=True)]


def tensor_uses(path):
    """The places in a file that call a method of tensors, or read an attribute that only tensors have."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value) not in NOT_TENSORS
        and (_is_tensor_method(node.attr) if id(node) in called else node.attr in TENSOR_ATTRIBUTES)
    ]


def _is_tensor_method(name):
    in_place = name.endswith("_") and not name.endswith("__") and name != "list_"  # pyarrow.list_
    return in_place or name in TENSOR_METHODS


@pytest.mark.parametrize("path", named(path for path in FILES if short(path) not in TORCH_FILES))
def test_tensors_are_computed_with_in_the_torch_files_alone(path):
    assert tensor_uses(path) == []


def test_every_torch_file_exists_and_uses_tensors():
    for name in TORCH_FILES - {"compute/triton.py", "compute/triton_float64.py"}:
        assert tensor_uses(SOURCE / name), name


@pytest.mark.parametrize(
    "code",
    ["X.cpu()", "f(X).detach()", "X[0].numpy()", "X.to('cuda')", "X.sum().clamp_min_(0)", "X.device"],
)
def test_a_use_of_tensors_is_detected(code, tmp_path):
    (tmp_path / "module.py").write_text(code)
    assert len(tensor_uses(tmp_path / "module.py")) == 1


@pytest.mark.parametrize("code", ["np.exp(X)", "xp.exp(X)", "rows.device", "self.points_", "X.sum()", "X.T"])
def test_what_arrays_and_backends_have_is_no_use_of_tensors(code, tmp_path):
    (tmp_path / "module.py").write_text(code)
    assert tensor_uses(tmp_path / "module.py") == []


@pytest.mark.parametrize("path", named(path for path in FILES if part_of(path) in LIGHT))
def test_what_searches_codes_and_starts_commands_imports_scikit_learn_and_scipy_inside_functions(path):
    assert not SLOW & {name.split(".")[0] for name in imports(path, top_level_only=True)}


def test_imports_are_detected(tmp_path):
    (tmp_path / "module.py").write_text(
        "import numpy as np\n"
        "from manihash import checks, IMH\n"
        "from manihash.rows.local import LocalRows\n"
        "def f():\n    import faiss\n    h5py = checks.extra('h5py', 'hdf5')\n"
        "if TYPE_CHECKING:\n    import torch\n"
    )
    top = {
        "numpy",
        "manihash.checks",
        "manihash.rows.local",
        "manihash.hashers",
    }
    assert imports(tmp_path / "module.py", top_level_only=True) == top
    assert imports(tmp_path / "module.py") == top | {"faiss", "h5py"}


def test_public_names_are_the_same_for_type_checkers():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == sorted(manihash.__all__)
    assert seen == manihash._HOMES


def test_every_public_name_can_be_imported():
    for name in manihash.__all__:
        assert getattr(manihash, name) is not None
        assert name in dir(manihash)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = manihash.nonsense


def test_a_name_that_has_moved_is_found_with_a_warning():
    assert manihash.embeddings.TSNE.__name__ == "TSNE"
    with pytest.warns(FutureWarning, match="manihash.TSNE is now manihash.embeddings.TSNE; "):
        assert manihash.TSNE is manihash.embeddings.TSNE
    with pytest.warns(FutureWarning, match="manihash.living is now manihash.maintenance; "):
        assert manihash.living is manihash.maintenance
    with pytest.warns(FutureWarning, match="manihash.Rescore is now manihash.search.Rerank; "):
        assert manihash.Rescore is manihash.search.Rerank
    with pytest.warns(FutureWarning, match="manihash.precision is now manihash.gpu_precision; "):
        assert manihash.precision is manihash.gpu_precision


def test_every_class_of_model_files_is_where_the_registry_says():
    for name in registry.own_classes():
        assert registry.name_in_files(registry.part_class(name)) == name


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import manihash", {"sklearn", "scipy", "pandas", "pooch", "platformdirs", *OPTIONAL, *WEB}),
        (
            "import manihash.codes, manihash.evaluation.metrics, manihash.files.model, manihash.rows.local",
            {"sklearn", *OPTIONAL},
        ),
        ("from manihash import HammingIndex, open_store; import manihash.cli._app", {"sklearn", "scipy"}),
        # scikit-learn loads pandas, which loads pyarrow
        ("from manihash import IMH, recipe", OPTIONAL - {"pyarrow", "pandas"}),
    ],
)
def test_an_import_loads_no_more_than_it_needs(statement, absent):
    code = f"import sys; {statement}; print(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "manihash" in loaded
    assert absent & set(loaded) == set()
