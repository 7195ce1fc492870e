"""Verified duplicates: codes find candidate pairs, and the original vectors decide."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import check_unmasked, positive_int
from manihash.codes import check_codes
from manihash.progress import advance
from manihash.search.duplicates import Duplicates, connected, grouped
from manihash.search.ids import check_ids
from manihash.search.index import HammingIndex
from manihash.search.radius_curve import RadiusStep, chosen_radius, radius_curve
from manihash.search.vector_pairs import PairVerifier, threshold_of
from manihash.types import Codes, Floats, Ids, Ints

_PAIRS = 2**21  # candidate pairs held at once
_MOST_PAIRS = 2**26


@dataclass(frozen=True, eq=False)
class VerifiedDuplicates(Duplicates):
    """Groups of rows whose vectors are duplicates of the first row of the group.

    Every row of a group was compared with the first one, which is the row to keep. Two other rows of a group
    may be less similar than the threshold; no group is extended by chains.

    Parameters
    ----------
    first : ndarray of shape (n,)
        For each row the id of the first row of its group, or its own id.
    lims : ndarray of shape (groups + 1,), int64
        The ids of group i are at ``lims[i]`` to ``lims[i + 1]``.
    ids : ndarray
        Ids of the grouped rows, ascending in each group; groups are in order of their lowest id.
    pairs : ndarray of shape (p, 2)
        Ids of all pairs that were verified, the lower id first.
    values : ndarray of shape (p,), float64
        Cosine or Euclidean distance of each pair.
    radius : int
        Hamming radius within which candidates were searched.
    candidates : int
        Number of candidate pairs.
    largest_chain : int
        Number of rows of the largest chain of verified pairs. If it exceeds the largest group, similar rows
        form a chain whose ends are not duplicates of each other.
    curve : tuple of RadiusStep
        What each radius costs and finds, measured on a sample; empty if the radius was given.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import ITQ, verified_duplicates
    >>> X = np.random.default_rng(0).normal(size=(500, 32))
    >>> X[400] = X[3] + 0.01
    >>> codes = ITQ(n_bits=32, random_state=0).fit(X).encode(X)
    >>> found = verified_duplicates(codes, 32, X, cosine=0.98)
    >>> found.pairs.tolist(), found.extra.tolist()
    ([[3, 400]], [400])
    """

    pairs: Ids
    values: Floats
    radius: int
    candidates: int
    largest_chain: int
    curve: tuple[RadiusStep, ...] = ()


def verified_duplicates(
    codes: ArrayLike,
    n_bits: int,
    vectors: Any,
    *,
    cosine: float | None = None,
    distance: float | None = None,
    radius: int | None = None,
    ids: ArrayLike | None = None,
) -> VerifiedDuplicates:
    """Find rows whose vectors are duplicates, with codes to find candidates and vectors to verify them.

    Parameters
    ----------
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes.
    n_bits : int
        Length of a code.
    vectors : ndarray of shape (n, d)
        Original vectors in memory or memory-mapped; row i belongs to code i.
    cosine : float, default=None
        Duplicates have at least this cosine similarity. A row of zeros has no duplicate.
    distance : float, default=None
        Duplicates have at most this Euclidean distance; give either ``cosine`` or ``distance``.
    radius : int, default=None
        Largest Hamming distance of candidates. By default it is chosen on a sample of 1,000 rows, which are
        compared with all rows: the smallest radius that contains 99 % of their duplicates.
    ids : array-like of shape (n,), default=None
        Distinct integers or strings, one per row. By default the id of a row is its position.

    Returns
    -------
    VerifiedDuplicates
        Groups, verified pairs, the radius and how it was chosen.

    Raises
    ------
    ValueError
        If codes and vectors differ in their number of rows, or neither or both thresholds are given.

    See Also
    --------
    dedup : Groups by codes alone.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import ITQ, verified_duplicates
    >>> X = np.random.default_rng(0).normal(size=(500, 32))
    >>> X[400] = X[3] + 0.01
    >>> codes = ITQ(n_bits=32, random_state=0).fit(X).encode(X)
    >>> [group.tolist() for group in verified_duplicates(codes, 32, X, distance=0.5)]
    [[3, 400]]
    """
    n_bits, threshold = positive_int(n_bits, "n_bits"), threshold_of(cosine, distance)
    given = check_codes(codes, n_bits)
    check_unmasked(vectors, "the vectors to compare")
    X = vectors if hasattr(vectors, "dtype") else np.asarray(vectors)
    if len(X.shape) != 2 or len(X) != len(given) or not len(given):
        raise ValueError(
            f"got {len(given)} codes and vectors of shape {tuple(X.shape)}: expected one vector per code, "
            "and at least one"
        )
    row_ids = np.arange(len(given)) if ids is None else check_ids(ids, len(given))
    index, verifier = HammingIndex(given, n_bits), PairVerifier(X, threshold)
    curve: tuple[RadiusStep, ...] = ()
    if radius is None:
        curve = radius_curve(given, n_bits, index, verifier)
        radius = chosen_radius(curve, len(given))
    radius = min(positive_int(radius, "radius", least=0), n_bits)
    return _found(_verified_pairs(given, index, verifier, radius), row_ids, radius, curve)


def _verified_pairs(
    codes: Codes, index: HammingIndex, verifier: PairVerifier, radius: int
) -> tuple[NDArray[np.int64], Floats, int]:
    """All verified pairs of positions (p, 2), their values, and the number of candidate pairs."""
    pairs: list[NDArray[np.int64]] = []
    values: list[Floats] = []
    held = candidates = 0
    for a, b in _candidate_pairs(codes, index, radius):
        is_pair, value = verifier.verified(a, b)
        candidates += len(a)
        pairs.append(np.stack([a[is_pair], b[is_pair]], axis=1))
        values.append(value[is_pair])
        held += len(pairs[-1])
        if held > _MOST_PAIRS:
            raise ValueError(
                f"more than {_MOST_PAIRS:,} pairs of rows have {verifier.threshold}: use a stricter threshold"
            )
    return np.concatenate(pairs), np.concatenate(values), candidates


def _candidate_pairs(codes: Codes, index: HammingIndex, radius: int) -> Iterator[tuple[Ids, Ids]]:
    """Pairs of positions a < b whose codes are at most ``radius`` bits apart, in blocks."""
    n, start = len(codes), 0
    step = 256
    while start < n:
        stop = min(start + step, n)
        lims, _, other = index.within(codes[start:stop], radius)
        one = np.repeat(np.arange(start, stop), np.diff(lims))
        later = one < other
        yield one[later], other[later]
        step = int(np.clip(_PAIRS * (stop - start) // max(1, len(other)), 16, 16_384))
        start = stop
        advance("near-duplicates", stop, n)


def _found(
    verified: tuple[NDArray[np.int64], Floats, int],
    row_ids: Ids,
    radius: int,
    curve: tuple[RadiusStep, ...],
) -> VerifiedDuplicates:
    """The groups of verified pairs of positions: each row with the lowest id that is kept."""
    pairs, values, candidates = verified
    order = np.argsort(row_ids, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    low, high = np.sort(rank[pairs], axis=1).T  # ranks of ids
    sorted_pairs = np.lexsort((low, high))
    keeper = _keepers(low[sorted_pairs], high[sorted_pairs], len(row_ids))
    groups = grouped(keeper, row_ids, order)
    chain = connected(len(row_ids), low, high)
    by_id = np.lexsort((high, low))
    in_order = row_ids[order]
    return VerifiedDuplicates(
        groups.first,
        groups.lims,
        groups.ids,
        np.stack([in_order[low[by_id]], in_order[high[by_id]]], axis=1),
        values[by_id],
        radius,
        candidates,
        int(np.bincount(chain).max()) if len(pairs) else 1,
        curve,
    )


def _keepers(low: Ints, high: Ints, n: int) -> Ints:
    """For each of n rows the first kept row that it duplicates, or itself; pairs are sorted by high."""
    keeper = list(range(n))
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        if keeper[b] == b and keeper[a] == a:
            keeper[b] = a
    return np.array(keeper)
