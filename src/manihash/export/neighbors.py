"""Induction as an ONNX graph: nearest base points, weights, and the weighted sum of their values.

A finder that searches cells restricts each row to some of the base points. The graph compares a row with all
of them and excludes the others, so it has the same neighbors as ``encode``.
"""

from typing import Any

import numpy as np

from manihash.base.listed import ListedNeighbors
from manihash.base.neighbors import CoarseNeighbors, ExactNeighbors
from manihash.base.reduced import ReducedNeighbors
from manihash.export.graph import Graph, GraphValue, affine, closeness
from manihash.types import Floats

FINDERS = "ExactNeighbors, CoarseNeighbors, ListedNeighbors or ReducedNeighbors"


def induced(g: Graph, X: GraphValue, model: Any) -> GraphValue:
    """Y = W̄ Y_B (b, r) of rows X (b, d), for a model that holds a base graph."""
    graph, finder = model._graph, model.finder_
    if type(finder) is ReducedNeighbors:
        X, finder = affine(g, X, finder.directions_.T), finder.neighbors_
    scores = _among_searched(g, X, closeness(g, X, graph.B), finder, graph.k)
    best, index = g.ops("TopK", scores, g.ints(graph.k), dtypes=(X.dtype, np.int64), axis=1)
    weights = _normalized_weights(g, best, graph.sigma)
    neighbors = g.op("Gather", g.like(getattr(model, model._base_values), X), index, axis=0)  # (b, k, r)
    weighted = g.op("Mul", g.op("Unsqueeze", weights, g.ints(2)), neighbors)
    return g.op("ReduceSum", weighted, g.ints(1), keepdims=0)  # no MatMul: onnxruntime's takes no empty batch


def _normalized_weights(g: Graph, best: GraphValue, sigma: float) -> GraphValue:
    """w̄ (b, k) of the ``closeness`` of the nearest base points; |x|² cancels, and so does the largest."""
    limits = np.finfo(best.dtype)
    scale = np.clip(sigma * sigma, limits.tiny, limits.max) / 2
    nearest = g.op("Slice", best, g.ints(0), g.ints(1), g.ints(1))
    return g.op("Softmax", g.op("Div", g.op("Sub", best, nearest), g.like(scale, best)), axis=1)


def _among_searched(g: Graph, X: GraphValue, scores: GraphValue, finder: Any, k: int) -> GraphValue:
    """The scores (b, m), -inf for base points that the finder does not compare with a row."""
    if finder is None or type(finder) is ExactNeighbors:
        return scores
    if type(finder) is ListedNeighbors:
        searched = _listed(g, X, finder)
    elif type(finder) is CoarseNeighbors:
        searched = _probed(g, X, finder, k)
    else:
        raise ValueError(f"the base points are found by {finder!r}: an ONNX graph can only use {FINDERS}")
    return g.op("Where", searched, scores, g.like(-np.inf, scores), dtype=scores.dtype)


def _listed(g: Graph, X: GraphValue, finder: ListedNeighbors) -> GraphValue:
    """Whether a base point is in the list of the row's cell, (b, m)."""
    cell = g.op("ArgMax", closeness(g, X, finder.cells_), dtype=np.int64, axis=1, keepdims=0)
    return g.op("Gather", g.constant(_members(finder)), cell, axis=0)


def _members(finder: ListedNeighbors) -> Floats:
    """Whether a base point is in the list of a cell, (c, m)."""
    listed = np.zeros((len(finder.cells_), int(finder.bounds_[-1])), bool)
    listed[np.repeat(np.arange(len(listed)), np.diff(finder.ends_)), finder.members_] = True
    return listed


def _probed(g: Graph, X: GraphValue, finder: CoarseNeighbors, k: int) -> GraphValue:
    """Whether a base point is in one of the cells nearest to the row, (b, m)."""
    scores = closeness(g, X, finder.cells_)
    types = (scores.dtype, np.int64)
    _, probed = g.ops("TopK", scores, g.ints(finder._probes(k)), dtypes=types, axis=1)
    near = g.op(
        "ScatterElements", _filled(g, scores, False), probed, _filled(g, probed, True), axis=1
    )  # (b, c)
    cell_of_point = np.repeat(np.arange(len(finder.cells_)), np.diff(finder.bounds_))
    return g.op("Gather", near, g.constant(cell_of_point), axis=1)


def _filled(g: Graph, value: GraphValue, content: bool) -> GraphValue:
    """An array with the shape of a value, filled with False or True."""
    shape = g.op("Shape", value, dtype=np.int64)
    return g.op("ConstantOfShape", shape, dtype=np.bool_, value=g.tensor(np.array([content])))
