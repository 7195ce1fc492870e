"""manihash encode: the codes of vectors, by a model."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from manihash.cli import _inputs
from manihash.cli._output import facts, file_size, show, show_json
from manihash.cli._progress import watched

_TARGETS = (".npy", ".npz", ".bvecs", ".idx", ".idx.gz", ".hdf5", ".h5", ".csv")


def encode(
    model: _inputs.Model,
    vectors: Annotated[str, typer.Argument(help=f"Vectors, one a row: {_inputs.FILES_HELP}.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help=f"The codes: {', '.join(_TARGETS)}, told by the name.")
    ],
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Encode vectors by a model: one row of bytes for each vector.

    A code of r bits takes r / 8 bytes, rounded up; bit 0 is the highest bit of
    the first byte (the order of numpy.packbits and of FAISS). A vector's code
    does not depend on the vectors it comes with.

    Example:

      manihash encode model.mhash vectors.npy -o codes.npy
    """
    if not str(out).lower().endswith(_TARGETS):
        raise ValueError(f"the format of {out} is told by its name: one of {', '.join(_TARGETS)} was wanted")
    _inputs.check_target(out, model, vectors)
    hasher = _inputs.load_hasher(model)
    with watched(quiet) as watch:
        watch.begin("encoding")
        from manihash import datasets

        X = _inputs.read_vectors(vectors)
        start = perf_counter()
        codes = hasher.encode(X)
        seconds = perf_counter() - start
        datasets.write(out, codes)
    made = {
        "codes": str(out),
        "rows": len(codes),
        "bits": hasher.n_bits,
        "bytes_per_row": codes.shape[1],
        "file_bytes": out.stat().st_size,
        "seconds": round(seconds, 6),
        "rows_per_second": round(len(codes) / seconds),
    }
    show_json(made) if as_json else show(facts(_in_words(made)))


def _in_words(made: dict[str, Any]) -> dict[str, str]:
    return {
        "codes": f"{made['codes']} ({file_size(made['file_bytes'])})",
        "rows": f"{made['rows']:,} of {made['bits']} bits ({made['bytes_per_row']} bytes each)",
        "rate": f"{made['rows_per_second']:,} rows a second ({made['seconds']:.2f} s)",
    }
