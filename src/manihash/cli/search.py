"""manihash search: the nearest codes of queries, by Hamming distance."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from manihash.cli import _inputs
from manihash.cli._output import say, show, show_json
from manihash.cli._progress import watched

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUERIES_SHOWN = 10
_ANSWERS_SHOWN = 10


def search(
    model: _inputs.Model,
    codes: Annotated[str, typer.Argument(help="Codes that [bold]manihash encode[/] wrote.")],
    queries: Annotated[str, typer.Argument(help="Vectors to look for, one a row; the model encodes them.")],
    k: Annotated[
        int | None, typer.Option("-k", help="So many nearest codes of each query; 10 if nothing is said.")
    ] = None,
    radius: Annotated[
        int | None, typer.Option("--radius", help="Instead of -k: all codes at most so many bits away.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write lims, ids and distances of all answers to an .npz file."),
    ] = None,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Find the codes nearest to queries, by Hamming distance.

    The search is exact; codes equally far are in order of their id, which is
    their row in CODES, from 0. The table shows the first queries; --json and -o
    give all. In the .npz file the answers of query i are the ids and distances
    from lims(i) to lims(i + 1).

    Examples:

      manihash search model.mhash codes.npy queries.npy -k 10
      manihash search model.mhash codes.npy queries.npy --radius 2 --json
    """
    _check_options(k, radius, out, (model, codes, queries))
    from manihash import HammingIndex

    hasher = _inputs.load_hasher(model)
    with watched(quiet) as watch:
        watch.begin("searching")
        index = HammingIndex(_inputs.read_codes(codes), hasher.n_bits)
        lims, distances, ids = _answers(index, hasher.encode(_inputs.read_vectors(queries)), k or 10, radius)
        if out is not None:
            _write(out, lims, distances, ids)
    answers = list(_by_query(lims, distances, ids))
    if as_json:
        asked = {"k": k or 10} if radius is None else {"radius": radius}
        show_json(
            {"model": str(model), "bits": hasher.n_bits, "codes": len(index), **asked, "answers": answers}
        )
    else:
        show(_table(answers))


def _check_options(
    k: int | None, radius: int | None, out: Path | None, inputs: tuple[Path | str, ...]
) -> None:
    from manihash.checks import positive_int

    if k is not None and radius is not None:
        raise typer.BadParameter("-k and --radius ask for different things: give one of the two")
    positive_int(10 if k is None else k, "-k")
    positive_int(0 if radius is None else radius, "--radius", least=0)
    if out is not None and out.suffix.lower() != ".npz":
        raise ValueError(f"{out} came as target: a name that ends in .npz was wanted, it holds three arrays")
    if out is not None:
        _inputs.check_target(out, *inputs)


def _answers(
    index: Any, query_codes: "NDArray[Any]", k: int, radius: int | None
) -> tuple["NDArray[Any]", "NDArray[Any]", "NDArray[Any]"]:
    """Limits (q + 1,), distances and ids of all answers, those of one query after those of another."""
    import numpy as np

    if radius is not None:
        lims, distances, ids = index.within(query_codes, radius)
        return lims, distances, ids
    distances, ids = index.search(query_codes, k)
    q, columns = ids.shape
    return np.arange(q + 1) * columns, distances.ravel(), ids.ravel()


def _write(out: Path, lims: "NDArray[Any]", distances: "NDArray[Any]", ids: "NDArray[Any]") -> None:
    from manihash import datasets

    datasets.write(out, {"lims": lims, "distances": distances, "ids": ids})
    say("written", f"{len(ids):,} answers to {len(lims) - 1:,} queries, {out}", "green")


def _by_query(
    lims: "NDArray[Any]", distances: "NDArray[Any]", ids: "NDArray[Any]"
) -> Iterator[dict[str, Any]]:
    for i, (start, stop) in enumerate(pairwise(lims)):
        yield {"query": i, "ids": ids[start:stop].tolist(), "distances": distances[start:stop].tolist()}


def _table(answers: list[dict[str, Any]]) -> Table:
    table = Table("query", "found", "id (bits away), nearest first", box=None, header_style="bold")
    for answer in answers[:_QUERIES_SHOWN]:
        pairs = list(zip(answer["ids"], answer["distances"], strict=True))
        text = "  ".join(f"{i} ({d})" for i, d in pairs[:_ANSWERS_SHOWN])
        more = "  …" if len(pairs) > _ANSWERS_SHOWN else ""
        table.add_row(str(answer["query"]), f"{len(pairs):,}", text + more)
    left = len(answers) - _QUERIES_SHOWN
    if left > 0:
        table.caption = f"and {left:,} more queries: --json or -o give all"
    return table
