"""manihash build: fit a model, encode the vectors and write both as one index file."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from manihash.cli import _inputs, _options, _settings
from manihash.cli._indexes import is_index
from manihash.cli._output import (
    file_size,
    key_values,
    print_json,
    print_message,
    print_result,
    progress_shown,
)


def build(
    vectors: Annotated[
        str,
        typer.Argument(metavar="VECTORS", help=f"File of vectors, one per row: {_options.VECTOR_FILES}."),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help=f"Index file to write (*{_options.INDEX_SUFFIX})."),
    ],
    recipe: _options.Recipe = _options.DEFAULT_RECIPE,
    bits: _options.Bits = 64,
    ids: _options.Ids = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="File of labels, one per vector, for recipes that learn from labels.",
            show_default=False,
        ),
    ] = None,
    byte_vectors: Annotated[
        Path | None,
        typer.Option(
            "--byte-vectors",
            metavar="FILE",
            help="Also write the vectors, with one byte per value, for [bold]manihash search --rerank[/].",
            show_default=False,
        ),
    ] = None,
    seed: _options.Seed = 0,
    settings: _options.Settings = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Fit a model, encode the vectors and write an index with its model, in one file.

    manihash search, serve and export take the file alone. The file is written
    atomically: an existing file is replaced only when the new one is complete.
    For vectors that do not fit into memory, a cluster or a GPU, use the steps
    fit, encode and index.

    Examples:

      manihash build vectors.npy --bits 64 -o items.mhx
      manihash build vectors.npy --ids names.txt -o items.mhx
      manihash build vectors.npy --byte-vectors vectors.mhv -o items.mhx
      manihash build vectors.npy --labels y.npy --recipe ksh -o items.mhx
      manihash search items.mhx queries.npy -k 10
    """
    if not is_index(str(out)) and not out.is_dir():
        raise ValueError(f"{out} has not the suffix of an index file: use -o {out}{_options.INDEX_SUFFIX}")
    _inputs.check_inputs(vectors, ids, labels)
    _inputs.check_output(out, vectors, ids, labels)
    if byte_vectors is not None:
        _inputs.check_output(byte_vectors, vectors, ids, labels, str(out))
    hasher = _settings.make_hasher(recipe, bits, seed, settings)
    from manihash.search import ByteVectors

    start = perf_counter()
    with progress_shown(quiet) as bar:
        bar.start("reading vectors")
        with _inputs.opened(vectors, None) as X:
            y = None if labels is None else _inputs.read_labels(labels, X.shape[0])
            if labels is not None and not hasher.uses_labels:
                print_message("note", f"{recipe} does not use labels: {labels} is ignored", "bold yellow")
            names = None if ids is None else _inputs.read_ids(ids).reshape(-1)
            bar.start(f"fitting {recipe}")
            hasher.fit(X, y)
            bar.start("encoding")
            index = hasher.index(X, names)
            if byte_vectors is not None:
                if X.dtype.itemsize == 1:
                    text = f"{vectors} has one byte per value: --rerank {vectors} reads no more, and is exact"
                    print_message("note", text, "bold yellow")
                bar.start("writing the vectors")
                ByteVectors.write(byte_vectors, X)
        bar.start("writing the index")
        index.save(out)
    made = {
        "index": str(out),
        "recipe": recipe,
        "rows": len(index),
        "width": int(hasher.n_features_in_),
        "bits": index.n_bits,
        "parts": index.layout.described(),
        "distinct_codes": index.distinct_codes,
        "model": index.made_by,
        "seed": seed,
        "byte_vectors": None if byte_vectors is None else str(byte_vectors),
        "file_bytes": out.stat().st_size,
        "seconds": round(perf_counter() - start, 3),
    }
    print_json(made) if as_json else print_result(key_values(_as_text(made)))


def _as_text(made: dict[str, Any]) -> dict[str, str]:
    return {
        "index": f"{made['index']} ({file_size(made['file_bytes'])}, with its model)",
        "recipe": f"{made['recipe']}, {made['bits']} bits, seed {made['seed']}",
        "codes": f"{made['parts']}; {made['distinct_codes']:,} distinct codes of {made['rows']:,} rows",
        "learned from": f"{made['rows']:,} vectors of {made['width']:,} columns in {made['seconds']:.2f} s",
        **({} if made["byte_vectors"] is None else {"vectors": made["byte_vectors"]}),
    }
