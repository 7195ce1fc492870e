"""The part of ``manihash dedup`` that verifies pairs by their vectors."""

import math
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.search import Duplicates, RadiusStep

_MOST_STEPS = 12


def find(
    codes: "NDArray[Any]", n_bits: int, X: Any, options: dict[str, Any], ids: "NDArray[Any] | None"
) -> "Duplicates":
    """Return the verified duplicates."""
    from manihash import verified_duplicates

    return verified_duplicates(codes, n_bits, X, ids=ids, **options)


def facts(found: "Duplicates") -> dict[str, Any]:
    """Return the fields of the JSON document about verified pairs; none without vectors."""
    from manihash.search import VerifiedDuplicates

    if not isinstance(found, VerifiedDuplicates):
        return {}
    return {
        "candidates": found.candidates,
        "pairs": len(found.pairs),
        "largest_group": max((len(group) for group in found), default=0),
        "largest_chain": found.largest_chain,
        "sample_duplicates": found.sample_duplicates,
        "reason": found.reason,
        "curve": [_step(step) for step in found.curve],
    }


def arrays(found: "Duplicates") -> dict[str, Any]:
    """Return the arrays of verified pairs for the .npz file."""
    from manihash.search import VerifiedDuplicates

    return {"pairs": found.pairs, "values": found.values} if isinstance(found, VerifiedDuplicates) else {}


def as_text(result: dict[str, Any]) -> dict[str, str]:
    """Return the lines about verified pairs."""
    if "pairs" not in result:
        return {}
    lines = {"pairs": f"{result['pairs']:,} verified of {result['candidates']:,} candidates"}
    if result["reason"]:
        lines["radius"] = f"{result['radius']}: {result['reason']}"
    if result["largest_chain"] > result["largest_group"]:
        lines["chain"] = (
            f"the longest chain of similar rows has {result['largest_chain']:,} rows, the largest group "
            f"{result['largest_group']:,}: the ends of a chain are not duplicates of each other"
        )
    return lines


def curve_table(found: Any) -> Table | str:
    """Return a table of what each radius costs and finds; the chosen one is marked."""
    if not found.curve:
        return ""
    found_of = f"found of {found.sample_duplicates:,} in the sample"
    table = Table("", "radius", "candidates", found_of, "seconds", box=None, header_style="bold")
    near = [step for step in found.curve if abs(step.radius - found.radius) <= _MOST_STEPS // 2]
    for step in near:
        # Rounded down: a radius that finds 98.96 % does not find the 99 % that the chosen one must find.
        share = "-" if math.isnan(step.found) else f"{math.floor(1000 * step.found + 1e-9) / 10:.1f}%"
        mark = "→" if step.radius == found.radius else ""
        table.add_row(mark, str(step.radius), f"{step.candidates:,.0f}", share, f"{step.seconds:.2f}")
    return table


def _step(step: "RadiusStep") -> dict[str, Any]:
    found = None if math.isnan(step.found) else step.found
    return {"radius": step.radius, "candidates": step.candidates, "found": found, "seconds": step.seconds}
