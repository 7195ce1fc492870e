"""What each hasher computes, as operators of an ONNX graph: rows in, real values and bits out.

A formula belongs to one implementation of ``_embed``: a subclass that inherits it has the same formula, and
one that overrides it has none.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from manihash.export.graph import Graph, GraphValue, affine, closeness, squared_distances, squared_norms
from manihash.export.neighbors import induced
from manihash.hashers._hasher import Hasher
from manihash.hashers._kernel_hasher import KernelHasher
from manihash.hashers._linear import LinearHasher
from manihash.hashers.agh import AGH
from manihash.hashers.bridged import BridgedHasher
from manihash.hashers.e2lsh import E2LSH
from manihash.hashers.hybrid import Hybrid
from manihash.hashers.imh import IMH
from manihash.hashers.product import ProductQuantizer
from manihash.hashers.sh import SH
from manihash.hashers.sign import SignQuantizer
from manihash.hashers.sklsh import SKLSH
from manihash.hashers.sph import SpH
from manihash.hashers.supervised_imh import SupervisedIMH
from manihash.types import Floats

SUPPORTED = (
    "IMH, SupervisedIMH, AGH, Hybrid, BridgedHasher, ProductQuantizer, SH, SpH, SKLSH, E2LSH, SignQuantizer, "
    "the linear hashers (LSH, PCAH, ITQ, MahalanobisLSH, STH, BRE, SSH, LDAHash, CGH) and the kernel "
    "hashers (KLSH, KSH, RMMH) with a kernel that is not a function"
)


def values_and_bits(g: Graph, rows: GraphValue, hasher: Any, double: bool) -> tuple[GraphValue, GraphValue]:
    """The real values (b, v) and bits (b, r) of rows as they come (b, d).

    They are computed in float64 if ``double`` or the model needs it.
    """
    double = double or hasher.in_float64_
    if type(hasher)._embed is Hybrid._embed:  # each part prepares its rows itself
        return _hybrid(g, rows, hasher, double)
    if type(hasher)._embed is BridgedHasher._embed:
        mapped = _mapped(g, _prepared(g, rows, hasher, double), hasher)
        return values_and_bits(g, mapped, hasher.hasher_, double)
    if (formula := _FORMULAS.get(type(hasher)._embed)) is None:
        raise _unsupported(type(hasher).__name__)
    Y = formula(g, _prepared(g, rows, hasher, double), hasher)
    if type(hasher)._bits_of is ProductQuantizer._bits_of:
        return Y, _bits_of_fields(
            g, _nearest_centers(g, Y, hasher.codebooks_), hasher.n_bits_, hasher._field_bits
        )
    if type(hasher)._bits_of is not Hasher._bits_of:
        raise _unsupported(type(hasher).__name__)
    return Y, g.op("Greater", Y, g.like(0, Y), dtype=np.bool_)


def _unsupported(what: str) -> ValueError:
    return ValueError(f"{what} has no formula in ONNX operators: supported are {SUPPORTED}")


def _prepared(g: Graph, rows: GraphValue, hasher: Any, double: bool) -> GraphValue:
    """The rows (b, d), scaled and shifted as in ``encode``; both in float64, so that nothing underflows."""
    X = g.cast(rows, np.float64) if hasher.normalize_ or hasher.origin_ is not None else rows
    if hasher.normalize_:
        X = _unit_rows(g, X)
    if hasher.origin_ is not None:
        X = g.op("Sub", X, g.like(hasher.origin_, X))
    return g.cast(X, np.float64 if double else np.float32)


def _mapped(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    """The rows (b, p) of the old space; in float64 rounded to their grid, as ``encode`` rounds them."""
    found, Z = hasher._space_map(), g.cast(X, np.float64)
    if found.unit:
        Z = _unit_rows(g, Z)
    X = g.cast(g.op("Sub", Z, g.like(found.center, Z)), X.dtype)
    parts = [] if found.linear is None else [affine(g, X, found.linear)]
    if found.down is not None:
        reduced = affine(g, X, found.down)
        if found.up is not None:
            parts.append(affine(g, reduced, found.up))
        if found.hidden is not None:
            h = g.op("Relu", affine(g, reduced, found.hidden, found.hidden_offset))
            parts.append(affine(g, h, found.residual))
    Y = parts[0] if len(parts) == 1 else g.op("Sum", *parts)
    Y = g.op("Add", Y, g.like(found.offset, X))
    if X.dtype != np.float64:  # a grid would turn rounding errors into larger ones
        return Y
    step = g.like(found.step, Y)
    return g.op("Mul", g.op("Round", g.op("Div", Y, step)), step)


def _unit_rows(g: Graph, X: GraphValue) -> GraphValue:
    """The rows (b, d) scaled to unit length; zeros stay zeros."""
    length = g.op("Sqrt", squared_norms(g, X))
    zero = g.op("Equal", length, g.like(0, X), dtype=np.bool_)
    return g.op("Div", X, g.op("Where", zero, g.like(1, X), length, dtype=X.dtype))


def _linear(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    return affine(g, X, hasher.projection_, -hasher.offset_)


def _product_quantizer(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    if hasher.projection_ is not None:
        return affine(g, X, hasher.projection_, -hasher.offset_)
    missing = len(hasher.offset_) - hasher.n_features_in_
    filled = g.op("Pad", X, g.ints(0, 0, 0, missing)) if missing else X
    return g.op("Sub", filled, g.like(hasher.offset_, X))


def _nearest_centers(g: Graph, Z: GraphValue, books: Floats) -> GraphValue:
    """The numbers (b, f) of the nearest centers of coordinates (b, p); the lowest if several are."""
    w, found = books.shape[2], []
    for j, book in enumerate(books):
        field = g.op("Slice", Z, g.ints(j * w), g.ints((j + 1) * w), g.ints(1))
        found.append(g.op("ArgMax", closeness(g, field, book), dtype=np.int64, axis=1, keepdims=1))
    return g.op("Concat", *found, axis=1)


def _bits_of_fields(g: Graph, numbers: GraphValue, n_bits: int, bits: int) -> GraphValue:
    """Whether the bits (b, n_bits) of numbers (b, f) are 1; the highest bit of a number comes first."""
    powers = g.ints(*(2**place for place in range(bits - 1, -1, -1)))
    quotients = g.op("Div", g.op("Unsqueeze", numbers, g.ints(2)), powers)
    ones = g.op("Reshape", g.op("Mod", quotients, g.ints(2)), g.ints(0, n_bits))
    return g.cast(ones, np.bool_)


def _kernel(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    if hasher.points_ is None:
        return affine(g, X, hasher.weights_, -hasher.offset_)
    if hasher.kernel != "rbf":
        raise _unsupported(f"{type(hasher).__name__} with a function as kernel")
    squared = _rounded_squares(g, X, hasher.points_)
    K = g.op("Exp", g.op("Mul", squared, g.like(-hasher.gamma_, X)))
    weights = hasher.weights_.astype(X.dtype)
    sums = g.cast(affine(g, g.cast(K, np.float64), weights), X.dtype)  # large terms cancel: as in ``encode``
    return g.op("Sub", sums, g.like(hasher.offset_, X))


def _rounded_squares(g: Graph, X: GraphValue, C: Floats) -> GraphValue:
    """|x - c|² (b, m) in the type of X; only the result is rounded, as in ``encode``.

    |x|² - 2xᵀc + |c|² is a small difference of large numbers if rows lie far from zero.
    """
    return g.cast(squared_distances(g, g.cast(X, np.float64), C), X.dtype)


def _agh(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    Y = induced(g, X, hasher)
    if not hasher.thresholds_.size:
        return Y
    above, below = (g.like(row, X) for row in hasher.thresholds_)
    halved = g.op("Slice", Y, g.ints(0), g.ints(hasher.thresholds_.shape[1]), g.ints(1))
    positive = g.op("Greater", halved, g.like(0, X), dtype=np.bool_)
    second = g.op(
        "Where", positive, g.op("Sub", halved, above), g.op("Sub", below, halved), dtype=halved.dtype
    )
    return g.op("Concat", Y, second, axis=1)


def _hybrid(g: Graph, rows: GraphValue, hasher: Any, double: bool) -> tuple[GraphValue, GraphValue]:
    parts = [values_and_bits(g, rows, part, double) for part in (hasher.first_, hasher.second_)]
    dtype = np.result_type(*(Y.dtype for Y, _ in parts))
    Y = g.op("Concat", *(g.cast(Y, dtype) for Y, _ in parts), axis=1)
    return Y, g.op("Concat", *(bits for _, bits in parts), axis=1)


def _sh(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    # sin(f (Pᵀx - low) + π/2): the frequencies are part of the projection.
    projection = hasher.projection_ * hasher.frequencies_
    return g.op("Sin", affine(g, X, projection, np.pi / 2 - hasher.offset_ * hasher.frequencies_))


def _sph(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    distance = g.op("Sqrt", _rounded_squares(g, X, hasher.centers_))
    return g.op("Sub", g.like(hasher.radii_, X), distance)


def _sklsh(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    Y = affine(g, X, hasher.projection_, hasher.phases_)
    return g.op("Add", g.op("Cos", Y), g.like(hasher.thresholds_, X))


def _e2lsh(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    """½ - |(t + ½) mod 2 - 1| of t = (Pᵀx + b) / w, with the remainder t - 2 ⌊t / 2⌋."""
    half, two = g.like(0.5, X), g.like(2, X)
    scaled = affine(g, X, hasher.projection_ / hasher.width_, hasher.offset_ / hasher.width_ + 0.5)
    turns = g.op("Floor", g.op("Mul", scaled, half))
    rest = g.op("Sub", scaled, g.op("Mul", turns, two))
    return g.op("Sub", half, g.op("Abs", g.op("Sub", rest, g.like(1, X))))


def _sign(g: Graph, X: GraphValue, hasher: Any) -> GraphValue:
    Z = g.op("Sub", X, g.like(hasher.mean_, X))
    rotation, d = hasher.rotation_, hasher.n_features_in_
    if rotation is None and hasher.n_bits_ < d:
        rotation = np.eye(d, hasher.n_bits_)  # the first columns
    return Z if rotation is None else affine(g, Z, rotation)


_FORMULAS: dict[Callable[..., Any], Callable[[Graph, GraphValue, Any], GraphValue]] = {
    IMH._embed: induced,
    SupervisedIMH._embed: induced,
    AGH._embed: _agh,
    LinearHasher._embed: _linear,
    KernelHasher._embed: _kernel,
    ProductQuantizer._embed: _product_quantizer,
    SH._embed: _sh,
    SpH._embed: _sph,
    SKLSH._embed: _sklsh,
    E2LSH._embed: _e2lsh,
    SignQuantizer._embed: _sign,
}
