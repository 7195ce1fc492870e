"""The data sets that manihash knows by name: what they are, where they come from, how they are split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from manihash.checks import positive_int
from manihash.datasets import sources
from manihash.datasets.locations import File, find
from manihash.datasets.sources import Array, Labeled, WithQueries
from manihash.datasets.splits import PAPER_SEED, Rows, balanced_split, database_order


@dataclass(frozen=True)
class Dataset:
    """Rows to learn from, which are also the database, and queries.

    ``neighbors`` (q, 100) are the nearest rows of X_train, nearest first, where the set brings them; ``note``
    says where the set comes from and how it was split, for a report to repeat.
    """

    name: str
    X_train: Array
    y_train: Array | None
    X_test: Array
    y_test: Array | None
    note: str
    image_shape: tuple[int, ...] | None = None
    neighbors: Array | None = None
    is_papers_own: bool = False


@dataclass(frozen=True)
class Entry:
    """One line of the catalog; ``n_queries`` is drawn by class where the set brings no queries.

    ``made`` is what the cache holds once an archive was unpacked or descriptors were computed.
    """

    name: str
    description: str
    is_papers_own: bool
    read: Callable[[Sequence[File]], Labeled | WithQueries]
    files: tuple[File, ...] = ()
    n_queries: int | None = None
    image_shape: tuple[int, ...] | None = None
    made: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether its files are on this machine; they are neither read nor fetched."""
        stands_alone = bool(self.files) and not self.files[0].urls
        wanted = self.files[:1] if stands_alone else self.files
        return all(find(file.path) for file in wanted) or bool(self.made and find(self.made))

    @property
    def has_public_home(self) -> bool:
        """Whether everything it needs can be downloaded (or comes with scikit-learn)."""
        return not self.files or bool(self.files[-1].urls)


_MNIST_HOMES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_TEXMEX_HOME = "ftp://ftp.irisa.fr/local/texmex/corpus/"


def _mnist_file(name: str, sha256: str) -> File:
    return File(f"mnist/{name}", sha256, tuple(home + name for home in _MNIST_HOMES))


def _texmex_file(name: str, sha256: str) -> File:
    return File(name, sha256, (_TEXMEX_HOME + name,))


_ENTRIES = (
    Entry(
        "digits",
        "8 x 8 images of digits, 1,797 x 64 bytes from 0 to 16, 10 classes; comes with scikit-learn",
        False,
        sources.digits,
        n_queries=200,
        image_shape=(8, 8),
    ),
    Entry(
        "mnist",
        "MNIST, 28 x 28 images of handwritten digits, 70,000 x 784 bytes, 10 classes",
        True,
        sources.mnist,
        (
            _mnist_file(
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _mnist_file(
                "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _mnist_file(
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _mnist_file(
                "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        n_queries=1000,
        image_shape=(28, 28),
    ),
    Entry(
        "cifar10-gist",
        "512-D gray GIST of the 60,000 images of CIFAR-10, 10 classes; the paper's images and kind of "
        "feature, not its lost feature file",
        False,
        sources.cifar10_gist,
        (
            File(
                "cifar10-gist/cifar10_gist512.npz",
                "f2dfd2527119d3d6ed5d52dc3b2053a86e2acd37290d0cba1d2b94eb44a8287f",
            ),
            File(
                "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            ),
        ),
        n_queries=1000,
        made=sources.COMPUTED_GIST,
    ),
    Entry(
        "sift1m",
        "SIFT1M of corpus-texmex, 1,000,000 + 10,000 SIFT descriptors, 128-D, with the 100 nearest",
        True,
        sources.texmex,
        (_texmex_file("sift.tar.gz", "92f1270c5e3a0cb46b89983e72b0511e4df065c31a9fa0276d8c9b1fca5bc81a"),),
        made="sift/sift_base.fvecs",
    ),
    Entry(
        "gist1m",
        "GIST1M of corpus-texmex, 1,000,000 + 1,000 GIST descriptors, 960-D, with the 100 nearest",
        True,
        sources.texmex,
        (_texmex_file("gist.tar.gz", "01469a7f1c3768853525e543d537e2dfa1adece927616405e360952e3f67df73"),),
        made="gist/gist_base.fvecs",
    ),
    Entry(
        "photo-sift1m",
        "SIFT descriptors of 1,500 photographs, 1,000,000 + 10,000 x 128 bytes; stands in for SIFT1M: other "
        "photographs, other detector",
        False,
        sources.vectors,
        (
            File(
                "photo-sift1m/sift_photo1m.npz",
                "cb1a390055a01a3cceb83c5773bf73dfb73c81fc72a07688ae7639e19f9e5946",
            ),
        ),
    ),
    Entry(
        "tiny-gist960",
        "color GIST of Tiny ImageNet, 20,000 + 1,000 x 960 bytes (value = byte / 255), 200 classes; stands "
        "in for GIST1M: other images, 1/50 of its size",
        False,
        sources.vectors,
        (
            File(
                "tiny-gist960/gist960_tinyimagenet20k.npz",
                "b8be6b9e8ee5e54c3732c2c62bfd61826fff0acc01be81b586c86a9c64fdf1a5",
            ),
        ),
    ),
    Entry(
        "bigann10k",
        "10,000 descriptors of BIGANN, the set SIFT1M comes from, 128 bytes, with 100 queries that are also "
        "in the base, and the 100 nearest of each",
        False,
        sources.vectors,
        (
            File(
                "bigann10k/bigann10k.npz", "b58d06ff1021a7bdd3b9c285749fd81fe163f2e787d99e675d7f277bf88db4e7"
            ),
        ),
    ),
)
CATALOG = {entry.name: entry for entry in _ENTRIES}


def dataset_names() -> list[str]:
    """The names that load_dataset knows."""
    return list(CATALOG)


def load_dataset(
    name: str,
    *,
    n_queries: int | None = None,
    n_train: int | None = None,
    seed: int = PAPER_SEED,
    shuffle: bool = True,
) -> Dataset:
    """A data set by its name, from MANIHASH_DATA, the cache or its home.

    Parameters
    ----------
    n_queries : as many queries. A set without queries of its own gives 1,000 (digits 200), as many of each
        class, drawn with ``seed``; one with its own gives all of them, or the first ``n_queries``.
    n_train : only the first rows of the database, in the order it is given in.
    seed : of the split and of the database's order; the default gives the split of imh-golden on MNIST.
    shuffle : False leaves the database in the order of its files (and memory-mapped, for sift1m and gist1m).
    """
    if name not in CATALOG:
        close = get_close_matches(name, CATALOG, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"no data set is called {name!r}{hint}: choose among {', '.join(CATALOG)}")
    entry, seed = CATALOG[name], positive_int(seed, "seed", least=0)
    parted, rows, note = _parted(entry, n_queries, seed)
    rows = (rows if shuffle else np.sort(rows))[: _at_most(n_train, len(rows), "n_train")]
    neighbors = parted.neighbors
    if neighbors is not None:
        neighbors = np.argsort(rows)[neighbors] if len(rows) == len(parted.X) else None
    order = f"in random order (seed {seed})" if shuffle else "in the order of its files"
    return Dataset(
        name,
        _taken(parted.X, rows),
        None if parted.y is None else _taken(parted.y, rows),
        parted.queries,
        parted.y_queries,
        f"{entry.description}. {note}; database of {len(rows):,} {order}.",
        entry.image_shape,
        neighbors,
        entry.is_papers_own,
    )


def _parted(entry: Entry, n_queries: int | None, seed: int) -> tuple[WithQueries, Rows, str]:
    """The set with its own or drawn queries, the rows of its database in random order, and what was done."""
    stored = entry.read(entry.files)
    X, y = stored.X, stored.y
    if isinstance(stored, Labeled):
        count = positive_int(entry.n_queries if n_queries is None else n_queries, "n_queries")
        drawn, rows = balanced_split(stored.y, count, seed)
        parted = WithQueries(X, X[drawn], y, stored.y[drawn])
        return parted, rows, f"{count:,} queries, as many of each class (seed {seed})"
    available = len(stored.queries)
    count = _at_most(n_queries, available, "n_queries") or available
    y_queries, neighbors = stored.y_queries, stored.neighbors
    parted = WithQueries(
        X,
        stored.queries[:count],
        y,
        None if y_queries is None else y_queries[:count],
        None if neighbors is None else neighbors[:count],
    )
    return parted, database_order(len(X), seed), f"{count:,} of its {available:,} queries"


def _taken(array: Array, rows: Rows) -> Array:
    """These rows; not a copy if they are the first ones in their order, so that a memory map stays one."""
    taken: Array = array[: len(rows)] if np.array_equal(rows, np.arange(len(rows))) else array[rows]
    return taken


def _at_most(count: int | None, available: int, name: str) -> int | None:
    """The count if that many rows are there; None stands for the usual number."""
    if count is not None and positive_int(count, name) > available:
        raise ValueError(f"{name}={count:,} asked of {available:,} rows: lower it")
    return count
