"""manihash dedup: find groups of rows with equal or similar codes."""

from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from manihash.cli import _inputs, _options
from manihash.cli._indexes import code_bits, is_index, open_index
from manihash.cli._output import key_values, print_json, print_message, print_result
from manihash.cli._progress import progress_shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.search import Duplicates

_GROUPS_SHOWN = 10
_TOO_MANY = (
    "{part:.0%} of the rows are reported as duplicates. Manifold codes (imh-…, agh) are equal for all "
    "similar vectors, not only for duplicates: before you delete anything, compare the vectors, or use codes "
    "that preserve details (itq or sign with at least 128 bits, or perceptual hashes)"
)
_IDS_SHOWN = 10


def dedup(
    codes: Annotated[
        str,
        typer.Argument(
            metavar="CODES",
            help="File of codes, such as perceptual hashes (one row of bytes each), or an index file "
            f"(*{_options.INDEX_SUFFIX}).",
        ),
    ],
    radius: Annotated[
        int,
        typer.Option("--radius", help="Largest Hamming distance of duplicates, in bits; 0 for equal codes."),
    ] = 0,
    bits: _options.CodeBits = None,
    ids: _options.Ids = None,
    out: _options.NpzOut = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Find groups of rows whose codes are at most --radius bits apart.

    The search is exact. Groups are connected components: two rows are in one
    group if a chain of rows leads from one to the other in steps of at most
    --radius bits, so the ends of a chain may be further apart. The codes may
    come from any source, such as perceptual hashes of images.

    The table shows the first groups; --json and -o give all of them. The .npz
    file contains: ids and lims (the ids of group i are entries lims(i) to
    lims(i + 1) of ids), extra (all ids of the groups except the lowest of each,
    the candidates for deletion), and first (for each row, the lowest id of its
    group). Manifold codes are equal for all similar vectors, not only for
    duplicates: compare the vectors before you delete rows.

    Examples:

      manihash dedup codes.npy --bits 48 --radius 2
      manihash dedup phash.npy --radius 4 -o duplicates.npz
      manihash dedup codes.mhx --radius 2
    """
    _inputs.check_inputs(codes, ids)
    from manihash import search
    from manihash.checks import positive_int

    positive_int(radius, "--radius", least=0)
    _inputs.check_npz_output(out, codes, ids)
    start = perf_counter()
    with progress_shown(quiet) as bar:
        bar.start("finding duplicates")
        rows, n_bits, row_ids = _read(codes, bits, ids)
        found = search.dedup(rows, n_bits, radius, row_ids)
        if out is not None:
            _write(out, found)
    extra = len(found.ids) - len(found)
    result = {
        "codes": codes,
        "rows": len(rows),
        "bits": n_bits,
        "radius": radius,
        "in_groups": len(found.ids),
        "extra": extra,
        "seconds": round(perf_counter() - start, 3),
    }
    if as_json:
        print_json({**result, "groups": [group.tolist() for group in found]})
    else:
        print_result(key_values(_as_text(result, len(found))))
        if extra > len(rows) / 2:
            print_message("warning", _TOO_MANY.format(part=extra / len(rows)), "yellow")
        if len(found):
            print_result(_table(found))


def _read(codes: str, bits: int | None, ids: str | None) -> tuple["NDArray[Any]", int, "NDArray[Any] | None"]:
    """Return codes, code length and ids (None: row numbers) of an index file or a file of codes."""
    if is_index(codes):
        if ids is not None:
            raise typer.BadParameter(f"{codes} is an index file and contains its ids: omit --ids")
        index = open_index(codes, bits)
        return index.codes, index.n_bits, index.ids
    rows = _inputs.read_codes(codes)
    return rows, code_bits(rows, bits), None if ids is None else _inputs.read_ids(ids)


def _write(out: Path, found: "Duplicates") -> None:
    from manihash import datasets

    arrays = {"first": found.first, "lims": found.lims, "ids": found.ids, "extra": found.extra}
    datasets.write(out, arrays)
    print_message("written", f"{len(found):,} groups to {out}", "green")


def _as_text(result: dict[str, Any], groups: int) -> dict[str, str]:
    return {
        "rows": f"{result['rows']:,} codes of {result['bits']} bits",
        "groups": f"{groups:,} within radius {result['radius']}, found in {result['seconds']:.2f} s",
        "duplicates": f"{result['extra']:,}, not counting the first row of each group",
    }


def _table(found: "Duplicates") -> Table:
    """Return a table of the first groups, in the order of their lowest ids."""
    table = Table("group", "rows", "ids", box=None, header_style="bold")
    for i, group in enumerate(islice(found, _GROUPS_SHOWN)):
        more = "  …" if len(group) > _IDS_SHOWN else ""
        table.add_row(str(i), f"{len(group):,}", "  ".join(map(str, group[:_IDS_SHOWN])) + more)
    left = len(found) - _GROUPS_SHOWN
    if left > 0:
        table.caption = f"{left:,} more groups: use --json or -o to get all"
    return table
