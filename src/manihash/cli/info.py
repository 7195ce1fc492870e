"""manihash info: what a model file holds, or what this installation has."""

import importlib.metadata
import importlib.util
import json
import platform
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from manihash import __version__
from manihash.cli import _inputs
from manihash.cli._output import facts, file_size, show, show_json

_NEEDED = ("numpy", "scipy", "scikit-learn", "safetensors")
# module, what it is for, the extra that brings it
_OPTIONAL = {
    "faiss": ("fast Hamming search; without it exact and slower", "faiss"),
    "matplotlib": ("the plots of the demo and of the paper", "plot"),
    "h5py": ("HDF5 files", "hdf5"),
    "pyarrow": ("Parquet files", "parquet"),
    "dask": ("arrays larger than a machine, on a cluster", "dask"),
    "torch": ("tensors, and encoding on a card", "torch"),
    "lancedb": ("codes in LanceDB, a database in a folder", "lancedb"),
    "psycopg": ("codes in PostgreSQL with pgvector", "postgres"),
    "pymilvus": ("codes in Milvus", "milvus"),
}


def info(
    file: Annotated[
        Path | None, typer.Argument(help="A model file; without it, this installation.", show_default=False)
    ] = None,
    as_json: _inputs.Json = False,
) -> None:
    """Say what a model file holds; without a file, what is installed, and the recipes.

    A model file is checked whole before anything is said about it; nothing in
    it is executed.

    Examples:

      manihash info model.mhash
      manihash info
    """
    if file is not None:
        held = _model(file)
        show_json(held) if as_json else show(facts(_in_words(held)))
    elif as_json:
        show_json(_installation())
    else:
        _show_installation(_installation())


def _model(file: Path) -> dict[str, Any]:
    """What a model file holds, verified: the numbers that describe it, not the arrays."""
    from manihash import load
    from manihash.files.model_format import format_version
    from manihash.hashers.recipes import recipe_of

    model = load(file)
    recipe, settings = recipe_of(model) or (None, {})
    loss = getattr(model, "loss_", None)
    points, sigma = getattr(model, "base_points_", None), getattr(model, "bandwidth_", None)
    return {
        "file": str(file),
        "file_bytes": file.stat().st_size,
        "format_version": format_version(file),
        "class": type(model).__name__,
        "recipe": recipe,
        "settings": settings,
        "bits": getattr(model, "n_bits", None),
        "width": int(model.n_features_in_),
        "base_points": None if points is None else len(points),
        "sigma": None if sigma is None else float(sigma),
        "loss": None if loss is None else float(loss),
        "neighbor_recall": getattr(model, "neighbor_recall_", None),
        "params": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
    }


def _plain(value: Any) -> Any:
    """A parameter as JSON has it; a part as the call that makes it, an array by its shape."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "shape"):
        return f"array of shape {tuple(value.shape)}"
    return " ".join(repr(value).split())


def _in_words(held: dict[str, Any]) -> dict[str, str]:
    lines = {
        "file": f"{held['file']} ({file_size(held['file_bytes'])}, format {held['format_version']})",
        "model": held["class"] + (f", codes of {held['bits']} bits" if held["bits"] else ""),
    }
    if held["recipe"] is not None:
        texts = {name: json.dumps(value, separators=(",", ":")) for name, value in held["settings"].items()}
        lines["recipe"] = " ".join(
            [held["recipe"], *(f"--set {name}={text}" for name, text in texts.items())]
        )
    lines["takes"] = f"vectors of {held['width']:,} numbers"
    if held["base_points"] is not None:
        lines["base set"] = f"{held['base_points']:,} points"
    for name in ("sigma", "loss"):
        if held[name] is not None:
            lines[name] = f"{held[name]:.6g}"
    if held["neighbor_recall"] is not None:
        lines["recall"] = f"{held['neighbor_recall']:.1%} of a row's nearest base points are found"
    given = [f"{name}={value}" for name, value in held["params"].items()]
    return {**lines, "parameters": "\n".join(given)}


def _installation() -> dict[str, Any]:
    from manihash.datasets.locations import cache_folder, data_folder
    from manihash.hashers.recipe_table import RECIPES

    folder = data_folder()
    return {
        "versions": {
            "manihash": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _NEEDED},
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
    for heading in ("optional part", "here", "for"):
        optional.add_column(heading)
    for module, part in found["optional"].items():
        missing = f"no: pip install 'manihash\\[{part['extra']}]'"
        optional.add_row(module, "yes" if part["present"] else missing, part["for"])
    recipes = Table("recipe", "what it is", box=None, header_style="bold", pad_edge=False)
    for name, about in found["recipes"].items():
        recipes.add_row(name, about)
    folders = {"MANIHASH_DATA": found["data_folder"] or "not set", "cache": found["cache"]}
    for part in (facts(found["versions"]), optional, recipes, facts(folders)):
        show(part)
        show("")
