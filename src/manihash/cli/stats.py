"""manihash stats: what an index or a file of codes holds, and whether its codes have collapsed."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from manihash.cli import _inputs
from manihash.cli._output import facts, file_size, say, show, show_json
from manihash.cli._progress import watched
from manihash.cli.index import SUFFIX, CodeBits, open_index

if TYPE_CHECKING:
    from manihash.search import IndexStats

_BITS_SHOWN = 10


def stats(
    codes: Annotated[
        str,
        typer.Argument(help=f"An index of [bold]manihash index[/] (*{SUFFIX}), or codes in a file of bytes."),
    ],
    bits: CodeBits = None,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Say how codes are spread: how often they repeat, and which bits tell nothing.

    Where codes have collapsed onto few values, or bits say what others say,
    a warning tells what to do about it. Effective bits are as many independent
    bits as would vary as much; the median bucket is the one that a row finds
    itself in.

    Examples:

      manihash stats codes.mhx
      manihash stats codes.npy --bits 48 --json
    """
    with watched(quiet) as watch:
        watch.begin("counting")
        found = open_index(codes, bits).stats()
    for warning in found.warnings:
        say("warning", warning, "yellow")
    show_json({"codes": codes, **asdict(found)}) if as_json else show(facts(_in_words(codes, found)))


def _in_words(codes: str, found: "IndexStats") -> dict[str, str]:
    pairs = [f"{i} and {j}" for i, j in found.correlated_bits]
    return {
        "codes": f"{codes} ({file_size(found.bytes)} as an index)",
        "rows": f"{found.rows:,} of {found.n_bits} bits",
        "distinct codes": f"{found.distinct_codes:,}, {found.entropy:.2f} bits of entropy",
        "rows of a code": f"{found.mean_bucket:.1f} on average, {found.median_bucket:,.0f} in the median, "
        f"{found.largest_bucket:,} at most",
        "effective bits": f"{found.effective_bits:.1f} of {found.n_bits}",
        "constant bits": _listed([str(bit) for bit in found.constant_bits]),
        "correlated bits": _listed(pairs),
    }


def _listed(names: list[str]) -> str:
    """The first of them, and how many more there are."""
    more = f", and {len(names) - _BITS_SHOWN:,} more" if len(names) > _BITS_SHOWN else ""
    return ", ".join(names[:_BITS_SHOWN]) + more or "none"
