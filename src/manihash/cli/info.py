"""manihash info: describe a model file, or this installation."""

import importlib.metadata
import importlib.util
import json
import platform
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from manihash import __version__
from manihash.cli import _inputs, _options
from manihash.cli._indexes import is_index
from manihash.cli._output import file_size, key_values, print_json, print_result

_SAMPLE = 10_000  # rows of --vectors that are encoded
_REQUIRED = ("numpy", "scipy", "scikit-learn", "safetensors")
# module: purpose, extra that installs it
_OPTIONAL = {
    "faiss": ("faster Hamming search", "faiss"),
    "matplotlib": ("plots of the demo and of the paper", "plot"),
    "anywidget": ("pages inside notebooks", "notebook"),
    "pandas": ("results as data frames", "notebook"),
    "h5py": ("HDF5 files", "hdf5"),
    "pyarrow": ("Parquet files", "parquet"),
    "dask": ("data larger than one machine, on a Dask cluster", "dask"),
    "torch": ("torch tensors, and computing on a GPU", "torch"),
    "onnx": ("models as ONNX files", "onnx"),
    "onnxruntime": ("comparing the codes of an ONNX file", "onnx"),
    "lancedb": ("codes in LanceDB", "lancedb"),
    "psycopg": ("codes in PostgreSQL with pgvector", "postgres"),
    "pymilvus": ("codes in Milvus", "milvus"),
    "duckdb": ("codes in DuckDB and Parquet files", "duckdb"),
    "sqlite_vec": ("faster search of codes in SQLite", "sqlite"),
    "clickhouse_connect": ("codes in ClickHouse", "clickhouse"),
    "usearch": ("codes in index files of usearch", "usearch"),
    "qdrant_client": ("codes in Qdrant", "qdrant"),
}


def info(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Model, index or ONNX file; omit it to describe this installation.",
            show_default=False,
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            metavar="FILE",
            help="Encode a sample of these rows, and show how many the model computes again in float64.",
            show_default=False,
        ),
    ] = None,
    as_json: _options.Json = False,
) -> None:
    """Describe a model, index or ONNX file; without a file, list the recipes and the installed libraries.

    A model file is verified first. No code in it is executed. An index file,
    named *.mhx, holds codes to be searched. An ONNX file, named *.onnx, was
    written by manihash onnx.

    Examples:

      manihash info model.mhash
      manihash info model.mhash --vectors vectors.npy
      manihash info codes.mhx
      manihash info encoder.onnx
      manihash info
    """
    if vectors is not None and (file is None or is_index(str(file)) or file.suffix == ".onnx"):
        raise ValueError("--vectors needs a model file: manihash info model.mhash --vectors vectors.npy")
    if file is not None and is_index(str(file)):
        found = _index(file)
        print_json(found) if as_json else print_result(key_values(_index_as_text(found)))
    elif file is not None and file.suffix == ".onnx":
        found = _onnx(file)
        print_json(found) if as_json else print_result(key_values(_onnx_as_text(found)))
    elif file is not None:
        facts = _model(file, vectors)
        print_json(facts) if as_json else print_result(key_values(_as_text(facts)))
    elif as_json:
        print_json(_installation())
    else:
        _show_installation(_installation())


def _index(file: Path) -> dict[str, Any]:
    """Return the description of an index file and of the model in it, if it holds one."""
    from manihash.hashers.recipes import recipe_of
    from manihash.opening import load_index

    index = load_index(file)
    hasher = getattr(index, "hasher", None)
    recipe, _ = (None if hasher is None else recipe_of(hasher)) or (None, {})
    return {
        "file": str(file),
        "file_bytes": file.stat().st_size,
        "rows": len(index),
        "bits": index.n_bits,
        "distinct_codes": index.distinct_codes,
        "codes": index.layout.described(),
        "model": index.made_by,
        "holds_model": hasher is not None,
        "recipe": recipe,
        "width": None if hasher is None else int(hasher.n_features_in_),
    }


def _index_as_text(found: dict[str, Any]) -> dict[str, str]:
    kind = "model and codes" if found["holds_model"] else "codes without a model"
    lines = {
        "file": f"{found['file']} ({file_size(found['file_bytes'])}): index file, {kind}",
        "rows": f"{found['rows']:,} codes of {found['bits']} bits, {found['distinct_codes']:,} distinct",
        "codes": found["codes"],
        "made by": "model not recorded" if found["model"] is None else f"model {found['model']}",
    }
    if found["recipe"] is not None:
        lines["made by"] = f"recipe {found['recipe']}, {lines['made by']}"
    if found["width"] is not None:
        lines["input"] = f"vectors of {found['width']:,} columns"
    return {**lines, "more": f"manihash stats {found['file']} shows statistics of the codes"}


def _onnx(file: Path) -> dict[str, Any]:
    """Return the description of an ONNX file."""
    from manihash.export.graph import read_metadata

    facts = read_metadata(file)
    return {"file": str(file), "file_bytes": file.stat().st_size, **facts}


def _onnx_as_text(found: dict[str, Any]) -> dict[str, str]:
    name = f"{found['class']}, recipe {found['recipe']}" if "recipe" in found else found["class"]
    return {
        "file": f"{found['file']} ({file_size(found['file_bytes'])}): ONNX file",
        "model": f"{name}, codes of {found['n_bits']} bits, id {found.get('model_id', 'not recorded')}",
        "input": f"vectors of {int(found['n_features']):,} columns, computed in {found['precision']}",
        "written by": f"manihash {found['manihash_version']}",
    }


def _model(file: Path, vectors: str | None) -> dict[str, Any]:
    """Return the description of a verified model file, without its arrays."""
    from manihash import load
    from manihash.files.model_format import format_version
    from manihash.hashers.recipes import recipe_of

    model = load(file)
    recipe, settings = recipe_of(model) or (None, {})
    loss, layout = getattr(model, "loss_", None), getattr(model, "layout_", None)
    points, sigma = getattr(model, "base_points_", None), getattr(model, "bandwidth_", None)
    return {
        "file": str(file),
        "file_bytes": file.stat().st_size,
        "format_version": format_version(file),
        "class": type(model).__name__,
        "recipe": recipe,
        "settings": settings,
        "lineage": model.lineage_,
        "bits": getattr(model, "n_bits_", None),
        "look_up_bits": layout.look_up_bits if layout is not None and layout.has_two_parts else None,
        "weight": layout.weight if layout is not None and layout.has_two_parts else None,
        "width": int(model.n_features_in_),
        "base_points": None if points is None else len(points),
        "sigma": None if sigma is None else float(sigma),
        "loss": None if loss is None else float(loss),
        "neighbor_recall": getattr(model, "neighbor_recall_", None),
        "params": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        **({} if vectors is None else {"computed_again": _share_computed_again(model, vectors)}),
    }


def _share_computed_again(model: Any, vectors: str) -> float | None:
    """The share of a sample of rows that float32 does not decide; None if the method computes otherwise."""
    import numpy as np

    from manihash.rows.local import read_rows
    from manihash.rows.mapping import repeated_rows

    with _inputs.opened(vectors, None) as X:
        chosen = np.unique(np.linspace(0, X.shape[0] - 1, _SAMPLE).astype(int))
        sample = np.asarray(read_rows(X, chosen))
    before = repeated_rows(model, sample)
    model.encode(sample) if hasattr(model, "encode") else model.transform(sample)
    after = repeated_rows(model, sample)
    return None if before is None or after is None else (after - before) / len(sample)


def _plain(value: Any) -> Any:
    """Return a parameter as a JSON value: an object by its repr, an array by its shape."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "shape"):
        return f"array of shape {tuple(value.shape)}"
    return " ".join(repr(value).split())


def _as_text(facts: dict[str, Any]) -> dict[str, str]:
    lines = {
        "file": f"{facts['file']} ({file_size(facts['file_bytes'])}, format {facts['format_version']})",
        "model": facts["class"] + (f", codes of {facts['bits']} bits" if facts["bits"] else ""),
    }
    if facts["recipe"] is not None:
        texts = {name: json.dumps(value, separators=(",", ":")) for name, value in facts["settings"].items()}
        lines["recipe"] = " ".join(
            [facts["recipe"], *(f"--set {name}={text}" for name, text in texts.items())]
        )
    if facts["look_up_bits"] is not None:
        lines["parts"] = (
            f"first part of {facts['look_up_bits']} bits, second part with weight {facts['weight']:g}"
        )
    lines["input"] = f"vectors of {facts['width']:,} columns"
    if facts["base_points"] is not None:
        lines["base set"] = f"{facts['base_points']:,} points"
    for name in ("sigma", "loss"):
        if facts[name] is not None:
            lines[name] = f"{facts[name]:.6g}"
    if facts["neighbor_recall"] is not None:
        lines["neighbor recall"] = f"{facts['neighbor_recall']:.1%} of the nearest base points are found"
    if "computed_again" in facts:
        share = facts["computed_again"]
        lines["computed again"] = (
            "not counted for this method" if share is None else f"{share:.2%} of the rows, in float64"
        )
    lines["lineage"] = _lineage_text(facts["lineage"])
    params = [f"{name}={value}" for name, value in facts["params"].items()]
    return {**lines, "parameters": "\n".join(params)}


def _lineage_text(lineage: dict[str, Any]) -> str:
    """Return the lineage of a model in one line."""
    version = "an old file" if lineage["version"] is None else f"manihash {lineage['version']}"
    text = f"id {lineage['id']}, from {version}"
    if lineage["parent"] is None:
        return text
    n = len(lineage["compatible"])
    accepts = f"accepts codes of {n} earlier model{'s' * (n != 1)}"
    return f"{text}, made from {lineage['parent']}" + (f"; {accepts}" if lineage["compatible"] else "")


def _installation() -> dict[str, Any]:
    from manihash.datasets.locations import cache_folder, data_folder
    from manihash.hashers.recipe_table import RECIPES

    folder = data_folder()
    return {
        "versions": {
            "manihash": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _REQUIRED},
        },
        "optional": {
            module: {"present": importlib.util.find_spec(module) is not None, "for": use, "extra": extra}
            for module, (use, extra) in _OPTIONAL.items()
        },
        "recipes": {name: recipe.about for name, recipe in RECIPES.items()},
        "data_folder": None if folder is None else str(folder),
        "cache": str(cache_folder()),
    }


def _show_installation(found: dict[str, Any]) -> None:
    optional = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("optional library", "installed", "used for"):
        optional.add_column(heading)
    for module, part in found["optional"].items():
        missing = f"no: pip install 'manihash\\[{part['extra']}]'"
        optional.add_row(module, "yes" if part["present"] else missing, part["for"])
    recipes = Table("recipe", "description", box=None, header_style="bold", pad_edge=False)
    for name, about in found["recipes"].items():
        recipes.add_row(name, about)
    folders = {"MANIHASH_DATA": found["data_folder"] or "not set", "cache": found["cache"]}
    for part in (key_values(found["versions"]), optional, recipes, key_values(folders)):
        print_result(part)
        print_result("")
