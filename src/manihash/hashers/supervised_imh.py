"""Supervised inductive manifold hashing: labels shape the embedding of the base set.

That labels come into IMH is from the abstract of the journal version (Shen et al., "Hashing on Nonlinear
Manifolds", 2015); how they do here is a construction of our own, from the parts of IMH.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve
from scipy.sparse.linalg import cg
from sklearn.base import clone

from manihash import checks
from manihash.base.weights import bandwidth, coupling, sparse_weights
from manihash.compute.threads import single_blas_thread
from manihash.embeddings.tsne import TSNE
from manihash.hashers._labels import LabeledHasher
from manihash.induction import Induction, base_points, embed_base, finding
from manihash.rows.local import Rows
from manihash.types import Floats

# How much smoothness over all rows counts beside the labels; chosen on training rows of MNIST.
_SMOOTHNESS = 0.1


class SupervisedIMH(LabeledHasher):
    """IMH whose base points are embedded with their labels beside them: [c_j, label_weight sigma L_j].

    L (m, c) minimizes |W̄_l L - G|² + 0.1 (l / n) tr(Lᵀ T L): induced at the l labeled rows it gives their
    labels G (1 for the row's class), and by IMH's coupling T it is smooth over all n rows. Base points of one
    class come nearer to each other than to those of another, whatever the embedding. New points are induced
    as in IMH. After ``fit``: ``base_points_`` B (m, d), ``base_labels_`` L, ``base_embedding_`` Y_B (m, r),
    ``bandwidth_`` sigma, ``loss_`` where the embedding has one.

    Parameters
    ----------
    base, embedding, n_neighbors, normalize: as in ``IMH``.
    label_weight: what a whole unit of label counts as a distance, in units of sigma; 0 leaves labels out.
    n_labels: labels used, drawn so that classes take turns; None for all.
    """

    _by_distance = True

    finder_: Any = None

    def __init__(
        self,
        n_bits: int = 64,
        base: Any = None,
        embedding: Any = None,
        n_neighbors: int = 5,
        label_weight: float = 3.0,
        n_labels: int | None = 1000,
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
        labeled = self._labeled(rows, y, rng)
        B, k, self.finder_ = base_points(self.base, rows, self.n_neighbors, checks.seed(rng))
        find = finding(self.finder_)
        sigma = bandwidth(rows, B, k, find)
        T = coupling(rows, B, k, sigma, find)
        # On several threads the last digits differ, and with them all of a t-SNE.
        with single_blas_thread():
            taken = Rows(rows.take(labeled.index))
            W_l = sp.csr_array(sp.vstack(list(taken.map(lambda X: sparse_weights(X, B, k, sigma, find)))))
            L = base_labels(W_l, labeled.members, _SMOOTHNESS * len(labeled) / len(rows) * T)
            part = TSNE() if self.embedding is None else clone(self.embedding, safe=False)
            beside = np.hstack([B, (self.label_weight * sigma * L).astype(B.dtype)])
            Y_B = embed_base(part, beside, self.n_bits, checks.seed(rng), lambda: T)
        self.base_points_, self.base_labels_, self.base_embedding_ = B, L, Y_B - Y_B.mean(axis=0)
        self.n_neighbors_, self.bandwidth_, self.loss_ = k, sigma, getattr(part, "loss_", None)

    def _embed(self, X: Floats) -> Floats:
        return Induction(
            self.base_points_, self.base_embedding_, self.n_neighbors_, self.bandwidth_, self.finder_
        )(X)


def base_labels(W: sp.csr_array, G: sp.csr_array, T: Any) -> Floats:
    """L (m, c) that minimizes |W L - G|² + tr(Lᵀ T L), W (l, m) the weights of the labeled rows.

    Rows of L sum to 1, as those of W and G do and T is blind to constants; a part of the base set that no
    label reaches gets 0.
    """
    if sp.issparse(T):
        return _base_labels_of_many(W.T @ W + T, (W.T @ G).toarray())
    M = (W.T @ W).toarray() + T
    M[np.diag_indices_from(M)] += 1e-9 * np.trace(M) / len(M)
    return solve(M, (W.T @ G).toarray(), assume_a="pos")


def _base_labels_of_many(M: Any, right: Floats) -> Floats:
    """The same for a sparse M: a column after the other, by conjugate gradients."""
    ridge = sp.diags_array(np.full(len(right), 1e-9 * M.diagonal().mean()))
    scale = sp.diags_array(1 / np.maximum(M.diagonal(), 1e-300))
    return np.column_stack([cg(M + ridge, column, rtol=1e-8, M=scale)[0] for column in right.T])
