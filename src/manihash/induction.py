"""Induction: a manifold embedding for points never seen, as a weighted mean of the nearest base points.

y(x) = Σ_j w(x, c_j) y_j / Σ_j w(x, c_j), the paper's equations for a new point and for the training set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone

from manihash import checks
from manihash.base.kmeans import KMeansBase
from manihash.base.weights import Find, bandwidth, coupling, k_nearest, normalized_weights
from manihash.compute import backend, fused
from manihash.compute.threads import single_blas_thread
from manihash.embeddings.tsne import TSNE
from manihash.estimator import RowEstimator
from manihash.rows import Rows
from manihash.rows.torch import FusedRows, TorchRows
from manihash.types import Floats


@dataclass(frozen=True)
class Induction:
    """What induction needs to know: base set B (m, d), its embedding Y_B (m, r), k and sigma.

    ``finder`` is how the base set's points are found where not all are looked at.
    """

    B: Floats
    Y_B: Floats
    k: int
    sigma: float
    finder: Any = None

    def __call__(self, X: Floats) -> Floats:
        """Y = W̄_XB Y_B for a block of rows: (b, d) -> (b, r)."""
        xp = backend(X)
        if self.finder is None:  # |x|² is left out of the distances: it cancels in the weights
            closeness, index = xp.k_closest(X, xp.like(self.B, X), self.k)
            squared = -2 * closeness
        else:
            squared, index = self.finder.k_nearest(X, self.B, self.k)
        return xp.weighted_sums(normalized_weights(squared, self.sigma), index, xp.like(self.Y_B, X))


class Inductive:
    """The parts of an induction and what is learned with them, for ``InductiveEmbedding`` and ``IMH``."""

    _by_distance = True

    base: Any
    embedding: Any
    n_neighbors: int
    bandwidth: float | None
    finder_: Any = None

    def _learn(self, rows: Rows, r: int, rng: np.random.Generator) -> None:
        """Steps 1 and 2 of Algorithm 1: choose the base set, embed it, center its embedding."""
        B, k, self.finder_ = base_points(self.base, rows, self.n_neighbors, checks.seed(rng))
        self.neighbor_recall_ = getattr(self.finder_, "recall_", None)
        given, find = self.bandwidth, finding(self.finder_)
        sigma = bandwidth(rows, B, k, find) if given is None else checks.positive_number(given, "bandwidth")
        part = TSNE() if self.embedding is None else clone(self.embedding, safe=False)
        # On several threads the last digits differ, and with them all of a t-SNE.
        with single_blas_thread():
            Y_B = embed_base(
                part, B, r, checks.seed(rng), lambda: coupling(rows, B, k, sigma, find), rows.to_device
            )
        self.base_points_, self.base_embedding_ = B, Y_B - Y_B.mean(axis=0)
        self.n_neighbors_, self.bandwidth_, self.loss_ = k, sigma, getattr(part, "loss_", None)

    @property
    def takes_tensors(self) -> bool:
        """Whether torch computes where X is torch's: numpy does, where not all base points are looked at."""
        return getattr(self, "finder_", None) is None and getattr(self.base, "takes_tensors", True)

    def _by_kernel(self, rows: Rows, *, pack: bool) -> Rows:
        """The rows, on a card to be induced, and signed where packed, by one kernel."""
        if not isinstance(rows, TorchRows) or rows.dtype == np.float64:
            return rows
        made = self._induction
        kernel = fused.kernel(
            made.B, made.Y_B, made.k, made.sigma,
            origin=rows.origin, normalize=rows.normalize, device=rows.device,
        )  # fmt: skip
        return rows if kernel is None else FusedRows(rows, partial(kernel, pack=pack))

    @property
    def _induction(self) -> Induction:
        return Induction(
            self.base_points_, self.base_embedding_, self.n_neighbors_, self.bandwidth_, self.finder_
        )


def finding(finder: Any) -> Find:
    """How the nearest base points are found: by the base set's own part, or by looking at all."""
    return k_nearest if finder is None else finder.k_nearest


def base_points(base: Any, rows: Rows, n_neighbors: int, seed: int) -> tuple[Floats, int, Any]:
    """The base set B (m, d), how many neighbors k a row has in it, and the part that finds them, or None.

    Points of the user's own are taken as they are, others chosen from the rows.
    """
    B, part = _chosen(base, rows, seed)
    k = checks.neighbor_count(n_neighbors, len(B))
    return B, k, None if part is None else part.finder(rows, k, checks.generator(seed))


def _chosen(base: Any, rows: Rows, seed: int) -> tuple[Floats, Any]:
    part = None
    if isinstance(base, type):
        raise ValueError(f"base must be an object, not a class: give {base.__name__}()")
    if base is None or hasattr(base, "fit_rows"):
        part = KMeansBase() if base is None else clone(base)
        hand_down(seed, part)
        points: Floats = part.fit_rows(rows).points_
    else:
        points = np.asarray(base)
        if points.ndim != 2 or points.shape[1] != rows.width or points.dtype.kind not in "fiu":
            raise ValueError(
                f"base must be KMeansBase(), RandomBase() or an array of points ({rows.width} numbers each, "
                f"as the rows have), not {type(base).__name__} of shape {points.shape}"
            )
        checks.finite_block(points, name="base")
        dtype = np.promote_types(backend(points).float_type(points), rows.dtype)
        points = points.astype(dtype, copy=False)
        if rows.origin is not None:
            points = (points - rows.origin).astype(dtype)
    if len(points) < 2:
        raise ValueError(
            f"the base set has {len(points)} distinct point (n_features = {rows.width}), and an embedding "
            "needs two: the rows are all equal, or size is too small"
        )
    return points, part


def embed_base(
    part: Any, B: Floats, r: int, seed: int, coupling: Any, to_device: Callable[[Floats], Any] | None = None
) -> Floats:
    """Y_B (m, r) by any object with fit_transform; what it has of n_components and random_state is set.

    A part that ``takes_tensors`` is given ``to_device(B)``: the points where the rows are computed with.
    """
    if isinstance(part, type):
        raise ValueError(f"embedding must be an object, not a class: give {part.__name__}()")
    if not hasattr(part, "fit_transform"):
        raise ValueError(f"embedding must have fit_transform, and {type(part).__name__} has not: try TSNE()")
    hand_down(seed, part)
    if "n_components" in _parameters(part):
        part.set_params(n_components=r)
    needs_coupling = getattr(part, "needs_coupling", False)
    points = to_device(B) if to_device is not None and getattr(part, "takes_tensors", False) else B
    Y_B = part.fit_transform(points, coupling=coupling()) if needs_coupling else part.fit_transform(points)
    Y_B = np.asarray(backend(Y_B).to_numpy(Y_B))
    if Y_B.shape != (len(B), r):
        raise ValueError(
            f"{type(part).__name__} gave an embedding of shape {Y_B.shape} where {(len(B), r)} was wanted: "
            "set its number of dimensions to n_bits, or n_bits to it"
        )
    if not np.isfinite(Y_B).all():
        raise ValueError(f"{type(part).__name__} gave an embedding with NaN or infinity: check its options")
    return Y_B


def _parameters(part: Any) -> dict[str, Any]:
    return part.get_params(deep=False) if hasattr(part, "get_params") else {}


def hand_down(seed: int, part: Any) -> None:
    """Give a part the seed if it takes one, and the user gave it none of its own."""
    if "random_state" in (own := _parameters(part)) and own["random_state"] is None:
        part.set_params(random_state=seed)


class InductiveEmbedding(Inductive, ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowEstimator):
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
        Vector that is subtracted from all rows, if they are too far from zero for float32 distances.

    References
    ----------
    Shen, Shen, Shi, van den Hengel and Tang, "Inductive hashing on manifolds", CVPR, 2013.

    Examples
    --------
    >>> from manihash import InductiveEmbedding, KMeansBase, TSNE
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

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        self._learn(rows, self.n_components, rng)

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
        rows = self._by_kernel(self._rows_to_map(X), pack=False)
        return rows.map_blocks(self._induction, self._n_features_out, rows.dtype, "transform")

    @property
    def _n_features_out(self) -> int:
        return int(self.base_embedding_.shape[1])
