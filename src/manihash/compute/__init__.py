"""Arithmetic on a block of rows: ``backend(X)`` is the module that computes with X, numpy or torch.

Code that works with both takes ``xp = backend(X)`` once and calls ``xp.k_nearest(...)``. Code that only sees
numpy arrays imports ``manihash.compute.numpy`` directly.
"""

from types import ModuleType
from typing import Any

from manihash.compute import numpy as numpy_backend
from manihash.compute import torch as torch_backend


def backend(X: Any) -> ModuleType:
    """The module whose functions take X: ``compute.torch`` for a tensor, otherwise ``compute.numpy``.

    Both have the functions listed in their ``__all__``, with the same signatures. Torch is not imported to
    find out: without torch in ``sys.modules`` there is no tensor.
    """
    return torch_backend if torch_backend.is_tensor(X) else numpy_backend
