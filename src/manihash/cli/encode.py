"""manihash encode: encode vectors with a model."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._output import file_size, key_values, print_json, print_result, progress_shown

if TYPE_CHECKING:
    from manihash import Hasher
    from manihash.files.resumable import ResumableFile

_FORMATS = (".npy", ".npz", ".bvecs", ".idx", ".idx.gz", ".hdf5", ".h5", ".parquet", ".csv")


def encode(
    model: _options.Model,
    vectors: Annotated[
        str, typer.Argument(metavar="VECTORS", help=f"File of vectors, one per row: {_options.VECTOR_FILES}.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help=f"File of codes to write; its suffix selects the format: {', '.join(_FORMATS)}.",
        ),
    ],
    restart: Annotated[
        bool, typer.Option("--restart", help="Delete the codes of an interrupted run and start over.")
    ] = False,
    dask: _options.Dask = None,
    device: _options.Device = None,
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            metavar="NAME",
            help="Precision on a GPU: filtered (the codes of the CPU), tf32 (fastest) or float32.",
        ),
    ] = "filtered",
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Encode vectors with a model: one row of bytes per vector.

    A code of r bits takes r / 8 bytes, rounded up. Bit 0 is the highest bit of
    the first byte, as in numpy.packbits and FAISS. The code of a vector does
    not depend on the other vectors in the file.

    Vectors are read and codes are written in blocks, so the file may be larger
    than the memory. Unfinished codes are in a file that ends in .part. After an
    interruption run the same command again: it resumes where it stopped, and
    the result is the same.

    Examples:

      manihash encode model.mhash vectors.npy -o codes.npy
      manihash encode model.mhash vectors.parquet:embedding -o codes.npy
      manihash encode model.mhash vectors.npy -o codes.npy --dask tcp://host:8786
    """
    if not str(out).lower().endswith(_FORMATS):
        raise ValueError(f"the suffix of {out} selects no format: expected one of {', '.join(_FORMATS)}")
    _inputs.check_inputs(vectors, model=model)
    _inputs.check_output(out, model, vectors)
    _inputs.check_device(device, dask)
    hasher = _inputs.load_hasher(model)
    with progress_shown(quiet) as bar:
        bar.start("encoding")
        import manihash
        from manihash import checks, codes
        from manihash.files import formats
        from manihash.files.resumable import ResumableFile
        from manihash.rows import dask as dask_rows

        with manihash.gpu_precision(precision), _inputs.opened(vectors, dask) as X:
            made_from = _made_from(model, vectors, device, precision)
            checks.shape_of_rows(X.shape, 1, hasher.n_features_in_, type(hasher).__name__)
            if dask is not None:
                dask_rows.check_chunks(X)
            shape = (X.shape[0], codes.n_bytes(hasher.n_bits_))
            write = None if out.suffix == ".npy" else formats.write
            file = ResumableFile(out, shape, made_from, restart=restart, write=write)
            first, seconds, again = _write_codes(hasher, X, device, file)
    made = {
        "codes": str(out),
        "rows": shape[0],
        "bits": hasher.n_bits_,
        "bytes_per_row": shape[1],
        "file_bytes": formats.split_key(out)[0].stat().st_size,
        "first_row": first,
        "seconds": round(seconds, 6),
        "rows_per_second": round((shape[0] - first) / seconds),
        "computed_again": again,
    }
    print_json(made) if as_json else print_result(key_values(_as_text(made)))


def _made_from(model: Path, vectors: str, device: str | None, precision: str) -> dict[str, str]:
    """Return what the codes depend on; an interrupted file is resumed only if nothing of it has changed."""
    import manihash
    from manihash.files.atomic import sha256_of

    return {
        "model": sha256_of(model),
        "input": _inputs.fingerprint(vectors),
        "arithmetic (--device, --precision)": f"{device.split(':')[0]} {precision}" if device else "",
        "version of manihash": manihash.__version__,
    }


def _write_codes(
    hasher: "Hasher", X: Any, device: str | None, file: "ResumableFile"
) -> tuple[int, float, int | None]:
    """Write the codes that are missing in the file.

    Returns the first row written, the seconds, and the rows that were computed again in float64, if counted.
    """
    from manihash.rows.mapping import repeated_rows

    start = perf_counter()
    X = _inputs.on_device(X, device)
    with file.writing():
        first, before = file.done, repeated_rows(hasher, X)
        for block in hasher.encode_blocks(X, first):
            file.append(block)
        after = repeated_rows(hasher, X)
        again = None if before is None or after is None else after - before
        return first, perf_counter() - start, again


def _as_text(made: dict[str, Any]) -> dict[str, str]:
    again, written = made["computed_again"], max(1, made["rows"] - made["first_row"])
    return {
        "codes": f"{made['codes']} ({file_size(made['file_bytes'])})",
        "rows": f"{made['rows']:,} codes of {made['bits']} bits ({made['bytes_per_row']} bytes each)",
        "throughput": f"{made['rows_per_second']:,} rows per second ({made['seconds']:.2f} s)"
        + (f", resumed at row {made['first_row']:,}" if made["first_row"] else ""),
        **({} if again is None else {"computed again": f"{again / written:.2%} of the rows, in float64"}),
    }
