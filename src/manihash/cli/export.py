"""manihash export: codes into a database."""

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs
from manihash.cli._output import facts, show, show_json
from manihash.cli._progress import watched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.stores import Store


def export(
    codes: Annotated[str, typer.Argument(help="Codes that [bold]manihash encode[/] wrote.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="STORE",
            help="codes.faiss, codes.lance, postgres://user@host/database?table=NAME, "
            "milvus://host:19530?table=NAME, or codes.db for milvus-lite.",
        ),
    ],
    bits: Annotated[
        int | None,
        typer.Option("--bits", "-b", help="Length of a code; the store's own, or whole bytes, if not given."),
    ] = None,
    ids: Annotated[
        str | None, typer.Option("--ids", help="Whole numbers, one for each code; without, the rows from 0.")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", help="Rows sent at once.")] = 10_000,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Put codes into a database, which is created if it is not there.

    Rows go in in batches. After an interrupt or a lost connection the same
    command goes on where it stopped: rows that are there are compared, not
    written again. A store with codes of another length, or with other codes
    under the same ids, is left as it is.

    Examples:

      manihash export codes.npy --to codes.lance
      manihash export codes.npy --bits 48 --to "postgres://me@host/db?table=codes"
    """
    from manihash import checks
    from manihash.stores import export_codes

    checks.positive_int(batch, "--batch")
    rows = _inputs.read_codes(codes)
    numbers = None if ids is None else _read_ids(ids, rows)
    start = perf_counter()
    with watched(quiet) as watch, _store(to, bits, rows) as store:
        watch.begin(f"to {store.url}")
        done = export_codes(rows, store, numbers, batch)
    told = {
        "codes": codes,
        "store": store.url,
        "bits": store.n_bits,
        "rows": done.rows,
        "added": done.added,
        "count": done.count,
        "seconds": round(perf_counter() - start, 3),
    }
    show_json(told) if as_json else show(facts(_in_words(told)))


def _store(to: str, bits: int | None, codes: "NDArray[Any]") -> "Store":
    """The store, made if it is missing; nothing is made for codes that do not fit it."""
    from manihash.codes import check_codes
    from manihash.stores import StoreNotFoundError, open_store

    if bits is None:
        try:
            return open_store(to)
        except StoreNotFoundError:
            bits = 8 * codes.shape[-1]
    check_codes(codes, bits)
    return open_store(to, bits)


def _read_ids(path: str, codes: "NDArray[Any]") -> "NDArray[Any]":
    from manihash.search.ids import check_ids

    return check_ids(_inputs.read_ids(path).reshape(-1), len(codes))


def _in_words(told: dict[str, Any]) -> dict[str, str]:
    before = told["rows"] - told["added"]
    there = f"; the other {before:,} were there already" if before else ""
    return {
        "store": told["store"],
        "exported": f"{told['added']:,} of {told['rows']:,} codes of {told['bits']} bits "
        f"in {told['seconds']:.2f} s{there}",
        "holds now": f"{told['count']:,} rows",
    }
