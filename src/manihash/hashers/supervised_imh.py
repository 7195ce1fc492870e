"""Supervised inductive manifold hashing: labels shape the embedding of the base set.

The abstract of the journal version (Shen et al., "Hashing on nonlinear manifolds", 2015) mentions labels; how
they are used here is our own construction from the parts of IMH.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve
from scipy.sparse.linalg import cg

from manihash import checks
from manihash.compute.threads import single_blas_thread
from manihash.hashers._labels import LabeledHasher
from manihash.induction import OnBaseGraph, embed_base
from manihash.progress import note
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats

# Weight of the smoothness over all rows relative to the labels, chosen on training rows of MNIST.
_SMOOTHNESS = 0.1
# Fewer base points per class do not tell the classes apart: with 400 for 150 classes, ITQ ranks better.
_POINTS_PER_CLASS = 10


class SupervisedIMH(OnBaseGraph, LabeledHasher):
    """Inductive manifold hashing with labels.

    The base points are embedded together with soft labels L (m, c), as points [c_j, label_weight sigma L_j].
    L minimizes

    |W̄_l L - G|² + 0.1 (l / n) tr(Lᵀ T L),

    where G (l, c) are the labels of the l labeled rows (1 for the class of a row), W̄_l L are the labels
    induced at these rows, and the coupling T of IMH makes L smooth over all n rows. Base points of one class
    thus move closer together, with any embedding. New points are induced as in ``IMH``.

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
    label_weight : float, default=3.0
        Distance between two classes in units of sigma; 0 ignores the labels.
    n_labels : int, "auto" or None, default="auto"
        Number of labels used, with balanced classes: "auto" for 1,000, or 40 per class if that is more. None
        means all.
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
    base_labels_ : ndarray of shape (m, c)
        The soft labels L of the base points.
    base_embedding_ : ndarray of shape (m, r)
        The centered embedding y_j of the base set.
    loss_ : float or None
        Final loss of the embedding, if it has one.
    finder_ : object or None
        How the nearest base points are found; None compares each row with all of them.
    n_labels_ : int
        Number of labels that were used.
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
    Shen, Shen, Shi, Shen and Tang, "Hashing on nonlinear manifolds", IEEE Transactions on Image Processing,
    2015.

    Examples
    --------
    >>> from manihash.base import KMeansBase
    >>> from manihash.embeddings import TSNE
    >>> from manihash.hashers import SupervisedIMH
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = SupervisedIMH(n_bits=16, base=KMeansBase(100), embedding=TSNE(n_iter=100), random_state=0)
    >>> hasher.fit(X, y).encode(X).shape
    (1797, 2)
    """

    def __init__(
        self,
        n_bits: int = 64,
        base: Any = None,
        embedding: Any = None,
        n_neighbors: int = 5,
        label_weight: float = 3.0,
        n_labels: int | str | None = "auto",
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.base = base
        self.embedding = embedding
        self.n_neighbors = n_neighbors
        self.label_weight = label_weight
        self.n_labels = n_labels
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_number(self.label_weight, "label_weight", zero=True)

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        labeled = self._sample_labels(rows, y, rng)
        graph = self._fit_graph(rows, rng)
        self._check_base(len(graph.B), len(labeled.class_counts))
        T = graph.coupling(rows)
        with single_blas_thread():
            taken = LocalRows(rows.take(labeled.index))
            W_l = sp.csr_array(sp.vstack(list(taken.map(graph.weight_matrix))))
            L = base_labels(W_l, labeled.indicator, _SMOOTHNESS * len(labeled) / len(rows) * T)
        B = np.hstack([graph.B, (self.label_weight * graph.sigma * L).astype(graph.B.dtype)])
        embedded = embed_base(self.embedding, graph, rows, self.n_bits, checks.seed(rng), points=B)
        self._graph, self.base_labels_ = graph, L
        self.base_embedding_, self.loss_ = embedded.Y, embedded.loss

    def _check_base(self, m: int, n_classes: int) -> None:
        """Report if there are too few base points for the classes."""
        if m < _POINTS_PER_CLASS * n_classes:
            note(
                f"{n_classes} classes share {m:,} base points, which do not tell them apart: use at least "
                f"{_POINTS_PER_CLASS * n_classes:,} base points, as imh-supervised-large does, or ksh"
            )


def base_labels(W: sp.csr_array, G: sp.csr_array, T: Any) -> Floats:
    """Return L (m, c) that minimizes |W L - G|² + tr(Lᵀ T L), where W (l, m) are weights of labeled rows.

    Rows of L sum to 1, since those of W and G do and T annihilates constants. Base points that no label
    reaches get 0.
    """
    if sp.issparse(T):
        return _base_labels_of_many(W.T @ W + T, (W.T @ G).toarray())
    M = (W.T @ W).toarray() + T
    M[np.diag_indices_from(M)] += 1e-9 * np.trace(M) / len(M)
    return solve(M, (W.T @ G).toarray(), assume_a="pos")


def _base_labels_of_many(M: Any, right: Floats) -> Floats:
    """Return L (m, c) for a sparse M, column by column, by conjugate gradients."""
    ridge = sp.diags_array(np.full(len(right), 1e-9 * M.diagonal().mean()))
    scale = sp.diags_array(1 / np.maximum(M.diagonal(), 1e-300))
    return np.column_stack([cg(M + ridge, column, rtol=1e-8, M=scale)[0] for column in right.T])
