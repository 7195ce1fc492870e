"""The measurements of the demo: the variants of IMH on a set of images, quantizers of FAISS, and a scan."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from manihash.base.kmeans import KMeansBase
from manihash.code_layout import CodeLayout
from manihash.compute.numpy import k_nearest
from manihash.datasets import CATALOG, Dataset, load_dataset
from manihash.evaluation import NeighborTruth, RankingQuality
from manihash.evaluation.harness import evaluate_codes, evaluate_scan, measure, relevant_answers
from manihash.evaluation.truth import LabelTruth, nearest_euclidean
from manihash.hashers._hasher import Hasher
from manihash.hashers.recipes import recipe
from manihash.induction import InductiveEmbedding
from manihash.rows.local import LocalRows
from manihash.search import FaissQuantizer
from manihash.search.faiss_baselines import BASELINES
from manihash.search.index import Index
from manihash.types import Codes, Floats, Ids

METHODS = (
    "imh-hybrid",
    "imh-graph",
    "itq",
    "pq",
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
SHOWN_METHOD, SHOWN_BITS = "imh-hybrid", 64  # the default recipe: its answers and codes are shown
OWN_BASE = ("imh-hybrid", "imh-graph", "imh-large")  # recipes that choose a base set of their own
NO_BASE = ("itq", "pq")
BASE_SIZE, RADIUS = 400, 2
DEPTHS = (10, 50, 100, 1000)  # numbers of answers that precision is measured at, up to the size of a class


@dataclass(frozen=True, eq=False)
class Setup:
    """What all measurements share: the data, the truth, and a base set learned once."""

    data: Dataset
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    shape: tuple[int, ...]  # of an image
    U: Floats  # X_train with rows of unit length, as in the recipes
    base: Floats  # (m, d)
    base_seconds: float
    truth: LabelTruth
    neighbors: NeighborTruth  # the true ten nearest rows by raw pixels
    seed: int


@dataclass(frozen=True)
class Score:
    """Quality of a method at one code length, or the reason why it cannot be fitted."""

    method: str
    n_bits: int
    map: float | None = None
    f1: float | None = None  # of the first part, if codes have two; none for product quantizers
    precision_at_10: float | None = None
    recall_at_10: float | None = None
    seconds: float | None = None  # to fit with the given base set, and to encode all rows
    reason: str | None = None


@dataclass(frozen=True)
class Scan:
    """Quality of the ranking by Euclidean distance, of raw pixels and of rows of unit length."""

    raw: RankingQuality
    unit: RankingQuality


@dataclass(frozen=True, eq=False)
class ShownAnswers:
    """The nearest rows to every query by one search (q, depth), and which of them are relevant."""

    ids: Ids
    relevant: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ShownCodes:
    """The codes behind the answers: of the rows (n, b) and queries (q, b), and the bits of their parts."""

    rows: Codes
    queries: Codes
    layout: CodeLayout


@dataclass(frozen=True, eq=False)
class Demo:
    """All numbers and arrays of the page."""

    setup: Setup
    lengths: tuple[int, ...]
    scan: Scan
    scores: tuple[Score, ...]
    base: Floats  # (m, d), the base set of the codes behind by_code
    base_classes: NDArray[Any]  # (m,), the most frequent class of the rows nearest to each base point
    base_plane: Floats  # (m, 2)
    query_plane: Floats  # (q, 2)
    by_pixels: ShownAnswers
    by_code: ShownAnswers
    shown: Score  # of the codes behind by_code
    codes: ShownCodes
    shown_queries: Ids  # queries whose answers are shown


def default_lengths(name: str) -> tuple[int, ...]:
    """Code lengths: at most 64 for the digits of scikit-learn, whose 64 pixels give PCA at most 64 bits."""
    return (16, 32, 48, 64) if name == "digits" else (16, 32, 64, 96)


def check_pictured(name: str) -> None:
    """Raise if the set is unknown or has no images."""
    pictured = [entry.name for entry in CATALOG.values() if entry.image_shape]
    if name not in pictured:
        raise ValueError(f"the demo needs a set of images, got {name!r}: choose {' or '.join(pictured)}")


def prepare(data: Dataset, seed: int, base_size: int = BASE_SIZE) -> Setup:
    """The setup of a dataset: rows of unit length, and a base set for all variants."""
    if data.y_train is None or data.y_test is None or data.image_shape is None:
        raise ValueError(f"{data.name} has no classes or no images: the demo needs both")
    U = normalize(data.X_train.astype(np.float32))
    start = perf_counter()
    base = KMeansBase(min(base_size, len(U)), random_state=seed).fit(U).points_
    seconds = perf_counter() - start
    truth = LabelTruth(data.y_test, data.y_train)
    neighbors = NeighborTruth(data.X_test, data.X_train)
    return Setup(data, data.y_train, data.y_test, data.image_shape, U, base, seconds, truth, neighbors, seed)


def load(name: str, seed: int) -> Setup:
    """The setup of a dataset, given its name."""
    check_pictured(name)
    return prepare(load_dataset(name), seed)


def scan(setup: Setup) -> Scan:
    """Quality of the exhaustive l2 scan, of raw pixels and of rows of unit length."""
    data, neighbors = setup.data, setup.neighbors
    unit_queries = normalize(data.X_test.astype(np.float32))
    return Scan(
        evaluate_scan(data.X_test, data.X_train, setup.truth, neighbors=neighbors),
        evaluate_scan(unit_queries, setup.U, setup.truth, neighbors=neighbors),
    )


def score(setup: Setup, method: str, n_bits: int) -> Score:
    """Quality of a recipe or of a quantizer of FAISS, or the reason why it cannot be fitted."""
    try:
        return _score(setup, method, n_bits)
    except (ValueError, ImportError) as error:
        return Score(method, n_bits, reason=str(error))


def _score(setup: Setup, method: str, n_bits: int) -> Score:
    data, neighbors = setup.data, setup.neighbors
    quantizer = (
        FaissQuantizer(BASELINES[method], n_bits, random_state=setup.seed)
        if method in BASELINES
        else _hasher(setup, method, n_bits)
    )
    metric = partial(evaluate_codes, radius=RADIUS)
    found = measure(quantizer, data.X_train, data.X_test, setup.truth, metric=metric, neighbors=neighbors)
    quality, seconds = found.result, found.fit_seconds + found.encode_seconds
    f1 = getattr(quality, "f1", None)  # a product quantizer has no radius
    return Score(method, n_bits, quality.map, f1, quality.precision_at_10, quality.recall_at_10, seconds)


def finish(setup: Setup, lengths: Sequence[int], scanned: Scan, scores: Sequence[Score]) -> Demo:
    """The demo with what its pictures need: classes and plane of the base set, answers and codes."""
    data = setup.data
    shown = _shown(scores)
    hasher = _hasher(setup, shown.method, shown.n_bits).fit(data.X_train)
    base = _base_of(hasher, setup)
    plane = InductiveEmbedding(2, base=base, random_state=setup.seed).fit(setup.U)
    held, asked = hasher.encode(data.X_train), hasher.encode(data.X_test)
    index = Index(hasher, held)
    depth = min(max(DEPTHS), setup.truth.counts.min())
    return Demo(
        setup,
        tuple(lengths),
        scanned,
        tuple(scores),
        base,
        _base_classes(setup, base),
        plane.base_embedding_,
        plane.transform(normalize(data.X_test.astype(np.float32))),
        _answers(setup, nearest_euclidean(data.X_test, data.X_train, depth)),
        _answers(setup, index.search(data.X_test, depth, symmetric=not index.layout.has_fields)[1]),
        shown,
        ShownCodes(held, asked, index.layout),
        np.array([np.flatnonzero(setup.y_test == c)[0] for c in np.unique(setup.y_test)]),
    )


def _shown(scores: Sequence[Score]) -> Score:
    """The score whose answers and codes are shown: of the default recipe, if it could be fitted."""
    fitted = [score for score in scores if score.map is not None and score.method not in BASELINES]
    if not fitted:
        raise ValueError(f"no recipe could be fitted: {scores[0].reason}")
    return min(fitted, key=lambda score: (score.method != SHOWN_METHOD, abs(score.n_bits - SHOWN_BITS)))


def _hasher(setup: Setup, method: str, n_bits: int) -> Hasher:
    hasher: Hasher = recipe(method, n_bits=n_bits, random_state=setup.seed)
    if method not in (*OWN_BASE, *NO_BASE):
        hasher.set_params(base=setup.base)
    return hasher


def _base_of(hasher: Any, setup: Setup) -> Floats:
    """The base points (m, d) of a fitted hasher, or of its first part; those of the setup if it has none.

    Base points in fewer dimensions are placed back among the rows, along the directions of the reduction.
    """
    first = getattr(hasher, "first_", hasher)
    points = getattr(first, "base_points_", None)
    if points is None:
        return setup.base
    directions = getattr(getattr(first, "finder_", None), "directions_", None)  # (c, d), orthonormal
    placed = points if directions is None else points @ directions
    return np.asarray(placed, np.float32) if placed.shape[1] == setup.U.shape[1] else setup.base


def _base_classes(setup: Setup, base: Floats) -> NDArray[Any]:
    """The most frequent class of the rows nearest to each base point (m,), used only to color it."""
    rows = LocalRows(setup.U)
    nearest = rows.stack(lambda block: k_nearest(block, base, 1)[1], 1, np.int64)[:, 0]
    classes, number = np.unique(setup.y_train, return_inverse=True)
    counts = np.zeros((len(base), len(classes)), np.int64)
    np.add.at(counts, (nearest, number), 1)
    return classes[counts.argmax(axis=1)]


def _answers(setup: Setup, ids: Ids) -> ShownAnswers:
    return ShownAnswers(ids, relevant_answers(ids, setup.truth))
