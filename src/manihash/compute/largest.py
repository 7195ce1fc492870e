"""The k largest or smallest numbers of each row of an array, by k passes or by partition."""

import numpy as np

from manihash.types import Floats, Ids, Ints

# Up to this k, k passes of argmax are faster than a partition.
_ARGMAX_PASSES = 16
# With at least _MANY_COLUMNS columns, the k largest are selected from the groups of columns with the largest
# maxima, out of _GROUPS_EACH * k groups.
_MANY_COLUMNS, _GROUPS_EACH = 2_048, 8


def k_largest(scores: Floats, k: int) -> tuple[Floats, Ints]:
    """The k largest of each row of scores (b, m) and their indices, (b, k), largest first, ties by index.

    The scores are overwritten.
    """
    best, index = np.empty((len(scores), k), scores.dtype), np.empty((len(scores), k), np.intp)
    set_k_largest(scores, best, index)
    return best, index


def set_k_largest(scores: Floats, best: Floats, index: Ints) -> None:
    """Set ``best`` and ``index`` (b, k) to what ``k_largest`` returns."""
    (b, m), k = scores.shape, best.shape[1]
    if k > _ARGMAX_PASSES:
        best[:], index[:] = _many_largest(scores, k)
        return
    first = np.arange(0, b * m, m)
    flat = scores.reshape(-1)
    for j in range(k):
        column = scores.argmax(axis=1)
        index[:, j] = column
        column += first
        best[:, j] = flat[column]
        flat[column] = -np.inf


def _many_largest(scores: Floats, k: int) -> tuple[Floats, Ints]:
    """As ``k_largest``, for large k: by partition instead of k passes."""
    index = _indices_of_largest(scores, k)
    least = np.take_along_axis(scores, index, axis=1).min(axis=1, keepdims=True)
    tied = np.flatnonzero(np.count_nonzero(scores >= least, axis=1) > k)
    index[tied] = np.argsort(-scores[tied], axis=1, kind="stable")[:, :k]
    index.sort(axis=1)
    best = np.take_along_axis(scores, index, axis=1)
    order = np.argsort(-best, axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1), np.take_along_axis(index, order, axis=1)


def _indices_of_largest(scores: Floats, k: int) -> Ints:
    """The indices (b, k) of the k largest of each row, in any order, with any choice among ties."""
    if scores.shape[1] < max(_MANY_COLUMNS, 4 * _GROUPS_EACH * k):
        return np.argpartition(-scores, k - 1, axis=1)[:, :k]
    columns = _columns_of_groups(scores, k)
    some = np.take_along_axis(scores, columns, axis=1)
    return np.take_along_axis(columns, np.argpartition(-some, k - 1, axis=1)[:, :k], axis=1)


def _columns_of_groups(scores: Floats, k: int) -> Ints:
    """Ascending columns (b, c) that contain the k largest of each row: those of k groups.

    The groups are those with the largest maxima. Group g has the columns g, g + G, g + 2 G, …; the last
    columns, which do not fill a round, are always included.
    """
    b, m = scores.shape
    G = _GROUPS_EACH * k
    rounds = m // G
    largest = scores[:, : rounds * G].reshape(b, rounds, G).max(axis=1)
    groups = np.argpartition(-largest, k - 1, axis=1)[:, :k]
    groups.sort(axis=1)
    of_groups = (np.arange(0, rounds * G, G)[:, None] + groups[:, None, :]).reshape(b, rounds * k)
    rest = np.broadcast_to(np.arange(rounds * G, m), (b, m - rounds * G))
    return np.hstack([of_groups, rest])


def smallest(keys: Floats, k: int) -> Ids:
    """Positions of the k smallest keys of each row, smallest first, ties by position: (b, n) -> (b, k)."""
    positions = np.empty((len(keys), k), np.int64)
    for row, out in zip(keys, positions, strict=True):
        near = np.flatnonzero(row <= np.partition(row, k - 1)[k - 1])
        out[:] = near[np.argsort(row[near], kind="stable")[:k]]
    return positions


def query_block(n: int) -> int:
    """Number of queries that are compared with n rows at a time: about 16 million pairs."""
    return min(1024, max(16, 2**24 // n))
