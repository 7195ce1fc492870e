"""Datasets by name: reading, splitting into database and queries, ordering."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import positive_int
from manihash.datasets.catalog import CATALOG, Entry
from manihash.datasets.sources import SplitSet, UnsplitSet
from manihash.display import Shown
from manihash.types import Ints

PAPER_SEED = 2013


@dataclass(frozen=True, repr=False)
class Dataset(Shown):
    """A dataset: rows to learn from, which are also the database, and queries.

    Attributes
    ----------
    name : str
        The name in the catalog.
    X_train : ndarray of shape (n, d)
        The rows of the database.
    y_train : ndarray of shape (n,) or None
        The classes of the rows, if there are classes.
    X_test : ndarray of shape (q, d)
        The queries.
    y_test : ndarray of shape (q,) or None
        The classes of the queries, if there are classes.
    note : str
        The origin of the data and the split, for a report.
    image_shape : tuple of int or None
        The shape of a row that is an image.
    neighbors : ndarray of shape (q, 100) or None
        The nearest rows of ``X_train`` for each query, nearest first, if the dataset contains them.
    is_papers_own : bool
        Whether the paper used this dataset.
    """

    name: str
    X_train: NDArray[Any]
    y_train: NDArray[Any] | None
    X_test: NDArray[Any]
    y_test: NDArray[Any] | None
    note: str
    image_shape: tuple[int, ...] | None = None
    neighbors: NDArray[Any] | None = None
    is_papers_own: bool = False

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"name": self.name, "rows": len(self.X_train), "queries": len(self.X_test)}
        facts["columns"] = self.X_train.shape[1]
        if self.y_train is not None:
            facts["classes"] = len(np.unique(self.y_train))
        return facts


def load_dataset(
    name: str,
    *,
    n_queries: int | None = None,
    n_train: int | None = None,
    seed: int = PAPER_SEED,
    shuffle: bool = True,
) -> Dataset:
    """Load a dataset by name.

    The files are searched in the folder that the environment variable ``MANIHASH_DATA`` names, then in the
    cache (``MANIHASH_CACHE``, by default the user's cache folder). If they are in neither, they are
    downloaded into the cache. All files are verified.

    Parameters
    ----------
    name : str
        The name: ``"digits"``, ``"mnist"``, ``"cifar10-gist"``, ``"sift1m"``, ``"gist1m"``,
        ``"photo-sift1m"``, ``"tiny-gist960"`` or ``"bigann10k"``.
    n_queries : int, default=None
        The number of queries. From a dataset without queries of its own, 1,000 (digits: 200) are drawn by
        default, the same number from each class. Otherwise all queries are used by default, or the first
        ``n_queries``.
    n_train : int, default=None
        The number of rows to keep, the first ones in the order of the database. None keeps all.
    seed : int, default=2013
        The seed of the split and of the order of the database. The default gives, for MNIST, the split on
        which the code of the paper's authors was run.
    shuffle : bool, default=True
        Whether the database is in random order. If False, it has the order of the files, and the vectors of
        sift1m and gist1m stay memory-mapped.

    Returns
    -------
    Dataset
        The dataset, with the attributes ``X_train``, ``y_train``, ``X_test``, ``y_test``, ``note``,
        ``image_shape`` and ``neighbors``.

    Raises
    ------
    MissingDataError
        If a file is not on this machine and could not be downloaded.
    DataFileError
        If a file is not the published one.

    Examples
    --------
    >>> from manihash import load_dataset
    >>> digits = load_dataset("digits")
    >>> digits.X_train.shape, digits.X_test.shape
    ((1597, 64), (200, 64))
    """
    if name not in CATALOG:
        close = get_close_matches(str(name).lower(), CATALOG, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"unknown dataset {name!r}{hint}: choose among {', '.join(CATALOG)}")
    entry, seed = CATALOG[name], positive_int(seed, "seed", least=0)
    split, order, note = _split(entry, n_queries, seed)
    order = (order if shuffle else np.sort(order))[: _at_most(n_train, len(order), "n_train")]
    neighbors = split.neighbors
    if neighbors is not None:
        neighbors = np.argsort(order)[neighbors] if len(order) == len(split.X) else None
    order_note = f"in random order (seed {seed})" if shuffle else "in the order of its files"
    return Dataset(
        name,
        _take(split.X, order),
        None if split.y is None else _take(split.y, order),
        split.queries,
        split.y_queries,
        f"{entry.description}. {note}; database of {len(order):,} {order_note}.",
        entry.image_shape,
        neighbors,
        entry.is_papers_own,
    )


def _split(entry: Entry, n_queries: int | None, seed: int) -> tuple[SplitSet, Ints, str]:
    """The dataset with its queries, the positions of its database in random order, and a note."""
    stored = entry.read(entry.files)
    X, y = stored.X, stored.y
    if isinstance(stored, UnsplitSet):
        count = positive_int(entry.n_queries if n_queries is None else n_queries, "n_queries")
        drawn, database = balanced_split(stored.y, count, seed)
        split = SplitSet(X, X[drawn], y, stored.y[drawn])
        return split, database, f"{count:,} queries, the same number from each class (seed {seed})"
    available = len(stored.queries)
    count = _at_most(n_queries, available, "n_queries") or available
    y_queries, neighbors = stored.y_queries, stored.neighbors
    split = SplitSet(
        X,
        stored.queries[:count],
        y,
        None if y_queries is None else y_queries[:count],
        None if neighbors is None else neighbors[:count],
    )
    database = np.random.default_rng(seed).permutation(len(X))
    return split, database, f"{count:,} of its {available:,} queries"


def balanced_split(y: NDArray[Any], n_queries: int, seed: int) -> tuple[Ints, Ints]:
    """Positions of the queries, the same number from each class, and of the database; both in random order.

    With 1,000 queries of MNIST (training images first) and the seed 2013 these are ``test_idx`` and
    ``train_idx`` of imh-golden, the split on which the authors' code was run.
    """
    classes, sizes = np.unique(y, return_counts=True)
    if n_queries % len(classes) or n_queries // len(classes) >= sizes.min():
        raise ValueError(
            f"cannot draw n_queries={n_queries}, the same number from each of {len(classes)} classes: the "
            f"smallest has {sizes.min()} rows. Give a multiple of {len(classes)} below "
            f"{len(classes) * sizes.min()}"
        )
    rng = np.random.default_rng(seed)
    per_class = n_queries // len(classes)
    queries = np.concatenate([rng.choice(np.flatnonzero(y == c), per_class, replace=False) for c in classes])
    return rng.permutation(queries), rng.permutation(np.setdiff1d(np.arange(len(y)), queries))


def _take(array: NDArray[Any], order: Ints) -> NDArray[Any]:
    """The rows at these positions; a view if they are the first rows in order, so that a map stays a map."""
    taken: NDArray[Any] = (
        array[: len(order)] if np.array_equal(order, np.arange(len(order))) else array[order]
    )
    return taken


def _at_most(count: int | None, available: int, name: str) -> int | None:
    """The count, if that many rows exist; None means all."""
    if count is not None and positive_int(count, name) > available:
        raise ValueError(f"{name}={count:,} exceeds the {available:,} rows: lower it")
    return count
