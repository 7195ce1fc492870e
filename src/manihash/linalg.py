"""Eigenvectors whose signs do not depend on the machine, and the effective number of correlated variables."""

import numpy as np

from manihash.types import Floats


def column_signs(V: Floats) -> Floats:
    """The sign (r,) of the entry of largest magnitude in each column of V (d, r); 1 where it is 0."""
    largest = np.abs(V).argmax(axis=0)
    sign = np.sign(V[largest, np.arange(V.shape[1])])
    return np.where(sign == 0, 1, sign)


def fix_signs(V: Floats) -> Floats:
    """V (d, r) with the entry of largest magnitude in each column made positive.

    An eigenvector is defined up to its sign, and LAPACK builds differ in the sign they return.
    """
    return V * column_signs(V)


def leading_eigenvectors(M: Floats, r: int) -> tuple[Floats, Floats]:
    """The r largest eigenvalues (r,) of a symmetric M (d, d), descending, and their eigenvectors (d, r).

    The signs of the eigenvectors are fixed. All d are returned if r exceeds d.
    """
    from scipy.linalg import eigh

    d = len(M)
    values, vectors = eigh(M, subset_by_index=[max(d - r, 0), d - 1])
    return values[::-1], fix_signs(vectors[:, ::-1])


def inverse_square_root(values: Floats, vectors: Floats, tolerance: float) -> Floats:
    """M^-1/2 (d, d) of a symmetric M with these eigenvalues (d,), ascending, and eigenvectors (d, d).

    Directions with an eigenvalue of at most ``tolerance`` times the largest are mapped to zero.
    """
    kept = values > tolerance * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept]) @ vectors[:, kept].T


def effective_number(C: Floats) -> float:
    """The number of independent variables that vary as much as variables of correlation C: (tr C)² / ‖C‖²."""
    squares = float(np.square(C).sum())
    return float(np.trace(C)) ** 2 / squares if squares else 0.0
