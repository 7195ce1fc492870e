"""Kernel-based supervised hashing (Liu, Wang, Ji, Jiang and Chang, 2012)."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.compute.threads import single_blas_thread
from manihash.hashers._kernel import KernelHasher
from manihash.hashers._labels import Labeled, LabeledHasher
from manihash.linalg import leading_eigenvectors
from manihash.progress import advance
from manihash.rows import Rows
from manihash.types import Floats

_log = logging.getLogger(__name__)


class KSH(LabeledHasher, KernelHasher):
    """Bits sign(Σ_j a_j (κ(x, z_j) - μ_j)), learned one by one to bring |1/r H Hᵀ - S|² down.

    H (l, r) are the codes of the labeled rows, of ±1; S_ij is 1 where two of them have one label, else -1;
    κ(x, z) = exp(-gamma |x - z|²), and μ its mean over all rows. S has rank c, so l x l is never held, only
    (l, m). After ``fit``: ``points_`` the anchors z_j (m, d), ``weights_`` a (m, r), ``offset_`` Σ_j a_j μ_j,
    ``gamma_``, and ``objectives_`` (r + 1,), the objective over l² before the first bit and after each.

    Parameters
    ----------
    n_anchors: rows z_j, drawn at random from all; all of them where there are fewer.
    n_labels: labels used, drawn so that classes take turns; None for all.
    gamma: of κ; None for 1 / (2 σ²), σ the mean distance of a row to its 50th nearest in a sample of 2,000.
    ridge: keeps a small, in units of the kernel's mean variance; the paper has none.
    n_iter: rounds of accelerated gradient that follow the spectral relaxation of a bit.
    """

    kernel = "rbf"

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 300,
        n_labels: int | None = 1000,
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
        labeled = self._labeled(rows, y, rng)
        rows = rows.cached()
        Z = rows.take(rng.choice(len(rows), min(self.n_anchors, len(rows)), replace=False))
        self._scale(rows, rng)
        sums = rows.map(lambda X: self._kernel(X, Z).sum(axis=0, dtype=np.float64), "kernel means")
        mean = sum(sums, np.zeros(len(Z))) / len(rows)
        with single_blas_thread():
            K = self._kernel(rows.take(labeled.index), Z) - mean
            greedy = Greedy(K, labeled, self.n_bits, self.ridge)
            A = greedy.run(self.n_iter)
        self._expand(rows, Z, A, mean @ A)
        self.objectives_ = greedy.objectives


class Residue:
    """R = r S - Σ_t h_t h_tᵀ (l, l) over the bits found so far, known by its products alone."""

    def __init__(self, labeled: Labeled, r: int) -> None:
        self.labeled, self.r, self.found = labeled, r, 0
        self.H = np.zeros((len(labeled), r))

    def times(self, B: Floats) -> Floats:
        H = self.H[:, : self.found]
        return self.r * self.labeled.similarity_times(B) - H @ (H.T @ B)

    def gain(self, h: Floats) -> float:
        """hᵀ R h: the larger, the less is left of R without h hᵀ."""
        return float(h @ self.times(h))

    def subtract(self, h: Floats) -> None:
        self.H[:, self.found] = h
        self.found += 1


class Greedy:
    """Bit after bit, the coefficients a of the centered kernel values K (l, m) that leave least of R.

    |R - h hᵀ|² = |R|² - 2 hᵀ R h + l², so a bit maximizes hᵀ R h. Relaxed, h = K a with aᵀ (KᵀK + ε) a = l,
    it is an eigenvector; from there the sign is made smooth, φ(v) = tanh(v / 2), and φ(K a)ᵀ R φ(K a)
    climbed. Whichever of the two has the better signs is taken. The climb is over z, a = whitener z, in which
    the constraint of the relaxation is a sphere.
    """

    def __init__(self, K: Floats, labeled: Labeled, r: int, ridge: float) -> None:
        self.residue = Residue(labeled, r)
        self.whitener = whitener(K, ridge)
        self.U = K @ self.whitener
        self.M = self.U.T @ self.residue.times(self.U)
        self.objectives = np.ones(r + 1)

    def run(self, n_iter: int) -> Floats:
        """The coefficients of all bits, (m, r)."""
        r = self.residue.r
        found = np.empty((len(self.whitener), r))
        for k in range(r):
            advance("KSH", k, r)
            found[:, k] = self.whitener @ self.next_bit(n_iter)
        advance("KSH", r, r)
        _log.info("KSH: objective %.4f after %d bits", self.objectives[-1], r)
        return found

    def next_bit(self, n_iter: int) -> Floats:
        """z of the next bit, which is taken off the residue."""
        residue, l, k = self.residue, len(self.U), self.residue.found
        start = _leading(self.M)
        candidates = start, descend(self._smooth, start, n_iter)
        gains = [residue.gain(self._bits(z)) for z in candidates]
        best = int(np.argmax(gains))
        z, gain = candidates[best], gains[best]
        h = self._bits(z)
        residue.subtract(h)
        u = self.U.T @ h
        self.M -= np.outer(u, u)
        self.objectives[k + 1] = self.objectives[k] + (1 - 2 * gain / l**2) / residue.r**2
        return z

    def _bits(self, z: Floats) -> Floats:
        return np.where(self.U @ z > 0, 1.0, -1.0)

    def _smooth(self, z: Floats) -> tuple[float, Callable[[], Floats]]:
        """-φᵀ R φ over r l² at z, and how to get its gradient."""
        phi = np.tanh(self.U @ z / 2)
        R_phi = self.residue.times(phi) / (self.residue.r * len(phi) ** 2)
        return -float(phi @ R_phi), lambda: -self.U.T @ (R_phi * (1 - phi * phi))


def whitener(K: Floats, ridge: float) -> Floats:
    """A (m, q) with Aᵀ (KᵀK + ridge tr(KᵀK) / m) A = l I, over the directions in which K tells rows apart."""
    C = K.T @ K
    values, vectors = eigh(C + ridge * np.trace(C) / len(C) * np.eye(len(C)))
    held = values > 1e-10 * values[-1]
    if not held.any():
        raise ValueError(
            "the labeled rows have equal kernel values, so there is nothing to hash: "
            "give rows that differ, or another gamma"
        )
    return vectors[:, held] * np.sqrt(len(K) / values[held])


def _leading(M: Floats) -> Floats:
    """The eigenvector of the largest eigenvalue."""
    return leading_eigenvectors(M, 1)[1][:, 0]


def descend(f: Callable[[Floats], tuple[float, Callable[[], Floats]]], z: Floats, n_iter: int) -> Floats:
    """Where Nesterov's accelerated gradient with backtracking leads from z; f gives its value and gradient.

    The value never rises: a step by momentum that would raise it is not taken, and momentum starts afresh.
    """
    least, v, t, steepness = f(z)[0], z, 1.0, 1.0
    for _ in range(n_iter):
        value, gradient = f(v)
        g = gradient()
        if not g.any():
            break
        steepness /= 2
        while (ahead := f(v - g / steepness)[0]) > value - g @ g / (2 * steepness):
            steepness *= 2
        if ahead > least:
            v, t = z, 1.0
            continue
        before, z, least = z, v - g / steepness, ahead
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        v, t = z + (t - 1) / t_next * (z - before), t_next
    return z
