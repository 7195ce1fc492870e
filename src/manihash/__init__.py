"""Compact binary codes that keep the neighbors of the manifold that vectors lie on.

The names here are what most programs need; they are imported when they are first used, so that ``import
manihash`` stays cheap. Everything else has its place in a package: ``manihash.hashers``,
``manihash.embeddings``, ``manihash.base``, ``manihash.search``, ``manihash.stores``, ``manihash.evaluation``,
``manihash.maintenance``, ``manihash.export``, ``manihash.notebook``, ``manihash.errors``.
"""

import warnings
from importlib import import_module
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from manihash.advice.choose import choose
    from manihash.code_layout import CodeLayout
    from manihash.codes import pack, unpack
    from manihash.compute.fused import gpu_precision
    from manihash.datasets import load_dataset
    from manihash.errors import ManihashError
    from manihash.evaluation import EuclideanTruth, Evaluation, LabelTruth, evaluate
    from manihash.export.encoder import export_onnx
    from manihash.files.formats import open_vectors
    from manihash.hashers import IMH, Hasher, Hybrid, recipe, recipe_names, register
    from manihash.induction import InductiveEmbedding
    from manihash.notebook import explore, report
    from manihash.opening import load
    from manihash.rows.torch import on_device
    from manihash.search import HammingIndex, dedup, known_rows, verified_duplicates
    from manihash.search.index import Index
    from manihash.stores import create_store, export_codes, open_store

_HOMES = {
    "CodeLayout": "manihash.code_layout",
    "EuclideanTruth": "manihash.evaluation",
    "Evaluation": "manihash.evaluation",
    "HammingIndex": "manihash.search",
    "Hasher": "manihash.hashers",
    "Hybrid": "manihash.hashers",
    "IMH": "manihash.hashers",
    "Index": "manihash.search.index",
    "InductiveEmbedding": "manihash.induction",
    "LabelTruth": "manihash.evaluation",
    "ManihashError": "manihash.errors",
    "choose": "manihash.advice.choose",
    "create_store": "manihash.stores",
    "dedup": "manihash.search",
    "evaluate": "manihash.evaluation",
    "explore": "manihash.notebook",
    "export_codes": "manihash.stores",
    "export_onnx": "manihash.export.encoder",
    "gpu_precision": "manihash.compute.fused",
    "known_rows": "manihash.search",
    "load": "manihash.opening",
    "load_dataset": "manihash.datasets",
    "on_device": "manihash.rows.torch",
    "open_store": "manihash.stores",
    "open_vectors": "manihash.files.formats",
    "pack": "manihash.codes",
    "recipe": "manihash.hashers",
    "recipe_names": "manihash.hashers",
    "register": "manihash.hashers",
    "report": "manihash.notebook",
    "unpack": "manihash.codes",
    "verified_duplicates": "manihash.search",
}
_PACKAGES = ["hashers", "embeddings", "base", "rotation", "search", "stores", "evaluation", "maintenance"]
_PACKAGES += ["advice", "export", "notebook", "errors"]

_RENAMED = {"Rescore": "search.Rerank", "precision": "gpu_precision", "living": "maintenance"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"manihash.{name}")
    if name not in _HOMES:
        return _moved(name)
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def _moved(name: str) -> Any:
    """A name that is in a package now or has changed; raise if it is neither, or a module of this package."""
    if name in _RENAMED:
        return _deprecated(name, _RENAMED[name], resolve_name(f"manihash:{_RENAMED[name]}"))
    for package in () if name.startswith("_") or find_spec(f"manihash.{name}") else _PACKAGES:
        if name in (module := import_module(f"manihash.{package}")).__all__:
            return _deprecated(name, f"{package}.{name}", getattr(module, name))
    raise AttributeError(f"module 'manihash' has no attribute {name!r}")


def _deprecated(name: str, new: str, value: Any) -> Any:
    text = f"manihash.{name} is now manihash.{new}; the old name goes with the next version"
    warnings.warn(text, FutureWarning, stacklevel=4)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
