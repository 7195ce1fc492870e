"""The distance tables of a query as operators of an ONNX graph, so that another program can rank codes.

The distance of a query to a code is the sum of table entries, one for each byte of the code. They are
computed in float64, as ``CodeLayout.tables`` does.
"""

import numpy as np

from manihash.code_layout import CodeLayout
from manihash.codes import n_bytes, unpack
from manihash.export.graph import Graph, GraphValue
from manihash.types import Floats


def query_tables(g: Graph, Y: GraphValue, layout: CodeLayout) -> GraphValue:
    """The tables (b, bytes, 256) in float32 of real values (b, v)."""
    values = g.cast(Y, np.float64)
    if layout.is_hamming:
        tables = _of_signs(g, _magnitudes(g, values, scaled=False), values, layout.n_bits)
        return g.cast(tables, np.float32)
    r, v = layout.look_up_bits, layout.n_values
    if layout.codebooks is not None and not r:
        return g.cast(_of_fields(g, values, layout.codebooks), np.float32)
    factor = g.constant(np.float64(layout.weight * layout.scale))
    if layout.codebooks is None:
        parts = [_magnitudes(g, _columns(g, values, start, stop)) for start, stop in ((0, r), (r, v))]
        weights = g.op("Concat", parts[0], g.op("Mul", parts[1], factor), axis=1)
        return g.cast(_of_signs(g, weights, values, layout.n_bits), np.float32)
    signs = _columns(g, values, 0, r)
    signed = _of_signs(g, _magnitudes(g, signs), signs, r)
    fields = g.op("Mul", _of_fields(g, _columns(g, values, r, v), layout.codebooks), factor)
    return g.cast(g.op("Concat", signed, fields, axis=1), np.float32)


def n_tables(layout: CodeLayout) -> int:
    """The number of tables: bytes of a code whose parts have bytes of their own."""
    if layout.codebooks is None:
        return n_bytes(layout.n_bits)
    return n_bytes(layout.look_up_bits) + n_bytes(layout.second_bits)


def _columns(g: Graph, values: GraphValue, start: int, stop: int) -> GraphValue:
    return g.op("Slice", values, g.ints(start), g.ints(stop), g.ints(1))


def _magnitudes(g: Graph, values: GraphValue, *, scaled: bool = True) -> GraphValue:
    """min(|y_j|, rms) of values (b, r), divided by the root mean square rms of a row if ``scaled``."""
    most = g.op("Sqrt", g.op("ReduceMean", g.op("Mul", values, values), g.ints(1), keepdims=1))
    weights = g.op("Min", g.op("Abs", values), most)
    if not scaled:
        return weights
    zero = g.op("Equal", most, g.like(0, most), dtype=np.bool_)
    return g.op("Div", weights, g.op("Where", zero, g.like(1, most), most, dtype=most.dtype))


def _of_signs(g: Graph, weights: GraphValue, values: GraphValue, r: int) -> GraphValue:
    """Σ_j w_j [bit_j ≠ (y_j > 0)] (b, bytes, 256) of weights and values (b, r)."""
    positive = g.op("Greater", values, g.like(0, values), dtype=np.bool_)
    nothing, width = g.like(0, weights), n_bytes(r)
    bits = unpack(np.arange(256, dtype=np.uint8)[:, None], 8).T.astype(np.float64)  # (8, 256)
    sums = []
    for of, differs in (
        ((weights, nothing), 1 - bits),  # of a positive value, zeros differ
        ((nothing, weights), bits),
    ):
        some = g.op("Where", positive, *of, dtype=weights.dtype)
        padded = g.op("Pad", some, g.ints(0, 0, 0, 8 * width - r)) if r % 8 else some
        grouped = g.op("Reshape", padded, g.ints(0, width, 8))
        sums.append(g.op("MatMul", grouped, g.like(differs, weights)))
    return g.op("Add", *sums)


def _of_fields(g: Graph, Z: GraphValue, books: Floats) -> GraphValue:
    """|z_j - c|² (b, bytes, 256) of coordinates (b, f w), added up for each byte."""
    f, c, w = books.shape
    bits = int(c - 1).bit_length()
    per_byte = 8 // bits
    differences = g.op("Sub", g.op("Reshape", Z, g.ints(0, f, 1, w)), g.like(books, Z))
    found = g.op("ReduceSumSquare", differences, g.ints(3), keepdims=0)  # (b, f, c)
    if per_byte == 1:
        return found
    width = -(-f // per_byte)
    if missing := width * per_byte - f:
        found = g.op("Pad", found, g.ints(0, 0, 0, 0, missing, 0))
    fields = g.op("Reshape", found, g.ints(0, width, per_byte, c))
    number, sums = np.arange(256), []
    for i in range(per_byte):
        label = g.constant((number >> 8 - bits * (i + 1) & c - 1).astype(np.int64))
        one = g.op("Gather", fields, g.ints(i), axis=2)  # (b, bytes, 1, c)
        sums.append(g.op("Gather", one, label, axis=3))
    return g.op("Squeeze", g.op("Sum", *sums), g.ints(2))
