"""Neighbor finders with more base points."""

from typing import Any

import numpy as np
from sklearn.base import clone

from manihash.base.cells import nearest_cell
from manihash.base.listed import ListedNeighbors
from manihash.base.neighbors import CoarseNeighbors
from manihash.base.reduced_neighbors import ReducedNeighbors
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints


def check_finder(finder: Any) -> None:
    """Raise if a finder cannot find more points."""
    if isinstance(finder, ReducedNeighbors):
        check_finder(finder.neighbors_)
    if isinstance(finder, ListedNeighbors):
        raise ValueError(
            "a model with ListedNeighbors cannot be updated, because its lists were made for the training "
            "rows: use hasher.refit(X), or fit with CoarseNeighbors()"
        )


def inserted(finder: Any, m: int, B: Floats) -> tuple[Any, Ints]:
    """Return a finder among m old points and new points B (b, p), and the order in which it needs them.

    A new point is added to the cell nearest to it: a row is compared with all old points that it was compared
    with before.
    """
    if isinstance(finder, ReducedNeighbors):
        inner, order = inserted(finder.neighbors_, m, B)
        return _copy(finder, neighbors_=inner), order
    if not isinstance(finder, CoarseNeighbors):
        return finder, np.arange(m + len(B))
    old = np.repeat(np.arange(len(finder.cells_)), np.diff(finder.bounds_))
    cell = np.concatenate([old, nearest_cell(LocalRows(B), finder.cells_)])
    bounds = np.concatenate([[0], np.bincount(cell, minlength=len(finder.cells_)).cumsum()])
    return _copy(finder, bounds_=bounds), np.argsort(cell, kind="stable")


def _copy(finder: Any, **changes: Any) -> Any:
    """Return a finder with the same parameters and fitted values, except those that change."""
    new = clone(finder)
    values = {name: value for name, value in vars(finder).items() if name.endswith("_") and name[0] != "_"}
    for name, value in (values | changes).items():
        setattr(new, name, value)
    return new
