"""Refits: a model trained anew on all rows that keeps most bits of the old one.

An embedding starts where the old model puts the new base points. The result is rotated and shifted so that it
agrees best with the old values of the rows, since rotations do not change the loss but change every bit.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from manihash.base.graph import BaseGraph, normalized_weights, set_seed
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.display import Shown
from manihash.embeddings._descent import Start
from manihash.embeddings._embedding import NeighborEmbedding
from manihash.embeddings.tsne import TSNE
from manihash.rows import Rows
from manihash.types import Floats

ROWS = 20_000  # rows on which old and new values are compared
_SHARE = 10  # a warm start needs this many times fewer iterations


@dataclass(frozen=True, repr=False)
class Refit(Shown):
    """The result of ``hasher.refit``.

    Parameters
    ----------
    n_rows : int
        Number of rows that the hasher was trained on.
    changed_bits : float
        Share of the bits of these rows that changed; about a half after a fit from nothing.
    changed_codes : float
        Share of the rows whose code changed.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import ITQ
    >>> X = np.random.default_rng(0).normal(size=(1000, 8)) * np.arange(8, 0, -1)
    >>> hasher = ITQ(n_bits=4, random_state=0).fit(X[:800])
    >>> hasher.refit(X).changed_bits < 0.1
    True
    """

    n_rows: int
    changed_bits: float
    changed_codes: float


def some_rows(rows: Rows) -> Rows:
    """Return at most 20,000 of the rows."""
    return rows if len(rows) <= ROWS else rows.sample(ROWS, np.random.default_rng(0))


def as_array(values: Any) -> Any:
    """Return values of rows as a numpy array, wherever they were computed."""
    return np.asarray(backend(values).to_numpy(values))


def aligned(Y: Floats, old: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean (r,), rotation R (r, r) and shift (r,): (Y - mean) R + shift is nearest to ``old``."""
    mean, shift = Y.mean(axis=0), old.mean(axis=0)
    with single_blas_thread():
        U, _, Vt = np.linalg.svd((Y - mean).T @ (old - shift))
    return mean, U @ Vt, shift


def check_start(embedding: Any) -> None:
    """Raise if an embedding of a model cannot start from given values."""
    if embedding is not None and not isinstance(embedding, NeighborEmbedding):
        raise ValueError(
            f"a model with {type(embedding).__name__} cannot be refitted, because it has no start: fit "
            "a new model, and encode all rows again"
        )


def warm_embedding(
    embedding: Any, graph: BaseGraph, rows: Rows, some: Rows, old: Floats, seed: int
) -> tuple[Floats, float]:
    """Return an embedding (m, r) of the base points, from old values (n, r) of some rows, and its loss."""
    part = TSNE() if embedding is None else clone(embedding)
    set_seed(part, seed)
    part.set_params(n_components=old.shape[1], n_iter=max(1, part.n_iter // _SHARE))
    options: dict[str, Any] = {"start": Start(_pulled_back(graph, some, old), warm=True)}
    with single_blas_thread():
        if part.affinity is not None:
            options["affinities"] = part.affinity.matrix(graph, rows, np.random.default_rng(seed))
        return np.asarray(part.fit_transform(graph.B, **options)), part.loss_


def _pulled_back(graph: BaseGraph, rows: Rows, values: Floats) -> Floats:
    """Return W̄ᵀ values / W̄ᵀ 1 (m, r): the mean of the values (n, r) of the rows near each base point.

    A base point without rows gets the weighted mean of its neighbors that have some.
    """
    total, weight, start = np.zeros((len(graph.B), values.shape[1])), np.zeros(len(graph.B)), 0
    for W in rows.map(graph.weight_matrix):
        total += W.T @ values[start : start + W.shape[0]]
        weight += np.asarray(W.sum(axis=0)).ravel()
        start += W.shape[0]
    seen = weight > 1e-6
    total[seen] /= weight[seen, None]
    if not seen.all():
        squared, index = numpy_backend.k_nearest(graph.B[~seen], graph.B[seen], min(graph.k, int(seen.sum())))
        near = np.flatnonzero(seen)[index]
        total[~seen] = numpy_backend.weighted_sums(normalized_weights(squared, graph.sigma), near, total)
    return total
