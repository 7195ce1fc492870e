"""The numpy backend: operations on a block of rows held in a numpy array.

Products are those of BLAS. Its rounding depends on the position of a row in its batch, on the number of
threads and on the CPU. ``fit`` computes with fixed blocks and ``single_blas_thread``: it is reproducible on
one machine. ``encode`` computes with bounds: see ``manihash.compute.rounding``. Methods without bounds use
``rowwise_product``, in which a row has the same bits in every batch.

``__all__`` is the interface that ``manihash.compute.torch`` has too; what is not in it is for numpy alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import codes
from manihash.compute.largest import k_largest, set_k_largest
from manihash.compute.rounding import buffer
from manihash.types import Floats, Ints

__all__ = [
    "add_product",
    "closeness",
    "copy_like",
    "coupling",
    "exp",
    "float_type",
    "k_closest",
    "k_largest",
    "k_nearest",
    "like",
    "nearest_sums",
    "out_of_memory",
    "pack",
    "pair_matrix",
    "principal_components",
    "product",
    "replayed",
    "signs",
    "squared_distances",
    "squared_norms",
    "sum_of_roots",
    "to_float64",
    "to_numpy",
    "unit_rows",
    "wait",
    "weight_matrix",
    "weighted_sums",
]
# Functions that both libraries have under this name, with arguments in this order; forwarded to them.
SHARED = frozenset({"abs", "amin", "clip", "hstack", "isfinite", "log", "ones_like", "round", "where"})
SHARED |= {"zeros_like"}

# Rows of an embedding whose update fits into the cache of a core.
CACHE_ROWS = 1_000
# OpenBLAS uses its small-matrix kernels up to this many multiplications.
_SMALL_PRODUCT = 1_000_000
# A kernel for float64 computes a fixed number of rows at once, a divisor of this; a remainder of rows goes to
# another kernel.
_KERNEL_ROWS = 48
# Up to 10,000 numbers OpenBLAS computes an inner product on one thread.
_DOT_NUMBERS = 8_192
# Scores in memory at once, and those that are searched at once for the largest: they fit into a cache.
_HELD_SCORES, _SEARCHED_SCORES = 2**22, 2**17


def __getattr__(name: str) -> Any:
    """The function of numpy, for a name in ``SHARED``."""
    if name in SHARED:
        return getattr(np, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def float_type(X: Any) -> np.dtype[Any]:
    """The type to compute in: float32 if it holds all numbers of X's type exactly, otherwise float64."""
    return np.dtype(np.float32 if np.can_cast(X.dtype, np.float32) else np.float64)


def block_rows(width: int) -> int:
    """The number of rows in a block: it depends on the width alone, so that sums are reproducible."""
    return max(64, min(2048, 2**23 // max(width, 1) // 16 * 16))


def is_plain(X: NDArray[Any]) -> bool:
    """Whether an array is in C order and aligned; numpy adds the numbers of others in another order."""
    flags = X.flags
    return flags.c_contiguous and flags.aligned


def plain(X: Any, dtype: Any = None) -> NDArray[Any]:
    """The array in a type, in C order and aligned; copied only if it is not."""
    return np.require(X, dtype, ("C", "A"))


def product(X: Floats, C: Floats) -> Floats:
    """X (b, d) times the transpose of C (m, d): (b, m)."""
    return X @ C.T


def rowwise_product(X: Floats, C: Floats) -> Floats:
    """As ``product``, computed in float64; each row is the same for any b, if BLAS has one thread.

    BLAS uses other kernels for one column, for small products and for the last rows. So few rows are padded,
    up to one block: the usual kernel for float64 does not depend on the position of a row.
    """
    (b, d), m = X.shape, len(C)
    if m == 1:
        return rowwise_product(X, np.repeat(C, 2, axis=0))[:, :1]
    least = max(b, min(block_rows(d), _SMALL_PRODUCT // (d * m) + 1))
    rows = -(-least // _KERNEL_ROWS) * _KERNEL_ROWS
    padded = X.astype(np.float64, copy=False)
    if b < rows:
        padded = np.zeros((rows, d))
        padded[:b] = X
    return (padded @ C.T.astype(np.float64, copy=False))[:b].astype(X.dtype, copy=False)


def rowwise_squared_distances(X: Floats, C: Floats) -> Floats:
    """As ``squared_distances``, by ``rowwise_product``."""
    Z, points = X.astype(np.float64, copy=False), C.astype(np.float64, copy=False)
    distances = rowwise_product(Z, points)
    distances *= -2
    distances += squared_norms(points)
    distances += squared_norms(Z)[:, None]
    return np.maximum(distances, 0, out=distances).astype(X.dtype, copy=False)


def squared_norms(X: Floats) -> Floats:
    """The squared length of each row of X (b, d): (b,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        parts = (X[:, a : a + _DOT_NUMBERS] for a in range(0, X.shape[1], _DOT_NUMBERS))
        return sum(np.vecdot(part, part) for part in parts)


def sum_of_squares(X: Floats) -> float:
    """Σ x² over a contiguous block: the cheapest test for NaN, infinity and overflow of squares."""
    flat = X.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(flat @ flat)


def unit_rows(X: Floats, squared: Floats, out: Floats | None = None) -> Floats:
    """The rows of X (b, d) scaled to unit length, given their squared lengths (b,); a zero row stays zero.

    ``out`` may be X itself.
    """
    limits = np.finfo(X.dtype)
    if (faint := squared < limits.tiny / limits.eps).any():  # squares underflow: scale up first
        largest = np.abs(X[faint]).max(axis=1, keepdims=True)
        X, squared = X.copy(), squared.copy()
        X[faint] /= np.where(largest > 0, largest, 1)
        squared[faint] = squared_norms(X[faint])
    length = np.sqrt(squared)
    length[length == 0] = 1
    return np.divide(X, length[:, None], out=out)


def closeness(X: Floats, C: Floats) -> Floats:
    """x·c - |c|²/2 (b, m): largest where the squared distance |x|² - 2 (x·c - |c|²/2) is smallest."""
    scores = product(X, C)
    scores -= squared_norms(C) / 2
    return scores


def k_nearest(X: Floats, C: Floats, k: int) -> tuple[Floats, Ints]:
    """Squared distances and indices (b, k) of the k rows of C nearest to each row of X, nearest first."""
    best, index = k_closest(X, C, k)
    best *= -2
    best += squared_norms(X)[:, None]
    return np.maximum(best, 0, out=best), index


def k_closest(X: Floats, C: Floats, k: int) -> tuple[Floats, Ints]:
    """The k largest values of ``closeness`` in each row, (b, k), and their indices: the k nearest."""
    b, m, half = len(X), len(C), squared_norms(C) / 2
    best, index = np.empty((b, k), X.dtype), np.empty((b, k), np.intp)
    held, searched = max(64, _HELD_SCORES // m // 64 * 64), max(16, _SEARCHED_SCORES // m)
    for start in range(0, b, held):
        part = slice(start, start + held)
        rows, of_rows = X[part], (best[part], index[part])
        scores = np.matmul(rows, C.T, out=buffer("scores", (len(rows), m), X.dtype))
        for some in (slice(a, a + searched) for a in range(0, len(rows), searched)):
            scores[some] -= half
            set_k_largest(scores[some], *(of_row[some] for of_row in of_rows))
    return best, index


def squared_distances(X: Floats, C: Floats) -> Floats:
    """|x - c|² of every pair, (b, m), never negative."""
    distances = closeness(X, C)
    distances *= -2
    distances += squared_norms(X)[:, None]
    return np.maximum(distances, 0, out=distances)


def nearest_sums(X: Floats, C: Floats) -> tuple[NDArray[np.int32], Floats, Floats, Floats]:
    """Assign each row of X (b, d) to the nearest row of C (m, d): one step of k-means on a block.

    Returns the indices and the ``closeness`` (b,), and the sum (m, d) and number (m,) of the rows assigned to
    each.
    """
    import scipy.sparse as sp

    b, m = len(X), len(C)
    best, index = k_closest(X, C, 1)
    label = index[:, 0].astype(np.int32)
    own = sp.csc_array((np.ones(b, X.dtype), label, np.arange(b + 1, dtype=np.int32)), shape=(m, b))
    return label, best[:, 0], own @ X, np.bincount(label, minlength=m)


def weighted_sums(w: Floats, index: Ints, Y: Floats) -> Floats:
    """Σ_j w_ij Y[index_ij], (b, r), of weights and indices (b, k) and Y (m, r); added in the order of j."""
    sums = w[:, :1] * Y[index[:, 0]]
    for j in range(1, w.shape[1]):
        sums += w[:, j : j + 1] * Y[index[:, j]]
    return sums


def weight_matrix(w: Floats, index: Ints, m: int) -> Any:
    """Weights and indices of neighbors, both (b, k), as a matrix (b, m): sparse in numpy, dense in torch."""
    import scipy.sparse as sp

    b, k = index.shape
    return sp.csr_array((w.reshape(-1), index.reshape(-1), np.arange(0, b * k + 1, k)), shape=(b, m))


def coupling(w: Floats, w_bar: Floats, index: Ints, m: int) -> Any:
    """The term of a block in the coupling, D - W̄ᵀ W (m, m); weights w and w_bar and indices are (b, k)."""
    import scipy.sparse as sp

    W = weight_matrix(w, index, m)
    return sp.csr_array(sp.diags_array(W.sum(axis=0)) - weight_matrix(w_bar, index, m).T @ W)


def exp(X: Floats) -> Floats:
    """The exponential of each number."""
    return np.exp(X)


def sum_of_roots(squared: Floats) -> Any:
    """The sum of the square roots, in float64."""
    return np.sqrt(squared).sum(dtype=np.float64)


def signs(V: Floats) -> Floats:
    """1 where a number is above zero, -1 elsewhere, in the type of V."""
    return np.where(V > 0, V.dtype.type(1), V.dtype.type(-1))


def pack(bits: Floats) -> Floats:
    """Bits (b, r) packed into bytes (b, ceil(r / 8)), as ``codes.pack`` does."""
    return codes.pack(bits)


def like(array: Floats, X: Floats) -> Floats:
    """The numpy array in the type of X and, for a tensor X, on its device."""
    return array.astype(X.dtype, copy=False)


def copy_like(array: Floats, X: Floats) -> Floats:
    """A new array, dense or sparse, with the type of X and, for a tensor X, on its device."""
    return array.astype(X.dtype)


def add_product(total: Floats, A: Floats, B: Floats, factor: float) -> None:
    """Add factor A B, elementwise, to ``total`` in place."""
    total += factor * A * B


def pair_matrix(X: Floats) -> Floats:
    """An uninitialized matrix (n, n): float64 in numpy, in torch the type of X, to save memory of the GPU."""
    return np.empty((len(X), len(X)))


def principal_components(X: Floats, r: int) -> tuple[Floats, Floats]:
    """The first r principal components (n, r) of the rows and their directions (r, d), of any sign."""
    from scipy.linalg import svd

    U, s, Vt = svd(X - X.mean(axis=0), full_matrices=False)
    return (U * s)[:, :r], Vt[:r]


def replayed(step: Callable[[], None], X: Floats) -> Callable[[], None]:
    """The step, to be called many times; on the GPU of X it is recorded as a CUDA graph."""
    return step


def wait(X: Floats) -> None:
    """Wait until the device of X has finished its work."""


def out_of_memory() -> type[Exception]:
    """The error of a device whose memory is full."""
    return MemoryError


def to_float64(X: Floats) -> Floats:
    """The numbers in float64."""
    return X.astype(np.float64)


def to_numpy(result: Any) -> Any:
    """The result with its tensors, alone or in tuples, copied into numpy arrays."""
    return result
