"""Semi-supervised hashing (Wang, Kumar and Chang, 2012), orthogonal and sequential."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.compute.threads import single_blas_thread
from manihash.hashers._labels import LabeledHasher, LabeledRows
from manihash.hashers._linear import LinearHasher, check_n_bits, moments
from manihash.linalg import leading_eigenvectors
from manihash.progress import advance
from manihash.rows import Rows
from manihash.types import Floats


class SSH(LabeledHasher, LinearHasher):
    """Semi-supervised hashing: directions that agree with labels and have a large variance.

        h_j(x) = sign(w_jᵀ (x - mean)),   W maximizes ½ tr(Wᵀ (X_l S X_lᵀ + eta X Xᵀ) W)

    S_ij is 1 if two labeled rows have the same label and -1 otherwise; the second term is the variance over
    all rows. Each of the two matrices is divided by its largest eigenvalue, so that eta = 1 gives them equal
    weight for any number of rows and labels.

    ``fit(X, y)`` requires y: one label per row, an integer or a string. -1 (integers) or None marks a row
    without a label.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes; at most the number of columns d if ``step`` is None.
    eta : float, default=0.1
        Weight of the variance.
    step : float or None, default=1.0
        In the sequential form (SPLH), the weight of the pairs that a bit gets wrong increases by ``step`` for
        the next bit. None means the orthogonal form, the leading eigenvectors, of which only the first c - 1
        carry much information about c classes.
    n_labels : int, "auto" or None, default="auto"
        Number of labels used, with balanced classes: "auto" for 1,000, or 40 per class if that is more. None
        means all.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the labeled rows. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions w_j, one per column.
    offset_ : ndarray of shape (n_bits,)
        w_jᵀ mean, which is subtracted from w_jᵀ x.
    n_labels_ : int
        Number of labels used.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the training rows.
    origin_ : ndarray of shape (d,) or None
        Vector that is subtracted from all rows first if they lie far from zero; other fitted values are then
        relative to it.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    References
    ----------
    .. [1] J. Wang, S. Kumar and S.-F. Chang, "Semi-supervised hashing for large-scale search", IEEE TPAMI
       34(12), 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash.hashers import SSH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = SSH(n_bits=16, random_state=0).fit(X, y)
    >>> hasher.encode(X).shape
    (1797, 2)
    """

    _by_distance = True

    def __init__(
        self,
        n_bits: int = 64,
        eta: float = 0.1,
        step: float | None = 1.0,
        n_labels: int | str | None = "auto",
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
        if self.step is None:
            check_n_bits(self.n_bits, rows.width, "set step to use the sequential form")
        labeled = self._sample_labels(rows, y, rng)
        stats = moments(rows.cached())
        Z = rows.take(labeled.index) - stats.mean
        with single_blas_thread():
            Z /= np.sqrt(_largest(Z.T @ labeled.similarity_times(Z)))
            variance = self.eta / _largest(stats.covariance) * stats.covariance
            if self.step is None:
                fitness = Z.T @ labeled.similarity_times(Z) + variance
                self.projection_ = leading_eigenvectors(fitness, self.n_bits)[1]
            else:
                self.projection_ = sequential(Z, labeled, variance, self.step, self.n_bits)
        self.offset_ = stats.mean @ self.projection_


def _largest(M: Floats) -> float:
    """The magnitude of the largest eigenvalue of M (d, d); 1 if M is zero."""
    return float(np.abs(eigh(M, eigvals_only=True)).max()) or 1.0


def sequential(Z: Floats, labeled: LabeledRows, variance: Floats, step: float, r: int) -> Floats:
    """W (d, r): column k is the leading eigenvector of Zᵀ S_k Z + V_k; Z (l, d), variance V (d, d).

    S_k+1 = S_k - step h hᵀ at the pairs where h hᵀ, h = sign(Z w), disagrees with S. The sign of S_ij never
    changes, so S_k = (1 + step k / 2) S - step / 2 Σ_t h_t h_tᵀ, and S_k (l, l) is not computed. V_k is the
    variance that remains after the earlier directions: (I - w wᵀ) V (I - w wᵀ).
    """
    similar = Z.T @ labeled.similarity_times(Z)
    corrections = np.zeros_like(similar)  # Σ_t Zᵀ h_t h_tᵀ Z
    W = np.empty((Z.shape[1], r))
    for k in range(r):
        advance("SSH", k, r)
        w = leading_eigenvectors((1 + step * k / 2) * similar - step / 2 * corrections + variance, 1)[1][:, 0]
        q = Z.T @ np.where(Z @ w > 0, 1.0, -1.0)
        corrections += np.outer(q, q)
        variance = variance - np.outer(variance @ w, w)
        variance -= np.outer(w, w @ variance)
        W[:, k] = w
    advance("SSH", r, r)
    return W
