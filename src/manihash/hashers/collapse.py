"""A warning when codes cannot tell rows apart, from a small sample of the rows and without labels.

Rows that lie in separate groups should not be answers to each other. The groups of the sample are the
connected components of its graph of three nearest neighbors. Data on one connected manifold are a single
group; their codes are then judged only by whether near rows have nearer codes than random rows.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from manihash.codes import pack, words
from manihash.compute.largest import k_largest
from manihash.types import Codes, Floats, Ids, Ints

if TYPE_CHECKING:
    from manihash.hashers._hasher import Hasher
    from manihash.rows import Rows

_SAMPLE = 2048  # rows that are compared with each other
_FEWEST = 1000  # fewer rows are not judged
_NUMBERS = 2**22  # of a sample in memory; very wide rows are not judged
_MANY, _RUNS = 200_000, 64  # of more rows, few places of a file are read
_QUERIES, _ANSWERS, _NEIGHBORS = 256, 10, 3
# Share of the answers in the query's own group, relative to that of the true nearest rows. On made-up topics
# that imh-tsne confuses it is 0.26 to 0.40, with ITQ 0.84, on digits and MNIST 0.99 to 1.
_LEAST_AGREEMENT = 0.7
# Probability that a near row has a nearer code than a random row: 0.94 to 0.99 on digits, 0.5 by chance.
_LEAST_ORDER = 0.65
# While encoding, codes are judged if the median row shares its code with this part of the sample.
_LARGE_BUCKET = 0.01


class CollapsedCodesWarning(UserWarning):
    """Codes cannot tell rows apart that are clearly different.

    ``fit`` and ``encode`` issue this warning if a sample of the rows shows it: too many of the first ten
    answers by code belong to another group of the data, or near rows do not have nearer codes than random
    rows. Equal rows do not count, and fewer than 1,000 rows are not judged. The message says what was found
    and what to do.

    Examples
    --------
    >>> import warnings
    >>> from manihash.hashers import CollapsedCodesWarning
    >>> warnings.simplefilter("error", CollapsedCodesWarning)  # stop instead of going on with such codes
    >>> warnings.simplefilter("default", CollapsedCodesWarning)
    """


_not_judged: ContextVar[bool] = ContextVar("not_judged", default=False)


@contextmanager
def codes_not_judged() -> Iterator[None]:
    """Fit and encode without this check: parts of a longer code, or codes that are judged in another way."""
    before = _not_judged.set(True)
    try:
        yield
    finally:
        _not_judged.reset(before)


def check_fitted(hasher: "Hasher", rows: "Rows") -> None:
    """Encode a sample of the training rows, and warn if the codes cannot tell them apart."""
    if not _is_judged(hasher, len(rows)):
        return
    X = rows.take(_sample(hasher, len(rows)))
    _warn_if_collapsed(hasher, X, pack(hasher._bits_of(np.asarray(hasher._embed(X)))), stacklevel=7)


def check_encoded(hasher: "Hasher", X: Any, codes: Any) -> None:
    """Warn if codes (n, b) of the rows of X cannot tell them apart; X is read only if many codes repeat."""
    if isinstance(codes, np.ndarray) and _is_judged(hasher, len(codes)):
        ids = _sample(hasher, len(codes))
        _check_sample(hasher, X, ids, codes[ids])


def watched(hasher: "Hasher", X: Any, blocks: Iterator[Codes], rows: range) -> Iterator[Codes]:
    """Yield the blocks of codes of some rows of X, and check a sample of them at the end."""
    ids = _sample(hasher, len(rows)) if _is_judged(hasher, len(rows)) else np.empty(0, np.int64)
    sampled: list[Codes] = []
    done = 0
    for block in blocks:
        inside = ids[(ids >= done) & (ids < done + len(block))] - done
        if len(inside) and isinstance(block, np.ndarray):
            sampled.append(block[inside])
        done += len(block)
        yield block
    if sampled and done == len(rows):
        _check_sample(hasher, X, ids + rows.start, np.concatenate(sampled))


def _is_judged(hasher: "Hasher", n: int) -> bool:
    """Whether n rows are enough for a sample, and their width lets enough of them be in memory."""
    return not _not_judged.get() and n >= _FEWEST and _NUMBERS // hasher.n_features_in_ >= _FEWEST // 2


def _sample(hasher: "Hasher", n: int) -> Ids:
    """Ascending positions of some of n rows, the same in every call.

    They are spread evenly. Of very many rows, which may be in a file, they are _RUNS short runs.
    """
    most = min(_SAMPLE, _NUMBERS // hasher.n_features_in_)
    if n <= most:
        return np.arange(n)
    size = most if n <= _MANY else _RUNS
    edges = np.arange(size + 1) * n // size
    length = most // size
    first = np.random.default_rng(0).integers(edges[:-1], edges[1:] - length + 1)
    return np.asarray((first[:, None] + np.arange(length)).ravel(), np.int64)


def _check_sample(hasher: "Hasher", X: Any, ids: Ids, codes: Codes) -> None:
    _, which, sizes = np.unique(_mixed(words(codes)), return_inverse=True, return_counts=True)
    if len(codes) == len(ids) and np.median(sizes[which]) >= _LARGE_BUCKET * len(codes):
        _warn_if_collapsed(hasher, hasher._rows_to_map(X).take(ids), codes, stacklevel=5)


def _warn_if_collapsed(hasher: "Hasher", X: Floats, codes: Codes, *, stacklevel: int) -> None:
    """Warn about codes (s, b) of prepared rows (s, d)."""
    whole = np.ascontiguousarray(X + 0)  # without negative zeros
    distinct = np.sort(np.unique(_mixed(whole.view(f"u{X.itemsize}")), return_index=True)[1])
    X, codes = X[distinct], codes[distinct]
    if len(X) < _FEWEST // 2:
        return  # the rows themselves repeat
    queries = np.random.default_rng(1).permutation(len(X))[:_QUERIES]
    nearest, group = _neighbors(X, queries)
    distance = _distances(hasher, codes, queries)
    own = group[queries][:, None]
    first = np.argpartition(distance, _ANSWERS, axis=1)[:, :_ANSWERS]
    found, possible = ((group[ids] == own).mean() for ids in (first, nearest))
    order = _order(distance, nearest)
    if found < _LEAST_AGREEMENT * possible or order < _LEAST_ORDER:
        n_codes = len(np.unique(codes, axis=0))
        warnings.warn(
            _message(hasher, len(X), n_codes, 1 - found, 1 - possible, order),
            CollapsedCodesWarning,
            stacklevel=stacklevel,
        )


def _mixed(words: Any) -> Any:
    """A hash (s,) of each row of unsigned integers (s, w)."""
    odd = 2 * np.random.default_rng(0).integers(0, 2**63, words.shape[1], np.uint64) + 1
    return np.einsum("ij,j->i", words, odd)


def _neighbors(X: Floats, queries: Ids) -> tuple[Ints, Ints]:
    """The ten nearest other rows of each query (q, 10), and the group of each row (s,)."""
    rows = X - X.mean(axis=0)
    closeness = rows @ rows.T  # of a matrix and itself: half of the work
    closeness -= closeness.diagonal() / 2
    np.fill_diagonal(closeness, -np.inf)
    nearest = k_largest(closeness[queries], _ANSWERS)[1]
    linked = k_largest(closeness, _NEIGHBORS)[1]
    ends = np.repeat(np.arange(len(X)), _NEIGHBORS), linked.ravel()
    graph = csr_array((np.ones(linked.size, np.int8), ends), shape=(len(X), len(X)))
    return nearest, connected_components(graph, directed=False)[1].astype(np.int64)


def _distances(hasher: "Hasher", codes: Codes, queries: Ids) -> Floats:
    """Distances (q, s) of the codes of queries to all codes, ties in random order; infinite to themselves."""
    exact = hasher.layout_.code_distances(codes[queries], codes)
    whole = exact.dtype.kind in "iu"  # real numbers are hardly ever equal
    distance = exact + np.random.default_rng(2).uniform(0, 0.5 if whole else 0, exact.shape)
    distance[np.arange(len(queries)), queries] = np.inf
    return np.asarray(distance)


def _order(distance: Floats, nearest: Ints) -> float:
    """Probability that a near row has a nearer code than a random row."""
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, distance.shape[1], (len(distance), 40))
    near, other = (np.take_along_axis(distance, ids, axis=1) for ids in (nearest, drawn))
    return float((near[:, :, None] < other[:, None, :]).mean())


def _message(hasher: "Hasher", rows: int, n_codes: int, wrong: float, by_vector: float, order: float) -> str:
    """What was found, its cause and its remedy."""
    found = (
        f"codes cannot tell some rows apart: {rows:,} distinct rows of a sample have {n_codes:,} codes, and "
    )
    if order < _LEAST_ORDER:
        found += (
            f"near rows have nearer codes than random rows in only {order:.0%} of the cases (chance: 50 %)"
        )
    else:
        found += (
            f"{wrong:.0%} of the first ten answers lie in another group of the data ({by_vector:.0%} by the "
            "original vectors)"
        )
    points = getattr(hasher, "base_points_", None)
    if points is not None:
        found += f". The {len(points):,} base points are too few for the groups of these rows"
    remedy = "more bits" if hasher.layout_.has_two_parts else "recipe('imh-hybrid') or recipe('itq')"
    return f"{found}. Use {remedy}" + (", or a larger base set" if points is not None else "")
