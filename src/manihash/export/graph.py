"""A small builder of ONNX graphs: values with their types, constants and operators."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import checks
from manihash.errors import ModelFileError
from manihash.types import Floats

# The oldest opset with all operators that are used, and the oldest file version that may hold it.
OPSET, IR_VERSION = 18, 8
# A protobuf message, and so an ONNX file, holds less than 2^31 bytes; the rest is for the nodes.
MOST_BYTES = 2**31 - 2**20
BATCH, PRODUCER = "batch", "manihash"


@dataclass(frozen=True)
class GraphValue:
    """An input, a constant or the result of a node, with the type of its numbers."""

    name: str
    dtype: np.dtype[Any]


class Graph:
    """The nodes and constants of a graph, in the order in which they were added.

    Formulas are written with ``op``, and with ``like``, which gives a constant the type of a value.
    """

    def __init__(self) -> None:
        self._onnx = checks.extra("onnx", "onnx")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._bytes = 0

    def constant(self, array: Any) -> GraphValue:
        """A constant with the values and the type of the array."""
        array = np.ascontiguousarray(array)
        self._bytes += array.nbytes
        if self._bytes > MOST_BYTES:
            raise ValueError(
                f"the graph holds more than {MOST_BYTES:,} bytes of numbers, and an ONNX file at most 2 GB: "
                "use a smaller base set, ReducedBase, or a graph in float32 (double=False)"
            )
        name = f"c{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return GraphValue(name, array.dtype)

    def like(self, array: Any, value: GraphValue) -> GraphValue:
        """A constant with the values of the array, in the type of another value."""
        return self.constant(np.asarray(array).astype(value.dtype))

    def op(self, kind: str, *inputs: GraphValue, dtype: Any = None, **attributes: Any) -> GraphValue:
        """The result of an operator, in the type of its first input unless ``dtype`` is given."""
        return self.ops(kind, *inputs, dtypes=(dtype or inputs[0].dtype,), **attributes)[0]

    def ops(
        self, kind: str, *inputs: GraphValue, dtypes: tuple[Any, ...], **attributes: Any
    ) -> list[GraphValue]:
        """The results of an operator with several outputs of the given types."""
        names = [f"v{len(self._nodes)}_{i}" for i in range(len(dtypes))]
        operands = [value.name for value in inputs]
        self._nodes.append(self._onnx.helper.make_node(kind, operands, names, **attributes))
        return [GraphValue(name, np.dtype(dtype)) for name, dtype in zip(names, dtypes, strict=True)]

    def cast(self, value: GraphValue, dtype: Any) -> GraphValue:
        """The value in another type; the value itself if it has that type."""
        if value.dtype == dtype:
            return value
        return self.op("Cast", value, dtype=dtype, to=self._type(dtype))

    def tensor(self, array: NDArray[Any]) -> Any:
        """The array as an attribute of an operator."""
        return self._onnx.numpy_helper.from_array(array)

    def ints(self, *numbers: int) -> GraphValue:
        """A constant of integers, such as axes and shapes."""
        return self.constant(np.array(numbers, np.int64))

    def model(
        self,
        rows: GraphValue,
        width: int,
        outputs: dict[str, tuple[GraphValue, *tuple[int, ...]]],
        facts: dict[str, str],
    ) -> Any:
        """The checked model that maps ``rows`` (batch, width) to the outputs, a value and its shape each."""
        make = self._onnx.helper
        for name, (value, *_) in outputs.items():
            self._nodes.append(make.make_node("Identity", [value.name], [name]))
        graph = make.make_graph(
            self._nodes,
            "manihash encoder",
            [self._described(rows.name, rows.dtype, width)],
            [self._described(name, value.dtype, *shape) for name, (value, *shape) in outputs.items()],
            self._constants,
        )
        opsets = [make.make_opsetid("", OPSET)]
        model = make.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name=PRODUCER)
        model.producer_version = facts["manihash_version"]
        make.set_model_props(model, facts)
        self._onnx.checker.check_model(model)
        return model

    def _described(self, name: str, dtype: np.dtype[Any], *shape: int) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._type(dtype), [BATCH, *shape])

    def _type(self, dtype: Any) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def read_metadata(path: Any) -> dict[str, str]:
    """The metadata of an ONNX file that manihash wrote."""
    onnx = checks.extra("onnx", "onnx")
    try:
        model = onnx.load(path)
    except OSError:
        raise
    except Exception as error:  # protobuf's class of errors depends on its version
        raise ModelFileError(
            f"{path} is not an ONNX file, or it is damaged ({error}): write it again"
        ) from error
    facts = {entry.key: entry.value for entry in model.metadata_props}
    if model.producer_name != PRODUCER or "n_bits" not in facts:
        raise ModelFileError(
            f"{path} is an ONNX file of {model.producer_name or 'an unknown program'}, not of manihash: "
            "give a file that to_onnx() wrote"
        )
    return facts


def squared_norms(g: Graph, X: GraphValue) -> GraphValue:
    """|x|² of each row of X (b, d), as (b, 1)."""
    return g.op("ReduceSumSquare", X, g.ints(1), keepdims=1)


def closeness(g: Graph, X: GraphValue, C: Floats) -> GraphValue:
    """x·c - |c|²/2 of each row of X (b, d) and each point of C (m, d), as (b, m): largest for the nearest."""
    points = C.astype(X.dtype)
    half = (points.astype(np.float64) ** 2).sum(axis=1) / 2
    return g.op("Sub", g.op("MatMul", X, g.constant(points.T)), g.like(half, X))


def squared_distances(g: Graph, X: GraphValue, C: Floats) -> GraphValue:
    """|x - c|² of each row of X (b, d) and each point of C (m, d), as (b, m), never negative."""
    double = g.op("Mul", closeness(g, X, C), g.like(2, X))
    return g.op("Max", g.op("Sub", squared_norms(g, X), double), g.like(0, X))


def affine(g: Graph, X: GraphValue, projection: Floats, offset: NDArray[Any] | None = None) -> GraphValue:
    """X P + b (b, r) for a projection P (d, r) and an offset b (r,)."""
    Y = g.op("MatMul", X, g.like(projection, X))
    return Y if offset is None else g.op("Add", Y, g.like(offset, X))
