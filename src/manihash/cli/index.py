"""manihash index: write codes to an index file, add or remove rows, or verify an index file."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._indexes import build_index, change_rows, is_index, open_index, rewritten_index
from manihash.cli._output import key_values, print_json, print_result, progress_shown, written_file

if TYPE_CHECKING:
    from manihash import HammingIndex


def index(
    codes: Annotated[
        str,
        typer.Argument(
            metavar="CODES",
            help="File of codes from [bold]manihash encode[/] or another source, one row of bytes per code; "
            "with --add, --remove or --verify an index file.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar=f"FILE{_options.INDEX_SUFFIX}",
            help="Index file to write.",
            show_default=False,
        ),
    ] = None,
    bits: _options.CodeBits = None,
    ids: _options.Ids = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Model that made the codes. It gives the code length and the parts of the codes, and the "
            "index then rejects searches with any other model.",
            show_default=False,
        ),
    ] = None,
    add: Annotated[
        str | None,
        typer.Option(
            "--add",
            metavar="FILE",
            help="Add the codes of this file to an index file, under --ids or the next unused ids.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        str | None,
        typer.Option(
            "--remove", metavar="FILE", help="Remove the rows with the ids of this file.", show_default=False
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify every byte of an index file; write nothing.")
    ] = False,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Write codes to an index file for fast search; add or remove rows; or verify an index file.

    The index groups equal codes. Opening the file takes the same short time for
    any size: it is memory-mapped, and only its header, sizes and offsets are
    checked. --verify checks all bytes. The file is written atomically: an
    existing file is replaced only when the new one is complete.

    With --add and --remove, CODES is an index file. It is changed in place, or
    written to -o; changes in the journal of a server that was killed are kept,
    and a running server with --writable must be stopped first. Give the model
    of the added codes with --model, unless the index holds it: it must be the
    model of the index, or one that was updated from it. A file of codes does
    not say which model made them.

    Examples:

      manihash index codes.npy --model model.mhash -o codes.mhx
      manihash index phash.npy --bits 60 -o phash.mhx
      manihash index codes.mhx --add new.npy --ids new_ids.npy
      manihash index codes.mhx --remove old_ids.npy
      manihash index codes.mhx --verify
      manihash search model.mhash codes.mhx queries.npy -k 10
    """
    _inputs.check_inputs(codes, ids, add, remove, model=model)
    start, earlier = perf_counter(), out is not None and out.exists()
    changes: dict[str, int] = {}
    with progress_shown(quiet) as bar:
        if add is not None or remove is not None:
            bar.start(f"changing {codes}")
            file = _changed_output(codes, out, verify, add, remove, ids, model)
            with rewritten_index(codes, file, bits) as opened:
                changes = change_rows(codes, opened, add, ids, remove, model)
        elif verify:
            bar.start(f"verifying {codes}")
            file, opened = Path(codes), _verified(codes, out, bits, ids, model)
        else:
            bar.start("building the index")
            file = _checked_output(out, codes, ids, model)
            opened = build_index(codes, bits, ids, model)
            opened.save(file)
        result = {
            "index": str(file),
            "verified": verify,
            "rows": len(opened),
            **changes,
            "bits": opened.n_bits,
            "look_up_bits": opened.layout.look_up_bits if opened.layout.has_two_parts else None,
            "weight": float(opened.layout.weight) if opened.layout.has_two_parts else None,
            "model": opened.made_by,
            "distinct_codes": opened.distinct_codes,
            "replaces_file": earlier,
            "file_bytes": file.stat().st_size,
            "seconds": round(perf_counter() - start, 3),
        }
    print_json(result) if as_json else print_result(key_values(_as_text(result)))


def _checked_output(out: Path | None, *inputs: Path | str | None) -> Path:
    if out is None:
        raise typer.BadParameter("give the index file to write with -o, or an index file and --verify")
    if not is_index(str(out)):
        raise ValueError(f"got the output file {out}: expected a name that ends in {_options.INDEX_SUFFIX}")
    _inputs.check_output(out, *inputs)
    return out


def _changed_output(codes: str, out: Path | None, verify: bool, *inputs: Path | str | None) -> Path:
    """Return the index file to write after --add or --remove."""
    if verify:
        raise typer.BadParameter("--verify writes nothing: omit --add and --remove")
    if not is_index(codes):
        raise ValueError(
            f"--add and --remove change an index file, named *{_options.INDEX_SUFFIX}, not {codes}: "
            "build one first with -o"
        )
    return _checked_output(Path(codes) if out is None else out, *inputs)


def _verified(
    path: str, out: Path | None, bits: int | None, ids: str | None, model: Path | None
) -> "HammingIndex":
    if any(given is not None for given in (out, ids, model)):
        raise typer.BadParameter("--verify writes nothing: omit -o, --ids and --model")
    if not is_index(path):
        raise ValueError(f"cannot verify {path}: expected an index file, named *{_options.INDEX_SUFFIX}")
    index = open_index(path, bits)
    index.verify()
    index._stored.fields()  # raises if the file beside it is missing or damaged
    return index


def _as_text(result: dict[str, Any]) -> dict[str, str]:
    mean = result["rows"] / max(1, result["distinct_codes"])
    file = written_file(result["index"], result["file_bytes"], replaced=result["replaces_file"])
    rows = f"{result['rows']:,} codes of {result['bits']} bits"
    done = "verified: no damage" if result["verified"] else f"built in {result['seconds']:.2f} s"
    if "added" in result:
        done = f"changed in {result['seconds']:.2f} s"
        rows += f" now: {result['added']:,} added, {result['removed']:,} removed"
    return {
        "index": f"{file}, {done}",
        "rows": rows,
        "distinct codes": f"{result['distinct_codes']:,} (mean of {mean:.1f} rows per code)",
    }
