"""The part of scipy.sparse that is used, imported when it is first needed: only fitting needs it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array, diags_array, issparse, vstack

__all__ = ["csc_array", "csr_array", "diags_array", "issparse", "vstack"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("scipy.sparse"), name)
