"""manihash search: find the nearest codes of queries."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from manihash.cli import _inputs, _options
from manihash.cli._indexes import check_store, is_index, open_index_of
from manihash.cli._output import print_json, print_message, print_result, progress_shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import CodeLayout, HammingIndex, Hasher
    from manihash.stores import Store

_QUERIES_SHOWN = _RESULTS_SHOWN = _DEFAULT_K = 10


@dataclass(frozen=True)
class _Request:
    """The options that define the search."""

    k: int | None
    radius: int | None
    rerank: str | None
    shortlist: int | None
    asymmetric: bool | None
    filter: str | None
    ids: str | None
    weight: float | None

    def by_values(self, layout: "CodeLayout") -> bool:
        """Return whether real values of queries rank; rows within a radius of one part are ranked by it."""
        return self.asymmetric is not False and (self.radius is None or layout.has_two_parts)


def search(
    model: _options.Model,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[CODES] QUERIES",
            help=f"CODES: file of codes or index file (*{_options.INDEX_SUFFIX}); omit it with --store, or "
            "if MODEL is an index file that holds its model. "
            "QUERIES: file of vectors, one per row, which the model encodes.",
        ),
    ],
    k: Annotated[
        int | None,
        typer.Option(
            "-k", help=f"Number of nearest rows per query; {_DEFAULT_K} without --radius.", show_default=False
        ),
    ] = None,
    radius: Annotated[
        int | None,
        typer.Option(
            "--radius",
            help="Find all rows within this Hamming distance, in bits, instead of the k nearest; for hybrid "
            "codes it counts the bits of the first part, and the rows are in the order of both parts.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="STORE",
            help=f"Search a database filled by [bold]manihash export[/]: {_options.STORES}.",
            show_default=False,
        ),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            "--rerank",
            metavar="VECTORS",
            help="Rerank candidates by the Euclidean distance of the original vectors in this file, or one "
            "that [bold]manihash build --byte-vectors[/] wrote; row i is the vector of id i, or of the i-th "
            "of --ids. Without --ids, the vectors of all rows in ascending order of id are accepted, too.",
            show_default=False,
        ),
    ] = None,
    shortlist: Annotated[
        int | None,
        typer.Option(
            "--candidates",
            "--shortlist",
            metavar="N",
            help="Smallest number of rows to rerank per query; rows with the same code are taken together.",
            show_default="10 times -k",
        ),
    ] = None,
    asymmetric: Annotated[
        bool | None,
        typer.Option(
            "--asymmetric/--symmetric",
            help="Rank by the real values of the query, or by its code (Hamming distance of signs).",
            show_default="asymmetric; symmetric with --store",
        ),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            "--weight",
            help="Weight of the second part of hybrid codes: a small one favors the cluster of the query, a "
            "large one the nearest rows.",
            show_default="that of the model or index",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="FILE",
            help="Search only these rows: a file of ids, or of one boolean per row in ascending order of id.",
            show_default=False,
        ),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--ids",
            metavar="FILE",
            help="File of the ids of CODES, unless it is an index file, and of the rows of --rerank VECTORS: "
            "integers, or strings such as file names, one per line of a text file.",
            show_default="row numbers, from 0",
        ),
    ] = None,
    out: _options.NpzOut = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Find the rows nearest to queries by their codes.

    Rows are ranked by the distance of the real values of the query to their
    codes, which is more exact than Hamming distance; --symmetric ranks by the
    code of the query. The search is exact; ties are sorted by id. The id of a
    row is its row number in CODES, from 0, unless the index or the store has
    other ids.

    The table shows the first queries; --json and -o give all of them. The .npz
    file contains ids, distances and lims: the results of query i are entries
    lims(i) to lims(i + 1) of ids and distances.

    Examples:

      manihash search items.mhx queries.npy -k 10
      manihash search items.mhx queries.npy -k 10 --symmetric
      manihash search model.mhash codes.npy queries.npy -k 10
      manihash search model.mhash codes.mhx queries.npy --radius 2 --json
      manihash search items.mhx queries.npy --rerank vectors.npy --candidates 100
      manihash search model.mhash codes.npy queries.npy --ids names.txt
      manihash search model.mhash queries.npy --store codes.lance
    """
    request = _Request(k, radius, rerank, shortlist, asymmetric, keep, ids, weight)
    codes, queries = _sources(model, files, store)
    _check_options(request, store)
    _inputs.check_inputs(codes, queries, rerank, keep, ids, model=model)
    _inputs.check_npz_output(out, model, codes, queries, rerank, keep, ids)
    hasher = _inputs.load_hasher(model)
    with progress_shown(quiet) as bar, _opened(codes, store, hasher, model, request) as opened:
        bar.start("searching")
        lims, distances, found = _search(opened, hasher, _inputs.read_vectors(queries), request)
        if out is not None:
            _write(out, lims, distances, found)
        result = {
            "model": str(model),
            "bits": hasher.n_bits_,
            "codes": len(opened),
            **({"k": k or _DEFAULT_K} if radius is None else {"radius": radius}),
            "ranked_by": (ranked_by := _ranked_by(request, opened)),
        }
    answers = list(_by_query(lims, distances, found))
    if as_json:
        print_json({**result, "answers": answers})
    else:
        print_result(_table(answers, _heading(ranked_by, radius, opened.layout), ranked_by))


def _ranked_by(request: _Request, opened: "HammingIndex | Store") -> str:
    """Return the kind of the distances in the result."""
    if request.rerank is not None:
        return "euclidean"
    if request.radius is not None and getattr(opened, "look_up_bits", None) is not None:  # of a store
        return "first-part hamming"
    layout: CodeLayout | None = opened.layout
    if layout is None:  # a store that compares codes
        return "hamming"
    if request.by_values(layout):
        return "asymmetric"
    return "code" if layout.has_fields else "hamming" if layout.is_hamming else "weighted hamming"


def _sources(model: Path, files: list[str], store: str | None) -> tuple[str | None, str]:
    """Return the file of codes (None with a store) and the file of queries; an index can be the model."""
    if len(files) == 1 and store is None and is_index(str(model)):
        return str(model), files[0]
    if len(files) != (2 if store is None else 1):
        raise typer.BadParameter(_wrong_files(model, files, store))
    return (files[0] if store is None else None), files[-1]


def _wrong_files(model: Path, files: list[str], store: str | None) -> str:
    """Return what is wrong with the number of files after MODEL."""
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    if store is not None:
        return f"got {count} after {model}: expected only QUERIES with --store"
    what = "" if is_index(str(model)) else ", which is not an index file"
    return (
        f"got {count} after {model}{what}: expected an index file (*{_options.INDEX_SUFFIX}) and QUERIES; "
        "a model, CODES and QUERIES; or a model and QUERIES with --store"
    )


def _check_options(request: _Request, store: str | None) -> None:
    from manihash.checks import positive_int

    if request.k is not None and request.radius is not None:
        raise typer.BadParameter("-k and --radius cannot be combined: give one of the two")
    positive_int(_DEFAULT_K if request.k is None else request.k, "-k")
    positive_int(0 if request.radius is None else request.radius, "--radius", least=0)
    if request.shortlist is not None:
        positive_int(request.shortlist, "--candidates")
        if request.rerank is None:
            raise typer.BadParameter("--candidates sets how many rows --rerank ranks: give --rerank VECTORS")
    ranking = "--rerank" if request.rerank is not None else "--asymmetric" if request.asymmetric else None
    if request.radius is not None and ranking is not None:
        raise typer.BadParameter(f"--radius is a Hamming distance: omit {ranking}, or use -k")
    if store is not None and request.weight is not None:
        raise typer.BadParameter("--weight does not work with --store: use an index file instead")
    if store is not None and request.filter is not None:
        raise typer.BadParameter("--filter does not work with --store: use an index file instead")


@contextmanager
def _opened(
    codes: str | None, store: str | None, hasher: "Hasher", model: Path, request: _Request
) -> Iterator["HammingIndex | Store"]:
    """Open the index or store to search; raise if another model made its codes."""
    if store is not None:
        from manihash.stores import open_store

        with open_store(store) as opened:
            if request.asymmetric and opened.layout is None:
                raise typer.BadParameter(
                    "--asymmetric does not work with a store that compares codes by Hamming distance: "
                    "use an index file instead"
                )
            check_store(opened, hasher)
            yield opened
        return
    yield open_index_of(hasher, str(codes), model, ids=request.ids)


def _ids_of(opened: "HammingIndex | Store", hasher: "Hasher", request: _Request, vectors: Any) -> Any:
    """Return the ids of the vectors to rerank with; None if row i is the vector of id i.

    Raise if most of some vectors do not have the codes of the ids that they stand for.
    """
    from manihash import HammingIndex
    from manihash.search.rerank import are_by_id, ids_in_order

    ids = None if request.ids is None else _inputs.read_ids(request.ids)
    if ids is None and isinstance(opened, HammingIndex):
        ids = ids_in_order(opened, hasher, vectors)
    if ids is not None or opened.id_type is int:
        _check_order(opened, hasher, request, vectors, ids)
    by_id = opened.id_type is int
    if isinstance(opened, HammingIndex):
        by_id = are_by_id(opened, len(vectors))
    if ids is None and not by_id:
        raise ValueError(
            f"the {len(vectors):,} vectors of {request.rerank} are not known to be those of all "
            f"{len(opened):,} rows in ascending order of id: give the ids of the vectors with --ids FILE"
        )
    return ids


def _check_order(
    opened: "HammingIndex | Store", hasher: "Hasher", request: _Request, vectors: Any, ids: Any
) -> None:
    """Raise if most of some vectors to rerank with do not have the codes of the ids that they stand for."""
    import numpy as np

    from manihash import HammingIndex
    from manihash.search.ids import shown_id
    from manihash.search.rerank import first_misplaced, some_of

    places = some_of(len(vectors) if ids is None else min(len(vectors), len(ids)))
    names = places if ids is None else np.asarray(ids)[places]
    held = np.asarray(opened.contains(names))
    places, names = places[held], names[held]
    if isinstance(opened, HammingIndex):
        codes = opened.codes[np.searchsorted(opened.ids, names)]
    else:
        codes = opened.get(names)
    wrong = first_misplaced(hasher, vectors, places, codes)
    if wrong is not None:
        raise ValueError(
            f"row {places[wrong]} of {request.rerank} is not the vector of id {shown_id(names[wrong])}: its "
            "code differs. Give the vectors in the order of the ids, or their ids with --ids"
        )


def _search(
    opened: "HammingIndex | Store", hasher: "Hasher", queries: "NDArray[Any]", request: _Request
) -> tuple["NDArray[Any]", "NDArray[Any]", "NDArray[Any]"]:
    """Return lims (q + 1,), distances and ids of all results, query after query."""
    import numpy as np

    from manihash import HammingIndex
    from manihash.search import Rerank
    from manihash.stores.reranking import search_reranked

    codes, k = hasher.encode(queries), request.k or _DEFAULT_K
    rerank = None
    if request.rerank is not None:
        vectors = _inputs.read_stored_vectors(request.rerank)
        ids = _ids_of(opened, hasher, request, vectors)
        rerank = Rerank(hasher._as_stored(queries), vectors, request.shortlist, ids)
    if isinstance(opened, HammingIndex):
        kept = None if request.filter is None else _read_filter(request.filter, opened)
        values = hasher.embed(queries) if request.by_values(opened.layout) else None
        if request.radius is not None:
            return opened.within(codes, request.radius, filter=kept, asymmetric=values, weight=request.weight)
        distances, ids = opened.search(
            codes, k, filter=kept, asymmetric=values, rerank=rerank, weight=request.weight
        )
    elif request.radius is not None:
        return opened.within(codes, request.radius, part=None if opened.look_up_bits is None else "first")
    elif opened.layout is None and hasher.layout_.has_fields:
        raise ValueError(
            f"{opened.url} cannot rank these codes, whose second part is a product quantizer: look up rows "
            "by the first part with --radius, or search an index file"
        )
    elif rerank is not None:
        distances, ids = search_reranked(opened, codes, k, rerank)
    elif opened.layout is not None and request.asymmetric is not False:
        distances, ids = opened.search(codes, k, asymmetric=hasher.embed(queries))
    else:
        distances, ids = opened.search(codes, k)
    q, columns = ids.shape
    return np.arange(q + 1) * columns, distances.ravel(), ids.ravel()


def _read_filter(path: str, index: "HammingIndex") -> "NDArray[Any]":
    """Return the ids of a filter, all of which must be in the index, or one boolean per row."""
    import numpy as np

    from manihash.search.ids import is_in, shown_id

    kept = _inputs.read_ids(path)
    strings = index.id_type is str
    if kept.ndim != 1 or kept.dtype.kind not in ("O" if strings else "iu"):
        return kept
    known = is_in(kept if strings else kept.astype(np.int64), index.ids)
    unknown = kept[~known if strings else ~known | (kept > np.iinfo(np.int64).max)]
    if len(unknown):
        raise ValueError(
            f"{path} contains {len(unknown):,} ids that are not in the index of {len(index):,} rows, such as "
            f"{shown_id(unknown[0])}: use ids of the index"
        )
    return kept


def _write(out: Path, lims: "NDArray[Any]", distances: "NDArray[Any]", ids: "NDArray[Any]") -> None:
    from manihash import datasets

    datasets.write(out, {"lims": lims, "distances": distances, "ids": ids})
    print_message("written", f"{len(ids):,} results of {len(lims) - 1:,} queries to {out}", "green")


def _by_query(
    lims: "NDArray[Any]", distances: "NDArray[Any]", ids: "NDArray[Any]"
) -> Iterator[dict[str, Any]]:
    for i, (start, stop) in enumerate(pairwise(lims)):
        yield {"query": i, "ids": ids[start:stop].tolist(), "distances": distances[start:stop].tolist()}


def _heading(ranked_by: str, radius: int | None, layout: "CodeLayout | None") -> str:
    """Return the heading of the results: what the distances are, and what a radius counts."""
    if radius is None or layout is None or not layout.has_two_parts or "first-part" in ranked_by:
        return f"id ({ranked_by} distance), nearest first"
    bits = "1 bit" if radius == 1 else f"{radius} bits"
    return (
        f"id ({ranked_by} distance of both parts), nearest first, of the rows within {bits} of the first part"
    )


def _table(answers: list[dict[str, Any]], heading: str, ranked_by: str) -> Table:
    bits = "hamming" in ranked_by
    table = Table("query", "results", heading, box=None, header_style="bold")
    for answer in answers[:_QUERIES_SHOWN]:
        pairs = list(zip(answer["ids"], answer["distances"], strict=True))
        text = "  ".join(f"{escape(str(i))} ({d if bits else f'{d:.4g}'})" for i, d in pairs[:_RESULTS_SHOWN])
        more = "  …" if len(pairs) > _RESULTS_SHOWN else ""
        table.add_row(str(answer["query"]), f"{len(pairs):,}", text + more)
    left = len(answers) - _QUERIES_SHOWN
    if left > 0:
        table.caption = f"{left:,} more queries: use --json or -o to get all"
    return table
