"""How the files of each data set become arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.datasets.download import make_folder
from manihash.datasets.gist import gist
from manihash.datasets.locations import File, cache_folder, find, locate, locate_all, unpacked
from manihash.files.errors import DataFileError
from manihash.files.formats import read, write

Array = NDArray[Any]

CIFAR10_BATCHES = [
    *(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)),
    "cifar-10-batches-bin/test_batch.bin",
]
CIFAR10_RECORD = 1 + 3 * 32 * 32
COMPUTED_GIST = "cifar10-gist/computed_gist512.npz"


@dataclass(frozen=True)
class Labeled:
    """A set that is one table of rows with their classes."""

    X: Array
    y: Array


@dataclass(frozen=True)
class WithQueries:
    """A set that has its queries apart, perhaps with their nearest rows."""

    X: Array
    queries: Array
    y: Array | None = None
    y_queries: Array | None = None
    neighbors: Array | None = None


def digits(files: Sequence[File]) -> Labeled:
    """The 1,797 digits that come with scikit-learn, pixels 0 to 16."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Labeled(X.astype(np.uint8), y.astype(np.uint8))


def mnist(files: Sequence[File]) -> Labeled:
    """MNIST's four files, images before labels: 70,000 rows of bytes, training images first."""
    train, y_train, test, y_test = (read(path) for path in locate_all(files))
    X = np.concatenate([train, test])
    return Labeled(X.reshape(len(X), -1), np.concatenate([y_train, y_test]))


def cifar10_gist(files: Sequence[File]) -> Labeled:
    """512-D GIST of CIFAR-10: the file of MANIHASH_DATA, or made once from the public archive."""
    made, archive = files
    if find(made.path):
        path = locate(made)
    else:
        path = find(COMPUTED_GIST) or _compute_gist(archive, cache_folder() / COMPUTED_GIST)
    return Labeled(read(path, key="X").astype(np.float32), read(path, key="y"))


def _compute_gist(archive: File, target: Path) -> Path:
    images, y = read_cifar10(unpacked(archive, CIFAR10_BATCHES))
    make_folder(target.parent)
    write(target, {"X": gist(images).astype(np.float16), "y": y})
    return target


def read_cifar10(batches: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 32, 32, 3) and labels of CIFAR-10's binary version: a record is a label and three planes."""
    records = []
    for path in batches:
        content = np.fromfile(path, np.uint8)
        if not len(content) or len(content) % CIFAR10_RECORD or content[::CIFAR10_RECORD].max() > 9:
            raise DataFileError(
                f"{path} is cut short or damaged: {len(content)} bytes came, and records of {CIFAR10_RECORD} "
                "bytes that begin with a label from 0 to 9 were wanted. Copy or download it again"
            )
        records.append(content.reshape(-1, CIFAR10_RECORD))
    rows = np.concatenate(records)
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0].copy()


def texmex(files: Sequence[File]) -> WithQueries:
    """Base, queries and their 100 nearest of an archive of corpus-texmex, memory-mapped."""
    stem = files[0].path.removesuffix(".tar.gz")
    names = ("base.fvecs", "query.fvecs", "groundtruth.ivecs")
    base, queries, neighbors = map(read, unpacked(files[0], [f"{stem}/{stem}_{name}" for name in names]))
    return _checked(files[0].path, WithQueries(base, queries, neighbors=neighbors))


def vectors(files: Sequence[File]) -> WithQueries:
    """One npz file with ``base`` and ``query``, and perhaps their labels and the nearest rows ``gt``."""
    path = locate(files[0])
    with np.load(path, allow_pickle=False) as archive:
        held = {name: archive[name] for name in archive.files}
    stored = WithQueries(
        held["base"],
        held["query"],
        held.get("base_label"),
        held.get("query_label"),
        held.get("gt"),
    )
    return _checked(str(path), stored)


def _checked(name: str, stored: WithQueries) -> WithQueries:
    """The set if its queries fit its rows and its nearest rows are rows of it."""
    X, queries, neighbors = stored.X, stored.queries, stored.neighbors
    if queries.shape[1:] != X.shape[1:]:
        raise DataFileError(
            f"{name}: queries of shape {queries.shape} for rows of shape {X.shape}. Copy it again"
        )
    if neighbors is not None and not (neighbors.min() >= 0 and neighbors.max() < len(X)):
        raise DataFileError(f"{name}: its nearest rows go beyond its {len(X)} rows. Copy it again")
    return stored
