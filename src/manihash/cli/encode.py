"""manihash encode: the codes of vectors, by a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from manihash.cli import _inputs
from manihash.cli._output import facts, file_size, show, show_json
from manihash.cli._progress import watched

_TARGETS = (".npy", ".npz", ".bvecs", ".idx", ".idx.gz", ".hdf5", ".h5", ".parquet", ".csv")


def encode(
    model: _inputs.Model,
    vectors: Annotated[str, typer.Argument(help=f"Vectors, one a row: {_inputs.FILES_HELP}.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help=f"The codes: {', '.join(_TARGETS)}, told by the name.")
    ],
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew where an earlier run was broken off.")
    ] = False,
    dask: _inputs.Dask = None,
    device: _inputs.Device = None,
    precision: Annotated[
        str, typer.Option("--precision", help="Of products on a card: tf32x3 (as float32), tf32 or float32.")
    ] = "tf32x3",
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Encode vectors by a model: one row of bytes for each vector.

    A code of r bits takes r / 8 bytes, rounded up; bit 0 is the highest bit of
    the first byte (the order of numpy.packbits and of FAISS). A vector's code
    does not depend on the vectors it comes with.

    Vectors are read and codes written block by block. Until all are there, they
    are in a file that ends in .part: broken off in whatever way, the same
    command goes on where it stopped, and the bytes are the same.

    Examples:

      manihash encode model.mhash vectors.npy -o codes.npy
      manihash encode model.mhash vectors.parquet:embedding -o codes.npy
      manihash encode model.mhash vectors.npy -o codes.npy --dask tcp://host:8786
    """
    if not str(out).lower().endswith(_TARGETS):
        raise ValueError(f"the format of {out} is told by its name: one of {', '.join(_TARGETS)} was wanted")
    _inputs.check_target(out, model, vectors)
    _inputs.check_device(device, dask)
    hasher = _inputs.load_hasher(model)
    with watched(quiet) as watch:
        watch.begin("encoding")
        import manihash
        from manihash import checks, codes
        from manihash.files import formats
        from manihash.files.atomic import sha256_of
        from manihash.files.resumable import ResumableFile
        from manihash.rows import dask as dask_rows

        with manihash.gpu_precision(precision), _inputs.opened(vectors, dask) as X:
            made_from = {
                "model": sha256_of(model),
                "input": _inputs.fingerprint(vectors),
                "arithmetic (--device, --precision)": f"{device.split(':')[0]} {precision}" if device else "",
                "version of manihash": manihash.__version__,
            }
            checks.shape_of_rows(X.shape, 1, hasher.n_features_in_)
            if dask is not None:
                dask_rows.check_chunks(X)
            shape = (X.shape[0], codes.n_bytes(hasher.n_bits_))
            write = None if out.suffix == ".npy" else formats.write
            file = ResumableFile(out, shape, made_from, restart=restart, write=write)
            start = perf_counter()
            X = _inputs.on_device(X, device)
            with _restart_hint(), file.writing():
                first = file.done
                for block in hasher.encode_blocks(X, first):
                    file.append(block)
                seconds = perf_counter() - start
    made = {
        "codes": str(out),
        "rows": shape[0],
        "bits": hasher.n_bits_,
        "bytes_per_row": shape[1],
        "file_bytes": formats.split_key(out)[0].stat().st_size,
        "first_row": first,
        "seconds": round(seconds, 6),
        "rows_per_second": round((shape[0] - first) / seconds),
    }
    show_json(made) if as_json else show(facts(_in_words(made)))


@contextmanager
def _restart_hint() -> Iterator[None]:
    """Add the options that help to the error of a part file that cannot be resumed."""
    from manihash.files.resumable import ResumeError

    try:
        yield
    except ResumeError as error:
        error.add_note("use --restart, or another target with -o")
        raise


def _in_words(made: dict[str, Any]) -> dict[str, str]:
    return {
        "codes": f"{made['codes']} ({file_size(made['file_bytes'])})",
        "rows": f"{made['rows']:,} of {made['bits']} bits ({made['bytes_per_row']} bytes each)",
        "rate": f"{made['rows_per_second']:,} rows a second ({made['seconds']:.2f} s)"
        + (f", from row {made['first_row']:,} on" if made["first_row"] else ""),
    }
