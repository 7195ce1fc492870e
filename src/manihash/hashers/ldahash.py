"""LDAHash (Strecha, Bronstein, Bronstein and Fua, 2012): projections and cuts that part unlike pairs."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.compute.threads import single_blas_thread
from manihash.hashers._kernel import look_through
from manihash.hashers._labels import Labeled, LabeledHasher, turn
from manihash.hashers._linear import LinearHasher
from manihash.linalg import fix_signs
from manihash.rotation import random_rotation
from manihash.rows import Rows
from manihash.types import Floats, Ints


class LDAHash(LabeledHasher, LinearHasher):
    """Bits sign(pᵀx - t): p from Σ_P and Σ_N, t to minimize a bit's false positive + false negative rate.

    Σ_P and Σ_N are the second moments of x - x' over all pairs of labeled rows of one label, and of two. The
    projections are LDA's, of least pᵀΣ_P p / pᵀΣ_N p, or, with ``alpha``, those of DIF: the eigenvectors of
    alpha Σ_P - Σ_N of least eigenvalue. With c classes only c - 1 directions of LDA tell classes apart; each
    further c - 1 bits are the same subspace turned at random, which has the same ratio of traces, with
    thresholds of their own. After ``fit``: ``error_rates_`` (r,), the two rates added, on the labeled pairs.

    Parameters
    ----------
    alpha: None for LDA; for DIF the weight of like pairs (at most d bits).
    ridge: added to Σ_P and Σ_N for LDA, in units of the mean variance of Σ_P.
    n_labels: labels used, drawn so that classes take turns; None for all.
    """

    def __init__(
        self,
        n_bits: int = 64,
        alpha: float | None = None,
        ridge: float = 1.0,
        n_labels: int | None = 1000,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.alpha = alpha
        self.ridge = ridge
        self.n_labels = n_labels
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_number(self.ridge, "ridge", zero=True)
        if self.alpha is not None:
            checks.positive_number(self.alpha, "alpha")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        labeled = self._labeled(rows, y, rng)
        look_through(rows)
        if len(labeled.counts) == len(labeled):
            raise ValueError(
                f"no two of the {len(labeled)} rows used have the same label, so there are no like pairs: "
                "give labels that repeat, or raise n_labels"
            )
        X = rows.take(labeled.index).astype(np.float64)
        with single_blas_thread():
            like, unlike = pair_moments(X, labeled)
            if self.alpha is None:
                E = discriminants(like, unlike, self.ridge, min(self.n_bits, len(labeled.counts) - 1))
                self.projection_ = turned(E, self.n_bits, rng)
            else:
                self.projection_ = differences(like, unlike, self.alpha, self.n_bits)
            Y = X @ self.projection_
        best = [best_threshold(values, labeled.number) for values in Y.T]
        self.offset_, self.error_rates_ = (np.array(part) for part in zip(*best, strict=True))


def pair_moments(X: Floats, labeled: Labeled) -> tuple[Floats, Floats]:
    """Σ_P and Σ_N (d, d): the mean of (x - x')(x - x')ᵀ over all pairs of one label, and over all of two.

    Summed over the pairs of n rows it is n times their scatter about their mean, so no pair is visited.
    """
    n, counts, G = len(X), labeled.counts, labeled.members
    Z = X - X.mean(axis=0)
    within = Z - (G @ ((G.T @ Z) / counts[:, None]))
    like = within.T @ (within * (counts[labeled.number])[:, None])
    n_like = int((counts * (counts - 1)).sum()) // 2
    n_unlike = n * (n - 1) // 2 - n_like
    return like / n_like, (n * Z.T @ Z - like) / n_unlike


def discriminants(like: Floats, unlike: Floats, ridge: float, q: int) -> Floats:
    """E (d, q) of least pᵀΣ_P p / pᵀΣ_N p, both with the ridge, scaled to EᵀΣ_P E = I; at most d."""
    d = len(like)
    # Where nothing varies within classes a trace of the variance between them keeps Σ_P regular.
    added = ridge * np.trace(like) / d + 1e-9 * np.trace(unlike) / d
    if added <= 0:
        raise ValueError("the labeled rows are all equal, so there is nothing to hash: give others")
    I = added * np.eye(d)
    return fix_signs(eigh(unlike + I, like + I, subset_by_index=[max(0, d - q), d - 1])[1][:, ::-1])


def turned(E: Floats, r: int, rng: np.random.Generator) -> Floats:
    """E (d, q), then E turned at random again and again, until there are r columns."""
    q = E.shape[1]
    groups = [E]
    while len(groups) * q < r:
        groups.append(E @ random_rotation(q, rng))
    return np.hstack(groups)[:, :r]


def differences(like: Floats, unlike: Floats, alpha: float, r: int) -> Floats:
    """DIF: the r eigenvectors (d, r) of alpha Σ_P - Σ_N of least eigenvalue."""
    d = len(like)
    if r > d:
        raise ValueError(
            f"{r} bits asked of the differences of {d} dimensions, which give {d} at most: "
            "lower n_bits, or set alpha to None (LDA)"
        )
    return fix_signs(eigh(alpha * like - unlike, subset_by_index=[0, r - 1])[1])


def best_threshold(values: Floats, number: Ints) -> tuple[float, float]:
    """The threshold t of values (l,) that minimizes the sum of two rates over all pairs, and that sum.

    False negatives are pairs of one class that t parts, false positives pairs of two that it does not. With t
    moved past one value after another, the pairs on each side are running sums.
    """
    l, order = len(values), np.argsort(values, kind="stable")
    sorted_values, classes = values[order], number[order]
    before = turn(classes)
    after = np.bincount(classes)[classes] - 1 - before
    n_like = before.sum()
    left, left_like = np.arange(1, l), np.cumsum(before)[:-1]
    right, right_like = l - left, n_like - np.cumsum(after)[:-1]
    together = left * (left - 1) // 2 + right * (right - 1) // 2
    missed = (n_like - left_like - right_like) / n_like
    wrong = (together - left_like - right_like) / (l * (l - 1) // 2 - n_like)
    rates = np.where(sorted_values[1:] > sorted_values[:-1], missed + wrong, np.inf)
    best = int(rates.argmin())
    if not np.isfinite(rates[best]):
        return float(sorted_values[0]), 1.0
    return float((sorted_values[best] + sorted_values[best + 1]) / 2), float(rates[best])
