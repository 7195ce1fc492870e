"""Tensors and numpy arrays: which of them an object is, conversions, and copies on a device.

The only file that imports torch.
"""

import logging
import sys
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import checks

_log = logging.getLogger(__name__)

Tensor = Any

_copies: dict[tuple[int, str, str], tuple[weakref.ref[Any], Tensor]] = {}
_MAX_COPIES = 32


def torch() -> Any:
    """The torch library; the error without it names the extra that installs it."""
    return checks.extra("torch", "torch")


def is_tensor(X: Any) -> bool:
    """Whether X is a torch tensor; torch is not imported for this."""
    return isinstance(X, getattr(sys.modules.get("torch"), "Tensor", ()))


def tensor_type(dtype: Any) -> Any:
    """The torch type of a numpy type."""
    return getattr(torch(), np.dtype(dtype).name)


def supported(array: NDArray[Any]) -> NDArray[Any]:
    """The array in a type that torch supports: native floats, signed integers and bytes."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if array.dtype.isnative and (kind == "i" or (kind == "f" and size <= 8) or (kind in "ub" and size == 1)):
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, np.float64 if kind == "f" and size == 8 else np.float32)


def dense(part: Any) -> NDArray[Any]:
    """Rows as read, dense or sparse, as a dense array."""
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part)


def on(device: Any, array: Any) -> Tensor:
    """The array as a tensor on a device."""
    array = supported(np.asarray(array))
    return torch().as_tensor(array if array.flags.writeable else array.copy()).to(device)


def like(array: NDArray[Any], X: Tensor) -> Tensor:
    """The numpy array in the type of X and on its device; the last copies are cached."""
    key = id(array), str(X.device), str(X.dtype)
    cached = _copies.get(key)
    if cached is None or cached[0]() is not array:
        if len(_copies) >= _MAX_COPIES:
            _copies.clear()
        copy = on(X.device, array).to(X.dtype)
        if X.device.type != "cpu":
            _log.info("%d numbers of the model were copied to %s", array.size, X.device)
        cached = _copies[key] = weakref.ref(array), copy
    return cached[1]


def copy_like(array: Any, X: Tensor) -> Tensor:
    """As ``compute.numpy.copy_like``; a tensor that already has the type of X is returned as it is."""
    return array.to(X.dtype) if is_tensor(array) else on(X.device, array).to(X.dtype, copy=True)


def to_numpy(result: Any) -> Any:
    """The result with its tensors, alone or in tuples, copied into numpy arrays."""
    if isinstance(result, tuple):
        return tuple(to_numpy(part) for part in result)
    return result.detach().cpu().numpy() if is_tensor(result) else result
