"""The page about groups of duplicates: their sizes, and examples."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import __version__
from manihash.pages import page
from manihash.search import Duplicates, VerifiedDuplicates
from manihash.search.ids import rows_of_ids
from manihash.types import Ids, Ints

_SECTIONS = {"sizes": "Sizes", "largest": "Largest groups", "random": "Random groups", "facts": "Protocol"}
_LARGEST, _RANDOM, _ROWS = 5, 20, 12  # groups of each kind, and rows of a group that are shown


def duplicates_page(
    found: Duplicates,
    codes: NDArray[np.uint8],
    ids: Ids | None,
    facts: dict[str, Any],
    made: date,
    kept: Ids | None = None,
) -> str:
    """The page as HTML; ``facts`` are those that the command prints, ``kept`` are the ids to keep."""
    values = _Similarity(found, "cosine" if "cosine" in facts else "distance")
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
        largest=[_example(found, codes, ids, int(i), values, kept) for i in largest],
        random=[_example(found, codes, ids, int(i), values, kept) for i in some],
        facts={
            "Codes": f"{facts['codes']}: {facts['rows']:,} of {facts['bits']} bits",
            "Radius": f"{facts['radius']} bits",
            **{name.capitalize(): f"{facts[name]:g}" for name in ("cosine", "distance") if name in facts},
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


class _Similarity:
    """The cosine or distance of verified pairs; none if there are no vectors."""

    def __init__(self, found: Duplicates, name: str) -> None:
        self.head = [f"{name} to the first"] if isinstance(found, VerifiedDuplicates) else []
        self._found = found

    def columns(self, members: Ids) -> list[list[str]]:
        """For each row of a group its similarity to the first one, as a list of at most one text."""
        if not isinstance(self._found, VerifiedDuplicates):
            return [[] for _ in members]
        pairs, values = self._found.pairs, self._found.values
        low, high = (
            np.searchsorted(pairs[:, 0], members[0]),
            np.searchsorted(pairs[:, 0], members[0], "right"),
        )
        of = dict(zip(pairs[low:high, 1].tolist(), values[low:high].tolist(), strict=True))
        return [[f"{of[member]:.4f}" if member in of else ""] for member in members.tolist()]


def _example(
    found: Duplicates,
    codes: NDArray[np.uint8],
    ids: Ids | None,
    group: int,
    values: _Similarity,
    kept: Ids | None,
) -> dict[str, Any]:
    """The first rows of a group: codes, bits that differ from the first row, similarity, the row to keep."""
    start, stop = found.lims[group], found.lims[group + 1]
    members = found.ids[start : min(stop, start + _ROWS)]
    rows = members if ids is None else rows_of_ids(members, ids, len(codes))
    shown = np.asarray(codes[rows])
    differ = np.bitwise_count(shown ^ shown[:1]).sum(axis=1)
    keep = members == members[0] if kept is None else np.isin(members, kept)
    lines = [
        [str(member), code.tobytes().hex(), str(bits), *value, "kept" if is_kept else ""]
        for member, code, bits, value, is_kept in zip(
            members, shown, differ.tolist(), values.columns(members), keep.tolist(), strict=True
        )
    ]
    left = int(stop - start) - len(members)
    return {
        "head": ["id", "code", "bits from the first", *values.head, ""],
        "rows": lines,
        "caption": f"Group {group}: {int(stop - start):,} rows" + (f", {left:,} more" if left else ""),
    }
