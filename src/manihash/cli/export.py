"""manihash export: write codes to a database."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from manihash.cli import _inputs, _options
from manihash.cli._indexes import is_index, model_of_codes, open_index, what_a_store_loses
from manihash.cli._output import key_values, print_json, print_message, print_result, progress_shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.code_layout import CodeLayout
    from manihash.stores import Store
    from manihash.stores.locations import Location


def export(
    codes: Annotated[
        str,
        typer.Argument(
            metavar="CODES",
            help="File of codes written by [bold]manihash encode[/], or index file.",
        ),
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
    model: _options.ModelOfCodes = None,
    look_up_bits: Annotated[
        int | None,
        typer.Option(
            "--look-up-bits",
            "--first-bits",
            help="Length of the first part of codes of two parts (hybrid codes), which gets a column of its "
            "own. It is known from an index file or --model.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", help="Number of rows per batch.")] = 10_000,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Write codes to a database; create the database table if it does not exist.

    Rows are written in batches. After an interruption or a lost connection run
    the same command again: it resumes where it stopped, and rows that are in
    the store already are compared, not written again. A store that holds codes
    of another length, or other codes under the same ids, is not changed.

    A file of codes does not say what parts its codes have: of hybrid codes and
    codes of a product quantizer, export an index file, or give the model that
    made the codes with --model.

    Codes with a product quantizer (imh-hybrid, pq, opq) become an IndexPQ of
    FAISS that ranks as an index does; its queries are those of
    manihash.search.faiss_vectors.

    Examples:

      manihash export codes.mhx --to codes.duckdb
      manihash export items.mhx --to codes.faiss
      manihash export codes.npy --to codes.lance
      manihash export codes.npy --model model.mhash --to codes.duckdb
      manihash export codes.npy --to photos.lance --ids names.txt
      manihash export codes.npy --bits 48 --to "postgres://me@host/db?table=codes"
    """
    _inputs.check_inputs(codes, ids, model=model)
    from manihash import checks
    from manihash.stores import export_codes

    checks.positive_int(batch, "--batch")
    start = perf_counter()
    with progress_shown(quiet) as bar:
        bar.start("reading codes")
        read = _of_index if is_index(codes) else _of_codes
        rows = read(codes, bits, ids, look_up_bits, model)
        with _store(to, rows) as store:
            bar.start(f"exporting to {store.url}")
            done = export_codes(rows.codes, store, rows.ids, batch)
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


class _Rows(NamedTuple):
    """Codes to be exported; without bits, as many as an existing store has."""

    codes: "NDArray[Any]"
    bits: int | None
    ids: "NDArray[Any] | None"
    layout: "CodeLayout | None"


def _of_codes(
    path: str, bits: int | None, ids: str | None, look_up_bits: int | None, model: Path | None
) -> _Rows:
    """Return the rows of a file of codes; their parts are those of the model, if it is given."""
    from manihash.code_layout import CodeLayout
    from manihash.search.ids import check_ids

    codes = _inputs.read_codes(path)
    numbers = None if ids is None else check_ids(_inputs.read_ids(ids).reshape(-1), len(codes))
    if model is not None:
        parts = model_of_codes(path, codes, bits, model).layout_
        _check_look_up_bits(look_up_bits, parts, str(model))
        return _Rows(codes, parts.n_bits, numbers, parts)
    layout = None if look_up_bits is None else CodeLayout(bits or 8 * codes.shape[-1], look_up_bits)
    return _Rows(codes, bits, numbers, layout)


def _of_index(
    path: str, bits: int | None, ids: str | None, look_up_bits: int | None, model: Path | None
) -> _Rows:
    """Return the rows of an index file, which has its own ids and parts."""
    if ids is not None:
        raise ValueError(f"got --ids, but {path} has its own ids: omit --ids")
    index = open_index(path, bits, model=model)
    _check_look_up_bits(look_up_bits, index.layout, path)
    return _Rows(index.codes, index.n_bits, index.ids, index.layout)


def _check_look_up_bits(look_up_bits: int | None, layout: "CodeLayout", path: str) -> None:
    """Raise if --look-up-bits is given and differs from the parts that an index file or a model knows."""
    own = layout.look_up_bits if layout.has_two_parts else None
    if look_up_bits not in (None, own):
        raise ValueError(
            f"got --look-up-bits {look_up_bits}, but {path} has codes of {layout.described()}: omit "
            "--look-up-bits"
        )


def _store(to: str, rows: _Rows) -> "Store":
    """Open the store, or create it if it does not exist; raise before that if the codes are invalid."""
    from manihash.codes import check_codes
    from manihash.stores import StoreNotFoundError, open_store
    from manihash.stores.locations import location_of

    location, bits, layout = location_of(to), rows.bits, rows.layout
    if layout is not None and layout.has_fields and not location.has_layout:
        _check_first_column(location, layout)
    if layout is not None and layout.has_two_parts and not (layout.has_fields and location.has_layout):
        text = what_a_store_loses(location.kind, layout, has_first=location.has_first)
        print_message("note", text, "yellow")
        layout = layout if location.has_first else None
    id_type = str if rows.ids is not None and rows.ids.dtype == object else int
    if bits is None:
        try:
            return open_store(to, id_type=id_type, layout=layout)
        except StoreNotFoundError:
            bits = 8 * rows.codes.shape[-1]
    check_codes(rows.codes, bits)
    return open_store(to, bits, id_type=id_type, layout=layout)


def _check_first_column(location: "Location", layout: "CodeLayout") -> None:
    """Raise if a store that compares codes by Hamming distance can do nothing with these codes."""
    if not layout.look_up_bits:
        raise ValueError(
            f"{location.kind} compares codes by Hamming distance, and these codes are {layout.described()} "
            "of a product quantizer: export them to a FAISS file (codes.faiss), or use an index file"
        )
    if not location.has_first:
        raise ValueError(
            f"{location.kind} compares codes by Hamming distance and has no column for their first part, and "
            "the other part of these codes is a product quantizer: export them to a FAISS file, which ranks "
            "them, or to a store with such a column, such as DuckDB or PostgreSQL, or use codes of recipe "
            "imh-hybrid-hamming"
        )


def _as_text(result: dict[str, Any]) -> dict[str, str]:
    before = result["rows"] - result["added"]
    existing = f"; {before:,} were in the store already" if before else ""
    return {
        "store": result["store"],
        "exported": f"{result['added']:,} of {result['rows']:,} codes of {result['bits']} bits "
        f"in {result['seconds']:.2f} s{existing}",
        "rows in store": f"{result['count']:,}",
    }
