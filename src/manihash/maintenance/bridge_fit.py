"""Maps between two spaces from pairs of rows: orthogonal, ridge, low rank, and a residual on top of ridge.

All of them are closed-form least squares. Settings such as the ridge penalty are chosen by the error of each
pair when it is left out, which least squares gives without fitting again. The same errors show pairs with
wrong partners: such a pair is no nearer to its mapped row than a random row of the old space is.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.linalg import fix_signs
from manihash.maintenance.bridge_map import SpaceMap
from manihash.types import Floats, Mask

KINDS = ("orthogonal", "low-rank", "ridge", "residual")

# Penalties as multiples of the mean squared singular value.
_PENALTIES = 10.0 ** np.arange(-6, 3)
_RANKS = (8, 16, 32, 64, 128, 256)
_RANK_SLACK = 1.01  # of the error, for a lower rank
_REDUCED, _HIDDEN = 64, 512  # columns of x U, and hidden values of the residual map
_FAINT = 1e-3  # share of the largest variance; components with less are whitened as if they had it
_GRID = 2.0**-14  # width of the grid, in standard deviations of the old rows
# A pair looks wrong if more than this share of random old rows is nearer to the mapped row than its partner.
_WRONG = 0.25
_MOST_WRONG = 0.3  # share of the pairs above which the map explains too little to tell which are wrong
_REFERENCE = 1_000
_ROUNDS = 3
_NO_RIDGE = 1e-12  # eigenvalues below this share of the largest are zero


@dataclass(frozen=True)
class MapSettings:
    """What maps of all kinds have in common, chosen once on all pairs."""

    unit: bool
    penalty: float
    residual_penalty: float
    rank: int
    step: float
    seed: int


@dataclass(frozen=True)
class _Solved:
    """Ridge regression of rows B on rows A: y = x M + b, and the errors (n, p) of pairs that are left out."""

    M: Floats
    b: Floats
    left_out: Floats
    loss: float
    penalty: float


def unit_length(X: Floats) -> Floats:
    """The rows (n, d) scaled to unit length."""
    return numpy_backend.unit_rows(X, numpy_backend.squared_norms(X))


def settings_of(X: Floats, Y: Floats, rng: np.random.Generator) -> tuple[MapSettings, Mask]:
    """Settings for pairs of new rows X (n, d) and old rows Y (n, p), and which pairs look wrong (n,)."""
    seed = int(rng.integers(2**31))
    unit, wrong = _best_scaling(X, Y, rng)
    Z, weights = unit_length(X) if unit else X, (~wrong).astype(np.float64)
    ridge = _ridge(Z, Y, weights, _PENALTIES)
    hidden = _hidden_layer(Z, weights, seed)
    residual = _ridge(_hidden_values(Z, hidden), ridge.left_out, weights, _PENALTIES)
    spread = float(np.sqrt(Y.var(axis=0).mean())) or float(np.abs(Y).max()) or 1.0
    step = float(2.0 ** np.floor(np.log2(spread * _GRID)))
    return MapSettings(unit, ridge.penalty, residual.penalty, _rank(ridge, Z, Y, weights), step, seed), wrong


def fitted_maps(
    X: Floats, Y: Floats, wrong: Mask, settings: MapSettings, kinds: tuple[str, ...]
) -> dict[str, SpaceMap]:
    """The maps of the given kinds, fitted to the pairs of X (n, d) and Y (n, p) that do not look wrong."""
    Z, Y = X[~wrong], Y[~wrong]
    Z = unit_length(Z) if settings.unit else Z
    center = Z.mean(axis=0)
    Z = Z - center
    every, made = np.ones(len(Z)), partial(_made, settings, center)
    found = {}
    if "orthogonal" in kinds:
        found["orthogonal"] = made("orthogonal", *_orthogonal(Z, Y))
    if set(kinds) - {"orthogonal"}:
        ridge = _ridge(Z, Y, every, np.array([settings.penalty]))
        if "low-rank" in kinds:
            V = _output_directions(ridge, Z, Y, every)[:, : settings.rank]
            mean = Y.mean(axis=0)
            offset = mean + (ridge.b - mean) @ V @ V.T
            found["low-rank"] = made("low-rank", None, offset, down=ridge.M @ V, up=V.T)
        if "ridge" in kinds:
            found["ridge"] = made("ridge", ridge.M, ridge.b)
        if "residual" in kinds:
            U, W, c = _hidden_layer(Z, every, settings.seed)
            H = _hidden_values(Z, (U, W, c))
            top = _ridge(H, ridge.left_out, every, np.array([settings.residual_penalty]))
            found["residual"] = made(
                "residual", ridge.M, ridge.b + top.b,
                down=U, hidden=W, hidden_offset=c, residual=top.M,
            )  # fmt: skip
    return {kind: found[kind] for kind in kinds}


def _made(
    settings: MapSettings,
    center: Floats,
    kind: str,
    linear: Floats | None,
    offset: Floats,
    **parts: Floats,
) -> SpaceMap:
    arrays = {name: np.ascontiguousarray(part) for name, part in parts.items()}
    A = None if linear is None else np.ascontiguousarray(linear)
    return SpaceMap(kind, settings.unit, settings.step, center, np.asarray(offset), A, **arrays)


def _best_scaling(X: Floats, Y: Floats, rng: np.random.Generator) -> tuple[bool, Mask]:
    """Whether new rows are better scaled to unit length, and which pairs look wrong then."""
    lengths = np.sqrt(numpy_backend.squared_norms(X))
    candidates = [False] if np.ptp(lengths) <= 0.01 * lengths.max(initial=0) else [False, True]
    fits = {unit: _without_wrong(unit_length(X) if unit else X, Y, rng) for unit in candidates}
    unit = min(fits, key=lambda each: fits[each][0])
    return unit, fits[unit][1]


def _without_wrong(Z: Floats, Y: Floats, rng: np.random.Generator) -> tuple[float, Mask]:
    """The median squared error of pairs that are left out, and which pairs look wrong (n,)."""
    wrong = np.zeros(len(Z), np.bool_)
    reference = Y[rng.permutation(len(Y))[:_REFERENCE]]
    penalties = _PENALTIES
    for _ in range(_ROUNDS):
        ridge = _ridge(Z, Y, (~wrong).astype(np.float64), penalties)
        penalties = np.array([ridge.penalty])
        squared = numpy_backend.squared_norms(ridge.left_out)
        between = numpy_backend.squared_distances(Y - ridge.left_out, reference)
        found = (between < squared[:, None]).mean(axis=1) > _WRONG
        if found.mean() > _MOST_WRONG:
            return float(np.median(squared)), np.zeros(len(Z), np.bool_)
        if np.array_equal(found, wrong):
            break
        wrong = found
    return float(np.median(squared)), wrong


def _ridge(A: Floats, B: Floats, weights: Floats, penalties: Floats) -> _Solved:
    """Weighted ridge regression with the penalty of least error among the given ones."""
    total = weights.sum()
    mean_a, mean_b = weights @ A / total, weights @ B / total
    Z, Y, root = A - mean_a, B - mean_b, np.sqrt(weights)[:, None]
    values, V = _principal(Z * root)
    T = Z @ V  # (n, r)
    C = (T * root).T @ (Y * root)
    best: tuple[float, float, Floats, Floats] | None = None
    for penalty in penalties:
        added = penalty * values.mean() if len(values) else 1.0
        P = C / (values + added)[:, None]
        leverage = weights * (np.square(T) @ (1 / (values + added)) + 1 / total)
        errors = (Y - T @ P) / np.maximum(1 - leverage, 1e-3)[:, None]
        loss = float(weights @ numpy_backend.squared_norms(errors) / total)
        if best is None or loss < best[0]:
            best = loss, float(penalty), P, errors
    loss, penalty, P, errors = best  # type: ignore[misc]
    M = V @ P
    return _Solved(M, mean_b - mean_a @ M, errors, loss, penalty)


def _principal(Z: Floats) -> tuple[Floats, Floats]:
    """Squared singular values (r,) of Z (n, d), largest first, and right singular vectors (d, r)."""
    n, d = Z.shape
    values, vectors = np.linalg.eigh(Z.T @ Z if d <= n else Z @ Z.T)
    kept = values > _NO_RIDGE * max(values[-1], np.finfo(np.float64).tiny)
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    return values, fix_signs(vectors if d <= n else Z.T @ vectors / np.sqrt(values))


def _orthogonal(Z: Floats, Y: Floats) -> tuple[Floats, Floats]:
    """The rotation and scale (d, p) nearest to the pairs, Procrustes, and the offset (p,)."""
    mean_z, mean_y = Z.mean(axis=0), Y.mean(axis=0)
    A, B = Z - mean_z, Y - mean_y
    U, _, Vt = np.linalg.svd(A.T @ B, full_matrices=False)
    R = U @ Vt
    rotated = A @ R
    size = float(np.square(rotated).sum())
    M = R * (float((rotated * B).sum()) / size if size else 1.0)
    return M, mean_y - mean_z @ M


def _output_directions(ridge: _Solved, Z: Floats, Y: Floats, weights: Floats) -> Floats:
    """Directions (p, r) of the old space in which the mapped rows vary most."""
    predicted = (Z - weights @ Z / weights.sum()) @ ridge.M
    return _principal(predicted * np.sqrt(weights)[:, None])[1]


def _rank(ridge: _Solved, Z: Floats, Y: Floats, weights: Floats) -> int:
    """The rank of a low-rank map: the least error of pairs that are left out, nearly, at the least cost."""
    V = _output_directions(ridge, Z, Y, weights)
    B = Y - weights @ Y / weights.sum()
    left, target = (B - ridge.left_out) @ V, B @ V
    # |b - P l|² = |b|² - |P b|² + |P (b - l)|² in the first r directions
    gain = weights @ (np.square(target - left) - np.square(target))
    loss = float(weights @ numpy_backend.squared_norms(B)) + np.cumsum(gain)
    ranks = [rank for rank in _RANKS if rank < min(len(loss), min(Z.shape[1], Y.shape[1]) / 2)]
    if not ranks:
        return len(loss)
    best = min(loss[rank - 1] for rank in ranks)
    return next(rank for rank in ranks if loss[rank - 1] <= _RANK_SLACK * best)


def _hidden_layer(Z: Floats, weights: Floats, seed: int) -> tuple[Floats, Floats, Floats]:
    """U (d, r), W (r, h) and c (h,) of the hidden values max(x U W + c, 0): random, on whitened rows."""
    total, rng = weights.sum(), np.random.default_rng(seed)
    mean = weights @ Z / total
    values, V = _principal((Z - mean) * np.sqrt(weights)[:, None])
    values, V = np.maximum(values, _FAINT * values[:1])[:_REDUCED], V[:, :_REDUCED]
    U = V * np.sqrt(total / values) if len(values) else np.zeros((Z.shape[1], 1))
    h = max(1, min(_HIDDEN, int(total) // 2))
    W = rng.normal(size=(_REDUCED, h))[: U.shape[1]]
    W /= np.linalg.norm(W, axis=0)
    return U, W, rng.uniform(-1, 1, h) - mean @ U @ W


def _hidden_values(Z: Floats, layer: tuple[Floats, Floats, Floats]) -> Floats:
    U, W, c = layer
    return np.maximum(Z @ U @ W + c, 0)
