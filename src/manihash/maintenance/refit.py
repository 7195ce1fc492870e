"""Refits: a model trained anew on all rows that keeps most bits of the old one.

An embedding starts where the old model puts the new base points. The result is rotated and shifted so that it
agrees best with the old values of the rows, since rotations do not change the loss but change every bit.
If the rows have new clusters and the codes are rotated, the whole descent runs from the old values at a tenth
of their size, and ITQ's iterations continue from the aligned rotation: it was learned without the new
clusters, which would share bits with old ones.
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
# For new clusters, the start is this share of the old values: small enough for clusters to pass one another.
_SMALL, _NOISE = 0.1, 0.1
_ROTATIONS = 10  # iterations of ITQ after the alignment; 50 changed more bits, and ranked no better


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


def copy_of(embedding: Any) -> Any:
    """Return an unfitted copy of an embedding; of the default one for None."""
    return TSNE() if embedding is None else clone(embedding)


def affinities_of(embedding: Any, graph: BaseGraph, rows: Rows, seed: int) -> Any:
    """Return the affinities (m, m) of the base points from the rows, or None if they come from distances."""
    affinity = getattr(embedding, "affinity", None)
    if affinity is None:
        return None
    with single_blas_thread():
        return affinity.matrix(graph, rows, np.random.default_rng(seed))


def warm_embedding(
    embedding: Any,
    graph: BaseGraph,
    some: Rows,
    old: Floats,
    seed: int,
    *,
    affinities: Any = None,
    whole: bool = False,
) -> tuple[Floats, float]:
    """Return an embedding (m, r) of the base points, from old values (n, r) of some rows, and its loss.

    The ``whole`` descent starts from small old values, so that new clusters can leave old ones. ``embedding``
    is changed: give a copy, the one that ``affinities`` were computed with.
    """
    set_seed(embedding, seed)
    n_iter = embedding.n_iter if whole else max(1, embedding.n_iter // _SHARE)
    embedding.set_params(n_components=old.shape[1], n_iter=n_iter)
    first = _pulled_back(graph, some, old)
    if whole:
        first = _SMALL * (first - first.mean(axis=0))
        first += np.random.default_rng(seed).normal(0, _NOISE * first.std(), first.shape)
    options: dict[str, Any] = {"start": Start(first, warm=not whole)}
    if affinities is not None:
        options["affinities"] = affinities
    with single_blas_thread():
        return np.asarray(embedding.fit_transform(graph.B, **options)), embedding.loss_


def quantized(Y: Floats, R: Floats) -> Floats:
    """Return a rotation R (r, r) after a few iterations of ITQ on centered values Y (n, r)."""
    with single_blas_thread():
        for _ in range(_ROTATIONS):
            U, _, Vt = np.linalg.svd(Y.T @ np.where(Y @ R > 0, 1.0, -1.0))
            R = U @ Vt
    return R


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
