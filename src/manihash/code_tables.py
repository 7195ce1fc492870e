"""Tables that rank codes: what each value of each byte adds to the distance of a code from a query."""

import numpy as np
from numpy.typing import NDArray

from manihash.codes import n_bytes, unpack
from manihash.types import Codes, Floats

# Values of queries and centers that are compared at once; codes whose bytes are looked up at once.
_COMPARED, _CODES = 2**16, 2**16


def table_distances(tables: NDArray[np.float32], codes: Codes) -> NDArray[np.float32]:
    """Distances (q, n) of the queries of tables (q, b, 256) to split codes (n, b)."""
    distance = np.zeros((len(tables), len(codes)), np.float32)
    for i in range(0, len(codes), _CODES):
        columns = codes[i : i + _CODES].T.astype(np.intp)
        for table, out in zip(tables, distance[:, i : i + _CODES], strict=True):
            for values, column in zip(table, columns, strict=True):
                out += values[column]
    return distance


def sign_tables(weights: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Σ_j |weights_j| [bit_j ≠ positive_j] for the bits of each value of each byte: (q, bytes, 256)."""
    q, r = weights.shape
    padded = np.zeros((2, q, 8 * n_bytes(r)))
    padded[0, :, :r], padded[1, :, :r] = np.abs(weights), positive
    y, one = padded.reshape(2, q, n_bytes(r), 8, 1)
    bits = unpack(np.arange(256, dtype=np.uint8)[:, None], 8)
    tables = np.zeros((q, y.shape[1], 256))
    for j in range(8):
        tables += y[:, :, j] * (bits[:, j] != one[:, :, j])
    return tables


def field_tables(Z: NDArray[np.floating], books: NDArray[np.floating]) -> Floats:
    """|z_j - c|² of coordinates (q, f w) and codebooks (f, c, w), added up for each byte: (q, bytes, 256)."""
    f, c, _ = books.shape
    bits = int(c - 1).bit_length()
    found, per_byte = center_distances(Z, books), 8 // bits
    if per_byte == 1:
        return found
    padded = np.zeros((len(Z), -(-f // per_byte) * per_byte, c))
    padded[:, :f] = found
    number = np.arange(256)
    fields = padded.reshape(len(Z), padded.shape[1] // per_byte, per_byte, c)
    return sum(fields[:, :, i, number >> 8 - bits * (i + 1) & c - 1] for i in range(per_byte))  # type: ignore[return-value]


def center_distances(Z: NDArray[np.floating], books: NDArray[np.floating]) -> Floats:
    """|z_j - c|² (q, f, c) of coordinates (q, f w) and codebooks (f, c, w).

    They are sums of squared differences and not products: those of a query do not depend on the others.
    """
    f, c, w = books.shape
    centers = np.ascontiguousarray(books.transpose(0, 2, 1), np.float64)  # (f, w, c): sums of long rows
    z = Z.reshape(len(Z), f, w, 1).astype(np.float64)
    found = np.empty((len(Z), f, c))
    step = max(1, _COMPARED // (f * c * w))
    for i in range(0, len(Z), step):
        differences = z[i : i + step] - centers
        np.square(differences, out=differences).sum(axis=2, out=found[i : i + step])
    return found


def bounded(Y: NDArray[np.number], *, scaled: bool) -> Floats:
    """Y (q, r) with absolute values of at most the root mean square of a row, divided by it if ``scaled``."""
    y = Y.astype(np.float64)
    largest = np.abs(y).max(axis=1, keepdims=True, initial=0)
    extreme = (largest > 1e30) | ((largest < 1e-30) & (largest > 0))
    y /= np.where(extreme, largest, 1)  # squares and sums stay within float32
    most = np.sqrt(np.square(y).sum(axis=1, keepdims=True) / max(1, y.shape[1]))
    y = np.clip(y, -most, most)
    return y / np.where(most > 0, most, 1) if scaled else y
