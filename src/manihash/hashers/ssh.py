"""Semi-supervised hashing (Wang, Kumar and Chang, 2012), its orthogonal and its sequential form."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.compute.threads import single_blas_thread
from manihash.hashers._labels import Labeled, LabeledHasher
from manihash.hashers._linear import LinearHasher, moments, principal_directions
from manihash.progress import advance
from manihash.rows import Rows
from manihash.types import Floats


class SSH(LabeledHasher, LinearHasher):
    """Bits sign(wᵀ(x - mean)), W to maximize ½ tr(Wᵀ (X_l S X_lᵀ + eta X Xᵀ) W).

    S_ij is 1 where two labeled rows have one label and -1 elsewhere; the second term is the variance over
    all rows. Each of the two matrices is divided by its largest eigenvalue, so that eta = 1 weighs them alike
    whatever the number of rows and labels.

    Parameters
    ----------
    eta: weight of the variance.
    step: the sequential form (SPLH): after each bit, the pairs that it gets wrong count ``step`` more. None
        for the orthogonal form, the leading eigenvectors: at most d bits, little to learn beyond c - 1.
    n_labels: labels used, drawn so that classes take turns; None for all.
    """

    def __init__(
        self,
        n_bits: int = 64,
        eta: float = 0.1,
        step: float | None = 1.0,
        n_labels: int | None = 1000,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.eta = eta
        self.step = step
        self.n_labels = n_labels
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_number(self.eta, "eta", zero=True)
        if self.step is not None:
            checks.positive_number(self.step, "step")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        labeled = self._labeled(rows, y, rng)
        found = moments(rows.cached())
        Z = rows.take(labeled.index) - found.mean
        with single_blas_thread():
            Z /= np.sqrt(_largest(Z.T @ labeled.similarity_times(Z)))
            variance = self.eta / _largest(found.covariance) * found.covariance
            if self.step is None:
                fitness = Z.T @ labeled.similarity_times(Z) + variance
                self.projection_ = principal_directions(fitness, self.n_bits)[0]
            else:
                self.projection_ = sequential(Z, labeled, variance, self.step, self.n_bits)
        self.offset_ = found.mean @ self.projection_


def _largest(M: Floats) -> float:
    """The size of the largest eigenvalue; 1 where M is zero."""
    return float(np.abs(eigh(M, eigvals_only=True)).max()) or 1.0


def sequential(Z: Floats, labeled: Labeled, variance: Floats, step: float, r: int) -> Floats:
    """W (d, r), each column the leading eigenvector of Zᵀ S_k Z + V_k, Z (l, d), variance V (d, d).

    S_k+1 = S_k - step h hᵀ at the pairs where h hᵀ, h = sign(Z w), disagrees with S. As the sign of S_ij
    never changes, this adds up to S_k = (1 + step k / 2) S - step / 2 Σ_t h_t h_tᵀ, so l x l is never held.
    V_k is the variance that earlier directions leave: (I - w wᵀ) V (I - w wᵀ).
    """
    similar = Z.T @ labeled.similarity_times(Z)
    told = np.zeros_like(similar)  # Σ_t Zᵀ h_t h_tᵀ Z
    W = np.empty((Z.shape[1], r))
    for k in range(r):
        advance("SSH", k, r)
        w = principal_directions((1 + step * k / 2) * similar - step / 2 * told + variance, 1)[0][:, 0]
        q = Z.T @ np.where(Z @ w > 0, 1.0, -1.0)
        told += np.outer(q, q)
        variance = variance - np.outer(variance @ w, w)
        variance -= np.outer(w, w @ variance)
        W[:, k] = w
    advance("SSH", r, r)
    return W
