"""Which new rows are duplicates of rows in an index, and tables beside its file that answer it fast."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from manihash.checks import check_unmasked, positive_int
from manihash.codes import check_codes
from manihash.files.atomic import atomic_write
from manihash.files.npy import read_npy, write_npy
from manihash.progress import advance
from manihash.search.buckets import aligned
from manihash.search.hamming_index import HammingIndex
from manihash.search.index import Index
from manihash.search.ranking import LookUp
from manihash.search.routes import BucketTable
from manihash.search.segments import Segment
from manihash.types import Codes, Ids, Ints, Mask

_log = logging.getLogger(__name__)

_BLOCK = 4096  # new rows that are looked up at once
_FEW = 2**20  # distinct codes: a scan of so many takes milliseconds


@dataclass(frozen=True, eq=False)
class KnownRows:
    """For each new row, the nearest row of an index within a radius, as ``known_rows`` returns them.

    Parameters
    ----------
    ids : ndarray of shape (n,)
        Id of the nearest row, of several the lowest one; without a row within the radius -1, or an empty
        string if ids are strings.
    distances : ndarray of shape (n,), int64
        Hamming distance to it; -1 without a row within the radius.
    counts : ndarray of shape (n,), int64
        Number of rows within the radius.

    Examples
    --------
    >>> from manihash import HammingIndex, known_rows, pack
    >>> index = HammingIndex(pack([[0, 0, 0, 0], [1, 1, 1, 1]]), n_bits=4)
    >>> found = known_rows(index, pack([[0, 1, 0, 0], [0, 0, 1, 1]]), radius=1)
    >>> found.known, found.ids
    (array([ True, False]), array([ 0, -1]))
    """

    ids: Ids
    distances: Ints
    counts: Ints

    @property
    def known(self) -> Mask:
        """Whether each new row has a row within the radius.

        Returns
        -------
        ndarray of shape (n,), bool
            True for duplicates.
        """
        return self.counts > 0


def known_rows(index: HammingIndex, codes: ArrayLike, radius: int = 0) -> KnownRows:
    """Find for new codes whether an index has rows within a radius, exactly.

    An index of many distinct codes answers in milliseconds after ``prepare_tables``.

    Parameters
    ----------
    index : HammingIndex
        The index.
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8, or of shape (n, d)
        Packed codes of the new rows; or their vectors if the index knows its hasher, as that of
        ``hasher.index`` does.
    radius : int, default=0
        Largest Hamming distance of duplicates; of the first part, if codes have two parts. 0 finds equal
        codes only; codes of vectors that are similar but not equal differ in a few bits.

    Returns
    -------
    KnownRows
        The nearest row of each new row, its distance, and the number of rows within the radius.

    See Also
    --------
    dedup : Duplicates among the rows of one set.

    Examples
    --------
    >>> from manihash import HammingIndex, known_rows, pack
    >>> index = HammingIndex(pack([[0, 0, 0, 0], [1, 1, 1, 1]]), n_bits=4, ids=[7, 8])
    >>> known_rows(index, pack([[0, 1, 0, 0]]), radius=1).ids
    array([7])
    """
    asked = aligned(check_codes(_as_codes(index, codes), index.n_bits))
    radius = min(positive_int(radius, "radius", least=0), index.layout.look_up_bits)
    strings = index.id_type is str
    n = len(asked)
    ids: Ids = np.full(n, "", object) if strings else np.full(n, -1, np.int64)
    distances, counts = np.full(n, index.n_bits + 1), np.zeros(n, np.int64)
    look_up = index._ranking.look_up(asked)
    for segment in index._snapshot.segments():
        for start in range(0, n, _BLOCK):
            some = slice(start, min(start + _BLOCK, n))
            lims, distance, found, count = _nearest(segment, look_up, some, radius)
            row = np.flatnonzero(np.diff(lims)) + start
            first = lims[:-1][np.diff(lims) > 0]
            counts[some] += count
            better = distance[first] < distances[row]
            better |= (distance[first] == distances[row]) & (found[first] < ids[row])
            ids[row[better]], distances[row[better]] = found[first[better]], distance[first[better]]
            advance("compare with the index", some.stop, n)
    distances[counts == 0] = -1
    return KnownRows(ids, distances, counts)


def _as_codes(index: HammingIndex, rows: ArrayLike) -> Codes:
    """The codes of rows, which may be vectors if the index knows its hasher."""
    check_unmasked(rows)
    if isinstance(index, Index):
        return np.asarray(index._as_codes(rows))
    given = np.asarray(rows)
    if given.dtype != np.uint8:
        raise ValueError(
            f"got rows of {given.dtype}, expected packed codes (uint8): encode vectors with the hasher that "
            "made the codes of the index, or use an index of hasher.index(X), which takes vectors"
        )
    return given


def _nearest(segment: Segment, look_up: LookUp, some: slice, radius: int) -> tuple[Ints, Ints, Ids, Ints]:
    """The matches of some queries, the nearest first, as lims, distances and ids; and rows for each query.

    Of the rows of one distinct code only the live one of the lowest id is returned.
    """
    buckets, q = segment.buckets, some.stop - some.start
    lims, distance, position = look_up.codes(some, buckets, radius)
    query = np.repeat(np.arange(q), np.diff(lims))
    if segment.live is None:
        rank, count = buckets.lowest_ranks(position).astype(np.int64), buckets.counts(position)
        buckets.check_ranks(rank)
    else:
        which, rank = buckets.expand(position)
        which, rank = which[segment.live[rank]], rank[segment.live[rank]]
        query, distance, count = query[which], distance[which], np.ones(len(which), np.int64)
        lims = np.searchsorted(query, np.arange(q + 1))
    order = np.lexsort((rank, distance, query))
    counts = np.bincount(query, count, q).astype(np.int64)
    return lims, distance[order], buckets.ids_of(rank[order]), counts


def prepare_tables(index: HammingIndex, radius: int) -> Path | None:
    """Make ``within`` and ``known_rows`` fast from the first query on, also in later processes.

    The tables of the radius are built, and written beside the file that the index was loaded from: a folder
    that ends in ``.tables``, with about 4 bytes per distinct code and table. Later calls map these files into
    memory at once. They belong to one state of the index file; when it has changed, they are built again. The
    folder can be deleted at any time.

    Parameters
    ----------
    index : HammingIndex
        The index. If it was not loaded from a file, the tables are only built in memory.
    radius : int
        Hamming radius of later queries.

    Returns
    -------
    Path or None
        The folder; None if the index has few distinct codes, which are compared fast without tables, if
        tables do not help for this radius, or if the folder cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import HammingIndex
    >>> from manihash.search import prepare_tables
    >>> index = HammingIndex(np.arange(200, dtype=np.uint8).reshape(-1, 1), n_bits=8)
    >>> prepare_tables(index, radius=1) is None
    True
    """
    buckets, file = index._snapshot.base.buckets, index._stored.file
    radius = min(positive_int(radius, "radius", least=0), index.layout.look_up_bits)
    index._ranking.look_up(np.empty((0, buckets.codes.shape[1]), np.uint8))  # raises without signs
    finder = index._ranking.of(buckets).finder if len(buckets.codes) > _FEW else None
    wanted = [] if finder is None else finder.tables_for(radius)
    if finder is None or not wanted:
        return None
    if file is None or buckets is not file.buckets:
        finder.build(radius)
        return None
    folder = file.path.with_name(f"{file.path.name}.tables")
    if _made_for(folder) == file.sha256:
        for table in wanted:
            if (found := _read_table(folder, table, len(finder.codes))) is not None:
                finder.use(table, found)
    missing = finder.build(radius)
    try:
        _write_tables(folder, file.sha256, missing)
    except OSError as error:
        _log.warning("cannot keep the tables beside the index (%s): they are built again next time", error)
        return None
    return folder


def _made_for(folder: Path) -> str:
    """The checksum of the index file that the tables of a folder belong to."""
    try:
        return str(json.loads((folder / "made_for.json").read_text("utf-8"))["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _read_table(folder: Path, table: tuple[int, int], u: int) -> BucketTable | None:
    """The table of a substring of u codes, mapped into memory; None if it is missing or damaged."""
    start, bits = table
    try:
        offsets, order = (read_npy(folder / f"{start}-{bits}-{name}.npy") for name in ("offsets", "order"))
    except (OSError, ValueError):
        return None
    whole = (
        offsets.shape == (2**bits + 1,) and order.shape == (u,) and offsets.dtype == order.dtype == np.uint32
    )
    return BucketTable(np.asarray(offsets), np.asarray(order)) if whole and offsets[-1] == u else None


def _write_tables(folder: Path, sha256: str, tables: dict[tuple[int, int], BucketTable]) -> None:
    """Write tables to a folder; those of another state of the index file are removed first."""
    if not tables:
        return
    folder.mkdir(exist_ok=True)
    if _made_for(folder) != sha256:
        for old in folder.glob("*.npy"):
            old.unlink()
        with atomic_write(folder / "made_for.json") as part:
            part.write_text(json.dumps({"sha256": sha256}), "utf-8")
    for (start, bits), table in tables.items():
        for name, array in (("offsets", table.offsets), ("order", table.order)):
            with atomic_write(folder / f"{start}-{bits}-{name}.npy") as part:
                write_npy(part, array)
