"""Imports point one way, optional libraries stay optional, and `import manihash` stays cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import manihash
from manihash.files import registry

SOURCE = Path(manihash.__file__).parent

# What stands left imports nothing that stands right; those in one place may import each other.
ORDER = [
    {"types"},
    {"codes", "progress", "checks"},
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
    {"hashers"},
    {"search"},
    {"stores"},
    {"datasets"},
    {"report"},
    {"paper"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
WITHOUT_SKLEARN = {"types", "codes", "checks", "progress", "compute", "files", "rows"}
WITHOUT_SKLEARN |= {"evaluation", "datasets", "search", "cli"}
OPTIONAL = {"faiss", "h5py", "matplotlib", "torch", "dask", "distributed"}
OPTIONAL |= {"lancedb", "pyarrow", "psycopg", "pymilvus", "milvus_lite"}
FILES = sorted(SOURCE.rglob("*.py"))


def part_of(path):
    """codes for codes.py, hashers for hashers/imh.py, "" for the package's own __init__."""
    first = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path, *, top_level_only=False):
    """The full names of the modules that a file imports; what only type checkers read is left out."""
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
    """The module that ``from manihash import name`` reaches: a public name's home, or the module itself."""
    return manihash._HOMES.get(name, f"manihash.{name}")


def test_every_part_has_its_place_in_the_order():
    assert {part_of(path) for path in FILES} - {""} <= set(LEVEL)


def named(paths):
    return [pytest.param(path, id=str(path.relative_to(SOURCE))) for path in paths]


@pytest.mark.parametrize("path", named(path for path in FILES if part_of(path)))
def test_imports_point_one_way(path):
    used = {name.split(".")[1] for name in imports(path) if name.startswith("manihash.")}
    level = LEVEL[part_of(path)]
    allowed = {name for name in LEVEL if LEVEL[name] <= level} | {"__version__"}
    assert used <= allowed, f"{path.name} imports {sorted(used - allowed)}, which stand above it"


@pytest.mark.parametrize("library", sorted(OPTIONAL))
def test_an_optional_library_is_imported_in_one_file_and_not_at_its_top(library):
    users = [path for path in FILES if library in {name.split(".")[0] for name in imports(path)}]
    assert len(users) <= 1, users
    for path in users:
        assert library not in {name.split(".")[0] for name in imports(path, top_level_only=True)}


def test_triton_is_imported_in_one_file_that_is_itself_imported_late():
    users = [path.name for path in FILES if "triton" in {name.split(".")[0] for name in imports(path)}]
    assert users == ["triton.py"]
    assert not [path for path in FILES if "manihash.compute.triton" in imports(path, top_level_only=True)]


@pytest.mark.parametrize("path", named(path for path in FILES if part_of(path) in WITHOUT_SKLEARN))
def test_the_lower_layers_and_the_command_do_without_scikit_learn(path):
    assert "sklearn" not in {name.split(".")[0] for name in imports(path, top_level_only=True)}


def test_the_reader_of_imports_sees_what_it_should(tmp_path):
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
        "manihash.hashers.imh",
    }
    assert imports(tmp_path / "module.py", top_level_only=True) == top
    assert imports(tmp_path / "module.py") == top | {"faiss", "h5py"}


def test_the_public_names_agree_with_those_that_type_checkers_see():
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


def test_every_public_name_can_be_had():
    for name in manihash.__all__:
        assert getattr(manihash, name) is not None
        assert name in dir(manihash)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = manihash.nonsense


def test_every_class_of_model_files_is_where_the_registry_says():
    for name in registry.MODELS | registry.PARTS:
        assert registry.name_in_files(registry.part_class(name)) == name


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import manihash", {"sklearn", "scipy", "pandas", *OPTIONAL}),
        (
            "import manihash.codes, manihash.evaluation.metrics, manihash.files.model, manihash.rows.local",
            {"sklearn", *OPTIONAL},
        ),
        ("from manihash import IMH, recipe", OPTIONAL - {"pyarrow"}),  # pandas loads it
    ],
)
def test_an_import_loads_no_more_than_it_needs(statement, absent):
    code = f"import sys; {statement}; print(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "manihash" in loaded
    assert absent & set(loaded) == set()
