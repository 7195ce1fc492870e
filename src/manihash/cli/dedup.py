"""manihash dedup: find groups of rows with equal or similar codes."""

from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from manihash.cli import _dedup_known, _dedup_verified, _inputs, _options, _tables
from manihash.cli._indexes import code_bits, is_index, model_of_codes, open_index
from manihash.cli._output import key_values, print_json, print_message, print_result, progress_shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.code_layout import CodeLayout
    from manihash.search import Duplicates

_GROUPS_SHOWN = 10
_VERIFIED = "Verified duplicates"
_SCALE = "Many rows"
_RESULT = "Which rows to keep, and a report"
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
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="INDEX",
            help="Compare new codes with the rows of an index file instead of with each other; or new "
            "vectors, if manihash build has written the index with its model. For a large index, tables are "
            "written beside it at first: later calls take milliseconds.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="first|central",
            help="Add the ids to keep to the file of -o, as keep: one row of each group, the first or the "
            "most central one, and all rows without a duplicate.",
            show_default=False,
            rich_help_panel=_RESULT,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="Write a page with the sizes of the groups and examples: the largest and some random ones.",
            show_default=False,
            rich_help_panel=_RESULT,
        ),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory for the work, such as 500M or 8G. Codes that need more are divided into parts on "
            "disk; the groups are the same.",
            rich_help_panel=_SCALE,
        ),
    ] = "2G",
    work: Annotated[
        Path | None,
        typer.Option(
            "--work",
            metavar="FOLDER",
            help="Folder for parts on disk, which is removed at the end. After an interruption run the same "
            "command again: it resumes.",
            show_default="the file of -o with .work, if parts are needed",
            rich_help_panel=_SCALE,
        ),
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Delete the work of an interrupted run and start over.", rich_help_panel=_SCALE
        ),
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="ADDRESS|N",
            help="Compute on a Dask cluster: its address, such as tcp://host:8786, or N to start N workers "
            "on this machine. All workers must be able to read the codes and to write to the folder of "
            "--work.",
            show_default=False,
            rich_help_panel=_SCALE,
        ),
    ] = None,
    bits: _options.CodeBits = None,
    ids: _options.Ids = None,
    model: _options.ModelOfCodes = None,
    out: _options.NpzOut = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Find groups of duplicate rows, by their codes and vectors or by codes alone.

    With --vectors, codes find candidate pairs and the vectors verify them. Each
    row of a group is a duplicate of the group's first row, which is to be kept;
    groups are not extended by chains. Without --radius, the radius is chosen on
    a sample so that it contains 99 % of the sample's duplicates, or larger if
    that is cheap; the output says why.

    Without --vectors, rows are grouped whose codes are at most --radius bits
    apart, exactly. A chain of such steps is one group, so its ends may be
    further apart, and similar codes do not mean similar vectors: verify the rows
    before you delete any. The codes may come from any source, such as perceptual
    hashes of images. Of codes of two parts, a given radius counts the bits of
    the first part, as everywhere: an index file knows the parts of its codes; of
    a file of codes, give the model that made them with --model.

    Codes are memory-mapped and compared in parts that fit into --memory, so the
    file may be larger than the memory: 100 million codes of 64 bits need 3 GB of
    memory, with the result, and 4 GB of disk. Before long work the command
    prints an estimate of its time and disk.

    The table shows the first groups; --json and -o give all of them. The .npz
    file contains: ids and lims (the ids of group i are entries lims(i) to
    lims(i + 1) of ids), extra (all ids of the groups except the first of each),
    first (for each row, the first id of its group), with --keep the ids to keep
    and, with --vectors, pairs and values (ids of verified pairs, and their cosine
    or distance). With --against it contains, for each new row: ids (the nearest
    row of the index, -1 if none), distances, counts and known (true for
    duplicates).

    Examples:

      manihash dedup codes.npy --vectors X.npy --cosine 0.98 -o duplicates.npz
      manihash dedup codes.npy --bits 48 --radius 2
      manihash dedup codes.npy --model model.mhash --radius 2
      manihash dedup phash.npy --radius 4 -o duplicates.npz --keep central
      manihash dedup codes.npy --radius 2 --memory 8G -o duplicates.npz
      manihash dedup new.npy --against items.mhx --radius 2
    """
    _inputs.check_inputs(codes, ids, vectors, against, model=model)
    from manihash.checks import positive_int

    if radius is not None:
        positive_int(radius, "--radius", least=0)
    _check_thresholds(vectors, cosine, distance)
    _check_outputs(out, keep, report, codes, ids, vectors, against, model)
    if against is not None:
        _check_against(vectors, keep, report, dask, work)
        _dedup_known.run(codes, against, radius, bits, ids, out, model, as_json=as_json, quiet=quiet)
        return
    start = perf_counter()
    options: dict[str, Any] = {"memory": memory, "restart": restart}
    with progress_shown(quiet) as bar:
        bar.start("finding duplicates")
        named = None if vectors is not None and is_index(codes) else ids
        rows, layout, row_ids = _read(codes, bits, named, model)
        if vectors is None and radius:
            _check_radius(codes, layout)
        n_bits = layout.n_bits
        if layout.has_two_parts and (vectors is None or radius is not None):
            _refuse_dask(dask, "codes of two parts")
            rows, n_bits = _first(rows, layout)
        options["work"] = _work_folder(work, out, len(rows), n_bits, memory, dask)
        X = None if vectors is None else _vectors(vectors, codes, row_ids, ids)
        if vectors is not None:
            _refuse_dask(dask, "--vectors")
            thresholds = {"cosine": cosine, "distance": distance}
            found = _dedup_verified.find(
                rows, n_bits, X, {**thresholds, **options, "radius": radius}, row_ids
            )
        else:
            found = _groups(codes, rows, n_bits, radius or 0, row_ids, options, dask)
        kept = None if keep is None else _kept(found, keep, rows, X, row_ids)
        if out is not None:
            _write(out, found, kept)
    result: dict[str, Any] = {
        "codes": codes,
        "rows": len(rows),
        "bits": n_bits,
        "radius": getattr(found, "radius", radius or 0),
        **({} if cosine is None else {"cosine": cosine}),
        **({} if distance is None else {"distance": distance}),
        "in_groups": len(found.ids),
        "extra": len(found.ids) - len(found),
        "seconds": round(perf_counter() - start, 3),
        **({} if kept is None else {"keep": len(kept)}),
        **_dedup_verified.facts(found),
    }
    if report is not None:
        _report(report, found, rows, row_ids, result, kept)
    if as_json:
        print_json({**result, "groups": [group.tolist() for group in found]})
    else:
        _show(result, found, out)


def _check_radius(codes: str, layout: "CodeLayout") -> None:
    """Raise if codes have no Hamming radius."""
    if not layout.look_up_bits:
        raise typer.BadParameter(
            f"the codes in {codes} are fields of a product quantizer, which have no Hamming radius: give "
            "--vectors and --cosine, or --radius 0 for equal codes"
        )


def _groups(
    codes: str,
    rows: "NDArray[Any]",
    n_bits: int,
    radius: int,
    ids: "NDArray[Any] | None",
    options: dict[str, Any],
    dask: str | None,
) -> "Duplicates":
    """Return the groups by codes, which this machine or a cluster computes."""
    from manihash import search

    if dask is None:
        return search.dedup(rows, n_bits, radius, ids, **options)
    if is_index(codes):
        _refuse_dask(dask, "an index file")
    from manihash.rows import dask as dask_rows

    with _inputs.opened(codes, dask) as X:
        dask_rows.check_chunks(X)
        return search.dedup(X, n_bits, radius, ids, **options)


def _refuse_dask(dask: str | None, what: str) -> None:
    """Raise if a cluster is given for work that one machine does."""
    if dask is not None:
        raise typer.BadParameter(f"got --dask and {what}: a cluster compares the codes of a file alone")


def _work_folder(
    work: Path | None, out: Path | None, n: int, n_bits: int, memory: str, dask: str | None
) -> Path | None:
    """Return the folder of the work, absolute for the workers of a cluster; None if none is needed."""
    from manihash.search.duplicates.self_join import fits_into_memory, parse_memory

    if work is None and out is not None and (dask or not fits_into_memory(n, n_bits, parse_memory(memory))):
        work = out.with_name(f"{out.name}.work")
    if work is None and dask is not None and not dask.isdecimal():
        raise typer.BadParameter("--dask with an address needs --work FOLDER, which all workers can write to")
    return None if work is None else work.absolute()


def _check_outputs(
    out: Path | None, keep: str | None, report: Path | None, *inputs: Path | str | None
) -> None:
    """Raise if an output file cannot be written, or --keep has no file to be written to."""
    _inputs.check_npz_output(out, *inputs)
    if keep is not None and keep not in ("first", "central"):
        raise typer.BadParameter(f"got --keep {keep}: expected first or central")
    if keep is not None and out is None:
        raise typer.BadParameter("--keep adds the ids to keep to a file: give the file with -o")
    if report is not None:
        if report.suffix.lower() not in (".html", ".htm"):
            raise typer.BadParameter(f"got --report {report}: expected a name that ends in .html")
        _inputs.check_output(report, out, *inputs)


def _check_against(*others: Any) -> None:
    """Raise if --against is given with an option that has no meaning then."""
    names = ("--vectors", "--keep", "--report", "--dask", "--work")
    given = [name for name, value in zip(names, others, strict=True) if value is not None]
    if given == ["--vectors"]:
        raise typer.BadParameter(
            "--against compares codes, it does not verify pairs by vectors: omit --vectors, --cosine and "
            "--distance. New vectors can be given instead of codes if the index holds its model: manihash "
            "dedup new_vectors.npy --against INDEX --radius R"
        )
    if given:
        raise typer.BadParameter(f"--against compares new codes with an index: omit {' and '.join(given)}")


def _kept(
    found: "Duplicates", keep: str, rows: "NDArray[Any]", X: Any, ids: "NDArray[Any] | None"
) -> "NDArray[Any]":
    """Return the ids to keep."""
    if keep == "first":
        return found.keep()
    return found.keep("central", ids=ids, **({"codes": rows} if X is None else {"vectors": X}))


def _report(
    path: Path,
    found: "Duplicates",
    rows: "NDArray[Any]",
    ids: "NDArray[Any] | None",
    result: dict[str, Any],
    kept: "NDArray[Any] | None",
) -> None:
    """Write the page with examples of groups."""
    from datetime import date

    from manihash.pages import page
    from manihash.pages.duplicates import duplicates_page

    page.write(path, duplicates_page(found, rows, ids, result, date.today(), kept))
    print_message("written", f"report to {path}", "green")


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


def _show(result: dict[str, Any], found: "Duplicates", out: Path | None) -> None:
    """Print the facts, warnings and the first groups."""
    print_result(key_values(_as_text(result, len(found))))
    if "pairs" in result:
        print_result(_dedup_verified.curve_table(found))
    elif result["extra"] > result["rows"] / 2:
        print_message("warning", _TOO_MANY.format(part=result["extra"] / result["rows"]), "yellow")
    if len(found):
        print_result(_table(found, out))


def _read(
    codes: str, bits: int | None, ids: str | None, model: Path | None
) -> tuple["NDArray[Any]", "CodeLayout", "NDArray[Any] | None"]:
    """Return codes, their parts and ids (None: row numbers) of an index file or a file of codes."""
    from manihash.code_layout import CodeLayout

    if is_index(codes):
        if ids is not None:
            raise typer.BadParameter(
                f"{codes} is an index file and contains its ids: omit --ids, or give --vectors, whose rows "
                "it names"
            )
        index = open_index(codes, bits, model=model)
        return index.codes, index.layout, index.ids
    rows = _inputs.read_codes(codes)
    names = None if ids is None else _inputs.read_ids(ids)
    if model is None:
        return rows, CodeLayout(code_bits(rows, bits)), names
    return rows, model_of_codes(codes, rows, bits, model).layout_, names


def _first(codes: "NDArray[Any]", layout: "CodeLayout") -> tuple["NDArray[Any]", int]:
    """Return the first part of codes of two parts, which a radius counts, and its length; say so."""
    print_message("note", f"the radius counts the {layout.look_up_bits} bits of the first part", "yellow")
    return layout.first(codes), layout.look_up_bits


def _write(out: Path, found: "Duplicates", kept: "NDArray[Any] | None") -> None:
    from manihash import datasets

    arrays = {"first": found.first, "lims": found.lims, "ids": found.ids, "extra": found.extra}
    arrays |= {} if kept is None else {"keep": kept}
    datasets.write(out, arrays | _dedup_verified.arrays(found))
    print_message("written", f"{len(found):,} groups to {out}", "green")


def _as_text(result: dict[str, Any], groups: int) -> dict[str, str]:
    kind = "duplicates" if "pairs" in result else "similar codes"
    return {
        "rows": f"{result['rows']:,} codes of {result['bits']} bits",
        "groups": f"{groups:,} within radius {result['radius']}, found in {result['seconds']:.2f} s",
        kind: f"{result['extra']:,}, not counting the first row of each group",
        **({"keep": f"{result['keep']:,} rows"} if "keep" in result else {}),
        **_dedup_verified.as_text(result),
    }


def _table(found: "Duplicates", out: Path | None) -> Table:
    """Return a table of the first groups, in the order of their lowest ids; ``out`` holds all of them."""
    table = Table("group", "rows", "ids", box=None, header_style="bold")
    for i, group in enumerate(islice(found, _GROUPS_SHOWN)):
        more = "  …" if len(group) > _IDS_SHOWN else ""
        table.add_row(str(i), f"{len(group):,}", "  ".join(escape(str(i)) for i in group[:_IDS_SHOWN]) + more)
    left = len(found) - _GROUPS_SHOWN
    if left > 0:
        where = f" in {out}" if out is not None else ": use --json or -o to get all"
        table.add_row("…", "", f"{left:,} more groups{where}")
    return table
