"""Induction: a manifold embedding for new points, as a weighted mean of their nearest base points.

y(x) = Σ_j w(x, c_j) y_j / Σ_j w(x, c_j), the paper's equations for a new point and for the training set.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone

from manihash import checks
from manihash.base.closest import Points
from manihash.base.graph import BaseGraph, parameters, set_seed
from manihash.base.kmeans import KMeansBase
from manihash.compute import backend, fused
from manihash.compute.threads import single_blas_thread
from manihash.embeddings._embedding import Embedding, too_many
from manihash.embeddings.tsne import TSNE
from manihash.estimator import RowEstimator
from manihash.rows import Rows
from manihash.rows.fused import FusedRows
from manihash.rows.mapping import Result, RowMap
from manihash.rows.raw import Preparation
from manihash.rows.torch import TorchRows
from manihash.types import Floats

__all__ = ["InductiveEmbedding"]


class OnBaseGraph:
    """Mixin of the estimators that hold a ``BaseGraph`` and map rows by induction.

    The fitted attributes are those of the graph, so that model files hold plain arrays; ``_graph`` is the
    object that computes with them. ``_base_values`` names the attribute with the values at the base points.
    """

    _by_distance = True
    _base_values = "base_embedding_"

    base: Any
    embedding: Any
    n_neighbors: int
    base_points_: Floats
    n_neighbors_: int
    bandwidth_: float
    finder_: Any = None

    @property
    def takes_tensors(self) -> bool:
        """Whether ``fit`` computes with torch: not if the base set is chosen in numpy."""
        return bool(getattr(self.base, "takes_tensors", True))

    @property
    def maps_tensors(self) -> bool:
        """Whether ``encode`` computes with torch: not if a finder searches the base points in numpy alone."""
        finder = getattr(self, "finder_", None)
        return finder is None or getattr(finder, "takes_tensors", False)

    def _check(self) -> None:
        """Raise before any work if the base set will be too small for the neighbors or the dimensions."""
        super()._check()  # type: ignore[misc]
        k = checks.positive_int(self.n_neighbors, "n_neighbors")
        if getattr(self, "bandwidth", None) is not None:
            checks.positive_number(getattr(self, "bandwidth", None), "bandwidth")
        m = base_size(self.base)
        if m is None or m < 2:  # a base set of less than two points has an error of its own
            return
        checks.neighbor_count(k, m)
        if isinstance(getattr(self, "embedding", ""), Embedding | None) and self._n_dimensions > m - 1:
            raise too_many(self._n_dimensions, m - 1, f"{m} points")

    @property
    def _n_dimensions(self) -> int:
        """The number of dimensions that the embedding of the base set must have."""
        return int(getattr(self, "n_bits", 0) or getattr(self, "n_components", 0))

    def _fit_graph(self, rows: Rows, rng: np.random.Generator) -> BaseGraph:
        """Return the base graph of the rows: step 1 of Algorithm 1."""
        bandwidth = getattr(self, "bandwidth", None)
        return BaseGraph.fit(self.base, rows, self.n_neighbors, bandwidth, checks.seed(rng))

    def _fit_embedding(self, rows: Rows, r: int, rng: np.random.Generator) -> "EmbeddedBase":
        """Choose the base set, embed it and center its embedding: steps 1 and 2 of Algorithm 1."""
        graph = self._fit_graph(rows, rng)
        embedded = embed_base(self.embedding, graph, rows, r, checks.seed(rng))
        self._graph, self.base_embedding_, self.loss_ = graph, embedded.Y, embedded.loss
        self.neighbor_recall_ = getattr(graph.finder, "recall_", None)
        return embedded

    @property
    def _graph(self) -> BaseGraph:
        return BaseGraph(self.base_points_, self.n_neighbors_, self.bandwidth_, self.finder_)

    @_graph.setter
    def _graph(self, graph: BaseGraph) -> None:
        self.base_points_, self.n_neighbors_ = graph.B, graph.k
        self.bandwidth_, self.finder_ = graph.sigma, graph.finder

    def _check_loaded(self) -> None:
        """Raise if values read from a file do not fit together: sums over neighbors trust their indices."""
        B, Y_B, k = self.base_points_, getattr(self, self._base_values), self.n_neighbors_
        if B.ndim != 2 or Y_B.ndim != 2 or len(B) != len(Y_B) or not {B.dtype.kind, Y_B.dtype.kind} <= {"f"}:
            raise ValueError(
                f"{self._base_values} has shape {Y_B.shape} and base_points_ {B.shape}: expected real "
                "numbers, with one row per base point in both"
            )
        checks.neighbor_count(k, len(B), "n_neighbors_")
        if self.finder_ is not None:
            self.finder_.check_points(len(B), k)

    @property
    def _induction(self) -> Callable[[Floats], Floats]:
        """The function that maps a block of rows (b, d) to values (b, r): step 3 of Algorithm 1."""
        return partial(self._graph.induce, Y_B=getattr(self, self._base_values))

    def _embed(self, X: Floats) -> Floats:
        """Return the values (b, r) of prepared rows (b, d), as ``fit`` and a GPU compute them."""
        return self._induction(X)

    def _make_map(self, preparation: Preparation) -> RowMap:
        """Return the map with certain bits: see ``InducedMap``."""
        return self._graph.map(getattr(self, self._base_values), preparation)

    def _by_kernel(self, rows: TorchRows, exact: TorchRows, result: Result) -> Rows:
        """Return rows that are mapped on a GPU by one fused kernel, if there is one for them."""
        graph = self._graph
        if rows.dtype == np.float64 or graph.finder is not None:
            return exact
        kernel = fused.kernel(
            graph.B, getattr(self, self._base_values), graph.k, graph.sigma, centered=Points,
            origin=rows.origin, normalize=rows.normalize, device=rows.device,
        )  # fmt: skip
        return exact if kernel is None else FusedRows(rows, exact, kernel, result)


def base_size(base: Any) -> int | None:
    """Return the largest number of points that a base set can have; None if that depends on the rows."""
    if base is None:
        base = KMeansBase()
    size = getattr(base, "size", None) if hasattr(base, "get_params") else getattr(base, "shape", [None])[0]
    return size if isinstance(size, int) and not isinstance(size, bool) else None


class EmbeddedBase(NamedTuple):
    """The centered embedding Y (m, r) of base points, its loss, and their affinities (m, m) from the rows."""

    Y: Floats
    loss: float | None
    affinities: Any


def embed_base(
    embedding: Any, graph: BaseGraph, rows: Rows, r: int, seed: int, points: Floats | None = None
) -> EmbeddedBase:
    """Return the centered embedding Y_B (m, r) of the base points by a copy of ``embedding``.

    ``n_components`` and ``random_state`` are set if the embedding has them. An embedding that
    ``needs_coupling`` gets the coupling T, one with an ``affinity`` gets the affinities of the base points,
    and one that ``takes_tensors`` gets points on the device of the rows. ``points`` replace the base points.
    """
    B = graph.B if points is None else points
    part = TSNE() if embedding is None else clone(embedding, safe=False)
    if isinstance(part, type):
        raise ValueError(f"embedding must be an object, not a class: give {part.__name__}()")
    if not hasattr(part, "fit_transform"):
        raise ValueError(f"embedding must have fit_transform, and {type(part).__name__} has not: try TSNE()")
    set_seed(part, seed)
    if "n_components" in parameters(part):
        part.set_params(n_components=r)
    # On several threads the last digits differ, and with them the whole result of a t-SNE.
    with single_blas_thread():
        options: dict[str, Any] = {}
        if getattr(part, "needs_coupling", False):
            options["coupling"] = graph.coupling(rows)
        if hasattr(getattr(part, "affinity", None), "matrix"):  # other libraries call a string so
            options["affinities"] = part.affinity.matrix(graph, rows, np.random.default_rng(seed))
        Y_B = part.fit_transform(rows.to_device(B) if getattr(part, "takes_tensors", False) else B, **options)
    Y_B = np.asarray(backend(Y_B).to_numpy(Y_B))
    if Y_B.shape != (len(B), r):
        raise ValueError(
            f"{type(part).__name__} returned an embedding of shape {Y_B.shape}, expected {(len(B), r)}: "
            "set its number of dimensions to n_bits, or n_bits to it"
        )
    if not np.isfinite(Y_B).all():
        raise ValueError(f"{type(part).__name__} returned NaN or infinity: check its parameters")
    loss = getattr(part, "loss_", None)
    return EmbeddedBase(Y_B - Y_B.mean(axis=0), loss, options.get("affinities"))


class InductiveEmbedding(OnBaseGraph, ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowEstimator):
    """A manifold embedding that also has coordinates for new points, in any number of dimensions.

    A base set of m points c_j is embedded at y_j by t-SNE or another embedding, and any point x gets the
    weighted mean of its k nearest base points:

    y(x) = Σ_j w(x, c_j) y_j / Σ_j w(x, c_j), with w(x, c) = exp(-|x - c|² / sigma²).

    The coordinates of a row do not depend on the batch it is in.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding.
    base : object or array-like of shape (m, d), default=None
        The base set: ``KMeansBase``, ``RandomBase``, ``LargeBase``, ``ReducedBase``, or an array of points
        that are used as they are. None for ``KMeansBase(400)``.
    embedding : object with ``fit_transform``, default=None
        The embedding of the base set; parameters ``n_components`` and ``random_state`` are set if it has
        them. None for ``TSNE(perplexity=10)``.
    n_neighbors : int, default=5
        Number k of nearest base points that represent a row.
    bandwidth : float, default=None
        The bandwidth sigma of the weights. None for the mean distance of the rows to their k-th nearest base
        point.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.

    Attributes
    ----------
    base_points_ : ndarray of shape (m, d)
        The base points c_j.
    n_neighbors_ : int
        The number of neighbors k.
    bandwidth_ : float
        The bandwidth sigma.
    base_embedding_ : ndarray of shape (m, r)
        The centered embedding y_j of the base set.
    loss_ : float or None
        Final loss of the embedding, if it has one.
    finder_ : object or None
        How the nearest base points are found; None compares each row with all of them.
    neighbor_recall_ : float or None
        Share of the nearest base points that ``finder_`` finds.
    n_features_in_ : int
        Width d of the rows.
    origin_ : ndarray of shape (d,) or None
        Vector that is subtracted from all rows first if they lie far from zero; other fitted values are then
        relative to it.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    References
    ----------
    Shen, Shen, Shi, van den Hengel and Tang, "Inductive hashing on manifolds", CVPR, 2013.

    Examples
    --------
    >>> from manihash import InductiveEmbedding
    >>> from manihash.base import KMeansBase
    >>> from manihash.embeddings import TSNE
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> model = InductiveEmbedding(2, base=KMeansBase(100), embedding=TSNE(n_iter=100), random_state=0).fit(X)
    >>> model.transform(X[:5]).shape
    (5, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        base: Any = None,
        embedding: Any = None,
        n_neighbors: int = 5,
        bandwidth: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.base = base
        self.embedding = embedding
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.random_state = random_state

    def _check(self) -> None:
        checks.positive_int(self.n_components, "n_components")
        super()._check()

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        self._fit_embedding(rows, self.n_components, rng)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "base_embedding_")

    def transform(self, X: Any) -> Floats:
        """Compute the coordinates of rows, seen or unseen.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, r)
            Coordinates of the rows; a dask array or a tensor if X is one.
        """
        return self._map(X, "values", "transform")

    @property
    def _n_features_out(self) -> int:
        return int(self.base_embedding_.shape[1])
