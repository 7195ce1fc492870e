"""Column generation hashing (Li et al., 2013): bits of a weighted Hamming distance with large margins."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from manihash import checks
from manihash.compute.threads import single_blas_thread
from manihash.hashers._labels import balanced_order, parse_labels
from manihash.hashers._linear import LinearHasher
from manihash.hashers._triplets import Triplets, class_triplets, neighbor_triplets
from manihash.linalg import leading_eigenvectors
from manihash.progress import advance
from manihash.rows import Rows
from manihash.types import Floats, Ints

# Directions are searched in this many principal components of the training rows.
_MOST_COMPONENTS = 128
# Components with less than this share of the total variance are rounding errors.
_ROUNDING = 1e-12
# Steps of L-BFGS for a hash function, and random starts if the spectral start gives no new function.
_STEPS, _RANDOM_STARTS = 50, 5
# A constraint of the dual counts as violated if its left side exceeds 1 by more than this.
_TOLERANCE = 1e-4


class CGH(LinearHasher):
    """Column generation hashing: bits of a weighted Hamming distance with large margins on triplets.

        d(x, x') = Σ_l w_l [h_l(x) ≠ h_l(x')],   h_l(x) = sign(p_lᵀ x - t_l)
        w ≥ 0 minimizes Σ_l w_l + C mean_i max(0, 1 - ρ_i)²,   ρ_i = d(x_i, x_i⁻) - d(x_i, x_i⁺)

    A triplet is a row x_i, a row x_i⁺ that should be near it and a row x_i⁻ that should be far from it. With
    labels, x_i⁺ has the label of x_i and x_i⁻ another one. Without labels, x_i⁺ is one of the ``n_neighbors``
    nearest training rows and x_i⁻ is none of them.

    The minimum over all hash functions is approached by column generation. The dual of the problem has a
    variable u_i ≥ 0 per triplet and one constraint Σ_i u_i a_i ≤ 1 per hash function, where a_i = [h(x_i) ≠
    h(x_i⁻)] - [h(x_i) ≠ h(x_i⁺)]. Each step adds the function found with the largest left side, and solves
    the problem for all functions so far. ``encode`` returns plain bits, and an index counts every bit
    once; ``weights_`` has the weights w for a ranking by d.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    n_train : int, default=5000
        Number of training rows, sampled at random; all rows if there are fewer. With labels they are sampled
        from the rows that have one, with balanced classes.
    n_triplets : int, default=50000
        Number of triplets, sampled from the training rows. An array of shape (n_triplets, n_bits) is kept in
        memory.
    n_neighbors : int, default=50
        Number of nearest training rows from which x⁺ is sampled; not used with labels.
    C : float, default=100.0
        Penalty of triplets with a margin below 1. A larger value fits the triplets more closely.
    supervised : bool, default=True
        Whether to use y if it is given to ``fit``. If False, y is ignored.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of training rows, triplets and directions. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions p_l, one per column.
    offset_ : ndarray of shape (n_bits,)
        The thresholds t_l.
    weights_ : ndarray of shape (n_bits,)
        The weights w_l of the bits, at least 0.
    violations_ : ndarray of shape (n_bits,)
        Σ_i u_i a_i of each function when it was added. A value above 1 violates the constraint of the
        dual, so the function lowers the objective.
    objectives_ : ndarray of shape (n_bits + 1,)
        The objective without any function, and after each function.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the training rows.

    References
    ----------
    .. [1] X. Li, G. Lin, C. Shen, A. van den Hengel and A. Dick, "Learning hash functions using column
       generation", ICML 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash.hashers import CGH
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = CGH(n_bits=16, n_triplets=5000, random_state=0).fit(X, y)
    >>> hasher.encode(X).shape
    (1797, 2)

    The distance d between the first two rows:

    >>> bits = hasher.transform(X[:2])
    >>> distance = hasher.weights_ @ (bits[0] != bits[1])
    """

    def __init__(
        self,
        n_bits: int = 64,
        n_train: int = 5000,
        n_triplets: int = 50000,
        n_neighbors: int = 50,
        C: float = 100.0,
        supervised: bool = True,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_train = n_train
        self.n_triplets = n_triplets
        self.n_neighbors = n_neighbors
        self.C = C
        self.supervised = supervised
        self.normalize = normalize
        self.random_state = random_state

    @property
    def uses_labels(self) -> bool:
        """Whether ``fit`` learns from y if it is given."""
        return bool(self.supervised)

    def _check(self) -> None:
        super()._check()
        checks.positive_int(self.n_train, "n_train", least=3)
        checks.positive_int(self.n_triplets, "n_triplets")
        checks.positive_int(self.n_neighbors, "n_neighbors")
        checks.positive_number(self.C, "C")
        checks.flag(self.supervised, "supervised")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows.check_all()
        if self.supervised and y is not None:
            index, classes = parse_labels(y, len(rows))
            used = balanced_order(classes, rng)[: self.n_train]
            X = rows.take(index[used]).astype(np.float64)
            classes = np.unique(classes[used], return_inverse=True)[1]
            triplets = class_triplets(classes, self.n_triplets, rng)
        else:
            X = rows.take(_sample(len(rows), self.n_train, rng)).astype(np.float64)
            triplets = neighbor_triplets(X - X.mean(axis=0), self.n_neighbors, self.n_triplets, rng)
        with single_blas_thread():
            mean, V = principal_directions(X)
            search = ColumnGeneration((X - mean) @ V, triplets, self.C)
            search.run(self.n_bits, rng)
            self.projection_ = V @ np.column_stack([function.direction for function in search.functions])
        self.offset_ = mean @ self.projection_ + [function.threshold for function in search.functions]
        self.weights_, self.objectives_ = search.w, np.array(search.objectives)
        self.violations_ = np.array([function.violation for function in search.functions])


def _sample(n: int, size: int, rng: np.random.Generator) -> Ints:
    """The numbers of ``size`` random rows, or of all n rows if there are fewer."""
    return rng.choice(n, size, replace=False) if size < n else np.arange(n)


def principal_directions(X: Floats) -> tuple[Floats, Floats]:
    """The mean (d,) and the principal directions V (d, p) of X (n, d), scaled to a first variance of 1."""
    mean = X.mean(axis=0)
    Z = X - mean
    scale = np.abs(Z).max()
    if scale <= _ROUNDING * np.abs(mean).max(initial=0) or scale == 0:
        raise ValueError(
            f"the {len(X)} training rows are all equal, so there is nothing to hash: "
            "give rows that differ, or raise n_train"
        )
    Z /= scale
    n, d = Z.shape
    if d <= n:
        values, V = leading_eigenvectors(Z.T @ Z, _MOST_COMPONENTS)
    else:
        values, U = leading_eigenvectors(Z @ Z.T, _MOST_COMPONENTS)
        V = Z.T @ U / np.sqrt(np.maximum(values, _ROUNDING * values[0]))
    kept = values > _ROUNDING * values[0]
    return mean, V[:, kept] * np.sqrt(n / values[0]) / scale


@dataclass(frozen=True)
class HashFunction:
    """h(z) = [pᵀz > t], and Σ_i u_i a_i of its column for the u that it was found with."""

    direction: Floats
    threshold: float
    violation: float


class ColumnGeneration:
    """Column generation over linear hash functions of the rows Z (n, p), for t triplets."""

    def __init__(self, Z: Floats, triplets: Triplets, C: float) -> None:
        self.Z, self.triplets, self.C = Z, triplets, C
        self.functions: list[HashFunction] = []
        self.w = np.zeros(0)
        self.objectives = [float(C)]
        self._columns = np.zeros((0, len(triplets)))

    @property
    def A(self) -> Floats:
        """The columns a of the functions so far, (t, functions)."""
        return self._columns[: len(self.functions)].T

    def run(self, n_bits: int, rng: np.random.Generator) -> None:
        """Add ``n_bits`` functions; those added after the optimum was found have the weight 0."""
        self._columns = np.zeros((n_bits, len(self.triplets)))
        for bit in range(n_bits):
            advance("CGH, hash functions", bit, n_bits)
            self.add(self.most_violated(rng))
        advance("CGH, hash functions", n_bits, n_bits)

    def add(self, function: HashFunction) -> None:
        """Add a function and solve the problem for all functions."""
        bits = self.Z @ function.direction > function.threshold
        self._columns[len(self.functions)] = self.triplets.column(bits)
        self.functions.append(function)
        self.w, objective = solve_weights(self.A, self.C, np.append(self.w, 0.0))
        self.objectives.append(objective)

    def duals(self) -> Floats:
        """The dual variables u (t,) of the weights so far: u_i = 2 C / t max(0, 1 - ρ_i)."""
        return 2 * self.C / len(self.triplets) * np.maximum(0, 1 - self.A @ self.w)

    def most_violated(self, rng: np.random.Generator) -> HashFunction:
        """The function found with the largest Σ_i u_i a_i; one that was not added before, if possible.

        The search starts from the leading eigenvector of ZᵀMZ, which maximizes ½ hᵀMh with h = Zp instead of
        its sign. If the result violates no constraint, it starts from random directions as well.
        """
        u = self.duals()
        M = self.triplets.similarity(u)
        best = self._search(leading_eigenvectors(self.Z.T @ (M @ self.Z), 1)[1][:, 0], M, u)
        if best.violation > 1 + _TOLERANCE:
            return best
        starts = rng.standard_normal((_RANDOM_STARTS, self.Z.shape[1]))
        found = [best, *(self._search(start, M, u) for start in starts)]
        return max(found, key=lambda function: (not self._known(function), function.violation))

    def _known(self, function: HashFunction) -> bool:
        """Whether the column of a function is that of one added before."""
        column = self.triplets.column(self.Z @ function.direction > function.threshold)
        return bool((self._columns[: len(self.functions)] == column).all(axis=1).any())

    def _search(self, start: Floats, M: Any, u: Floats) -> HashFunction:
        """The better of a direction (p,) and of its refinement, each with its best threshold."""
        first = self._with_threshold(start / (self.Z @ start).std(), u)
        refined = refine(self.Z, M, first.direction, first.threshold)
        return max(first, self._with_threshold(refined, u), key=lambda function: function.violation)

    def _with_threshold(self, direction: Floats, u: Floats) -> HashFunction:
        violation, threshold = self.triplets.best_threshold(self.Z @ direction, u)
        return HashFunction(direction, threshold, violation)


def refine(Z: Floats, M: Any, direction: Floats, threshold: float) -> Floats:
    """The direction (p,) after some steps of L-BFGS that raise ½ sᵀMs, s = tanh(Zp - t)."""

    def loss(parameters: Floats) -> tuple[float, Floats]:
        s = np.tanh(Z @ parameters[:-1] - parameters[-1])
        Ms = M @ s
        slope = -(1 - s * s) * Ms
        return float(-s @ Ms / 2), np.append(slope @ Z, -slope.sum())

    start = np.append(direction, threshold)
    return minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}).x[:-1]


def solve_weights(A: Floats, C: float, start: Floats) -> tuple[Floats, float]:
    """w ≥ 0 (r,) that minimizes Σ_l w_l + C mean_i max(0, 1 - (Aw)_i)² for A (t, r), and the minimum."""
    t = len(A)

    def loss(w: Floats) -> tuple[float, Floats]:
        short = np.maximum(0, 1 - A @ w)
        return float(w.sum() + C / t * (short @ short)), 1 - 2 * C / t * (short @ A)

    options: Any = {"maxiter": 1000, "ftol": 0, "gtol": 1e-6}
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options=options
    )
    return found.x, float(found.fun)
