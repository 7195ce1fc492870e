"""manihash dedup: groups of rows whose codes are equal or nearly so."""

from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from manihash.cli import _inputs
from manihash.cli._output import facts, say, show, show_json
from manihash.cli._progress import watched
from manihash.cli.index import CodeBits, Ids, code_bits, is_index, open_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.search import Duplicates

_GROUPS_SHOWN = 10
_MOST = (
    "{part:.0%} of the rows would be duplicates. Codes of a manifold (imh-…, agh) are equal for a whole "
    "class of things that are alike: before you delete anything compare the vectors, or take codes that keep "
    "details apart (itq or sign of 128 bits and more, perceptual hashes)"
)
_IDS_SHOWN = 10


def dedup(
    codes: Annotated[
        str,
        typer.Argument(
            help="Codes of [bold]manihash encode[/], perceptual hashes (bytes, a row each), or an index."
        ),
    ],
    radius: Annotated[
        int, typer.Option("--radius", help="Rows at most so many bits apart are duplicates; 0: equal codes.")
    ] = 0,
    bits: CodeBits = None,
    ids: Ids = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write first, lims, ids and extra of all groups to an .npz file."),
    ] = None,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Find groups of rows whose codes are at most --radius bits apart, exactly.

    Rows are in one group if steps of at most the radius lead from one to the
    other, so the ends of a long chain may lie further apart. The codes may come
    from anywhere: perceptual hashes of images are bytes too.

    In the .npz file the ids of group i are ids from lims(i) to lims(i + 1);
    extra are all but the lowest id of each group, which is what may be deleted;
    first has for each row the lowest id of its group. The table shows the first
    groups; --json and -o give all. Learned codes of a manifold are equal for all
    that is alike, not only for duplicates: compare the vectors before you delete.

    Examples:

      manihash dedup codes.npy --bits 48 --radius 2
      manihash dedup phash.npy --radius 4 -o duplicates.npz
      manihash dedup codes.mhx --radius 2
    """
    _check_options(radius, out, (codes, ids))
    from manihash import search

    start = perf_counter()
    with watched(quiet) as watch:
        watch.begin("looking for duplicates")
        rows, n_bits, names = _rows(codes, bits, ids)
        found = search.dedup(rows, n_bits, radius, names)
        if out is not None:
            _write(out, found)
    extra = len(found.ids) - len(found)
    told = {
        "codes": codes,
        "rows": len(rows),
        "bits": n_bits,
        "radius": radius,
        "in_groups": len(found.ids),
        "extra": extra,
        "seconds": round(perf_counter() - start, 3),
    }
    if as_json:
        show_json({**told, "groups": [group.tolist() for group in found]})
    else:
        show(facts(_in_words(told, len(found))))
        if extra > len(rows) / 2:
            say("warning", _MOST.format(part=extra / len(rows)), "yellow")
        if len(found):
            show(_table(found))


def _rows(codes: str, bits: int | None, ids: str | None) -> tuple["NDArray[Any]", int, "NDArray[Any] | None"]:
    """Codes, their length, and ids where there are any, from an index or a file of codes."""
    if is_index(codes):
        if ids is not None:
            raise typer.BadParameter(f"{codes} is an index and holds its ids: leave out --ids")
        held = open_index(codes, bits)
        return held.codes, held.n_bits, held.ids
    rows = _inputs.read_codes(codes)
    return rows, code_bits(rows, bits), None if ids is None else _inputs.read_ids(ids)


def _check_options(radius: int, out: Path | None, inputs: tuple[str | None, ...]) -> None:
    from manihash.checks import positive_int

    positive_int(radius, "--radius", least=0)
    if out is not None and out.suffix.lower() != ".npz":
        raise ValueError(f"{out} came as target: a name that ends in .npz was wanted, it holds four arrays")
    if out is not None:
        _inputs.check_target(out, *inputs)


def _write(out: Path, found: "Duplicates") -> None:
    from manihash import datasets

    arrays = {"first": found.first, "lims": found.lims, "ids": found.ids, "extra": found.extra}
    datasets.write(out, arrays)
    say("written", f"{len(found):,} groups, {out}", "green")


def _in_words(told: dict[str, Any], groups: int) -> dict[str, str]:
    return {
        "rows": f"{told['rows']:,} of {told['bits']} bits",
        "groups": f"{groups:,} of rows within radius {told['radius']}, found in {told['seconds']:.2f} s",
        "duplicates": f"{told['extra']:,} beside the first of each group",
    }


def _table(found: "Duplicates") -> Table:
    """The first groups, in order of their lowest id."""
    table = Table("group", "rows", "ids", box=None, header_style="bold")
    for i, group in enumerate(islice(found, _GROUPS_SHOWN)):
        more = "  …" if len(group) > _IDS_SHOWN else ""
        table.add_row(str(i), f"{len(group):,}", "  ".join(map(str, group[:_IDS_SHOWN])) + more)
    left = len(found) - _GROUPS_SHOWN
    if left > 0:
        table.caption = f"and {left:,} more groups: --json or -o give all"
    return table
