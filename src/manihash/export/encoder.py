"""A fitted hasher as an ONNX file: rows in, packed codes and real values out."""

import os
from typing import Any

import numpy as np

from manihash import __version__, checks, codes
from manihash.code_layout import CodeLayout
from manihash.estimator import check_is_fitted
from manihash.export.formulas import values_and_bits
from manihash.export.graph import Graph, GraphValue
from manihash.export.tables import n_tables, query_tables
from manihash.files.atomic import atomic_write
from manihash.hashers._hasher import Hasher
from manihash.hashers.recipes import recipe_of


def export_onnx(
    hasher: Hasher, path: str | os.PathLike[str], *, double: bool = False, tables: bool = False
) -> None:
    """Write a fitted hasher as an ONNX file, which other programs run without manihash.

    The graph maps ``rows``, float32 of shape (batch, d), to ``codes``, uint8 of shape
    (batch, ceil(n_bits / 8)), and ``values``, the real values that ``embed`` returns, of shape
    (batch, n_bits), or (batch, p) for a product quantizer. With ``tables`` it has a third output. It scales
    and shifts rows as ``encode`` does. It uses standard operators of opset 18 and accepts any number of rows.
    It does not check rows: the code of a row with NaN or infinity has no meaning.
    ``Hasher.to_onnx`` does the same.

    The metadata of the file are ``manihash_version``, ``class``, ``recipe``, ``n_bits``, ``n_features``,
    ``model_id``, ``precision``, and for codes of two parts ``look_up_bits``, ``weight`` and ``scale``.

    Parameters
    ----------
    hasher : Hasher
        A fitted hasher of manihash. A hasher of your own is accepted if it inherits ``_embed``.
    path : str or path-like
        The file to write, usually with the extension ``.onnx``. The write is atomic.
    double : bool, default=False
        Compute in float64: the codes are those of ``encode`` for rows in float64. In float32, values
        within rounding of zero may have another sign; ``compare_onnx`` counts such bits.
    tables : bool, default=False
        Add the output ``tables``, float32 of shape (batch, bytes, 256): the distance of a row, as a query, to
        a code is Σ_j tables[j, code[j]] over the bytes of the code, so that another program can rank codes as
        ``Index.search`` does. If ``look_up_bits`` is not a multiple of 8 and codes have a product quantizer,
        the bytes are those of ``CodeLayout.split``.

    Raises
    ------
    ValueError
        If the hasher has no formula in ONNX operators, or the file would exceed 2 GB.
    ImportError
        If onnx is not installed.

    See Also
    --------
    manihash.export.compare_onnx : Compare the codes of a file with those of ``encode``.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import export_onnx
    >>> from manihash.export import compare_onnx
    >>> from manihash.hashers import LSH
    >>> X = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    >>> hasher = LSH(n_bits=16, random_state=0).fit(X)
    >>> export_onnx(hasher, "encoder.onnx")  # doctest: +SKIP
    >>> compare_onnx("encoder.onnx", hasher, X).different_bits  # doctest: +SKIP
    0
    """
    if not isinstance(hasher, Hasher):
        raise ValueError(f"hasher must be a fitted hasher such as IMH, not {hasher!r}")
    check_is_fitted(hasher)
    double, with_tables = checks.flag(double, "double"), checks.flag(tables, "tables")
    g = Graph()
    rows = GraphValue("rows", np.dtype(np.float32))
    Y, bits = values_and_bits(g, rows, hasher, double)
    packed = _packed(g, bits, hasher.n_bits_)
    shown = g.cast(Y, np.float64 if double else np.float32)
    outputs: dict[str, tuple[GraphValue, *tuple[int, ...]]]
    outputs = {"codes": (packed, codes.n_bytes(hasher.n_bits_)), "values": (shown, hasher._n_values)}
    if with_tables:
        outputs["tables"] = (query_tables(g, Y, hasher.layout_), n_tables(hasher.layout_), 256)
    model = g.model(rows, hasher.n_features_in_, outputs, _facts(hasher, double))
    with atomic_write(path) as part:
        part.write_bytes(model.SerializeToString())


def _packed(g: Graph, bits: GraphValue, n_bits: int) -> GraphValue:
    """Bits (b, r) packed into bytes (b, ceil(r / 8)): bit 0 is the highest of the first byte."""
    n_bytes = codes.n_bytes(n_bits)
    numbers = g.cast(bits, np.float32)
    if n_bits % 8:
        numbers = g.op("Pad", numbers, g.ints(0, 0, 0, 8 * n_bytes - n_bits))
    groups = g.op("Reshape", numbers, g.ints(0, n_bytes, 8))
    powers = g.constant(2 ** np.arange(7, -1, -1, dtype=np.float32))
    return g.cast(g.op("ReduceSum", g.op("Mul", groups, powers), g.ints(2), keepdims=0), np.uint8)


def _parts(hasher: Any) -> dict[str, Any]:
    """The parts of the codes of a hasher, if there are two."""
    layout: CodeLayout | None = getattr(hasher, "layout_", None)
    if layout is None or not layout.has_two_parts:
        return {}
    return {"look_up_bits": layout.look_up_bits, "weight": layout.weight, "scale": layout.scale}


def _facts(hasher: Any, double: bool) -> dict[str, str]:
    """The metadata of the file."""
    recipe, _ = recipe_of(hasher) or (None, {})
    facts = {
        "manihash_version": __version__,
        "class": type(hasher).__name__,
        "recipe": recipe,
        "n_bits": hasher.n_bits_,
        "n_features": hasher.n_features_in_,
        "model_id": getattr(hasher, "lineage_", {}).get("id"),
        "precision": "float64" if double else "float32",
        **_parts(hasher),
    }
    return {name: str(value) for name, value in facts.items() if value is not None}
