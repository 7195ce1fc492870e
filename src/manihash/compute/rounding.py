"""Bounds on rounding errors, and sums in a fixed order: what float32 decides, and what float64 decides.

A sum of n products that is computed in any order, with or without fused multiply-add, differs from the exact
sum by at most γ_n Σ|x_i c_i| <= γ_n |x| |c|, with γ_n = n u / (1 - n u) and u = 2^-24 in float32, 2^-53 in
float64 (Higham, "Accuracy and stability of numerical algorithms", 2002, section 3.1). Scores that differ by
more than their errors are decided, on any machine. The others are computed again by ``paired_products``.
"""

import math
import threading
from functools import cache
from typing import Any

import numpy as np

from manihash.compute.threads import is_limited
from manihash.types import Floats, Ints

# Operations besides the sum: rounding of the stored numbers, of the length of a row and of the bound itself.
_OTHER_OPERATIONS = 16
# Numbers in memory at once in ``paired_products``: they fit into the cache of a core.
_PAIRED_NUMBERS = 2**17

# Up to this many numbers, BLAS adds an outer product on one thread.
_FEW_NUMBERS = 8_192
# Numbers in the largest array that is used again.
_KEPT_NUMBERS = 2**23

# Columns that are added before they are added to the others: the error of a sum grows with their number.
_COLUMNS = 128
# Rows that are projected at once: they stay in the cache of a core.
_PROJECTED_ROWS = 1024

_buffers = threading.local()


@cache
def sum_error(n: int, dtype: Any) -> float:
    """γ_n of a sum of n products and the operations around it; infinite if n is too large for a bound."""
    # Four times in float64: a row of float64 is rounded again when it is prepared in a fixed order.
    relative = (n + _OTHER_OPERATIONS) * float(np.finfo(dtype).eps) / 2 * (4 if dtype == np.float64 else 1)
    return relative / (1 - relative) if relative < 0.5 else np.inf


@cache
def underflow_error(n: int, dtype: Any) -> float:
    """The largest absolute error of a sum of n products if products underflow, even to zero."""
    return (n + _OTHER_OPERATIONS) * float(np.finfo(dtype).tiny)


def split_error(d: int, dtype: Any) -> float:
    """As ``sum_error``, of the sums of d products in ``split_product``."""
    return sum_error(min(d, _COLUMNS) + -(-d // _COLUMNS), dtype)


def split_product(X: Floats, D: Floats) -> Floats:
    """X (b, d) times the transpose of D (p, d), in memory that the next call overwrites.

    Sums over many columns are split, so that their error stays small.
    """
    rows = buffer("projected", (len(X), len(D)), X.dtype)
    for first in range(0, len(X), _PROJECTED_ROWS):
        some, out = X[first : first + _PROJECTED_ROWS], rows[first : first + _PROJECTED_ROWS]
        np.matmul(some[:, :_COLUMNS], D[:, :_COLUMNS].T, out=out)
        more = buffer("columns", out.shape, X.dtype)
        for column in range(_COLUMNS, X.shape[1], _COLUMNS):
            part = slice(column, column + _COLUMNS)
            out += np.matmul(some[:, part], D[:, part].T, out=more)
    return rows


def paired_products(X: Floats, C: Floats, index: Ints) -> Floats:
    """x_i · c_j in float64 for j = index[i, 0], index[i, 1], …: (b, k), of X (b, d) and C (m, d) in float64.

    Numbers are multiplied, rounded and added in an order that depends on d alone: a result does not depend on
    the batch, the BLAS library or the instructions of the CPU.
    """
    (b, k), d = index.shape, X.shape[1]
    found = np.empty((b, k))
    step = max(1, _PAIRED_NUMBERS // (k * d))
    for start in range(0, b, step):
        part = slice(start, start + step)
        terms = C[index[part]]
        terms *= X[part, None]
        np.add.reduce(terms, axis=2, out=found[part])
    return found


def paired_squares(X: Floats, C: Floats, index: Ints) -> Floats:
    """|x_i - c_j|² in float64, in a fixed order, for the pairs of ``paired_products``."""
    (b, k), d = index.shape, X.shape[1]
    found = np.empty((b, k))
    step = max(1, _PAIRED_NUMBERS // (k * d))
    for start in range(0, b, step):
        part = slice(start, start + step)
        terms = C[index[part]]
        terms -= X[part, None]
        np.add.reduce(np.square(terms, out=terms), axis=2, out=found[part])
    return found


def ordered_norms(X: Floats) -> Floats:
    """The squared length (b,) of each row of X (b, d), float64, added in an order that depends on d alone."""
    return np.add.reduce(np.square(X, dtype=np.float64), axis=1)


@cache
def _outer_update(dtype: Any) -> Any:
    """The function of BLAS that adds an outer product."""
    from scipy.linalg import blas

    return blas.sger if dtype == np.float32 else blas.dger


def subtract_outer(scores: Floats, scale: Floats, h: Floats) -> None:
    """Subtract t_i h_j from contiguous scores (b, m), in place, for t (b,) and h (m,)."""
    update = _outer_update(scores.dtype)
    # One pass of BLAS; it starts no threads for few numbers, for which they would take longer than the work.
    step = len(scores) if is_limited() else max(1, _FEW_NUMBERS // len(h))
    for start in range(0, len(scores), step):
        some = slice(start, start + step)
        update(-1.0, h, scale[some], a=scores[some].T, overwrite_a=1)


def buffer(name: str, shape: tuple[int, ...], dtype: Any) -> Floats:
    """An uninitialized array that this thread uses again under the same name.

    New memory for every block would cost a tenth of a product: the system clears each page.
    """
    size = math.prod(shape)
    if size > _KEPT_NUMBERS:
        return np.empty(shape, dtype)
    held = getattr(_buffers, name, None)
    if held is None or held.dtype != dtype or held.size < size:
        held = np.empty(size, dtype)
        setattr(_buffers, name, held)
    return held[:size].reshape(shape)
