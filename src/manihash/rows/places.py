"""Rows at given places of an array, a sparse matrix, a file: of whatever rows can be read from by slices."""

from typing import Any

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.types import Ints


def can_be_sliced(X: Any) -> bool:
    """Whether X is no array, but gives rows by X[start:stop]: what stays in a file, or lies elsewhere."""
    if isinstance(X, np.ndarray) or hasattr(X, "toarray") or not hasattr(X, "__getitem__"):
        return False
    return isinstance(getattr(X, "dtype", None), np.dtype) and len(getattr(X, "shape", ())) == 2


class Chosen:
    """Some rows of X as rows that can be sliced."""

    def __init__(self, X: Any, index: Ints) -> None:
        self.X = X
        self.index = index
        self.shape = len(index), X.shape[1]
        self.dtype = X.dtype

    def __getitem__(self, part: slice) -> Any:
        return rows_at(self.X, self.index[part])

    def rows_at(self, ordered: Ints) -> Any:
        """The rows at positions among those chosen."""
        return rows_at(self.X, self.index[ordered])


def rows_at(X: Any, ordered: Ints) -> Any:
    """The rows of X at positions that ascend; a file is read from the first to the last of them in blocks.

    What has a way of its own, ``X.rows_at``, is asked.
    """
    if isinstance(X, np.ndarray) or hasattr(X, "toarray"):
        return X[ordered]
    if hasattr(X, "rows_at"):
        return X.rows_at(ordered)
    taken = np.empty((len(ordered), X.shape[1]), X.dtype)
    size, at = numpy_backend.block_rows(X.shape[1]), 0
    while at < len(ordered):
        first = ordered[at]
        end = int(np.searchsorted(ordered, first + size))
        taken[at:end] = np.asarray(X[first : ordered[end - 1] + 1])[ordered[at:end] - first]
        at = end
    return taken
