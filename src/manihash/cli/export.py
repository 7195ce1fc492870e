"""manihash export: write codes to a database."""

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._output import key_values, print_json, print_result
from manihash.cli._progress import progress_shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.stores import Store


def export(
    codes: Annotated[
        str, typer.Argument(metavar="CODES", help="File of codes written by [bold]manihash encode[/].")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="STORE",
            help=f"Address of the database: {_options.STORES}.",
        ),
    ],
    bits: Annotated[
        int | None,
        typer.Option(
            "--bits",
            "-b",
            help="Code length in bits.",
            show_default="that of the existing store, or all bits of the bytes",
        ),
    ] = None,
    ids: _options.Ids = None,
    batch: Annotated[int, typer.Option("--batch", help="Number of rows per batch.")] = 10_000,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Write codes to a database; create the database table if it does not exist.

    Rows are written in batches. After an interruption or a lost connection run
    the same command again: it resumes where it stopped, and rows that are in
    the store already are compared, not written again. A store that holds codes
    of another length, or other codes under the same ids, is not changed.

    Examples:

      manihash export codes.npy --to codes.lance
      manihash export codes.npy --to photos.lance --ids names.txt
      manihash export codes.npy --bits 48 --to "postgres://me@host/db?table=codes"
    """
    _inputs.check_inputs(codes, ids)
    from manihash import checks
    from manihash.stores import export_codes

    checks.positive_int(batch, "--batch")
    start = perf_counter()
    with progress_shown(quiet) as bar:
        bar.start("reading codes")
        rows = _inputs.read_codes(codes)
        numbers = None if ids is None else _read_ids(ids, rows)
        with _store(to, bits, rows, numbers) as store:
            bar.start(f"exporting to {store.url}")
            done = export_codes(rows, store, numbers, batch)
    result = {
        "codes": codes,
        "store": store.url,
        "bits": store.n_bits,
        "rows": done.rows,
        "added": done.added,
        "count": done.count,
        "seconds": round(perf_counter() - start, 3),
    }
    print_json(result) if as_json else print_result(key_values(_as_text(result)))


def _store(to: str, bits: int | None, codes: "NDArray[Any]", ids: "NDArray[Any] | None") -> "Store":
    """Open the store, or create it if it does not exist; raise before that if the codes are invalid."""
    from manihash.codes import check_codes
    from manihash.stores import StoreNotFoundError, open_store

    id_type = str if ids is not None and ids.dtype == object else int
    if bits is None:
        try:
            return open_store(to, id_type=id_type)
        except StoreNotFoundError:
            bits = 8 * codes.shape[-1]
    check_codes(codes, bits)
    return open_store(to, bits, id_type=id_type)


def _read_ids(path: str, codes: "NDArray[Any]") -> "NDArray[Any]":
    from manihash.search.ids import check_ids

    return check_ids(_inputs.read_ids(path).reshape(-1), len(codes))


def _as_text(result: dict[str, Any]) -> dict[str, str]:
    before = result["rows"] - result["added"]
    existing = f"; {before:,} were in the store already" if before else ""
    return {
        "store": result["store"],
        "exported": f"{result['added']:,} of {result['rows']:,} codes of {result['bits']} bits "
        f"in {result['seconds']:.2f} s{existing}",
        "rows in store": f"{result['count']:,}",
    }
