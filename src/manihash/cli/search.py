"""manihash search: the nearest codes of queries, by Hamming distance or ranked beyond it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from manihash.cli import _inputs
from manihash.cli._output import say, show, show_json
from manihash.cli._progress import watched
from manihash.cli.index import SUFFIX, check_model, is_index, open_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import HammingIndex, Hasher
    from manihash.search import Rescore
    from manihash.stores import Store

_QUERIES_SHOWN = 10
_ANSWERS_SHOWN = 10
_K = 10


@dataclass(frozen=True)
class _Asked:
    """The options that say what is looked for."""

    k: int | None
    radius: int | None
    rerank: str | None
    asymmetric: bool
    filter: str | None

    @property
    def ranked_by(self) -> str:
        """What the distances of the answers are."""
        return "euclidean" if self.rerank is not None else "asymmetric" if self.asymmetric else "hamming"


def search(
    model: _inputs.Model,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[CODES] QUERIES",
            help=f"Codes of [bold]manihash encode[/] or an index of [bold]manihash index[/] (*{SUFFIX}), "
            "left out with --store; then vectors to look for, one a row, which the model encodes.",
        ),
    ],
    k: Annotated[
        int | None, typer.Option("-k", help=f"So many nearest rows of each query; {_K} if nothing is said.")
    ] = None,
    radius: Annotated[
        int | None, typer.Option("--radius", help="Instead of -k: all rows at most so many bits away.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="STORE",
            help="Search the database that [bold]manihash export --to[/] filled, by the same address.",
        ),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            "--rerank",
            metavar="VECTORS",
            help="Rank the ten times -k nearest rows anew by Euclidean distance of their original vectors; "
            "row i is the vector of id i.",
        ),
    ] = None,
    asymmetric: Annotated[
        bool,
        typer.Option("--asymmetric", help="Rank by the query's real values against the stored bits."),
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="IDS",
            help="Search these ids only: whole numbers, or a boolean for each row in ascending order of id.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write lims, ids and distances of all answers to an .npz file."),
    ] = None,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Find the codes nearest to queries, by Hamming distance.

    The search is exact; rows equally far are in order of their id, which is
    their row in CODES, from 0, unless an index or a store has ids of its own.
    The table shows the first queries; --json and -o give all. In the .npz file
    the answers of query i are the ids and distances from lims(i) to
    lims(i + 1).

    Examples:

      manihash search model.mhash codes.npy queries.npy -k 10
      manihash search model.mhash codes.mhx queries.npy --radius 2 --json
      manihash search model.mhash codes.mhx queries.npy --rerank vectors.npy
      manihash search model.mhash queries.npy --store codes.lance
    """
    asked = _Asked(k, radius, rerank, asymmetric, keep)
    codes, queries = _sources(files, store)
    _check_options(asked, store)
    if out is not None:
        _check_target(out, (model, codes, queries, rerank, keep))
    hasher = _inputs.load_hasher(model)
    with watched(quiet) as watch, _opened(codes, store, hasher.n_bits, model) as held:
        watch.begin("searching")
        lims, distances, ids = _answers(held, hasher, _inputs.read_vectors(queries), asked)
        if out is not None:
            _write(out, lims, distances, ids)
        told = {
            "model": str(model),
            "bits": hasher.n_bits,
            "codes": len(held),
            **({"k": k or _K} if radius is None else {"radius": radius}),
            "ranked_by": asked.ranked_by,
        }
    answers = list(_by_query(lims, distances, ids))
    show_json({**told, "answers": answers}) if as_json else show(_table(answers, asked.ranked_by))


def _sources(files: list[str], store: str | None) -> tuple[str | None, str]:
    """The file of codes, or None with a store; and that of the queries."""
    if len(files) != (2 if store is None else 1):
        wanted = "CODES and QUERIES, or QUERIES alone with --store" if store is None else "QUERIES alone"
        raise typer.BadParameter(f"{len(files)} files came after the model: {wanted} was wanted")
    return (files[0] if store is None else None), files[-1]


def _check_options(asked: _Asked, store: str | None) -> None:
    from manihash.checks import positive_int

    if asked.k is not None and asked.radius is not None:
        raise typer.BadParameter("-k and --radius ask for different things: give one of the two")
    positive_int(_K if asked.k is None else asked.k, "-k")
    positive_int(0 if asked.radius is None else asked.radius, "--radius", least=0)
    if asked.radius is not None and asked.ranked_by != "hamming":
        raise typer.BadParameter("--radius counts bits: leave out --rerank and --asymmetric, or give -k")
    if store is not None and (asked.asymmetric or asked.filter is not None):
        raise typer.BadParameter(
            "a store knows neither --asymmetric nor --filter: give an index file instead of --store"
        )


def _check_target(out: Path, inputs: tuple[Path | str | None, ...]) -> None:
    if out.suffix.lower() != ".npz":
        raise ValueError(f"{out} came as target: a name that ends in .npz was wanted, it holds three arrays")
    _inputs.check_target(out, *inputs)


@contextmanager
def _opened(
    codes: str | None, store: str | None, n_bits: int, model: Path
) -> Iterator["HammingIndex | Store"]:
    """What is to be searched, if it holds codes as long as those of the model, and of no other."""
    if store is not None:
        from manihash.stores import open_store

        with open_store(store) as held:
            _check_bits(held.url, held.n_bits, n_bits)
            yield held
        return
    path = str(codes)
    index = open_index(path) if is_index(path) else open_index(path, n_bits)
    _check_bits(path, index.n_bits, n_bits)
    check_model(path, index, model)
    yield index


def _check_bits(name: str, held: int, n_bits: int) -> None:
    if held != n_bits:
        raise ValueError(
            f"{name} holds codes of {held} bits, and the model makes codes of {n_bits}: give the model that "
            f"made them or, if it is the one, put them in again with --bits {n_bits}"
        )


def _answers(
    held: "HammingIndex | Store", hasher: "Hasher", queries: "NDArray[Any]", asked: _Asked
) -> tuple["NDArray[Any]", "NDArray[Any]", "NDArray[Any]"]:
    """Limits (q + 1,), distances and ids of all answers, those of one query after those of another."""
    import numpy as np

    from manihash import HammingIndex
    from manihash.search import Rescore

    codes, k = hasher.encode(queries), asked.k or _K
    rescore = None if asked.rerank is None else Rescore(queries, _inputs.read_vectors(asked.rerank))
    if isinstance(held, HammingIndex):
        kept = None if asked.filter is None else _filter(asked.filter, held)
        if asked.radius is not None:
            return held.within(codes, asked.radius, filter=kept)
        real = hasher.embed(queries) if asked.asymmetric else None
        distances, ids = held.search(codes, k, filter=kept, asymmetric=real, rescore=rescore)
    elif asked.radius is not None:
        return held.within(codes, asked.radius)
    else:
        distances, ids = _of_store(held, codes, k, rescore)
    q, columns = ids.shape
    return np.arange(q + 1) * columns, distances.ravel(), ids.ravel()


def _of_store(
    store: "Store", codes: "NDArray[Any]", k: int, rescore: "Rescore | None"
) -> tuple["NDArray[Any]", "NDArray[Any]"]:
    """Distances and ids (q, k) out of a database; the shortlist is ranked anew here."""
    n = store.count()
    if rescore is None or not n:
        return store.search(codes, k)
    rescore.check(len(codes))
    _, ids = store.search(codes, max(k, min(rescore.length(k), n)))
    return rescore.best(ids, k)


def _filter(path: str, index: "HammingIndex") -> "NDArray[Any]":
    """The ids to keep, all of which the index must hold; or a boolean for each row."""
    import numpy as np

    kept = _inputs.read_ids(path)
    if kept.dtype.kind not in "iu" or kept.ndim != 1:
        return kept
    unknown = kept[~np.isin(kept.astype(np.int64), index.ids) | (kept > np.iinfo(np.int64).max)]
    if len(unknown):
        raise ValueError(
            f"{path} names {len(unknown):,} ids that are not among the {len(index):,} rows, such as "
            f"{unknown[0]}: give ids that are there"
        )
    return kept


def _write(out: Path, lims: "NDArray[Any]", distances: "NDArray[Any]", ids: "NDArray[Any]") -> None:
    from manihash import datasets

    datasets.write(out, {"lims": lims, "distances": distances, "ids": ids})
    say("written", f"{len(ids):,} answers to {len(lims) - 1:,} queries, {out}", "green")


def _by_query(
    lims: "NDArray[Any]", distances: "NDArray[Any]", ids: "NDArray[Any]"
) -> Iterator[dict[str, Any]]:
    for i, (start, stop) in enumerate(pairwise(lims)):
        yield {"query": i, "ids": ids[start:stop].tolist(), "distances": distances[start:stop].tolist()}


def _table(answers: list[dict[str, Any]], ranked_by: str) -> Table:
    bits = ranked_by == "hamming"
    heading = f"id ({'bits away' if bits else f'{ranked_by} distance'}), nearest first"
    table = Table("query", "found", heading, box=None, header_style="bold")
    for answer in answers[:_QUERIES_SHOWN]:
        pairs = list(zip(answer["ids"], answer["distances"], strict=True))
        text = "  ".join(f"{i} ({d if bits else f'{d:.4g}'})" for i, d in pairs[:_ANSWERS_SHOWN])
        more = "  …" if len(pairs) > _ANSWERS_SHOWN else ""
        table.add_row(str(answer["query"]), f"{len(pairs):,}", text + more)
    left = len(answers) - _QUERIES_SHOWN
    if left > 0:
        table.caption = f"and {left:,} more queries: --json or -o give all"
    return table
