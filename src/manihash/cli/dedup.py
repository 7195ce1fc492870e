"""manihash dedup: find groups of rows with equal or similar codes."""

from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from manihash.cli import _dedup_verified, _inputs, _options, _tables
from manihash.cli._indexes import code_bits, is_index, open_index
from manihash.cli._output import key_values, print_json, print_message, print_result
from manihash.cli._progress import progress_shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.search import Duplicates

_GROUPS_SHOWN = 10
_VERIFIED = "Verified duplicates"
_TOO_MANY = (
    "{part:.0%} of the rows have similar codes. Manifold codes (imh-…, agh) are equal for all similar "
    "vectors, not only for duplicates: verify the pairs with --vectors and --cosine, or use codes that "
    "preserve details (itq or sign with at least 128 bits, or perceptual hashes)"
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
        int | None,
        typer.Option(
            "--radius",
            help="Largest Hamming distance of duplicates, in bits; 0 for equal codes.",
            show_default="0; chosen on a sample with --vectors",
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            metavar="FILE",
            help="Original vectors, which verify each pair; needs --cosine or --distance. Row i belongs to "
            "code i; with an index to id i, or to the i-th of --ids.",
            show_default=False,
            rich_help_panel=_VERIFIED,
        ),
    ] = None,
    cosine: Annotated[
        float | None,
        typer.Option(
            "--cosine",
            help="Duplicates have at least this cosine similarity.",
            show_default=False,
            rich_help_panel=_VERIFIED,
        ),
    ] = None,
    distance: Annotated[
        float | None,
        typer.Option(
            "--distance",
            help="Duplicates have at most this Euclidean distance.",
            show_default=False,
            rich_help_panel=_VERIFIED,
        ),
    ] = None,
    bits: _options.CodeBits = None,
    ids: _options.Ids = None,
    out: _options.NpzOut = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Find groups of duplicate rows, by their codes and vectors or by codes alone.

    With --vectors, codes find candidate pairs and the vectors verify them. Each
    row of a group is a duplicate of the group's first row, which is to be kept;
    groups are not extended by chains. Without --radius, the radius is chosen on
    a sample so that it contains 99 % of the duplicates.

    Without --vectors, rows are grouped whose codes are at most --radius bits
    apart, exactly. A chain of such steps is one group, so its ends may be
    further apart, and similar codes do not mean similar vectors: verify the rows
    before you delete any. The codes may come from any source, such as perceptual
    hashes of images.

    The table shows the first groups; --json and -o give all of them. The .npz
    file contains: ids and lims (the ids of group i are entries lims(i) to
    lims(i + 1) of ids), extra (all ids of the groups except the first of each),
    first (for each row, the first id of its group) and, with --vectors, pairs
    and values (ids of all verified pairs, and their cosine or distance).

    Examples:

      manihash dedup codes.npy --vectors X.npy --cosine 0.98 -o duplicates.npz
      manihash dedup codes.npy --bits 48 --radius 2
      manihash dedup phash.npy --radius 4 -o duplicates.npz
      manihash dedup codes.mhx --radius 2
    """
    _inputs.check_inputs(codes, ids, vectors)
    from manihash.checks import positive_int

    if radius is not None:
        positive_int(radius, "--radius", least=0)
    _check_thresholds(vectors, cosine, distance)
    _inputs.check_npz_output(out, codes, ids, vectors)
    start = perf_counter()
    with progress_shown(quiet) as bar:
        bar.start("finding duplicates")
        rows, n_bits, row_ids = _read(codes, bits, None if vectors is not None and is_index(codes) else ids)
        if vectors is None:
            from manihash import search

            found = search.dedup(rows, n_bits, radius or 0, row_ids)
        else:
            X = _vectors(vectors, codes, row_ids, ids)
            found = _dedup_verified.find(rows, n_bits, X, cosine, distance, radius, row_ids)
        if out is not None:
            _write(out, found)
    result: dict[str, Any] = {
        "codes": codes,
        "rows": len(rows),
        "bits": n_bits,
        "radius": getattr(found, "radius", radius or 0),
        "in_groups": len(found.ids),
        "extra": len(found.ids) - len(found),
        "seconds": round(perf_counter() - start, 3),
        **_dedup_verified.facts(found),
    }
    if as_json:
        print_json({**result, "groups": [group.tolist() for group in found]})
    else:
        _show(result, found)


def _check_thresholds(vectors: str | None, cosine: float | None, distance: float | None) -> None:
    """Raise unless --vectors has exactly one threshold, or none of the three options is given."""
    if vectors is None and (cosine is not None or distance is not None):
        raise typer.BadParameter("--cosine and --distance compare vectors: give the vectors with --vectors")
    if vectors is not None and (cosine is None) == (distance is None):
        raise typer.BadParameter("--vectors needs one threshold: --cosine, such as 0.98, or --distance")


def _vectors(path: str, codes: str, row_ids: "NDArray[Any] | None", ids: str | None) -> Any:
    """Return the vectors in the order of the codes; row i belongs to id i of an index, or the i-th of ids."""
    import numpy as np

    from manihash.files.formats import open_vectors
    from manihash.search.ids import rows_of_ids

    X = open_vectors(path, **_tables.keywords())
    if is_index(codes) and row_ids is not None and ids is not None:
        return X[rows_of_ids(row_ids, _inputs.read_ids(ids), len(X))]
    if is_index(codes) and row_ids is not None and row_ids.dtype == object:
        raise typer.BadParameter(f"{codes} has ids that are strings: give the ids of the vectors with --ids")
    if not is_index(codes) or row_ids is None or np.array_equal(row_ids, np.arange(len(X))):
        return X
    if not len(row_ids) or row_ids.min() < 0 or row_ids.max() >= len(X):
        raise ValueError(
            f"{path} has {len(X):,} rows, but {codes} has ids from {row_ids.min()} to {row_ids.max()}: row i "
            "of the vectors must belong to id i"
        )
    return X[row_ids]


def _show(result: dict[str, Any], found: "Duplicates") -> None:
    """Print the facts, warnings and the first groups."""
    print_result(key_values(_as_text(result, len(found))))
    if "pairs" in result:
        print_result(_dedup_verified.curve_table(found))
    elif result["extra"] > result["rows"] / 2:
        print_message("warning", _TOO_MANY.format(part=result["extra"] / result["rows"]), "yellow")
    if len(found):
        print_result(_table(found))


def _read(codes: str, bits: int | None, ids: str | None) -> tuple["NDArray[Any]", int, "NDArray[Any] | None"]:
    """Return codes, code length and ids (None: row numbers) of an index file or a file of codes."""
    if is_index(codes):
        if ids is not None:
            raise typer.BadParameter(
                f"{codes} is an index file and contains its ids: omit --ids, or give --vectors, whose rows "
                "it names"
            )
        index = open_index(codes, bits)
        return index.codes, index.n_bits, index.ids
    rows = _inputs.read_codes(codes)
    return rows, code_bits(rows, bits), None if ids is None else _inputs.read_ids(ids)


def _write(out: Path, found: "Duplicates") -> None:
    from manihash import datasets

    arrays = {"first": found.first, "lims": found.lims, "ids": found.ids, "extra": found.extra}
    datasets.write(out, arrays | _dedup_verified.arrays(found))
    print_message("written", f"{len(found):,} groups to {out}", "green")


def _as_text(result: dict[str, Any], groups: int) -> dict[str, str]:
    kind = "duplicates" if "pairs" in result else "similar codes"
    return {
        "rows": f"{result['rows']:,} codes of {result['bits']} bits",
        "groups": f"{groups:,} within radius {result['radius']}, found in {result['seconds']:.2f} s",
        kind: f"{result['extra']:,}, not counting the first row of each group",
        **_dedup_verified.as_text(result),
    }


def _table(found: "Duplicates") -> Table:
    """Return a table of the first groups, in the order of their lowest ids."""
    table = Table("group", "rows", "ids", box=None, header_style="bold")
    for i, group in enumerate(islice(found, _GROUPS_SHOWN)):
        more = "  …" if len(group) > _IDS_SHOWN else ""
        table.add_row(str(i), f"{len(group):,}", "  ".join(escape(str(i)) for i in group[:_IDS_SHOWN]) + more)
    left = len(found) - _GROUPS_SHOWN
    if left > 0:
        table.caption = f"{left:,} more groups: use --json or -o to get all"
    return table
