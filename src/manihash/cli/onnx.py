"""manihash onnx: write a model as an ONNX file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._output import (
    file_size,
    key_values,
    print_json,
    print_message,
    print_result,
    progress_shown,
)

if TYPE_CHECKING:
    from manihash import Hasher
    from manihash.export import OnnxComparison


def onnx(
    model: _options.Model,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.onnx", help="ONNX file to write.")],
    double: Annotated[
        bool,
        typer.Option("--double", help="Compute in float64: the codes are those of [bold]manihash encode[/]."),
    ] = False,
    tables: Annotated[
        bool,
        typer.Option(
            "--tables",
            help="Add the output tables, from which a program computes the distances of a query to codes.",
        ),
    ] = False,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample",
            metavar="VECTORS",
            help=f"Compare the codes of these vectors: {_options.VECTOR_FILES}.",
            show_default="vectors drawn near those that the model holds",
        ),
    ] = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Write a model as an ONNX file, for programs in any language.

    The graph maps float32 vectors "rows" to packed "codes" and to real
    "values". It uses standard operators (opset 18), and any number of vectors
    is one batch. The file is then run by onnxruntime, and the codes of a sample
    are compared with those of manihash encode. In float32 at most 1 bit in
    100,000 may differ, with --double none; a warning says if more do.

    Examples:

      manihash onnx model.mhash -o encoder.onnx
      manihash onnx model.mhash -o encoder.onnx --double --sample vectors.npy
      manihash onnx model.mhash -o queries.onnx --tables
    """
    _inputs.check_inputs(sample, model=model)
    _inputs.check_output(out, model, sample)
    hasher = _inputs.load_hasher(model)
    with progress_shown(quiet) as bar:
        bar.start("writing")
        hasher.to_onnx(out, double=double, tables=tables)
        bar.start("comparing codes")
        compared = _compared(out, hasher, sample)
    facts = {**_facts(out, hasher, compared, sample), "tables": tables}
    if not compared.acceptable:
        print_message("warning", _too_many(compared), "yellow")
    print_json(facts) if as_json else print_result(key_values(_as_text(facts)))


def _compared(out: Path, hasher: "Hasher", sample: str | None) -> "OnnxComparison":
    from manihash.export import compare_onnx

    if sample is None:
        return compare_onnx(out, hasher)
    with _inputs.opened(sample, None) as X:
        return compare_onnx(out, hasher, X)


def _too_many(compared: "OnnxComparison") -> str:
    differ = f"{compared.different_bits:,} of {compared.bits:,} bits differ from manihash encode"
    if compared.precision == "float64":
        return f"{differ}: these values are zero but for rounding errors"
    return f"{differ}, more than 1 in 100,000: use --double"


def _facts(out: Path, hasher: "Hasher", compared: "OnnxComparison", sample: str | None) -> dict[str, Any]:
    from manihash.export.graph import OPSET, read_metadata

    return {
        "file": str(out),
        "file_bytes": out.stat().st_size,
        "opset": OPSET,
        "metadata": read_metadata(out),
        "width": hasher.n_features_in_,
        "bits": hasher.n_bits_,
        "values": hasher._n_values,
        "sample": sample,
        "rows_compared": compared.rows,
        "bits_compared": compared.bits,
        "different_rows": compared.different_rows,
        "different_bits": compared.different_bits,
    }


def _as_text(facts: dict[str, Any]) -> dict[str, str]:
    metadata, r = facts["metadata"], facts["bits"]
    name = f"{metadata['class']}, recipe {metadata['recipe']}" if "recipe" in metadata else metadata["class"]
    drawn = f"of {facts['sample']}" if facts["sample"] else "drawn near those of the model"
    return {
        "file": f"{facts['file']} ({file_size(facts['file_bytes'])}), opset {facts['opset']}",
        "model": f"{name}, codes of {facts['bits']} bits",
        "input": f"rows: float32 (batch, {facts['width']})",
        "outputs": f"codes: uint8 (batch, {-(-r // 8)}); values: {metadata['precision']} (batch, "
        f"{facts['values']})" + ("; tables: float32 (batch, bytes, 256)" if facts["tables"] else ""),
        "comparison": f"{facts['different_bits']:,} of {facts['bits_compared']:,} bits differ from manihash "
        f"encode ({facts['rows_compared']:,} vectors {drawn})",
    }
