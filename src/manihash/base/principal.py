"""The directions of largest variance of rows that are visited in blocks."""

from collections.abc import Callable

import numpy as np

from manihash.compute import backend
from manihash.compute.threads import single_blas_thread
from manihash.linalg import fix_signs, leading_eigenvectors
from manihash.rows import Rows
from manihash.types import Floats

# Up to this width the whole covariance is computed; above it, its leading directions by subspace iteration,
# with this many extra directions and power iterations.
_EXACT_WIDTH, _EXTRA_DIRECTIONS, _POWER_ITERATIONS = 2_048, 32, 3


def principal_directions(rows: Rows, p: int, rng: np.random.Generator) -> Floats:
    """Return the p directions (p, d) of largest variance, or all d, with fixed signs.

    Rows are visited in blocks. For wide rows the covariance (d, d) is never built, and the directions are
    approximate.
    """
    d, centered = rows.width, _centering(rows)
    with single_blas_thread():
        if d <= _EXACT_WIDTH:
            vectors = _main_axes(rows, centered, p)
        else:
            Q = _main_subspace(rows, centered, min(p + _EXTRA_DIRECTIONS, d), rng)
            vectors = Q @ _main_axes(rows, lambda X: centered(X) @ backend(X).like(Q, X), p)
    return np.ascontiguousarray(fix_signs(vectors).T, rows.dtype)


def _centering(rows: Rows) -> Callable[[Floats], Floats]:
    """Return a function that centers a block and scales it so that squares neither overflow nor underflow."""

    def block(X: Floats) -> tuple[tuple[Floats], tuple[Floats]]:
        xp = backend(X)
        return (-xp.amin(-abs(X), 1),), (xp.to_float64(X).sum(axis=0),)

    (largest,), (total,) = rows.fold(block, "mean")
    mean, limits = (total / len(rows)).astype(rows.dtype), np.finfo(rows.dtype)
    # A power of two changes no digit.
    exponent = np.clip(-np.frexp(largest.max())[1], limits.minexp, limits.maxexp - 1)
    scale = float(np.ldexp(rows.dtype.type(1), exponent))

    def centered(X: Floats) -> Floats:
        Z = X - backend(X).like(mean, X)
        Z *= scale
        return Z

    return centered


def _main_axes(rows: Rows, f: Callable[[Floats], Floats], p: int) -> Floats:
    """Return the p eigenvectors (q, p) of the largest eigenvalues of ZᵀZ, where Z (n, q) is f of the rows."""

    def block(X: Floats) -> tuple[tuple[()], tuple[Floats]]:
        Z = f(X)
        return (), (Z.T @ Z,)

    _, (scatter,) = rows.fold(block, "covariance")
    return leading_eigenvectors(scatter, p)[1]


def _main_subspace(
    rows: Rows, centered: Callable[[Floats], Floats], q: int, rng: np.random.Generator
) -> Floats:
    """Return an orthonormal basis (d, q) of approximately the largest variance, by subspace iteration."""
    Q = rng.standard_normal((rows.width, q)).astype(rows.dtype)
    for _ in range(_POWER_ITERATIONS):

        def block(X: Floats, Q: Floats = Q) -> tuple[tuple[()], tuple[Floats]]:
            Z = centered(X)
            return (), (Z.T @ (Z @ backend(X).like(Q, X)),)

        _, (image,) = rows.fold(block, "covariance")
        Q = np.linalg.qr(image)[0].astype(rows.dtype)
    return Q
