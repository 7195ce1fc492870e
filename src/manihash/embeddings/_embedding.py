"""The contract of an embedding: points (m, d) in, coordinates (m, r) out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.base.graph import BaseGraph, mean_distance
from manihash.compute import backend
from manihash.compute.threads import single_blas_thread
from manihash.estimator import checked
from manihash.rows import rows_of, rows_to_fit
from manihash.types import Floats


class Embedding(BaseEstimator):
    """Base class of embeddings: subclasses implement ``_embed``.

    An embedding only has coordinates for the points it was fitted on. ``InductiveEmbedding`` extends it to
    new points.
    """

    takes_tensors = False

    n_components: int
    n_features_in_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Embed the points of X.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to embed.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        self
            The fitted embedding, with the coordinates in ``embedding_``.
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Embed the points of X and return their coordinates.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to embed.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        ndarray of shape (m, n_components)
            Coordinates of the points.
        """
        points = self._points(X)
        with single_blas_thread():
            self.embedding_ = self._embed(points)
        return self.embedding_

    def _points(self, X: Any) -> Floats:
        r = checks.positive_int(self.n_components, "n_components")
        rows = rows_to_fit(checked(self, X, fitting=True, least=2), by_distance=True)
        points = rows.take(np.arange(len(rows))) if rows.device is None else rows.block(0, len(rows))
        if r > len(points) - 1:
            raise too_many(r, len(points) - 1, f"{len(points)} points")
        return points

    def _embed(self, B: Floats) -> Floats:
        raise TypeError(f"{type(self).__name__} does not implement _embed")


class NeighborEmbedding(Embedding):
    """Base class of t-SNE, SNE and elastic embedding, which preserve affinities P between points.

    P comes from ``perplexity`` and the distances between the points, or from ``affinity``.
    """

    affinity: Any

    def fit_transform(self, X: Any, y: Any = None, *, affinities: Any = None, start: Any = None) -> Floats:
        """Embed the points of X and return their coordinates.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to embed.
        y : None
            Ignored; present for compatibility with scikit-learn.
        affinities : csr_array of shape (m, m), default=None
            Affinities P of the points: symmetric, with a zero diagonal and the sum 1. If None, they are
            computed from the points.
        start : Start, default=None
            Initial coordinates, and how many of the first points keep them: for updates and refits. None for
            random coordinates.

        Returns
        -------
        ndarray of shape (m, n_components)
            Coordinates of the points.
        """
        points = self._points(X)
        with single_blas_thread():
            if affinities is None and self.affinity is not None:
                affinities = self._own_affinities(points)
            self.embedding_ = self._embed(points, affinities, start)
        return self.embedding_

    def _own_affinities(self, B: Floats) -> Any:
        """Return the affinities (m, m) of points that are their own training rows."""
        rows = rows_of(backend(B).to_numpy(B))
        k = min(5, len(B))
        graph = BaseGraph(rows.X, k, mean_distance(rows, rows.X, k))
        return self.affinity.matrix(graph, rows, checks.generator(self.random_state))

    def _embed(self, B: Floats, affinities: Any = None, start: Any = None) -> Floats:
        raise TypeError(f"{type(self).__name__} does not implement _embed")


@contextmanager
def memory_of_pairs(B: Floats, name: str) -> Iterator[None]:
    """Embed points B (m, d) by a loss over pairs; an error of full memory says how much it needs."""
    try:
        yield
    except backend(B).out_of_memory() as error:
        raise MemoryError(
            f"{name} over all pairs of {len(B)} points needs about {20 * len(B) ** 2 / 2**30:.1f} GiB: "
            "use a smaller base set"
        ) from error


def too_many(r: int, most: int, what: str) -> ValueError:
    """Return the error for an embedding that cannot have ``r`` dimensions, only ``most``."""
    return ValueError(
        f"{r} dimensions exceed those of an embedding of {what}, which gives at most {most}: "
        "lower n_bits or n_components, or use a larger base set"
    )
