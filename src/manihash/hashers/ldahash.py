"""LDAHash (Strecha, Bronstein, Bronstein and Fua, 2012): projections and thresholds that separate classes."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.compute.threads import single_blas_thread
from manihash.hashers._labels import LabeledHasher, LabeledRows, rank_in_class
from manihash.hashers._linear import LinearHasher, check_n_bits
from manihash.linalg import fix_signs
from manihash.rotation import random_rotation
from manihash.rows import Rows
from manihash.types import Floats, Ints


class LDAHash(LabeledHasher, LinearHasher):
    """LDAHash: discriminant projections with thresholds of minimal error.

        h_j(x) = sign(p_jᵀ x - t_j)

    Σ_P and Σ_N are the second moments of x - x' over all pairs of labeled rows with the same label, and with
    different labels. The projections are those of LDA, which minimize pᵀΣ_P p / pᵀΣ_N p, or with ``alpha``
    those of DIF, the eigenvectors of alpha Σ_P - Σ_N with the smallest eigenvalues. The threshold t_j
    minimizes the sum of the false positive and the false negative rate of a bit over all labeled pairs.

    With c classes, only c - 1 directions of LDA separate classes. Each further group of c - 1 bits uses the
    same subspace after a random rotation, which has the same ratio of traces, with its own thresholds.

    ``fit(X, y)`` requires y: one label per row, an integer or a string. -1 (integers) or None marks a row
    without a label.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes; at most the number of columns d if ``alpha`` is set.
    alpha : float or None, default=None
        None means LDA; a number means DIF with this weight of the pairs with the same label.
    ridge : float, default=1.0
        Added to the diagonals of Σ_P and Σ_N for LDA, in units of the mean variance of Σ_P.
    n_labels : int, "auto" or None, default="auto"
        Number of labels used, with balanced classes: "auto" for 1,000, or 40 per class if that is more. None
        means all.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of labeled rows and rotations. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions p_j, one per column.
    offset_ : ndarray of shape (n_bits,)
        The thresholds t_j.
    error_rates_ : ndarray of shape (n_bits,)
        False positive rate + false negative rate of each bit over the labeled pairs.
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
    .. [1] C. Strecha, A. M. Bronstein, M. M. Bronstein and P. Fua, "LDAHash: improved matching with smaller
       descriptors", IEEE TPAMI 34(1), 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash.hashers import LDAHash
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = LDAHash(n_bits=16, random_state=0).fit(X, y)
    >>> hasher.encode(X).shape
    (1797, 2)
    """

    _by_distance = True

    def __init__(
        self,
        n_bits: int = 64,
        alpha: float | None = None,
        ridge: float = 1.0,
        n_labels: int | str | None = "auto",
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
        if self.alpha is not None:
            check_n_bits(self.n_bits, rows.width, "set alpha to None (LDA)")
        labeled = self._sample_labels(rows, y, rng)
        rows.check_all()
        if len(labeled.class_counts) == len(labeled):
            raise ValueError(
                f"no two of the {len(labeled)} labeled rows used have the same label: "
                "give labels that repeat, or raise n_labels"
            )
        X = rows.take(labeled.index).astype(np.float64)
        with single_blas_thread():
            like, unlike = pair_moments(X, labeled)
            if self.alpha is None:
                E = discriminants(like, unlike, self.ridge, min(self.n_bits, len(labeled.class_counts) - 1))
                self.projection_ = rotated_copies(E, self.n_bits, rng)
            else:
                self.projection_ = dif_directions(like, unlike, self.alpha, self.n_bits)
            Y = X @ self.projection_
        best = [best_threshold(values, labeled.classes) for values in Y.T]
        self.offset_, self.error_rates_ = (np.array(part) for part in zip(*best, strict=True))


def pair_moments(X: Floats, labeled: LabeledRows) -> tuple[Floats, Floats]:
    """Σ_P and Σ_N (d, d): the mean of (x - x')(x - x')ᵀ over all pairs with equal and with different labels.

    The sum over all pairs of n rows is n times their scatter about their mean, so no pair is visited.
    """
    n, counts, G = len(X), labeled.class_counts, labeled.indicator
    Z = X - X.mean(axis=0)
    within = Z - (G @ ((G.T @ Z) / counts[:, None]))
    like = within.T @ (within * (counts[labeled.classes])[:, None])
    n_like = int((counts * (counts - 1)).sum()) // 2
    n_unlike = n * (n - 1) // 2 - n_like
    return like / n_like, (n * Z.T @ Z - like) / n_unlike


def discriminants(like: Floats, unlike: Floats, ridge: float, q: int) -> Floats:
    """E (d, q) that minimizes pᵀΣ_P p / pᵀΣ_N p, both with the ridge, scaled to EᵀΣ_P E = I; q at most d."""
    d = len(like)
    # If there is no variance within classes, a small share of the variance between them keeps Σ_P regular.
    added = ridge * np.trace(like) / d + 1e-9 * np.trace(unlike) / d
    if added <= 0:
        raise ValueError("the labeled rows are all equal, so there is nothing to hash: give rows that differ")
    I = added * np.eye(d)
    return fix_signs(eigh(unlike + I, like + I, subset_by_index=[max(0, d - q), d - 1])[1][:, ::-1])


def rotated_copies(E: Floats, r: int, rng: np.random.Generator) -> Floats:
    """E (d, q), followed by random rotations of E until there are r columns: (d, r)."""
    q = E.shape[1]
    groups = [E]
    while len(groups) * q < r:
        groups.append(E @ random_rotation(q, rng))
    return np.hstack(groups)[:, :r]


def dif_directions(like: Floats, unlike: Floats, alpha: float, r: int) -> Floats:
    """DIF: the r eigenvectors (d, r) of alpha Σ_P - Σ_N with the smallest eigenvalues."""
    return fix_signs(eigh(alpha * like - unlike, subset_by_index=[0, r - 1])[1])


def best_threshold(values: Floats, classes: Ints) -> tuple[float, float]:
    """The threshold t of values (l,) with the smallest sum of two error rates over all pairs, and that sum.

    False negatives are pairs of the same class that t separates; false positives are pairs of different
    classes that it does not separate. The counts for all thresholds are cumulative sums over the sorted
    values.
    """
    l, order = len(values), np.argsort(values, kind="stable")
    sorted_values, classes = values[order], classes[order]
    before = rank_in_class(classes)
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
