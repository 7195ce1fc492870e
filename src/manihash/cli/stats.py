"""manihash stats: statistics of a set of codes."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from manihash.cli import _inputs, _options
from manihash.cli._indexes import open_index
from manihash.cli._output import (
    file_size,
    key_values,
    print_json,
    print_message,
    print_result,
    progress_shown,
)

if TYPE_CHECKING:
    from manihash.search import IndexStats

_BITS_SHOWN = 10


def stats(
    codes: Annotated[
        str,
        typer.Argument(metavar="CODES", help=f"Index file (*{_options.INDEX_SUFFIX}) or file of codes."),
    ],
    bits: _options.CodeBits = None,
    model: _options.ModelOfCodes = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Show statistics of a set of codes: distinct codes, bucket sizes, constant and correlated bits.

    A bucket is the set of rows that have the same code; the median bucket size
    is the median over rows. The effective number of bits measures redundancy:
    it equals the code length if the bits are independent. A warning says if the
    codes have collapsed to few values, or if bits are redundant.

    Of hybrid codes, the first part is described, which rows are looked up by: a
    bucket is what a look-up within radius 0 finds. An index file knows the parts
    of its codes; of a file of codes, give the model that made them with --model.

    Examples:

      manihash stats codes.mhx
      manihash stats codes.npy --bits 48 --json
      manihash stats codes.npy --model model.mhash
    """
    _inputs.check_inputs(codes, model=model)
    with progress_shown(quiet) as bar:
        bar.start("computing statistics")
        index = open_index(codes, bits, model=model)
        statistics = index.stats()
    for warning in statistics.warnings:
        print_message("warning", warning, "yellow")
    if as_json:
        print_json({"codes": codes, "code_bits": index.n_bits, **asdict(statistics)})
    else:
        print_result(key_values(_as_text(codes, index.n_bits, statistics)))


def _as_text(codes: str, n_bits: int, statistics: "IndexStats") -> dict[str, str]:
    pairs = [f"{i} and {j}" for i, j in statistics.correlated_bits]
    part = "" if n_bits == statistics.n_bits else f"; their first part has {statistics.n_bits} bits"
    return {
        "codes": f"{codes} (index of {file_size(statistics.bytes)})",
        "rows": f"{statistics.rows:,} codes of {n_bits} bits{part}",
        f"distinct {'first parts' if part else 'codes'}": f"{statistics.distinct_codes:,} (entropy "
        f"{statistics.entropy:.2f} bits)",
        "bucket size": f"mean {statistics.mean_bucket:.1f}, median {statistics.median_bucket:,.0f}, "
        f"maximum {statistics.largest_bucket:,}",
        "effective bits": f"{statistics.effective_bits:.1f} of {statistics.n_bits}",
        "constant bits": _listed([str(bit) for bit in statistics.constant_bits]),
        "correlated bits": _listed(pairs),
    }


def _listed(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f", and {len(names) - _BITS_SHOWN:,} more" if len(names) > _BITS_SHOWN else ""
    return ", ".join(names[:_BITS_SHOWN]) + more or "none"
