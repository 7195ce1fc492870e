"""Supervised hashing with kernels (Liu, Wang, Ji, Jiang and Chang, 2012)."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.compute.threads import single_blas_thread
from manihash.hashers._kernel_hasher import KernelHasher
from manihash.hashers._labels import LabeledHasher, LabeledRows
from manihash.linalg import leading_eigenvectors
from manihash.progress import advance
from manihash.rows import Rows, rows_of
from manihash.types import Floats

_log = logging.getLogger(__name__)


class KSH(LabeledHasher, KernelHasher):
    """Supervised hashing with kernels: codes fitted to the similarity of labeled rows.

        h(x) = sign(Σ_j a_j (κ(x, z_j) - μ_j)),   κ(x, z) = exp(-γ |x - z|²)
        A minimizes |1/r H Hᵀ - S|², one bit after the other

    H (l, r) contains the codes of the l labeled rows as ±1, and S_ij is 1 if rows i and j have the same label
    and -1 otherwise. The z_j are sampled rows (anchors) and μ_j is the mean of κ(x, z_j) over all rows. S has
    rank c, the number of classes, so no matrix of shape (l, l) is computed.

    ``fit(X, y)`` requires y: one label per row, an integer or a string. -1 (integers) or None marks a row
    without a label.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    n_anchors : int, default=300
        Number of anchors z_j, sampled at random from all rows; all rows if there are fewer.
    n_labels : int, "auto" or None, default="auto"
        Number of labels used, with balanced classes: "auto" for 1,000, or 40 per class if that is more. None
        means all.
    gamma : float or None, default=None
        Width parameter γ of the Gaussian kernel. None means 1 / (2 σ²), where σ is the mean distance of a row
        to its 50th nearest neighbor in a sample of 2,000 rows.
    ridge : float, default=0.1
        Regularization of the coefficients a, in units of the mean variance of the kernel values. The paper
        has none.
    n_iter : int, default=50
        Number of accelerated gradient steps per bit, after the spectral relaxation.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of anchors and labeled rows. The same seed gives the same codes.

    Attributes
    ----------
    points_ : ndarray of shape (m, d)
        The anchors z_j.
    weights_ : ndarray of shape (m, n_bits)
        The coefficients a, one column per bit.
    offset_ : ndarray of shape (n_bits,)
        Σ_j a_j μ_j.
    gamma_ : float
        The γ used.
    objectives_ : ndarray of shape (n_bits + 1,)
        The objective divided by l², before the first bit and after each one.
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
    .. [1] W. Liu, J. Wang, R. Ji, Y.-G. Jiang and S.-F. Chang, "Supervised hashing with kernels", CVPR 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash.hashers import KSH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = KSH(n_bits=16, random_state=0).fit(X, y)
    >>> hasher.encode(X).shape
    (1797, 2)
    """

    kernel = "rbf"

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 300,
        n_labels: int | str | None = "auto",
        gamma: float | None = None,
        ridge: float = 0.1,
        n_iter: int = 50,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_labels = n_labels
        self.gamma = gamma
        self.ridge = ridge
        self.n_iter = n_iter
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_int(self.n_anchors, "n_anchors")
        checks.positive_int(self.n_iter, "n_iter", least=0)
        checks.positive_number(self.ridge, "ridge", zero=True)

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        labeled = self._sample_labels(rows, y, rng)
        points_type = rows.dtype
        # The search for bits amplifies rounding: in float32, a third of the bits would be others.
        rows = rows_of(rows.X, **(rows.prepared_as | {"dtype": np.float64})).cached()
        Z = rows.take(rng.choice(len(rows), min(self.n_anchors, len(rows)), replace=False))
        self._set_gamma(rows, rng)
        sums = rows.map(lambda X: self._kernel(X, Z).sum(axis=0, dtype=np.float64), "kernel means")
        mean = sum(sums, np.zeros(len(Z))) / len(rows)
        with single_blas_thread():
            K = self._kernel(rows.take(labeled.index), Z) - mean
            greedy = GreedyBits(K, labeled, self.n_bits, self.ridge)
            A = greedy.run(self.n_iter)
        self._expand(points_type, Z, A, mean @ A)
        self.objectives_ = greedy.objectives


class Residual:
    """R = r S - Σ_t h_t h_tᵀ (l, l) over the bits found so far; only its products are computed."""

    def __init__(self, labeled: LabeledRows, r: int) -> None:
        self.labeled, self.r, self.n_found = labeled, r, 0
        self.H = np.zeros((len(labeled), r))

    def times(self, B: Floats) -> Floats:
        """R B for B (l,) or (l, q)."""
        H = self.H[:, : self.n_found]
        return self.r * self.labeled.similarity_times(B) - H @ (H.T @ B)

    def gain(self, h: Floats) -> float:
        """hᵀ R h: the larger it is, the smaller is |R - h hᵀ|."""
        return float(h @ self.times(h))

    def subtract(self, h: Floats) -> None:
        """Replace R by R - h hᵀ."""
        self.H[:, self.n_found] = h
        self.n_found += 1


class GreedyBits:
    """Find bit after bit the coefficients a of the centered kernel values K (l, m) that minimize |R - h hᵀ|².

    |R - h hᵀ|² = |R|² - 2 hᵀ R h + l², so a bit maximizes hᵀ R h. The relaxation h = K a with
    aᵀ (KᵀK + ε) a = l is solved by an eigenvector. From there, accelerated gradient steps maximize
    φ(K a)ᵀ R φ(K a) with the smooth sign φ(v) = tanh(v / 2). Of the two solutions, the one with the larger
    hᵀ R h is kept. The variable is z with a = whitener z: the constraint of the relaxation on z is a sphere.
    """

    def __init__(self, K: Floats, labeled: LabeledRows, r: int, ridge: float) -> None:
        self.residual = Residual(labeled, r)
        self.whitener = whitener(K, ridge)
        self.U = K @ self.whitener
        self.M = self.U.T @ self.residual.times(self.U)
        self.objectives = np.ones(r + 1)

    def run(self, n_iter: int) -> Floats:
        """The coefficients of all bits, (m, r)."""
        r = self.residual.r
        A = np.empty((len(self.whitener), r))
        for k in range(r):
            advance("KSH", k, r)
            A[:, k] = self.whitener @ self.next_bit(n_iter)
        advance("KSH", r, r)
        _log.info("KSH: objective %.4f after %d bits", self.objectives[-1], r)
        return A

    def next_bit(self, n_iter: int) -> Floats:
        """z (q,) of the next bit, which is subtracted from the residual."""
        residual, l, k = self.residual, len(self.U), self.residual.n_found
        start = _leading(self.M)
        candidates = start, descend(self._smooth, start, n_iter)
        gains = [residual.gain(self._bits(z)) for z in candidates]
        best = int(np.argmax(gains))
        z, gain = candidates[best], gains[best]
        h = self._bits(z)
        residual.subtract(h)
        u = self.U.T @ h
        self.M -= np.outer(u, u)
        self.objectives[k + 1] = self.objectives[k] + (1 - 2 * gain / l**2) / residual.r**2
        return z

    def _bits(self, z: Floats) -> Floats:
        """The bits h (l,) of z, as ±1."""
        return np.where(self.U @ z > 0, 1.0, -1.0)

    def _smooth(self, z: Floats) -> tuple[float, Callable[[], Floats]]:
        """-φᵀ R φ / (r l²) at z, and a function that returns its gradient."""
        phi = np.tanh(self.U @ z / 2)
        R_phi = self.residual.times(phi) / (self.residual.r * len(phi) ** 2)
        return -float(phi @ R_phi), lambda: -self.U.T @ (R_phi * (1 - phi * phi))


def whitener(K: Floats, ridge: float) -> Floats:
    """A (m, q) with Aᵀ (KᵀK + ridge tr(KᵀK) / m) A = l I, on the directions in which rows differ."""
    C = K.T @ K
    values, vectors = eigh(C + ridge * np.trace(C) / len(C) * np.eye(len(C)))
    kept = values > 1e-10 * values[-1]
    if not kept.any():
        raise ValueError(
            "the kernel values of all labeled rows are equal, so there is nothing to hash: "
            "give rows that differ, or change gamma"
        )
    return vectors[:, kept] * np.sqrt(len(K) / values[kept])


def _leading(M: Floats) -> Floats:
    """The eigenvector (q,) of the largest eigenvalue."""
    return leading_eigenvectors(M, 1)[1][:, 0]


def descend(f: Callable[[Floats], tuple[float, Callable[[], Floats]]], z: Floats, n_iter: int) -> Floats:
    """The result of ``n_iter`` steps of Nesterov's accelerated gradient with backtracking that start at z.

    f returns its value and a function that returns its gradient. The value never increases: a momentum step
    that would increase it is rejected, and the momentum is reset.
    """
    lowest, v, t, steepness = f(z)[0], z, 1.0, 1.0
    for _ in range(n_iter):
        value, gradient = f(v)
        g = gradient()
        if not g.any():
            break
        steepness /= 2
        while (ahead := f(v - g / steepness)[0]) > value - g @ g / (2 * steepness):
            steepness *= 2
        if ahead > lowest:
            v, t = z, 1.0
            continue
        before, z, lowest = z, v - g / steepness, ahead
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        v, t = z + (t - 1) / t_next * (z - before), t_next
    return z
