"""What the demo measures: the variants of IMH on a set of pictures, beside a scan of the raw pixels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from manihash.base.kmeans import KMeansBase
from manihash.compute.numpy import k_nearest
from manihash.datasets import CATALOG, Dataset, load_dataset
from manihash.evaluation.harness import evaluate, evaluate_scan, measure, relevant_answers
from manihash.evaluation.truth import LabelTruth, nearest_euclidean
from manihash.hashers._hasher import Hasher
from manihash.hashers.recipe_table import RECIPES
from manihash.hashers.recipes import recipe
from manihash.induction import InductiveEmbedding
from manihash.rows.local import LocalRows
from manihash.search import HammingIndex
from manihash.types import Floats

METHODS = (
    "imh-tsne",
    "imh-tsne-rotated",
    "imh-large",
    "imh-le",
    "imh-le-b",
    "imh-sne",
    "imh-ee",
    "imh-lle",
    "imh-isomap",
    "imh-dm",
    "imh-pca",
)
SHOWN_METHOD, SHOWN_BITS = (
    "imh-tsne",
    64,
)  # the paper's best; its answers are shown, at the length nearest to this
LARGE = "imh-large"
BASE_SIZE, RADIUS = 400, 2
DEPTHS = (10, 50, 100, 1000)  # how far down an answer is looked at, where a class has as many

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Material:
    """What all trials share: the data, the truth, and a base set learned once."""

    data: Dataset
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    shape: tuple[int, ...]  # of a picture
    U: Floats  # X_train with rows of unit length, as the recipes see them
    base: Floats  # (m, d)
    base_seconds: float
    truth: LabelTruth
    seed: int


@dataclass(frozen=True)
class Score:
    """One cell of the table: a method at a length, or the reason why there is none."""

    method: str
    n_bits: int
    map: float | None = None
    f1: float | None = None
    seconds: float | None = None  # to fit, the base set given, and to encode all rows
    reason: str | None = None

    @property
    def title(self) -> str:
        """The method's name in print."""
        return RECIPES[self.method].title


@dataclass(frozen=True)
class Scan:
    """MAP of ranking by Euclidean distance: of the pixels as they are, and of rows of unit length."""

    raw: float
    unit: float


@dataclass(frozen=True, eq=False)
class Found:
    """The rows nearest to every query by one way of searching (q, depth), and which of them are right."""

    ids: Ids
    right: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Demo:
    """All that the page shows."""

    material: Material
    lengths: tuple[int, ...]
    scan: Scan
    scores: tuple[Score, ...]
    base_classes: NDArray[Any]  # (m,), of most rows that are nearest to the base point
    base_plane: Floats  # (m, 2)
    query_plane: Floats  # (q, 2)
    by_pixels: Found
    by_code: Found
    shown: Score  # the method and length that by_code is of
    shown_queries: Ids  # drawn with their answers


def default_lengths(name: str) -> tuple[int, ...]:
    """Code lengths: the digits that come with scikit-learn have 64 pixels, and PCA gives no more bits."""
    return (16, 32, 48, 64) if name == "digits" else (16, 32, 64, 96)


def check_pictured(name: str) -> None:
    """Raise where the set is unknown or cannot be shown as pictures with classes."""
    pictured = [entry.name for entry in CATALOG.values() if entry.image_shape]
    if name not in pictured:
        raise ValueError(f"the demo shows pictures, and has none of {name!r}: choose {' or '.join(pictured)}")


def prepare(data: Dataset, seed: int, base_size: int = BASE_SIZE) -> Material:
    """Scale the rows to unit length and learn their base set, once for all variants."""
    if data.y_train is None or data.y_test is None or data.image_shape is None:
        raise ValueError(f"{data.name} has no classes or no pictures: the demo needs both")
    U = normalize(data.X_train.astype(np.float32))
    start = perf_counter()
    base = KMeansBase(min(base_size, len(U)), random_state=seed).fit(U).points_
    seconds = perf_counter() - start
    truth = LabelTruth(data.y_test, data.y_train)
    return Material(data, data.y_train, data.y_test, data.image_shape, U, base, seconds, truth, seed)


def load(name: str, seed: int) -> Material:
    """The material of a data set by its name."""
    check_pictured(name)
    return prepare(load_dataset(name), seed)


def scan(material: Material) -> Scan:
    """MAP of the exhaustive l2 scan, of raw pixels and of unit length."""
    data = material.data
    unit_queries = normalize(data.X_test.astype(np.float32))
    return Scan(
        evaluate_scan(data.X_test, data.X_train, material.truth),
        evaluate_scan(unit_queries, material.U, material.truth),
    )


def score(material: Material, method: str, n_bits: int) -> Score:
    """Quality of a recipe on the shared base set, or the reason why it cannot be fitted."""
    data = material.data
    try:
        found = measure(
            _hasher(material, method, n_bits),
            data.X_train,
            data.X_test,
            material.truth,
            metric=partial(evaluate, radius=RADIUS),
        )
    except ValueError as error:
        return Score(method, n_bits, reason=str(error))
    seconds = found.fit_seconds + found.encode_seconds
    return Score(method, n_bits, found.result.map, found.result.f1, seconds)


def finish(material: Material, lengths: Sequence[int], scanned: Scan, scores: Sequence[Score]) -> Demo:
    """The pictures' part: classes of the base set, its plane with the queries, and the answers."""
    data = material.data
    plane = InductiveEmbedding(2, base=material.base, random_state=material.seed).fit(material.U)
    own = [score for score in scores if score.method == SHOWN_METHOD]
    shown = min(own, key=lambda score: abs(score.n_bits - SHOWN_BITS))
    hasher = _hasher(material, shown.method, shown.n_bits).fit(data.X_train)
    index = HammingIndex(hasher.encode(data.X_train), shown.n_bits)
    depth = min(max(DEPTHS), material.truth.counts.min())
    return Demo(
        material,
        tuple(lengths),
        scanned,
        tuple(scores),
        _base_classes(material),
        plane.base_embedding_,
        plane.transform(normalize(data.X_test.astype(np.float32))),
        _found(material, nearest_euclidean(data.X_test, data.X_train, depth)),
        _found(material, index.search(hasher.encode(data.X_test), depth)[1]),
        shown,
        np.array([np.flatnonzero(material.y_test == c)[0] for c in np.unique(material.y_test)]),
    )


def _hasher(material: Material, method: str, n_bits: int) -> Hasher:
    hasher: Hasher = recipe(method, n_bits=n_bits, random_state=material.seed)
    if method != LARGE:  # it has a base set of its own kind
        hasher.set_params(base=material.base)
    return hasher


def _base_classes(material: Material) -> NDArray[Any]:
    """The class of most rows that have a base point as their nearest, for each; they color it, no more."""
    rows = LocalRows(material.U)
    nearest = rows.stack(lambda block: k_nearest(block, material.base, 1)[1], 1, np.int64)[:, 0]
    classes, number = np.unique(material.y_train, return_inverse=True)
    counts = np.zeros((len(material.base), len(classes)), np.int64)
    np.add.at(counts, (nearest, number), 1)
    return classes[counts.argmax(axis=1)]


def _found(material: Material, ids: Ids) -> Found:
    return Found(ids, relevant_answers(ids, material.truth))
