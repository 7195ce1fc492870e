"""Verified duplicates: codes find candidate pairs, and the original vectors decide.

A curve of what each radius costs and finds chooses the radius within which candidates are searched.
"""

import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.codes import hamming, words
from manihash.display import Shown, axes
from manihash.progress import note
from manihash.search.duplicates.groups import Duplicates, checked_rows, grouped
from manihash.search.duplicates.near_pairs import choose_scheme
from manihash.search.duplicates.self_join import (
    LONG,
    MEMORY,
    Nodes,
    SelfJoin,
    UnionFind,
    WorkOptions,
    parse_memory,
)
from manihash.search.duplicates.vector_pairs import PairVerifier, RowMarks, threshold_of
from manihash.search.ids import check_ids
from manihash.search.rerank import as_vectors
from manihash.types import Codes, Floats, Ids, Ints, Mask

_log = logging.getLogger(__name__)

_MOST_PAIRS = 2**26
_SAMPLE = 1000  # rows that are compared with all rows
_BLOCK = 2**17  # rows that are read at once
_BYTES_PER_PAIR = 16  # bytes to count the distances of codes
_FOUND = 0.99  # share of the duplicates of these rows that must be within the radius
_FEW_PAIRS = 10  # with fewer duplicates in the sample this share says little
_FEW_CANDIDATES = 10  # per row: a radius with more of them is used only if the sample needs it
_SCAN = 0.25  # share of all pairs: with more candidates, codes are of little use
# Seconds that a search may take to look further than the sample needs. The sample itself takes _PER_PRODUCT
# for each value that is multiplied, so the search may take as long. All of these are constants, not measured
# times: the same rows must give the same radius, or an interrupted search could not be resumed.
_CHEAP, _PER_PRODUCT = 2.0, 1e-10
_PER_PAIR, _PER_VALUE = 1e-7, 2e-9  # seconds to verify a pair, and for each value of its vectors
_DEVIATIONS = 3.0  # of the bits that differ between two rows at the threshold


@dataclass(frozen=True, repr=False)
class RadiusStep(Shown):
    """A radius, as measured on a sample of the rows before the search.

    Parameters
    ----------
    radius : int
        Hamming radius.
    candidates : float
        Expected number of candidate pairs of all rows.
    found : float
        Share of the sample's true duplicates within the radius; NaN if the sample has none.
    seconds : float
        Estimated time to search and to verify all candidate pairs; that of your machine may differ.

    Examples
    --------
    >>> from manihash.search import RadiusStep
    >>> RadiusStep(radius=2, candidates=100.0, found=0.5, seconds=0.1).found
    0.5
    """

    radius: int
    candidates: float
    found: float
    seconds: float


@dataclass(frozen=True)
class RadiusChoice:
    """The radius, the steps of the curve, the duplicates of the sample, and why this radius was chosen."""

    radius: int
    curve: tuple[RadiusStep, ...]
    duplicates: int | None
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
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
        Ids of all pairs that were verified, the lower id first. Of rows with equal vectors and codes, only
        the first one is compared with other rows, and each of the others is paired with it.
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
    sample_duplicates : int or None
        Number of duplicates of the sample's rows. With few of them, the shares of the curve say little. None
        if the radius was given.
    reason : str
        Why the radius was chosen; empty if it was given.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import verified_duplicates
    >>> from manihash.hashers import ITQ
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
    sample_duplicates: int | None = None
    reason: str = ""

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts() | {"pairs": len(self.pairs), "radius": self.radius}
        return facts | {"candidates": self.candidates, "largest_chain": self.largest_chain}

    def plot(self, ax: Any = None) -> Any:
        """Draw which share of the duplicates each radius finds, against the candidate pairs it needs.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw on; None for new ones.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        if not self.curve:
            raise ValueError("there is no curve: the radius was given. Leave out radius to measure all radii")
        ax = axes(ax, "candidate pairs", "share of the duplicates found")
        ax.plot([step.candidates for step in self.curve], [step.found for step in self.curve], marker=".")
        ax.set_xscale("symlog")
        return ax


def verified_duplicates(
    codes: ArrayLike,
    n_bits: int,
    vectors: Any,
    *,
    cosine: float | None = None,
    distance: float | None = None,
    radius: int | None = None,
    ids: ArrayLike | None = None,
    memory: int | str = MEMORY,
    work: str | os.PathLike[str] | None = None,
    restart: bool = False,
) -> VerifiedDuplicates:
    """Find rows whose vectors are duplicates, with codes to find candidates and vectors to verify them.

    Parameters
    ----------
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes.
    n_bits : int
        Length of a code.
    vectors : array-like of shape (n, d)
        Original vectors, in memory, memory-mapped or a sparse matrix; row i belongs to code i.
    cosine : float, default=None
        Duplicates have at least this cosine similarity. A row of zeros has no duplicate.
    distance : float, default=None
        Duplicates have at most this Euclidean distance; give either ``cosine`` or ``distance``.
    radius : int, default=None
        Largest Hamming distance of candidates. By default it is chosen on a sample of 1,000 rows, which are
        compared with all rows: the smallest radius that contains 99 % of their duplicates, or a larger one
        if that is cheap and has at most ten candidates per row.
    ids : array-like of shape (n,), default=None
        Distinct integers or strings, one per row. By default the id of a row is its position.
    memory : int or str, default=2 GiB
        Memory for the work, in bytes or as ``"500M"`` or ``"2G"``. The result comes on top.
    work : str or path-like, default=None
        New or empty folder for parts on disk, as for ``dedup``: the same call resumes a killed one.
    restart : bool, default=False
        Discard the work of an earlier call in the folder.

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
    >>> from manihash import verified_duplicates
    >>> from manihash.hashers import ITQ
    >>> X = np.random.default_rng(0).normal(size=(500, 32))
    >>> X[400] = X[3] + 0.01
    >>> codes = ITQ(n_bits=32, random_state=0).fit(X).encode(X)
    >>> [group.tolist() for group in verified_duplicates(codes, 32, X, distance=0.5)]
    [[3, 400]]
    """
    n_bits, threshold = positive_int(n_bits, "n_bits"), threshold_of(cosine, distance)
    options = WorkOptions(parse_memory(memory), None if work is None else Path(work), restart)
    given = checked_rows(codes, n_bits)
    X = as_vectors(vectors, "the vectors to compare")
    if len(X.shape) != 2 or len(X) != len(given) or not X.shape[1]:
        raise ValueError(
            f"got {len(given)} codes and vectors of shape {tuple(X.shape)}: expected one vector per code, "
            "of at least one number"
        )
    row_ids = None if ids is None else check_ids(ids, len(given))
    verifier = PairVerifier(X, threshold, options.memory)
    if radius is None:
        choice = choose_radius(given, n_bits, verifier, options.memory)
        if choice.curve[choice.radius].seconds > LONG:
            note(f"radius {choice.radius}: {choice.reason}")
    else:
        choice = RadiusChoice(min(positive_int(radius, "radius", least=0), n_bits), (), None, "")
    radius = choice.radius
    marks = RowMarks(X, options.memory)
    about = {"vectors": marks.sample(), "threshold": str(threshold)}
    join = SelfJoin(given, n_bits, radius, options, verify=_Limited(verifier), marks=marks.words, about=about)
    copies, pairs, values, candidates = join.accepted()
    return _found(verifier, (copies, pairs, values), row_ids, candidates, choice)


class _Limited:
    """Verifies pairs until there are too many."""

    def __init__(self, verifier: PairVerifier) -> None:
        self._verifier, self._found = verifier, 0

    def __call__(self, a: Ints, b: Ints) -> tuple[Mask, Floats]:
        is_pair, values = self._verifier.verified(a, b)
        self._found += int(np.count_nonzero(is_pair))
        if self._found > _MOST_PAIRS:
            raise ValueError(
                f"more than {_MOST_PAIRS:,} pairs of rows have {self._verifier.threshold}: use a stricter "
                "threshold"
            )
        return is_pair, values


def _found(
    verifier: PairVerifier,
    verified: tuple[Nodes, NDArray[np.uint32], Floats],
    row_ids: Ids | None,
    candidates: int,
    choice: RadiusChoice,
) -> VerifiedDuplicates:
    """The groups of verified pairs of rows, where ``copies`` (n,) has the first of rows that are equal."""
    copies, pairs, values = verified
    n = len(copies)
    row_of = np.arange(n) if row_ids is None else np.argsort(row_ids, kind="stable")  # by rank
    rank = np.empty(n, np.int64)
    rank[row_of] = np.arange(n)
    rest = np.flatnonzero(copies != np.arange(n, dtype=np.uint32))
    lowest = rank.copy()  # of the copies of a row
    np.minimum.at(lowest, copies[rest], rank[rest])
    low, high = np.sort(lowest[pairs], axis=1).T
    members = np.unique(np.concatenate([copies[rest], rest]).astype(np.int64))
    first = row_of[lowest[copies[members]]]
    first, others = first[first != members], members[first != members]
    is_copy, same = verifier.verified(first, others)  # a row of zeros has no copy
    first, others = rank[first[is_copy]], rank[others[is_copy]]
    keeper = _keepers(low, high, n)
    keeper[others] = keeper[first]
    label = np.empty(n, np.uint32)
    label[row_of] = row_of[keeper]
    groups = grouped(label, row_ids)
    low, high = np.concatenate([low, first]), np.concatenate([high, others])
    chain = UnionFind(n)
    chain.join(low, high)
    by_id = np.lexsort((high, low))
    in_order = row_of if row_ids is None else row_ids[row_of]
    return VerifiedDuplicates(
        groups.first,
        groups.lims,
        groups.ids,
        np.stack([in_order[low[by_id]], in_order[high[by_id]]], axis=1),
        np.concatenate([values, same[is_copy]])[by_id],
        choice.radius,
        candidates + len(is_copy),
        int(np.bincount(chain.labels()).max()),
        choice.curve,
        choice.duplicates,
        choice.reason,
    )


def _keepers(low: Ints, high: Ints, n: int) -> Ints:
    """For each of n rows the first kept row that it duplicates, or itself."""
    keeper = np.arange(n)
    nodes = np.unique(np.concatenate([low, high]))
    order = np.lexsort((low, high))
    of = list(range(len(nodes)))
    a, b = (np.searchsorted(nodes, ends[order]).tolist() for ends in (low, high))
    for first, second in zip(a, b, strict=True):
        if of[second] == second and of[first] == first:
            of[second] = first
    keeper[nodes] = nodes[of]
    return keeper


def choose_radius(codes: Codes, n_bits: int, verifier: PairVerifier, memory: int) -> RadiusChoice:
    """Choose the radius within which the duplicates of codes (n, b) are searched.

    It contains 99 % of the duplicates of a sample. A sample with few duplicates cannot show how far apart
    the codes of duplicates are, so larger radii are used as long as they are cheap, up to the number of bits
    in which two rows at the threshold are expected to differ.
    """
    n = len(codes)
    some = np.sort(np.random.default_rng(0).choice(n, min(n, _SAMPLE), replace=False))
    duplicates = _duplicates(codes, n_bits, verifier, some)
    expected = _expected_bits(n_bits, verifier, some)
    curve = _curve(codes, some, _near(codes, n_bits, some, memory), duplicates, expected, verifier.n_columns)
    count = int(duplicates.sum())
    cheap = max(_CHEAP, _PER_PRODUCT * n * len(some) * verifier.n_columns)
    needed = _needed(curve, n, count)
    chosen = needed
    for step in curve[needed.radius + 1 :]:
        if step.radius > expected or 2 * step.candidates > _FEW_CANDIDATES * n or step.seconds > cheap:
            break
        chosen = step
    if chosen.candidates > _SCAN * n * n / 2:
        _log.warning(
            "within radius %d, %.0f %% of all pairs of rows are candidates: use longer codes that keep "
            "details, such as itq or sign with 128 bits",
            chosen.radius,
            200 * chosen.candidates / (n * n),
        )
    reason = _reason(curve, chosen, needed, count, len(some), expected)
    return RadiusChoice(chosen.radius, curve, count, reason)


def _near(codes: Codes, n_bits: int, some: Ids, memory: int) -> Ids:
    """How many pairs of some rows and all other rows have each Hamming distance (n_bits + 1,)."""
    near = np.zeros(n_bits + 1)
    at_once = min(64, len(some))
    rows = max(1, min(_BLOCK, memory // (4 * _BYTES_PER_PAIR * at_once)))
    for start in range(0, len(codes), rows):
        block = np.asarray(codes[start : start + rows])
        for i in range(0, len(some), at_once):
            distance = hamming(codes[some[i : i + at_once]], block)
            near += np.bincount(distance.ravel(), minlength=n_bits + 1)
    near[0] -= len(some)  # each row itself
    return near


def _duplicates(codes: Codes, n_bits: int, verifier: PairVerifier, some: Ids) -> Ids:
    """How many duplicates of some rows are at each Hamming distance (n_bits + 1,)."""
    duplicates = np.zeros(n_bits + 1)
    for query, row in verifier.duplicates_of(some):
        far = np.bitwise_count(codes[some[query]] ^ codes[row]).sum(axis=1, dtype=np.intp)
        duplicates += np.bincount(far, minlength=n_bits + 1)
    return duplicates


def _expected_bits(n_bits: int, verifier: PairVerifier, some: Ids) -> int:
    """At most so many bits are expected to differ between two rows that are just similar enough.

    A bit of sign codes differs with probability angle / π, where the angle of the rows is seen from their
    mean. All bits are possible if the threshold is as large as the data.
    """
    spread = verifier.squared_spread(some)
    if not (math.isfinite(spread) and spread > 0):
        return n_bits
    angle = 2 * math.asin(min(1.0, verifier.largest_gap / (2 * math.sqrt(spread))))
    share = angle / math.pi
    return min(n_bits, math.ceil(n_bits * share + _DEVIATIONS * math.sqrt(n_bits * share * (1 - share))))


def _curve(
    codes: Codes, some: Ids, near: Ids, duplicates: Ids, expected: int, n_columns: int
) -> tuple[RadiusStep, ...]:
    """What each radius costs and finds, up to the largest one that may be chosen."""
    n, count = len(codes), duplicates.sum()
    candidates = np.cumsum(near) * n / len(some) / 2
    found = np.cumsum(duplicates) / count if count else np.full(len(near), np.nan)
    last = max(expected, int(np.flatnonzero(duplicates)[-1]) if count else 0)
    steps, sampled = [], words(codes[some])
    for radius, pairs in enumerate(candidates[: last + 1].tolist()):
        search = choose_scheme(sampled, n, radius).seconds
        seconds = search + (_PER_PAIR + _PER_VALUE * n_columns) * pairs
        steps.append(RadiusStep(radius, pairs, float(found[radius]), seconds))
        if pairs > _SCAN * n * n / 2:
            break
    return tuple(steps)


def _needed(curve: Sequence[RadiusStep], n: int, count: int) -> RadiusStep:
    """The smallest radius that finds nearly all of the sample's duplicates; a few need few candidates."""
    enough = [step for step in curve if step.found >= _FOUND]
    if count >= _FEW_PAIRS:
        return enough[0] if enough else curve[-1]
    few = [step for step in curve if 2 * step.candidates <= _FEW_CANDIDATES * n]
    if not few or not count:
        return curve[0]
    return min(enough[0] if enough else few[-1], few[-1], key=lambda step: step.radius)


def _reason(
    curve: Sequence[RadiusStep],
    chosen: RadiusStep,
    needed: RadiusStep,
    count: int,
    sampled: int,
    expected: int,
) -> str:
    """Why a radius was chosen, as a sentence."""
    text = f"{sampled:,} random rows have {count:,} {'duplicate' if count == 1 else 'duplicates'}"
    if count:
        # Rounded down: 98.96 % is not 99 %.
        share = math.floor(1000 * chosen.found + 1e-9) / 10
        text += f", and {share:g} % of them are within radius {chosen.radius}"
    if count and chosen.radius == needed.radius:
        text += (
            "; a larger radius would take long or give many candidates" if chosen.radius < expected else ""
        )
    elif chosen.radius >= min(expected, curve[-1].radius):
        text += f"; rows at the threshold are expected to differ in at most {expected} bits"
    else:
        text += f"; radius {chosen.radius} is the largest one that takes little time and has few candidates"
    return text
