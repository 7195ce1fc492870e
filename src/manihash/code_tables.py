"""Tables that rank codes: what each value of each byte adds to the distance of a code from a query."""

import numpy as np
from numpy.typing import NDArray

from manihash.types import Codes, Floats

# Values of queries and centers that are compared at once; codes whose bytes are looked up at once.
_COMPARED, _CODES = 2**14, 2**16


def table_distances(tables: NDArray[np.float32], codes: Codes) -> NDArray[np.float32]:
    """Distances (q, n) of the queries of tables (q, b, 256) to split codes (n, b)."""
    distance = np.zeros((len(tables), len(codes)), np.float32)
    for i in range(0, len(codes), _CODES):
        columns = codes[i : i + _CODES].T.astype(np.intp)
        for table, out in zip(tables, distance[:, i : i + _CODES], strict=True):
            for values, column in zip(table, columns, strict=True):
                out += values[column]
    return distance


def sign_costs(weights: Floats, positive: NDArray[np.bool_]) -> Floats:
    """|weights_j| [bit_j ≠ positive_j] for both values of each bit: (q, r, 2)."""
    costs = np.zeros((*weights.shape, 2))
    np.abs(weights, out=costs[:, :, 0], where=positive)
    np.abs(weights, out=costs[:, :, 1], where=~positive)
    return costs


def byte_tables(costs: Floats) -> Floats:
    """Sums of the costs (q, f, c) of the fields in a byte, for each value of each byte: (q, bytes, 256)."""
    q, f, c = costs.shape
    per_byte = 8 // int(c - 1).bit_length()
    if f % per_byte:
        costs = np.concatenate([costs, np.zeros((q, -f % per_byte, c))], axis=1)
    while (c := costs.shape[2]) < 256:
        costs = (costs[:, ::2, :, None] + costs[:, 1::2, None]).reshape(q, -1, c * c)
    return costs


def by_coordinate(books: NDArray[np.floating]) -> Floats:
    """Codebooks (f, c, w) as ``center_distances`` takes them: (w, f, c), so that it adds up long rows."""
    return np.ascontiguousarray(books.transpose(2, 0, 1), np.float64)


def center_distances(Z: NDArray[np.floating], centers: Floats) -> Floats:
    """|z_j - c|² (q, f, c) of coordinates (q, f w) and centers (w, f, c) of fields.

    They are sums of squared differences and not products: those of a query do not depend on the others.
    """
    w, f, c = centers.shape
    z = Z.reshape(len(Z), f, w).transpose(0, 2, 1)[..., None].astype(np.float64)
    found = np.empty((len(Z), f, c))
    differences = np.empty((min(len(Z), max(1, _COMPARED // (f * c * w))), w, f, c))
    for i in range(0, len(Z), max(1, len(differences))):
        some = np.subtract(z[i : i + len(differences)], centers, out=differences[: len(Z) - i])
        np.square(some, out=some).sum(axis=1, out=found[i : i + len(some)])
    return found


def bounded(Y: NDArray[np.number], *, scaled: bool) -> Floats:
    """Y (q, r) with absolute values of at most the root mean square of a row, divided by it if ``scaled``."""
    y = Y.astype(np.float64)
    largest = np.abs(y).max(axis=1, keepdims=True, initial=0)
    extreme = (largest > 1e30) | ((largest < 1e-30) & (largest > 0))
    if extreme.any():
        y /= np.where(extreme, largest, 1)  # squares and sums stay within float32
    most = np.sqrt(np.square(y).sum(axis=1, keepdims=True) / max(1, y.shape[1]))
    np.minimum(np.maximum(y, -most, out=y), most, out=y)
    return y / np.where(most > 0, most, 1) if scaled else y
