"""What each hasher computes, as operators of an ONNX graph: rows in, real values out.

A formula belongs to one implementation of ``_embed``: a subclass that inherits it has the same formula, and
one that overrides it has none.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from manihash.export.graph import Graph, Value, affine, squared_distances, squared_norms
from manihash.export.neighbors import induced
from manihash.hashers._kernel_hasher import KernelHasher
from manihash.hashers._linear import LinearHasher
from manihash.hashers.agh import AGH
from manihash.hashers.e2lsh import E2LSH
from manihash.hashers.hybrid import Hybrid
from manihash.hashers.imh import IMH
from manihash.hashers.sh import SH
from manihash.hashers.sign import SignQuantizer
from manihash.hashers.sklsh import SKLSH
from manihash.hashers.sph import SpH
from manihash.hashers.supervised_imh import SupervisedIMH

SUPPORTED = (
    "IMH, SupervisedIMH, AGH, Hybrid, SH, SpH, SKLSH, E2LSH, SignQuantizer, the linear hashers (LSH, PCAH, "
    "ITQ, MahalanobisLSH, STH, BRE, SSH, LDAHash, CGH) and the kernel hashers (KLSH, KSH, RMMH) with a "
    "kernel that is not a function"
)


def values(g: Graph, rows: Value, hasher: Any, double: bool) -> Value:
    """The real values (b, r) of rows as they come (b, d), in float64 if ``double`` or the model needs it."""
    double = double or hasher.in_float64_
    if type(hasher)._embed is Hybrid._embed:  # each part prepares its rows itself
        return _hybrid(g, rows, hasher, double)
    if (formula := _FORMULAS.get(type(hasher)._embed)) is None:
        raise _unsupported(type(hasher).__name__)
    return formula(g, _prepared(g, rows, hasher, double), hasher)


def _unsupported(what: str) -> ValueError:
    return ValueError(f"{what} has no formula in ONNX operators: supported are {SUPPORTED}")


def _prepared(g: Graph, rows: Value, hasher: Any, double: bool) -> Value:
    """The rows (b, d), scaled and shifted as in ``encode``; both in float64, so that nothing underflows."""
    X = g.cast(rows, np.float64) if hasher.normalize_ or hasher.origin_ is not None else rows
    if hasher.normalize_:
        length = g.op("Sqrt", squared_norms(g, X))
        zero = g.op("Equal", length, g.like(0, X), dtype=np.bool_)
        X = g.op("Div", X, g.op("Where", zero, g.like(1, X), length, dtype=X.dtype))
    if hasher.origin_ is not None:
        X = g.op("Sub", X, g.like(hasher.origin_, X))
    return g.cast(X, np.float64 if double else np.float32)


def _linear(g: Graph, X: Value, hasher: Any) -> Value:
    return affine(g, X, hasher.projection_, -hasher.offset_)


def _kernel(g: Graph, X: Value, hasher: Any) -> Value:
    if hasher.points_ is None:
        return affine(g, X, hasher.weights_, -hasher.offset_)
    if hasher.kernel != "rbf":
        raise _unsupported(f"{type(hasher).__name__} with a function as kernel")
    squared = squared_distances(g, X, hasher.points_)
    K = g.op("Exp", g.op("Mul", squared, g.like(-hasher.gamma_, X)))
    return affine(g, K, hasher.weights_, -hasher.offset_)


def _agh(g: Graph, X: Value, hasher: Any) -> Value:
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


def _hybrid(g: Graph, rows: Value, hasher: Any, double: bool) -> Value:
    parts = [values(g, rows, part, double) for part in (hasher.first_, hasher.second_)]
    dtype = np.result_type(*(part.dtype for part in parts))
    return g.op("Concat", *(g.cast(part, dtype) for part in parts), axis=1)


def _sh(g: Graph, X: Value, hasher: Any) -> Value:
    # sin(f (Pᵀx - low) + π/2): the frequencies are part of the projection.
    projection = hasher.projection_ * hasher.frequencies_
    return g.op("Sin", affine(g, X, projection, np.pi / 2 - hasher.offset_ * hasher.frequencies_))


def _sph(g: Graph, X: Value, hasher: Any) -> Value:
    distance = g.op("Sqrt", squared_distances(g, X, hasher.centers_))
    return g.op("Sub", g.like(hasher.radii_, X), distance)


def _sklsh(g: Graph, X: Value, hasher: Any) -> Value:
    Y = affine(g, X, hasher.projection_, hasher.phases_)
    return g.op("Add", g.op("Cos", Y), g.like(hasher.thresholds_, X))


def _e2lsh(g: Graph, X: Value, hasher: Any) -> Value:
    """½ - |(t + ½) mod 2 - 1| of t = (Pᵀx + b) / w, with the remainder t - 2 ⌊t / 2⌋."""
    half, two = g.like(0.5, X), g.like(2, X)
    scaled = affine(g, X, hasher.projection_ / hasher.width_, hasher.offset_ / hasher.width_ + 0.5)
    turns = g.op("Floor", g.op("Mul", scaled, half))
    rest = g.op("Sub", scaled, g.op("Mul", turns, two))
    return g.op("Sub", half, g.op("Abs", g.op("Sub", rest, g.like(1, X))))


def _sign(g: Graph, X: Value, hasher: Any) -> Value:
    Z = g.op("Sub", X, g.like(hasher.mean_, X))
    return Z if hasher.rotation_ is None else affine(g, Z, hasher.rotation_)


_FORMULAS: dict[Callable[..., Any], Callable[[Graph, Value, Any], Value]] = {
    IMH._embed: induced,
    SupervisedIMH._embed: induced,
    AGH._embed: _agh,
    LinearHasher._embed: _linear,
    KernelHasher._embed: _kernel,
    SH._embed: _sh,
    SpH._embed: _sph,
    SKLSH._embed: _sklsh,
    E2LSH._embed: _e2lsh,
    SignQuantizer._embed: _sign,
}
