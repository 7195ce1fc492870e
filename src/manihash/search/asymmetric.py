"""Asymmetric distance: the real values of a query against the bits of stored codes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import finite_block, positive_int
from manihash.code_layout import CodeLayout, layout_of
from manihash.codes import check_codes, n_bytes, unpack
from manihash.evaluation.truth import smallest
from manihash.types import Codes, Floats, Ints

# Codes whose bytes are looked up at once, and queries whose distances are held at once.
_CODES = 2**16
_QUERIES = 16


def asymmetric_distances(
    Y: ArrayLike, codes: ArrayLike, n_bits: int, *, first_bits: int | None = None, weight: float = 0.5
) -> NDArray[np.float32]:
    """Compute the asymmetric distances of embedded queries to codes.

    The distance of y to a code is Σ_j w_j [bit_j ≠ (y_j > 0)] with w_j = min(|y_j|, ‖y‖ / √r). Bits of which
    the query is uncertain count little. No bit counts more than the root mean square of the query's values,
    because the values of the row, of which only the bits are stored, need not be as large. If all |y_j| are
    1, it is the Hamming distance. ``average_precision`` accepts it like any other distance.

    For codes of two parts, the weights w_j of each part are divided by the root mean square of the query's
    values in this part, since the values of two hashers have no common scale. The distance is that of the
    first part plus ``weight`` times that of the second.

    Parameters
    ----------
    Y : array-like of shape (q, n_bits)
        Real embedding of the queries, as ``embed`` returns it.
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes.
    n_bits : int
        Length of a code.
    first_bits : int or None, default=None
        Number of bits of the first part of the codes of a ``Hybrid``; None if codes have one part.
    weight : float, default=0.5
        Weight of the second part, if there is one.

    Returns
    -------
    ndarray of shape (q, n), float32
        Distances.

    Examples
    --------
    >>> from manihash import pack
    >>> from manihash.search import asymmetric_distances
    >>> asymmetric_distances([[1.0, -1.0, 0.5]], pack([[1, 0, 1], [1, 0, 0]]), n_bits=3)
    array([[0. , 0.5]], dtype=float32)
    """
    stored = check_codes(codes, positive_int(n_bits, "n_bits"))
    layout = layout_of(n_bits, first_bits, weight)
    return _distances(byte_tables(Y, n_bits, *factors_of(layout)), stored)


def factors_of(layout: CodeLayout | None) -> tuple[()] | tuple[tuple[float, float], int]:
    """The factors of the parts in the distance, and the number of bits of the first; () for one part."""
    return () if layout is None else ((1.0, layout.weight), layout.first_bits)


def byte_tables(
    Y: ArrayLike, n_bits: int, factors: tuple[float, float] | None = None, first_bits: int = 0
) -> NDArray[np.float32]:
    """Contribution of each value of each byte of a code to its distance from Y (q, r): (q, bytes, 256).

    With ``factors``, the bits up to ``first_bits`` and the others are two parts, each scaled on its own.
    """
    given = np.asarray(Y)
    if given.ndim != 2 or given.shape[1] != n_bits or given.dtype.kind not in "fiu":
        raise ValueError(
            f"the embedding of the queries must be real numbers of shape (q, {n_bits}), as embed() returns "
            f"them, got shape {given.shape} and type {given.dtype}"
        )
    finite_block(given, name="the embedding of the queries")
    padded = np.zeros((len(given), 8 * n_bytes(n_bits)))
    if factors is None:
        padded[:, :n_bits] = _bounded(given, scaled=False)
    else:
        for part, factor in zip((slice(0, first_bits), slice(first_bits, n_bits)), factors, strict=True):
            padded[:, part] = factor * _bounded(given[:, part], scaled=True)
    y = padded.reshape(len(given), -1, 8, 1)
    tables = np.zeros((len(given), y.shape[1], 256))
    bits = unpack(np.arange(256, dtype=np.uint8)[:, None], 8)
    positive = np.zeros(padded.shape, np.bool_)
    positive[:, :n_bits] = given > 0
    positive = positive.reshape(y.shape)
    for j in range(8):
        tables += np.abs(y[:, :, j]) * (bits[:, j] != positive[:, :, j])
    return tables.astype(np.float32)


def _bounded(Y: NDArray[Any], *, scaled: bool) -> Floats:
    """Y (q, r) with absolute values of at most the root mean square of a row, divided by it if ``scaled``."""
    y = Y.astype(np.float64)
    largest = np.abs(y).max(axis=1, keepdims=True, initial=0)
    extreme = (largest > 1e30) | ((largest < 1e-30) & (largest > 0))
    y /= np.where(extreme, largest, 1)  # squares and sums stay within float32
    most = np.sqrt(np.square(y).sum(axis=1, keepdims=True) / y.shape[1])
    y = np.clip(y, -most, most)
    return y / np.where(most > 0, most, 1) if scaled else y


def _distances(tables: NDArray[np.float32], codes: Codes) -> NDArray[np.float32]:
    """Distances (q, n) of the queries of the tables (q, b, 256) to codes (n, b)."""
    distance = np.zeros((len(tables), len(codes)), np.float32)
    for i in range(0, len(codes), _CODES):
        columns = codes[i : i + _CODES].T.astype(np.intp)
        for table, out in zip(tables, distance[:, i : i + _CODES], strict=True):
            for values, column in zip(table, columns, strict=True):
                out += values[column]
    return distance


def pair_distances(
    tables: NDArray[np.float32], query: Ints, codes: Codes, position: Ints
) -> NDArray[np.float32]:
    """Distances (p,) of pairs of queries of the tables (q, b, 256) and codes (n, b), by their positions."""
    distance = np.zeros(len(query), np.float32)
    for byte in range(tables.shape[1]):
        distance += tables[query, byte, codes[position, byte]]
    return distance


class AsymmetricQueries:
    """Queries that rank codes by asymmetric distance; levels are the bits of float32."""

    def __init__(self, Y: ArrayLike, n_bits: int, layout: CodeLayout | None = None) -> None:
        self._tables = byte_tables(Y, n_bits, *factors_of(layout))

    def __len__(self) -> int:
        return len(self._tables)

    def nearest(self, which: Ints, codes: Codes, m: int) -> tuple[Ints, Ints]:
        """Levels and positions (len(which), m) of the m codes nearest to some queries, ties by position."""
        level, position = np.empty((2, len(which), m), np.int64)
        for i in range(0, len(which), _QUERIES):
            tables = self._tables[which[i : i + _QUERIES]]
            distance = _distances(tables, codes[:, : tables.shape[1]])
            position[i : i + _QUERIES] = smallest(distance, m)
            near = np.take_along_axis(distance, position[i : i + _QUERIES], axis=1)
            level[i : i + _QUERIES] = near.view(np.int32)
        return level, position

    @staticmethod
    def distances(level: Ints) -> NDArray[np.float32]:
        """Distances for levels."""
        return level.astype(np.int32).view(np.float32)
