"""Models for rows that come without one."""

from typing import Any

from manihash.hashers._hasher import Hasher
from manihash.web.explore.rows import ExploredRows

_LEAST_BASE_SHARE = 4  # a smaller base set is used if there are fewer rows per base point


def fitted(hasher: Hasher, rows: ExploredRows, *, verbose: bool = False) -> Hasher:
    """A hasher that is fitted to rows; if they are few, its base set is smaller than usual."""
    size: Any = hasher.get_params().get("base__size")
    n, bits = len(rows), hasher.n_bits
    if isinstance(size, int) and size > n // _LEAST_BASE_SHARE:
        hasher.set_params(base__size=max(n // _LEAST_BASE_SHARE, min(n, bits + 1)))
    return hasher.fit(rows.X, None if rows.labels is None else rows.labels.for_fit(), verbose=verbose)
