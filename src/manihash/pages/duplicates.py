"""The page about groups of duplicates: their sizes, and examples."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import __version__
from manihash.pages import page
from manihash.search import Duplicates
from manihash.search.ids import rows_of_ids
from manihash.types import Ids, Ints

_SECTIONS = {"sizes": "Sizes", "largest": "Largest groups", "random": "Random groups", "facts": "Protocol"}
_LARGEST, _RANDOM, _ROWS = 5, 20, 12  # groups of each kind, and rows of a group that are shown


def duplicates_page(
    found: Duplicates, codes: NDArray[np.uint8], ids: Ids | None, facts: dict[str, Any], made: date
) -> str:
    """The page as HTML; ``facts`` are those that the command prints."""
    size = np.diff(found.lims)
    largest = np.argsort(-size, kind="stable")[:_LARGEST]
    some = np.sort(np.random.default_rng(0).permutation(len(size))[:_RANDOM])
    return page.render(
        "manihash.pages",
        "duplicates.html",
        title=f"Duplicates in {facts['codes']}",
        lead=f"{facts['rows']:,} rows: {len(found):,} groups with {facts['extra']:,} rows that duplicate the "
        "first row of their group.",
        navigation=_SECTIONS.items(),
        sizes=(["rows of a group", "groups", "rows"], list(_sizes(size))),
        largest=[_example(found, codes, ids, int(i)) for i in largest],
        random=[_example(found, codes, ids, int(i)) for i in some],
        facts={
            "Codes": f"{facts['codes']}: {facts['rows']:,} of {facts['bits']} bits",
            "Radius": f"{facts['radius']} bits",
            "Time": f"{facts['seconds']:.1f} s",
            "Made": f"by manihash {__version__} on {made.isoformat()}",
        },
    )


def _sizes(size: Ints) -> Iterator[list[str]]:
    """Lines of the table of group sizes, which double from line to line."""
    low = 2
    while low <= size.max(initial=0):
        high = 2 if low == 2 else 2 * low - 1
        inside = size[(size >= low) & (size <= high)]
        if len(inside):
            name = f"{low}" if low == high else f"{low:,} to {high:,}"
            yield [name, f"{len(inside):,}", f"{inside.sum():,}"]
        low = high + 1


def _example(found: Duplicates, codes: NDArray[np.uint8], ids: Ids | None, group: int) -> dict[str, Any]:
    """The first rows of a group with their codes, and how many bits differ from the first row."""
    start, stop = found.lims[group], found.lims[group + 1]
    members = found.ids[start : min(stop, start + _ROWS)]
    rows = members if ids is None else rows_of_ids(members, ids, len(codes))
    shown = np.asarray(codes[rows])
    differ = np.bitwise_count(shown ^ shown[:1]).sum(axis=1)
    lines = [
        [str(member), code.tobytes().hex(), str(bits)]
        for member, code, bits in zip(members, shown, differ.tolist(), strict=True)
    ]
    left = int(stop - start) - len(members)
    return {
        "head": ["id", "code", "bits from the first"],
        "rows": lines,
        "caption": f"Group {group}: {int(stop - start):,} rows" + (f", {left:,} more" if left else ""),
    }
