"""Inductive manifold hashing, the paper's Algorithm 1."""

from copy import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from manihash import checks
from manihash.base.affinity import MANY_GROUPS, number_of_groups
from manihash.base.graph import set_seed
from manihash.compute import backend
from manihash.hashers._hasher import Hasher
from manihash.induction import OnBaseGraph
from manihash.maintenance.refit import (
    affinities_of,
    aligned,
    as_array,
    check_start,
    copy_of,
    quantized,
    some_rows,
    warm_embedding,
)
from manihash.maintenance.update import Update, check_embedding, extended
from manihash.progress import note
from manihash.rows import Rows
from manihash.rows.torch import uses_torch, without_torch
from manihash.types import Floats

# A rotation has r² numbers: this many rows are enough to learn it.
_ROTATION_ROWS = 20_000


class IMH(OnBaseGraph, Hasher):
    """Inductive manifold hashing, the paper's Algorithm 1.

    A base set of m points c_j is embedded at y_j by a manifold embedding. Any point x gets the weighted mean
    of its k nearest base points, and its code is the sign:

    h(x) = sign(Σ_j w(x, c_j) y_j / Σ_j w(x, c_j)), with w(x, c) = exp(-|x - c|² / sigma²).

    ``IMH(normalize=True)`` is the paper's IMH-tSNE.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits r of a code.
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
    rotation : object, default=None
        A rotation of the embedding before the sign, such as ``ITQRotation()``: fewer bits differ between
        neighbors. ``ITQRotation(adaptive=True)`` is left out for rows in many small groups, which it would
        give equal codes. None as in the paper.
    normalize : bool, default=False
        Whether to scale rows to unit length first, as in the authors' code.
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
        The centered embedding y_j of the base set, with the rotation applied.
    loss_ : float or None
        Final loss of the embedding, if it has one.
    mean_ : ndarray of shape (r,) or None
        Mean that was subtracted before the rotation.
    rotation_ : ndarray of shape (r, r) or None
        The rotation, if there is one and it was not left out.
    finder_ : object or None
        How the nearest base points are found; None compares each row with all of them.
    neighbor_recall_ : float or None
        Share of the nearest base points that ``finder_`` finds.
    n_bits_ : int
        Number of bits of a code.
    normalize_ : bool
        Whether rows are scaled to unit length.
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
    >>> from manihash import IMH
    >>> from manihash.base import KMeansBase
    >>> from manihash.embeddings import TSNE
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> hasher = IMH(n_bits=16, base=KMeansBase(100), embedding=TSNE(n_iter=100), random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (1797, 2)
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

    mean_: Floats | None
    rotation_: Floats | None

    def _check_refit(self) -> None:
        check_start(self.embedding)

    def _fit_near(self, old: "IMH", rows: Rows, rng: np.random.Generator) -> None:
        """Choose a base set, embed it from the values of the old model, and align it with them."""
        graph = self._fit_graph(rows, rng)
        some, seed = some_rows(rows), checks.seed(rng)
        embedding = copy_of(self.embedding)
        P = affinities_of(embedding, graph, rows, seed)
        differs = old._differs(rows.X)
        rotates = differs and self.rotation is not None and not _left_out(self.rotation, P)
        source = old._covering(some.X) if differs and not rotates else old
        values = as_array(source.embed(some.X)).astype(np.float64)
        Y, loss = warm_embedding(embedding, graph, some, values, seed, affinities=P, whole=rotates)
        induced = as_array(some.stack(partial(graph.induce, Y_B=Y), self.n_bits, np.float64))
        self.mean_, self.rotation_, shift = aligned(induced, values)
        if rotates:
            self.rotation_, shift = quantized(induced - self.mean_, self.rotation_), np.zeros_like(shift)
        self._graph, self.loss_ = graph, loss
        self.base_embedding_ = (Y - self.mean_) @ self.rotation_ + shift
        self.neighbor_recall_ = getattr(graph.finder, "recall_", None)

    def _differs(self, X: Any) -> bool:
        """Return whether rows differ from those that the model knows, and base points can be added."""
        return checks.passes(self._check_update) and self._drift_of_new(X).drifted

    def _covering(self, X: Any) -> "IMH":
        """Return a copy of this hasher with base points for the rows of X that it does not cover yet.

        Without them, new clusters would start, and stay, among old ones.
        """
        new = copy(self)
        new._update(without_torch(X) if uses_torch(X) else X, None, None, 1.0)
        return new

    def _most_bits(self, n: int, d: int) -> int | None:
        base = getattr(self.base, "base", self.base)  # of a ReducedBase
        return int(base.most_points(n)) - 1 if hasattr(base, "most_points") else None

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        embedded = self._fit_embedding(rows, self.n_bits, rng)
        self.mean_, self.rotation_ = None, None
        if self.rotation is not None and not _left_out(self.rotation, embedded.affinities):
            self._rotate(rows, rng)

    def _rotate(self, rows: Rows, rng: np.random.Generator) -> None:
        """Center and rotate the induced embedding at the base points: W̄ Y_B - mean = W̄ (Y_B - mean)."""
        n = len(rows)
        if n > _ROTATION_ROWS:
            rows = rows.subset(np.sort(rng.choice(n, _ROTATION_ROWS, replace=False)))
        Y = rows.stack(self._induction, self.n_bits, np.float64)
        Y = rows.to_device(Y)
        mean = Y.mean(axis=0)
        part = clone(self.rotation)
        set_seed(part, checks.seed(rng))
        self.mean_, self.rotation_ = backend(mean).to_numpy(mean), part.fit(Y - mean).rotation_
        self.base_embedding_ = (self.base_embedding_ - self.mean_) @ self.rotation_

    def _check_update(self) -> None:
        check_embedding(self.embedding, type(self).__name__)
        if hasattr(self.finder_, "check_growth"):
            self.finder_.check_growth()

    def _update(self, X: Any, X_old: Any, most: int | None, max_changed: float) -> Update:
        known = self._known_statistics()
        rows, old = self._rows_to_map(X), None if X_old is None else self._rows_to_map(X_old)
        made = extended(
            self._graph, self.base_embedding_, self.embedding, rows, old,
            known=known, most=most, max_changed=max_changed, seed=int(self.lineage_["id"][:8], 16),
        )  # fmt: skip
        if made.result.n_added:
            self._graph, self.base_embedding_ = made.graph, made.Y
            more = np.zeros(made.result.n_added, np.float32)
            self.statistics_ = {**known, "usage": np.concatenate([known["usage"], more])[made.order]}
        self._know(rows)
        return made.result


def _left_out(rotation: Any, affinities: Any) -> bool:
    """Return whether an adaptive rotation must not be used: affinities from the rows show many groups."""
    adaptive = checks.flag(getattr(rotation, "adaptive", False), "adaptive")
    if not adaptive or affinities is None or (groups := number_of_groups(affinities)) < MANY_GROUPS:
        return False
    note(
        f"codes are not rotated: the rows fall into many small groups, about {groups:.0f}, which a rotation "
        "would blur; rotation=ITQRotation() rotates them anyway"
    )
    return True
