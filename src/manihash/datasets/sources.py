"""Readers of datasets: from files to arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.datasets.download import make_folder
from manihash.datasets.gist import gist
from manihash.datasets.locations import PublishedFile, cache_folder, find, locate, locate_all, unpacked
from manihash.errors import DataFileError
from manihash.files.formats import read, write

CIFAR10_BATCHES = [
    *(f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)),
    "cifar-10-batches-bin/test_batch.bin",
]
CIFAR10_RECORD = 1 + 3 * 32 * 32
COMPUTED_GIST = "cifar10-gist/computed_gist512.npz"


@dataclass(frozen=True)
class UnsplitSet:
    """A dataset without queries: rows (n, d) with their classes (n,)."""

    X: NDArray[Any]
    y: NDArray[Any]


@dataclass(frozen=True)
class SplitSet:
    """A dataset with queries (q, d), and with classes and the nearest rows of the queries if it has them."""

    X: NDArray[Any]
    queries: NDArray[Any]
    y: NDArray[Any] | None = None
    y_queries: NDArray[Any] | None = None
    neighbors: NDArray[Any] | None = None


def digits(files: Sequence[PublishedFile]) -> UnsplitSet:
    """The 1,797 digits of scikit-learn, with pixels from 0 to 16."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return UnsplitSet(X.astype(np.uint8), y.astype(np.uint8))


def mnist(files: Sequence[PublishedFile]) -> UnsplitSet:
    """The 70,000 images of MNIST as rows of bytes, training images first."""
    train, y_train, test, y_test = (read(path) for path in locate_all(files))
    X = np.concatenate([train, test])
    return UnsplitSet(X.reshape(len(X), -1), np.concatenate([y_train, y_test]))


def cifar10_gist(files: Sequence[PublishedFile]) -> UnsplitSet:
    """512-D GIST of CIFAR-10: the file in MANIHASH_DATA, or computed once from the public archive."""
    descriptors, archive = files
    if find(descriptors.path):
        path = locate(descriptors)
    else:
        path = find(COMPUTED_GIST) or _compute_gist(archive, cache_folder() / COMPUTED_GIST)
    return UnsplitSet(read(path, key="X").astype(np.float32), read(path, key="y"))


def _compute_gist(archive: PublishedFile, target: Path) -> Path:
    """Compute the descriptors of CIFAR-10's images and write them to ``target``."""
    images, y = read_cifar10(unpacked(archive, CIFAR10_BATCHES))
    make_folder(target.parent)
    write(target, {"X": gist(images).astype(np.float16), "y": y})
    return target


def read_cifar10(batches: Sequence[Path]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 32, 32, 3) and labels (n,) of CIFAR-10; a record is a label and three color planes."""
    records = []
    for path in batches:
        content = np.fromfile(path, np.uint8)
        if not len(content) or len(content) % CIFAR10_RECORD or content[::CIFAR10_RECORD].max() > 9:
            raise DataFileError(
                f"{path} is truncated or damaged: it has {len(content)} bytes, expected records of "
                f"{CIFAR10_RECORD} bytes that start with a label from 0 to 9. Copy or download it again"
            )
        records.append(content.reshape(-1, CIFAR10_RECORD))
    rows = np.concatenate(records)
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0].copy()


def texmex(files: Sequence[PublishedFile]) -> SplitSet:
    """Base vectors, queries and their 100 nearest rows in an archive of corpus-texmex, memory-mapped."""
    stem = files[0].path.removesuffix(".tar.gz")
    names = ("base.fvecs", "query.fvecs", "groundtruth.ivecs")
    base, queries, neighbors = map(read, unpacked(files[0], [f"{stem}/{stem}_{name}" for name in names]))
    return _check(files[0].path, SplitSet(base, queries, neighbors=neighbors))


def vectors(files: Sequence[PublishedFile]) -> SplitSet:
    """An npz file with ``base`` and ``query``, optionally their labels and the nearest rows ``gt``."""
    path = locate(files[0])
    with np.load(path, allow_pickle=False) as archive:
        held = {name: archive[name] for name in archive.files}
    stored = SplitSet(
        held["base"],
        held["query"],
        held.get("base_label"),
        held.get("query_label"),
        held.get("gt"),
    )
    return _check(str(path), stored)


def _check(name: str, stored: SplitSet) -> SplitSet:
    """The dataset, if its queries have the width of its rows and its nearest rows exist."""
    X, queries, neighbors = stored.X, stored.queries, stored.neighbors
    if queries.shape[1:] != X.shape[1:]:
        raise DataFileError(
            f"{name} has queries of shape {queries.shape} for rows of shape {X.shape}: copy it again"
        )
    if neighbors is not None and not (neighbors.min() >= 0 and neighbors.max() < len(X)):
        raise DataFileError(f"{name} lists nearest rows beyond its {len(X)} rows: copy it again")
    return stored
