"""Inductive manifold hashing, the paper's Algorithm 1."""

from typing import Any

import numpy as np
from sklearn.base import clone

from manihash import checks
from manihash.compute import backend
from manihash.hashers._hasher import Hasher
from manihash.induction import Inductive, hand_down
from manihash.rows.local import Rows
from manihash.types import Floats

# A rotation has r² numbers: this many rows tell them.
_ROTATION_ROWS = 20_000


class IMH(Inductive, Hasher):
    """h(x) = sign(Σ_j w(x, c_j) y_j / Σ_j w(x, c_j)), base points c_j embedded at y_j.

    ``IMH(normalize=True)`` is the paper's IMH-tSNE. After ``fit``: ``base_points_`` B (m, d),
    ``base_embedding_`` Y_B (m, r), ``bandwidth_`` sigma, ``loss_`` where the embedding has one; with a
    rotation ``mean_`` and ``rotation_``, which ``base_embedding_`` has in it already; with a base that looks
    only at some of its points ``finder_`` and ``neighbor_recall_``, the part of the nearest that is found.

    Parameters
    ----------
    base: KMeansBase, RandomBase, LargeBase, ReducedBase, an array of points used as they are, or None for
        ``KMeansBase(400)``.
    embedding: any object with ``fit_transform``, or None for ``TSNE(perplexity=10)``.
    bandwidth: sigma, or None for the mean distance of the rows to their k-th nearest base point.
    rotation: None as in the paper, or ``ITQRotation()``: fewer bits flip between neighbors.
    normalize: scale rows to unit length first, as the authors do.
    """

    def __init__(
        self,
        n_bits: int = 64,
        base: Any = None,
        embedding: Any = None,
        n_neighbors: int = 5,
        bandwidth: float | None = None,
        rotation: Any = None,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.base = base
        self.embedding = embedding
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.rotation = rotation
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        if self.rotation is not None and (
            isinstance(self.rotation, type) or not hasattr(self.rotation, "fit")
        ):
            raise ValueError(
                f"rotation must be None or an object such as ITQRotation(), not {self.rotation!r}"
            )

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        self._learn(rows, self.n_bits, rng)
        self.mean_, self.rotation_ = None, None
        if self.rotation is not None:
            self._rotate(rows, rng)

    def _rotate(self, rows: Rows, rng: np.random.Generator) -> None:
        """Center and rotate the induced embedding, in that of the base set: W̄ Y_B - mean = W̄ (Y_B - mean)."""
        n = len(rows)
        if n > _ROTATION_ROWS:
            rows = rows.only(np.sort(rng.choice(n, _ROTATION_ROWS, replace=False)))
        Y = rows.stack(self._induction, self.n_bits, np.float64)
        Y = rows.to_device(Y)
        mean = Y.mean(axis=0)
        part = clone(self.rotation)
        hand_down(checks.seed(rng), part)
        self.mean_, self.rotation_ = backend(mean).to_numpy(mean), part.fit(Y - mean).rotation_
        self.base_embedding_ = (self.base_embedding_ - self.mean_) @ self.rotation_

    def _embed(self, X: Floats) -> Floats:
        """Steps 3 and 4: induce; the sign is the base class's."""
        return self._induction(X)
