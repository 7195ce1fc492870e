"""What the search API computes: codes of vectors, and rows near queries; requests are computed together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from manihash import HammingIndex, Hasher
from manihash.codes import n_bytes
from manihash.errors import BadRowsError
from manihash.search import Rerank
from manihash.search.ids import shown_id
from manihash.search.journal import IMAGES, LABELS, TEXTS
from manihash.types import Codes, Ids, Ints
from manihash.web.api.attachments import Attachments
from manihash.web.api.messages import DEFAULT_K, Limits, SearchOptions, id_array, id_of_text
from manihash.web.application import RequestError

_FEW = 100  # answers per query whose search takes hardly longer than that of one


@dataclass(eq=False, slots=True)
class Answers:
    """Rows near queries, nearest first.

    ``distances`` and ``ids`` have shape (q, k) or, with ``lims``, hold the rows of all queries one after the
    other: those of query i are entries ``lims[i]`` to ``lims[i + 1]``.
    """

    distances: NDArray[Any]
    ids: Ids
    lims: Ints | None = None

    def lists(self) -> dict[str, Any]:
        """The ids and the distances, a list per query."""
        ids, distances = self.ids.tolist(), self.distances.tolist()
        if self.lims is not None:
            limits = list(pairwise(self.lims.tolist()))
            ids, distances = ([values[i:j] for i, j in limits] for values in (ids, distances))
        return {"ids": ids, "distances": distances}

    def table(self) -> NDArray[Any]:
        """One record per row found, with the fields query, id and distance."""
        q, k = (len(self.lims) - 1, np.diff(self.lims)) if self.lims is not None else self.ids.shape
        table = np.empty(self.ids.size, [("query", "<u4"), ("id", "<i8"), ("distance", "<f4")])
        table["query"] = np.repeat(np.arange(q, dtype=np.uint32), k)
        table["id"], table["distance"] = self.ids.ravel(), self.distances.ravel()
        return table

    def split(self, counts: Sequence[int]) -> list["Answers"]:
        """The answers of the first queries, of the next ones, and so on."""
        parts, first = [], 0
        for count in counts:
            last = first + count
            if self.lims is None:
                parts.append(Answers(self.distances[first:last], self.ids[first:last]))
            else:
                lims = self.lims[first : last + 1]
                found = slice(lims[0], lims[-1])
                parts.append(Answers(self.distances[found], self.ids[found], lims - lims[0]))
            first = last
        return parts


@dataclass(eq=False, slots=True)
class Job:
    """Vectors or codes of one request; without options they are only encoded."""

    vectors: NDArray[Any] | None = None
    codes: Codes | None = None
    options: SearchOptions | None = None
    values: NDArray[Any] | None = field(default=None, repr=False)  # real values, which rank
    n: int = field(init=False)

    def __post_init__(self) -> None:
        self.n = len(self.codes if self.vectors is None else self.vectors)  # type: ignore[arg-type]

    def is_quick(self) -> bool:
        """Whether the time to compute it depends on the number of rows only, not on what is found."""
        options = self.options
        return options is None or not (
            options.radius is not UNSET
            or options.filter is not UNSET
            or options.rerank
            or (options.k is not UNSET and options.k > _FEW)
        )

    def __len__(self) -> int:
        return self.n


class Service:
    """A model, an index of its codes, and what else belongs to the rows.

    ``index`` can be replaced while requests are computed: each batch uses the one that it started with.
    """

    def __init__(
        self,
        hasher: Hasher,
        index: HammingIndex,
        limits: Limits,
        attachments: Attachments | None = None,
    ) -> None:
        self.hasher, self.index, self.limits = hasher, index, limits
        self.attachments = attachments or Attachments()
        self.width: int = hasher.n_features_in_

    def fields_of(self, ids: list[Any]) -> dict[str, Any]:
        """The labels and the texts of ids in a list per query, if there are any."""
        attached = self.attachments
        found: dict[str, Any] = {}
        if attached.has(LABELS):
            found[LABELS] = [[attached.label(identity) for identity in each] for each in ids]
        if attached.has(TEXTS):
            found[TEXTS] = [[attached.text(identity) for identity in each] for each in ids]
        return found

    def picture(self, given: str) -> bytes:
        """The picture of the row with an id as a PNG file."""
        if not self.attachments.has(IMAGES):
            raise RequestError(404, "this server has no images: start it with --images or --image-dir")
        ids = id_array([id_of_text(given, self.index.id_type)], self.index.id_type)
        if not self.index.contains(ids)[0]:
            raise RequestError(404, f"id {shown_id(ids[0])} is not in the index")
        picture = self.attachments.picture(ids.tolist()[0])
        if picture is None:
            raise RequestError(404, f"the row with id {shown_id(ids[0])} has no image")
        return picture

    def ranked_by(self, options: SearchOptions, *, by_code: bool) -> str:
        """The kind of the distances in the answers."""
        if options.rerank:
            return "euclidean"
        layout = self.index.layout
        if self._by_values(options) and not by_code:
            return "asymmetric"
        return "code" if layout.has_fields else "hamming" if layout.is_hamming else "weighted hamming"

    def _by_values(self, options: SearchOptions) -> bool:
        """Whether the real values of vectors rank; the rows within a radius of one part are ranked by it."""
        return not options.symmetric and (options.radius is UNSET or self.index.layout.has_two_parts)

    def compute(self, jobs: list[Job]) -> list[Codes | Answers | Exception]:
        """The results of jobs; one with invalid rows gets an exception and does not disturb the others."""
        index = self.index
        try:
            self._encode(jobs)
            return self._results(jobs, index)
        except Exception as error:
            if len(jobs) > 1:
                return [self.compute([job])[0] for job in jobs]
            return [RequestError(400, str(error)) if isinstance(error, BadRowsError) else error]

    def _encode(self, jobs: list[Job]) -> None:
        """Set what the search needs of all jobs that have vectors, together where that agrees."""
        groups: dict[Any, list[Job]] = {}
        for job in jobs:
            if job.codes is None and job.vectors is not None:
                options = job.options
                real = options is not None and self._by_values(options)
                ranked = options is not None and options.radius is UNSET
                groups.setdefault((job.vectors.dtype.char, real, ranked), []).append(job)
        for (_, real, ranked), some in groups.items():
            rows = _stacked([job.vectors for job in some])
            values = np.asarray(self.hasher.embed(rows)) if real else None
            if real and ranked:  # by tables of the values: nothing looks at the codes of the queries
                codes = np.zeros((len(rows), n_bytes(self.hasher.n_bits_)), np.uint8)
            else:
                codes = self.hasher.encode(rows)
            first = 0
            for job in some:
                last = first + job.n
                job.codes = codes[first:last]
                job.values = None if values is None else values[first:last]
                first = last

    def _results(self, jobs: list[Job], index: HammingIndex) -> list[Codes | Answers | Exception]:
        """The results of jobs that have codes; queries with the same options are searched together."""
        results: list[Any] = [job.codes for job in jobs]
        groups: dict[Any, list[int]] = {}
        for i, job in enumerate(jobs):
            if (options := job.options) is None:
                continue
            alone = i if options.filter is not UNSET or options.rerank else None
            key = (options.k, options.radius, options.weight, job.values is None, alone)
            groups.setdefault(key, []).append(i)
        for numbers in groups.values():
            found = self._found([jobs[i] for i in numbers], index)
            for i, part in zip(numbers, found.split([jobs[i].n for i in numbers]), strict=True):
                results[i] = part
        return results

    def _found(self, jobs: list[Job], index: HammingIndex) -> Answers:
        """The rows near the queries of jobs with the same options, all or none with real values."""
        codes, options = _stacked([job.codes for job in jobs]), jobs[0].options
        assert options is not None
        values = None if jobs[0].values is None else _stacked([job.values for job in jobs])
        kept = None if options.filter is UNSET else _known(options.filter, index)
        weight = None if options.weight is UNSET else options.weight
        if options.radius is not UNSET:
            self._check_count(codes, options.radius, index, kept)
            lims, distances, ids = index.within(
                codes, options.radius, filter=kept, asymmetric=values, weight=weight
            )
            return Answers(distances, ids, lims)
        n = len(index) if kept is None else len(kept)
        k = min(DEFAULT_K if options.k is UNSET else options.k, n)
        if not k:
            return Answers(np.empty((len(codes), 0)), np.empty((len(codes), 0), np.int64))
        rerank = self._reranking(options, jobs[0].vectors) if options.rerank else None
        found = index.search(codes, k, filter=kept, asymmetric=values, rerank=rerank, weight=weight)
        return Answers(*found)

    def _reranking(self, options: SearchOptions, vectors: Any) -> Rerank:
        if self.attachments.vectors is None:
            raise RequestError(
                400, "this server has no vectors to re-rank by: start it with --vectors, or omit rerank"
            )
        candidates = None if options.candidates is UNSET else options.candidates
        stored, places = self.attachments.for_reranking()
        return Rerank(self.hasher._as_stored(vectors), stored, candidates, places)

    def _check_count(self, codes: Codes, radius: int, index: HammingIndex, kept: Ids | None) -> None:
        """Raise if more rows are within a radius than the server returns."""
        if len(codes) * len(index) > self.limits.answers:
            n = int(index.count(codes, radius, filter=kept).sum())
            if n > self.limits.answers:
                text = f"{n:,} rows are within the radius, but this server returns at most"
                raise RequestError(
                    400, f"{text} {self.limits.answers:,}: lower the radius, or ask less at once"
                )


def _known(ids: list[int | str], index: HammingIndex) -> Ids:
    """The ids of a filter, without repetitions; raise if one is not in the index."""
    kept = np.unique(id_array(ids, index.id_type))
    unknown = kept[~index.contains(kept)]
    if len(unknown):
        raise RequestError(404, f"id {shown_id(unknown[0])} of the filter is not in the index")
    return kept


def _stacked(parts: list[Any]) -> NDArray[Any]:
    """The rows of all parts in one array."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
