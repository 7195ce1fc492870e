"""Models for rows that come without one."""

from typing import Any

import numpy as np

from manihash.hashers._hasher import Hasher
from manihash.rows import rows_of
from manihash.types import Ids
from manihash.web.explore.measure import QUERIES, sampled_queries
from manihash.web.explore.rows import ExploredRows

_LEAST_BASE_SHARE = 4  # a smaller base set is used if there are fewer rows per base point
_LEAST_HELD_OUT = 200  # rows from which on some are held out of the fit
_MOST_COPIED = 2**28  # numbers of the rows that are fitted without those held out, which are copied


def rows_to_hold_out(rows: ExploredRows) -> Ids | None:
    """Rows to keep out of a fit, at most a tenth; None if there are too few, or too many to copy."""
    n = len(rows)
    if n < _LEAST_HELD_OUT or n * rows.width > _MOST_COPIED:
        return None
    return sampled_queries(rows, min(QUERIES, n // 10))


def fitted(
    hasher: Hasher, rows: ExploredRows, held_out: Ids | None = None, *, verbose: bool = False
) -> Hasher:
    """A hasher that is fitted to rows that are not held out; if they are few, its base set is smaller."""
    size: Any = hasher.get_params().get("base__size")
    n, bits = len(rows), hasher.n_bits
    if isinstance(size, int) and size > n // _LEAST_BASE_SHARE:
        hasher.set_params(base__size=max(n // _LEAST_BASE_SHARE, min(n, bits + 1)))
    labels = None if rows.labels is None else rows.labels.for_fit()
    if held_out is None:
        return hasher.fit(rows.X, labels, verbose=verbose)
    whole = rows_of(rows.X)
    whole.check_all()  # an invalid row is named by its number among all rows
    kept = np.setdiff1d(np.arange(n), held_out)
    return hasher.fit(whole.take(kept), None if labels is None else labels[kept], verbose=verbose)
