"""The equation of every method in float64, from the fitted values: real values, and bounds on their errors.

Nothing of manihash computes here. A bit is compared where its value exceeds the bound.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from manihash import Hybrid
from manihash.base import CoarseNeighbors, ExactNeighbors, ListedNeighbors, ReducedNeighbors
from manihash.hashers import AGH, E2LSH, KLSH, KSH, RMMH, SH, SKLSH, SignQuantizer, SpH

# Bounds are generous: 2,000 roundings of float32, and as many of float64.
FLOAT32, FLOAT64 = 2e3 * 2.0**-24, 2e3 * 2.0**-53


class Prepared(NamedTuple):
    """Rows (n, d) as a model prepares them, the rounding errors of their values (n, d), and the model."""

    rows: np.ndarray
    error: np.ndarray
    model: object


def reference(model: object, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The real values (n, r) of the method's equation, and bounds on what rounding may change."""
    if isinstance(model, Hybrid):
        parts = [reference(part, X) for part in (model.first_, model.second_)]
        return tuple(np.hstack(column) for column in zip(*parts, strict=True))
    if hasattr(model, "base_points_"):
        return _two_layers(*induced(prepared(model, X, FLOAT64)), model)
    linear = hasattr(model, "projection_") and not isinstance(model, SH | SKLSH | E2LSH)
    rounding = FLOAT64 if linear or model.in_float64_ or in_float64(X.dtype) else FLOAT32
    Z = prepared(model, X, rounding)
    return next(equation for kind, equation in EQUATIONS if kind(model))(Z, rounding)


def in_float64(dtype: np.dtype) -> bool:
    """Whether rows of this type are computed in float64."""
    return not np.can_cast(dtype.newbyteorder("="), np.float32)


def prepared(model: object, X: np.ndarray, rounding: float) -> Prepared:
    """The rows of X scaled to unit length and shifted, if the model does so."""
    Z = X.astype(np.float64)
    if model.normalize_:
        Z = Z / np.maximum(np.abs(Z).max(axis=1, keepdims=True), 1e-300)
        Z = Z / np.maximum(np.sqrt((Z * Z).sum(axis=1, keepdims=True)), 1e-300)
    error = FLOAT64 * np.abs(Z)
    if model.origin_ is not None:
        Z = Z - model.origin_
        error += FLOAT64 * np.abs(model.origin_)
    return Prepared(Z, error + rounding * np.abs(Z), model)


def product(Z: Prepared, P: np.ndarray, b: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """z P - b and its error."""
    return Z.rows @ P - b, Z.error @ np.abs(P) + rounding * (np.abs(Z.rows) @ np.abs(P) + np.abs(b))


def linear(Z: Prepared, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """sign(Pᵀz - b)."""
    return product(Z, Z.model.projection_, Z.model.offset_, rounding)


def kernel(Z: Prepared, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """sign(Σ_i w_i κ(z, z_i) - b), of the linear or the Gaussian kernel."""
    model = Z.model
    if model.points_ is None:
        return product(Z, model.weights_, model.offset_, rounding)
    points = model.points_.astype(np.float64)
    K = np.exp(-model.gamma_ * cdist(Z.rows, points, "sqeuclidean"))
    lengths = (Z.rows**2).sum(axis=1)[:, None] + (points**2).sum(axis=1)
    distance = cdist(Z.rows, points)
    moved = 2 * distance * np.linalg.norm(Z.error, axis=1)[:, None] + rounding * distance**2
    exponent = model.gamma_ * (moved + FLOAT64 * lengths)
    underflow = np.finfo(np.float32 if rounding == FLOAT32 else np.float64).tiny
    error = (K * np.expm1(np.minimum(exponent, 700)) + rounding * K + underflow) @ np.abs(model.weights_)
    return K @ model.weights_ - model.offset_, error + rounding * np.abs(model.offset_)


def spheres(Z: Prepared, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """sign(t - |z - p|)."""
    centers, radii = Z.model.centers_.astype(np.float64), Z.model.radii_
    distance = cdist(Z.rows, centers)
    lengths = (Z.rows**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1)
    moved = np.linalg.norm(Z.error, axis=1)[:, None] + FLOAT64 * lengths / np.maximum(distance, 1e-300)
    return radii - distance, moved + rounding * (radii + distance)


def waves(Z: Prepared, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """sign(sin(π/2 + ω (Pᵀz - b)))."""
    f = Z.model.frequencies_
    Y, error = product(Z, Z.model.projection_, Z.model.offset_, rounding)
    return np.sin(f * Y + np.pi / 2), f * error + rounding * (np.abs(f * Y) + 2)


def features(Z: Prepared, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """sign(cos(Pᵀz + b) + t)."""
    Y, error = product(Z, Z.model.projection_, -Z.model.phases_, rounding)
    return np.cos(Y) + Z.model.thresholds_, error + rounding * 2


def bins(Z: Prepared, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """The bit is 1 if ⌊(Pᵀz + b) / w⌋ is even; the value is the distance to the nearest integer."""
    w = Z.model.width_
    Y, error = product(Z, Z.model.projection_, -Z.model.offset_, rounding)
    sign = np.where(np.floor(Y / w) % 2 == 0, 1.0, -1.0)
    return sign * np.abs(Y / w - np.round(Y / w)), error / w + rounding * np.abs(Y / w)


def coordinates(Z: Prepared, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """sign(Rᵀ(z - mean)), with R = I if there is no rotation."""
    model = Z.model
    shifted = Z.rows - model.mean_
    error = Z.error + rounding * (np.abs(Z.rows) + np.abs(model.mean_))
    if model.rotation_ is None:
        return shifted[:, : model.n_bits_], error[:, : model.n_bits_]
    R = model.rotation_
    return shifted @ R, error @ np.abs(R) + rounding * (np.abs(shifted) @ np.abs(R))


EQUATIONS = [
    (lambda model: isinstance(model, SH), waves),
    (lambda model: isinstance(model, SKLSH), features),
    (lambda model: isinstance(model, E2LSH), bins),
    (lambda model: isinstance(model, SpH), spheres),
    (lambda model: isinstance(model, SignQuantizer), coordinates),
    (lambda model: isinstance(model, KLSH | KSH | RMMH), kernel),
    (lambda model: hasattr(model, "projection_"), linear),
]


def induced(Z: Prepared) -> tuple[np.ndarray, np.ndarray]:
    """Y = Σ_j w(z, c_j) y_j / Σ_j w(z, c_j) over the k nearest base points that the finder compares."""
    model, finder = Z.model, Z.model.finder_
    rows, error = Z.rows, np.linalg.norm(Z.error, axis=1)
    if isinstance(finder, ReducedNeighbors):
        directions = finder.directions_.astype(np.float64)
        error = error + FLOAT64 * np.linalg.norm(rows, axis=1)
        rows, finder = rows @ directions.T, finder.neighbors_
    B, k = model.base_points_.astype(np.float64), model.n_neighbors_
    searched, sure = _searched(rows, error, finder, len(B), k)
    squared = np.where(searched, ((rows[:, None] - B) ** 2).sum(axis=2), np.inf)
    order, certain = _nearest(squared, error, B, k)
    near = np.take_along_axis(squared, order, axis=1)
    w = np.exp(-(near - near[:, :1]) / model.bandwidth_**2)
    values = getattr(model, "base_embedding_", None)
    values = (model.projection_ if values is None else values)[order]  # (n, k, r)
    total = w.sum(axis=1)[:, None]
    Y = (w[:, :, None] * values).sum(axis=1) / total
    size = (w[:, :, None] * np.abs(values)).sum(axis=1) / total
    exponent = 2 * _moved(near[:, -1], error) / model.bandwidth_**2
    bound = (np.expm1(np.minimum(exponent, 700)) + FLOAT64)[:, None] * size
    bound[~(sure & certain)] = np.inf
    return Y, bound


def _moved(squared: np.ndarray, error: np.ndarray) -> np.ndarray:
    """How much rounding may change squared distances."""
    return 2 * np.sqrt(squared) * error + error**2 + FLOAT64 * squared


def _nearest(squared: np.ndarray, error: np.ndarray, B: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of the points B of each row, and whether rounding cannot change which they are.

    Of equal points the first one counts.
    """
    order = np.argsort(squared, axis=1, kind="stable")
    certain = np.ones(len(squared), bool)
    for i, (of_row, places) in enumerate(zip(squared, order, strict=True)):
        near, far = places[:k], places[k:]
        gap = of_row[far][None] - of_row[near][:, None]
        close = gap <= 2 * _moved(of_row[near[-1]], error[i])
        equal = (B[near][:, None] == B[far][None]).all(axis=2)
        certain[i] = not (close & ~equal).any()
    return order[:, :k], certain


def _searched(
    rows: np.ndarray, error: np.ndarray, finder: object, m: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which of the m base points the finder compares with a row (n, m), and whether that is certain (n,)."""
    if finder is None or isinstance(finder, ExactNeighbors):
        return np.ones((len(rows), m), bool), np.ones(len(rows), bool)
    cells = finder.cells_.astype(np.float64)
    squared = ((rows[:, None] - cells) ** 2).sum(axis=2)
    if isinstance(finder, ListedNeighbors):
        lists = np.split(finder.members_, finder.ends_[1:-1])
        probes = 1
    else:
        assert isinstance(finder, CoarseNeighbors)
        lists = np.split(np.arange(m), finder.bounds_[1:-1])
        smallest = np.cumsum(np.sort([len(points) for points in lists]))
        probes = min(max(finder.probes, int((smallest < k).sum()) + 1), len(cells))
    nearest, certain = _nearest(squared, error, cells, probes)
    searched = np.zeros((len(rows), m), bool)
    for i, own in enumerate(nearest):
        searched[i, np.concatenate([lists[cell] for cell in own])] = True
    return searched, certain


def _two_layers(Y: np.ndarray, bound: np.ndarray, model: object) -> tuple[np.ndarray, np.ndarray]:
    """The second bit of an eigenvector of AGH: y > b⁺ where y > 0, and y < b⁻ elsewhere."""
    if not (isinstance(model, AGH) and model.thresholds_.size):
        return Y, bound
    above, below = model.thresholds_
    first, error = Y[:, : len(above)], bound[:, : len(above)]
    second = np.where(first > 0, first - above, below - first)
    error = error + FLOAT64 * (np.abs(first) + np.abs(above) + np.abs(below))
    error = np.where(np.abs(first) > error, error, np.inf)
    return np.hstack([Y, second]), np.hstack([bound, error])
