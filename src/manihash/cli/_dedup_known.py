"""The part of ``manihash dedup`` that compares new codes or vectors with the rows of an index."""

from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from manihash.cli import _inputs
from manihash.cli._indexes import is_index, open_index
from manihash.cli._output import key_values, print_json, print_message, print_result, progress_shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.search import HammingIndex, KnownRows

_ROWS_SHOWN = 10
_EQUAL_ONLY = (
    "radius 0 finds rows with equal codes only: --radius R finds similar rows, whose codes differ in a few "
    "bits"
)
_GROUPED = (
    "the bits that are compared are those of a manifold method ({name}), which are equal for whole groups of "
    "similar rows: not all rows found are duplicates. For duplicates, use an index of itq or sign codes"
)


def run(
    codes: str,
    against: str,
    given_radius: int | None,
    bits: int | None,
    ids: str | None,
    out: Path | None,
    model: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print which of the new rows have a row of the index within the radius."""
    if not is_index(against):
        raise typer.BadParameter(
            f"got --against {against}: expected an index file, which manihash index writes"
        )
    from manihash.search import known_rows, prepare_tables

    with progress_shown(quiet) as bar:
        bar.start("opening the index")
        radius = given_radius or 0
        index, rows = _opened(against, bits, codes, model)
        method = _manifold_method(index, against)
        names = None if ids is None else _inputs.read_ids(ids)
        _check_count(names, len(rows))
        folder = prepare_tables(index, radius)
        bar.start("finding duplicates")
        start = perf_counter()
        found = known_rows(index, rows, radius)
        seconds = perf_counter() - start
        if out is not None:
            _write(out, found)
    result: dict[str, Any] = {
        "codes": codes,
        "against": against,
        "rows": len(rows),
        "rows_of_index": len(index),
        "bits": index.layout.look_up_bits,
        "first_part": index.layout.has_two_parts,
        "radius": radius,
        "known": int(found.known.sum()),
        "seconds": round(seconds, 6),
        "tables": None if folder is None else str(folder),
    }
    numbers = range(len(rows)) if names is None else names.tolist()
    if as_json:
        print_json({**result, "duplicates": list(_duplicates(found, numbers))})
        return
    print_result(key_values(_as_text(result)))
    if given_radius is None:
        print_message("note", _EQUAL_ONLY, "yellow")
    if method is not None:
        print_message("note", _GROUPED.format(name=method), "yellow")
    if result["known"]:
        print_result(_table(found, numbers))


def _opened(
    against: str, bits: int | None, new: str, model: Path | None
) -> "tuple[HammingIndex, NDArray[Any]]":
    """Return the index and the new rows: codes, or vectors if the index holds its model."""
    index, rows = open_index(against, bits, model=model), _inputs.read_codes(new, or_vectors=True)
    if str(rows.dtype) == "uint8" and rows.shape[1] == -(-index.n_bits // 8):
        return index, rows
    from manihash import load

    with_model = load(against)
    if hasattr(with_model, "hasher"):
        return with_model, rows
    if str(rows.dtype) == "uint8":
        return index, rows
    raise ValueError(
        f"{new} has rows of {rows.dtype}, expected packed codes (uint8): {against} holds no model to encode "
        "vectors. Encode them with the model of the index, or write an index with its model by manihash build"
    )


def _manifold_method(index: "HammingIndex", path: str) -> str | None:
    """Return the class that made the bits to compare if it is a manifold method; None if it is not known."""
    from manihash import load
    from manihash.induction import OnBaseGraph

    try:
        hasher = getattr(index if hasattr(index, "hasher") else load(path), "hasher", None)
    except ValueError:  # a model that cannot be opened is not needed to compare codes
        return None
    first = getattr(hasher, "first_", hasher)  # of a hybrid
    return type(first).__name__ if isinstance(first, OnBaseGraph) else None


def _check_count(ids: "NDArray[Any] | None", n: int) -> None:
    if ids is not None and ids.shape != (n,):
        raise ValueError(f"got ids of shape {ids.shape} for {n} new codes: give one id per code")


def _duplicates(found: "KnownRows", numbers: Any) -> Any:
    """Yield the new rows that have a duplicate in the index, as documents."""
    import numpy as np

    for row in np.flatnonzero(found.known).tolist():
        nearest = found.ids[row]
        yield {
            "row": numbers[row],
            "id": nearest if isinstance(nearest, str) else int(nearest),
            "distance": int(found.distances[row]),
            "count": int(found.counts[row]),
        }


def _write(out: Path, found: "KnownRows") -> None:
    from manihash import datasets

    arrays = {"ids": found.ids, "distances": found.distances, "counts": found.counts, "known": found.known}
    datasets.write(out, arrays)
    print_message("written", f"{len(found.ids):,} rows to {out}", "green")


def _as_text(result: dict[str, Any]) -> dict[str, str]:
    each = 1e3 * result["seconds"] / max(1, result["rows"])
    compared = "first parts" if result["first_part"] else "codes"
    return {
        "index": f"{result['against']}: {result['rows_of_index']:,} {compared} of {result['bits']} bits",
        "duplicates": f"{result['known']:,} of {result['rows']:,} new rows within radius {result['radius']}",
        "time": f"{each:.2g} ms per row, after the index was opened",
    }


def _table(found: "KnownRows", numbers: Any) -> Table:
    """Return a table of the first new rows that have a duplicate in the index."""
    table = Table("new row", "nearest id", "distance", "rows within", box=None, header_style="bold")
    for each in islice(_duplicates(found, numbers), _ROWS_SHOWN):
        texts = (str(each[name]) for name in ("row", "id", "distance"))
        table.add_row(*map(escape, texts), f"{each['count']:,}")
    left = int(found.known.sum()) - _ROWS_SHOWN
    if left > 0:
        table.caption = f"{left:,} more rows: use --json or -o to get all"
    return table
