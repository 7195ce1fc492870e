"""All near pairs among many codes, part by part, in a given amount of memory; resumable and distributed.

Stage 0 merges equal codes. Each later stage is one table of ``near_pairs``. A stage has two kinds of tasks:
``split`` reads a block of codes and sorts it by the part that the key of each code belongs to; ``join`` reads
one part of all blocks and finds its pairs. A task reads and writes arrays of a store and can be repeated, so
that a killed process or a lost worker changes nothing. After a stage its pairs are merged into groups.
"""

import hashlib
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import positive_int
from manihash.codes import check_codes, n_bytes, words
from manihash.progress import advance, note
from manihash.search.buckets import MAX_ROWS
from manihash.search.duplicates.near_pairs import (
    Scheme,
    Table,
    Words,
    choose_scheme,
    hashed,
    runs,
    table_pairs,
)
from manihash.search.duplicates.work_store import FolderStore, MemoryStore, Store, is_work, opened_folder
from manihash.types import Codes, Floats, Ints, Mask

MEMORY = 2**31
LEAST_MEMORY = 2**20  # less is a forgotten unit
_STAGE = "near-duplicates"
_TEMPORARY = 48  # bytes per code, besides codes, that a task needs
_PARTS = 4096  # at most: more would make many small files
# Codes of a block and of a part at most: smaller ones are sorted faster, but are more files to read.
_BLOCK_ROWS, _PART_ROWS = 2**22, 2**18
_SAMPLE = 2**16  # codes that represent all
_SORT = 2.5e-7  # seconds to write a code to one table and to sort it there, on disk
_REFERENCE = 1.5e-2  # seconds in which the machine of these constants sorts _TRIAL numbers
_TRIAL = 2**18
LONG = 10.0  # seconds: an estimate is shown for longer work
_HELD = 2**21  # pairs that are held before they are merged
_ROWS = 2**22  # rows whose groups are read at once

_NODES = 2**20  # nodes of a union-find whose roots are looked up at once

Nodes = NDArray[np.uint32]
Verify = Callable[[Ints, Ints], tuple[Mask, Floats]]


class UnionFind:
    """Groups of n nodes, four bytes each, whose edges arrive in large blocks. A root is the lowest node.

    ``parent`` (n,) may be given: the state of an earlier run, or a file mapped into memory.
    """

    def __init__(self, n: int, parent: Nodes | None = None) -> None:
        self.parent: Nodes = np.arange(n, dtype=np.uint32) if parent is None else parent

    def join(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Merge the groups of the nodes a[i] and b[i] for each i."""
        for start in range(0, len(a), _NODES):
            self._join(self.roots(a[start : start + _NODES]), self.roots(b[start : start + _NODES]))

    def _join(self, a: Nodes, b: Nodes) -> None:
        """Merge the groups of the roots a[i] and b[i]: each root gets the lowest root beside it as parent."""
        parent = self.parent
        while len(a := a[differ := a != b]):
            b = b[differ]
            low, high = np.minimum(a, b), np.maximum(a, b)
            np.minimum.at(parent, high, low)
            # Roots that became the parent of each other form chains: each round halves their length.
            up = parent[high]
            while not np.array_equal(next_up := parent[up], up):
                parent[high] = next_up
                up = parent[high]
            a, b = self.roots(low), up

    def roots(self, nodes: NDArray[Any]) -> Nodes:
        """The root of each node."""
        root = self.parent[nodes]
        while not np.array_equal(up := self.parent[root], root):
            root = up
        self.parent[nodes] = root
        return root

    def labels(self) -> Nodes:
        """The lowest node of the group of each node: (n,)."""
        for start in range(0, len(self.parent), _NODES):
            self.roots(np.arange(start, min(start + _NODES, len(self.parent))))
        return self.parent

    def stars(self) -> tuple[Ints, Nodes]:
        """The nodes that are not the lowest of their group, and the lowest node of each."""
        label = self.labels()
        rest = np.flatnonzero(label != np.arange(len(label), dtype=np.uint32))
        return rest, label[rest]


@dataclass(frozen=True)
class WorkOptions:
    """How much memory may be used, and where the work is kept so that it can be resumed."""

    memory: int = MEMORY
    work: Path | None = None
    restart: bool = False


@dataclass(frozen=True, eq=False)
class Job:
    """What the tasks of a join have in common; it is sent to the workers of a cluster."""

    store: Store
    n_bits: int
    radius: int
    block: int  # rows
    n_blocks: int
    n_parts: int  # a power of two
    verify: Verify | None = None  # keep all pairs that it accepts, instead of groups
    marks: Callable[[int, int], Words] | None = None  # more words of rows that must be equal to be merged
    tables: tuple[Table, ...] = ()

    @property
    def width(self) -> int:
        """Words of a code."""
        return -(-n_bytes(self.n_bits) // 8)


def task_of_equal_split(job: Job, i: int, codes: Codes) -> int:
    """Merge the equal codes of block i and sort the others by their parts; return the number of rows."""
    if not job.store.has(f"stage0-pairs-b{i}"):
        records = words(check_codes(codes, job.n_bits))
        first = i * job.block
        if job.marks is not None:
            records = np.concatenate([records, job.marks(first, first + len(codes))], axis=1)
        rows = np.arange(first, first + len(codes), dtype=np.uint32)
        records, rows, pairs = _merged(records, rows)
        _write_split(job, f"stage0-{i}", records, rows, hashed(records, _all_bits(records)))
        job.store.write(f"stage0-pairs-b{i}", pairs)
    return len(codes)


def task_of_equal_join(job: Job, part: int) -> int:
    """Merge the equal codes of one part of all blocks."""
    if not job.store.has(f"stage0-pairs-{part}"):
        records, rows = _read_part(job, "stage0", part)
        count, pairs = len(rows), np.empty((0, 2), np.uint32)
        if job.n_blocks > 1:
            records, rows, pairs = _merged(records, rows)
        job.store.write(f"distinct-{part}-words", np.ascontiguousarray(records[:, : job.width]))
        job.store.write(f"distinct-{part}-rows", rows)
        job.store.write(f"stage0-pairs-{part}", pairs)
        return count
    return len(job.store.read(f"distinct-{part}-rows"))


def task_of_split(job: Job, stage: int, i: int) -> int:
    """Sort the distinct codes of some parts, as many as a block has, by their parts in a table."""
    parts = range(i * job.n_parts // job.n_blocks, (i + 1) * job.n_parts // job.n_blocks)
    records, rows = (
        np.concatenate([job.store.read(f"distinct-{part}-{name}") for part in parts])
        for name in ("words", "rows")
    )
    if not job.store.has(f"stage{stage}-{i}-starts"):
        _write_split(job, f"stage{stage}-{i}", records, rows, hashed(records, job.tables[stage - 1].key))
    return len(rows)


def task_of_join(job: Job, stage: int, part: int) -> int:
    """Find the near pairs of one part of a table; groups are stored as pairs with their lowest row."""
    if job.n_parts > 1:
        records, rows = _read_part(job, f"stage{stage}", part)
    else:
        records, rows = (job.store.read(f"distinct-{part}-{name}") for name in ("words", "rows"))
    if job.store.has(f"stage{stage}-pairs-{part}"):
        return len(rows)
    found = table_pairs(records, job.tables[stage - 1], job.radius)
    if job.verify is not None:
        pairs, values, candidates = _verified(found, rows, job.verify)
        job.store.write(f"values-{stage}-{part}", values)
        job.store.write(f"accepted-{stage}-{part}", pairs)
        job.store.write(f"stage{stage}-pairs-{part}", np.array([[candidates, 0]]))
        return len(rows)
    groups, held, size = UnionFind(len(rows)), [], 0
    for a, b in found:
        held.append((a, b))
        size += len(a)
        if size > max(_HELD, len(rows)):
            groups.join(*(np.concatenate(column) for column in zip(*held, strict=True)))
            held, size = [], 0
    if held:
        groups.join(*(np.concatenate(column) for column in zip(*held, strict=True)))
    rest, first = groups.stars()
    job.store.write(f"stage{stage}-pairs-{part}", np.stack([rows[first], rows[rest]], axis=1))
    return len(rows)


def _verified(found: Any, rows: Nodes, verify: Verify) -> tuple[NDArray[np.uint32], Floats, int]:
    """The pairs of rows (p, 2) that are verified, their values, and the number of candidates."""
    kept, values, candidates = [np.empty((0, 2), np.uint32)], [np.empty(0)], 0
    for a, b in found:
        candidates += len(a)
        is_pair, value = verify(rows[a].astype(np.int64), rows[b].astype(np.int64))
        kept.append(np.stack([rows[a[is_pair]], rows[b[is_pair]]], axis=1))
        values.append(value[is_pair])
    return np.concatenate(kept), np.concatenate(values), candidates


def _all_bits(records: Words) -> Words:
    return np.full(records.shape[1], -1, np.int64).view(np.uint64)


def _merged(records: Words, rows: Nodes) -> tuple[Words, Nodes, NDArray[np.uint32]]:
    """Distinct records (u, w), the first row of each, and pairs (p, 2) of each first row and its equals."""
    order, start = runs(hashed(records, _all_bits(records)))
    first = np.repeat(order[start], np.diff(start, append=len(order)))
    if len(order) and not (records[order] == records[first]).all():
        # Hashes of different codes are equal: sort the few codes of such hashes by all their bits.
        by_code = np.lexsort((order, *records[order].T))
        order = order[by_code]
        new = np.ones(len(order), np.bool_)
        new[1:] = (records[order[1:]] != records[order[:-1]]).any(axis=1)
        first = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
    rest = first != order
    pairs = np.stack([rows[first[rest]], rows[order[rest]]], axis=1)
    kept = np.ones(len(rows), np.bool_)
    kept[order[rest]] = False
    return records[kept], rows[kept], pairs


def _write_split(job: Job, name: str, records: Words, rows: Nodes, hashes: Words) -> None:
    """Write records in the order of their parts; the starts of the parts come last and say it is complete."""
    shift = np.uint64(64 - (job.n_parts.bit_length() - 1))
    part = (hashes >> shift).astype(np.uint16) if job.n_parts > 1 else np.zeros(len(rows), np.uint16)
    order = np.argsort(part, kind="stable") if job.n_parts > 1 else slice(None)
    starts = np.zeros(job.n_parts + 1, np.int64)
    np.cumsum(np.bincount(part, minlength=job.n_parts), out=starts[1:])
    job.store.write(f"{name}-words", records[order])
    job.store.write(f"{name}-rows", rows[order])
    job.store.write(f"{name}-starts", starts)


def _read_part(job: Job, stage: str, part: int) -> tuple[Words, Nodes]:
    """The records of one part of all blocks, in their order."""
    records, rows = [], []
    for i in range(job.n_blocks):
        start, stop = job.store.read(f"{stage}-{i}-starts", part, part + 2).tolist()
        records.append(job.store.read(f"{stage}-{i}-words", start, stop))
        rows.append(job.store.read(f"{stage}-{i}-rows", start, stop))
    return np.concatenate(records), np.concatenate(rows)


class SelfJoin:
    """The work of finding all near pairs of codes (n, b): an array, a memory map or a dask array."""

    def __init__(
        self,
        codes: Any,
        n_bits: int,
        radius: int,
        options: WorkOptions,
        *,
        verify: Verify | None = None,
        marks: Callable[[int, int], Words] | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        from manihash.rows.dask import is_dask

        self._codes, self._options, self._n = codes, options, len(codes)
        if self._n > MAX_ROWS:
            raise ValueError(f"got {self._n:,} codes, at most {MAX_ROWS:,} are supported: split them")
        self._on_cluster = is_dask(codes)
        block, parts = _sizes(self._n, n_bits, options.memory, spread=self._on_cluster)
        n_blocks = -(-self._n // block)
        self._job = Job(MemoryStore(), n_bits, radius, block, n_blocks, parts, verify, marks)
        self._done = 0
        self._total = 1
        self._candidates = 0
        sample = self._sample()
        self._made_from = {
            "codes": hashlib.sha256(repr((codes.shape, n_bits)).encode() + sample.tobytes()).hexdigest(),
            "radius": radius,
            "memory": [block, parts],
            **(about or {}),
        }
        self._sampled = np.unique(words(sample), axis=0)

    def run(self) -> Nodes:
        """The lowest row of the group of each row (n,); with ``verify``, groups are rows that are equal."""
        with ExitStack() as stack:
            store, state = self._opened(stack)
            self._job = replace(self._job, store=store)
            return self._stages(state)

    def accepted(self) -> tuple[Nodes, NDArray[np.uint32], Floats, int]:
        """The result of ``run``, all verified pairs (p, 2), their values, and the number of candidates."""
        with ExitStack() as stack:
            store, state = self._opened(stack)
            self._job = replace(self._job, store=store)
            merged = self._stages(state)
            pairs, values = [np.empty((0, 2), np.uint32)], [np.empty(0)]
            for stage in range(1, len(self._job.tables) + 1):
                for part in range(self._job.n_parts):
                    pairs.append(store.read(f"accepted-{stage}-{part}"))
                    values.append(store.read(f"values-{stage}-{part}"))
            return merged, np.concatenate(pairs), np.concatenate(values), self._candidates

    def _opened(self, stack: ExitStack) -> tuple[Store, dict[str, Any]]:
        """The store of the work, and what an earlier process has done."""
        options, job = self._options, self._job
        scheme = choose_scheme(self._sampled, self._n, job.radius, sort=_SORT, one_part=job.n_parts == 1)
        on_disk = options.work is not None or job.n_parts > 1 or job.n_blocks > 1 or self._on_cluster
        folder = options.work
        if on_disk and folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="manihash-dedup-")))
        self._say(scheme, folder)
        self._total = self._n * self._passes(len(scheme.tables()))
        if folder is None:
            return MemoryStore(), {"stage": 0}
        union_on_disk = 4 * self._n > options.memory // 2
        if options.work is None:
            return FolderStore(folder, union_on_disk), {"stage": 0}
        resumed = not options.restart and is_work(folder)
        store = stack.enter_context(
            opened_folder(folder, self._made_from, restart=options.restart, on_disk=union_on_disk)
        )
        if resumed:
            note(f"resuming the work in {folder}")
        return store, store.state()

    def _passes(self, tables: int) -> int:
        """How often all rows are visited."""
        return 2 + tables * (2 if self._job.n_parts > 1 else 1) if self._job.radius or self._job.verify else 2

    def _stages(self, state: dict[str, Any]) -> Nodes:
        """All stages that were not done before, and the groups that result."""
        store, job = self._job.store, self._job
        stage = int(state["stage"])
        self._candidates = int(state.get("candidates", 0))
        union = UnionFind(self._n, store.scratch(self._n))
        if stage == 0:
            self._equal_codes(union)
            tables = self._chosen() if job.radius or job.verify else []
            chunks = [[[int(word) for word in bits] for bits in (t.key, *t.differ)] for t in tables]
            state = {**state, "tables": chunks}
            self._finish_stage(union, state, 0)
        else:
            for start in range(0, self._n, _ROWS):
                union.parent[start : start + _ROWS] = store.read(f"groups-{stage}", start, start + _ROWS)
        tables = [Table(*_as_table(bits)) for bits in state["tables"]]
        self._job = job = replace(job, tables=tuple(tables))
        self._total = self._n * self._passes(len(tables))
        self._done = self._n * (self._passes(stage - 1) if stage else 2)
        for number in range(max(stage, 1), len(tables) + 1):
            detail = f"table {number} of {len(tables)}"
            if job.n_parts > 1:
                self._all(partial(task_of_split, job, number), range(job.n_blocks), detail)
            self._all(partial(task_of_join, job, number), range(job.n_parts), detail)
            self._finish_stage(union, state, number)
        return union.labels()

    def _equal_codes(self, union: UnionFind) -> None:
        """Stage 0: merge equal codes."""
        job = self._job
        if self._on_cluster:
            self._all(partial(task_of_equal_split, job), range(job.n_blocks), "equal codes", self._codes)
        else:
            for i in range(job.n_blocks):
                block = np.asarray(self._codes[i * job.block : (i + 1) * job.block])
                self._advance(task_of_equal_split(job, i, block), "equal codes")
        self._all(partial(task_of_equal_join, job), range(job.n_parts), "equal codes")

    def _all(self, task: Callable[..., int], items: range, detail: str, blocks: Any = None) -> None:
        """Do the tasks of all items, here or on the cluster; ``blocks`` is a dask array of their rows."""
        if not self._on_cluster:
            for item in items:
                self._advance(task(item), detail)
            return
        from manihash.rows.dask import task_results

        for count in task_results(task, items, blocks, self._job.block):
            self._advance(count, detail)

    def _advance(self, count: int, detail: str) -> None:
        self._done += count
        passes = self._total // self._n
        advance(
            _STAGE,
            min(self._done, self._total),
            self._total,
            f"{self._n:,} codes in {passes} passes: {detail}",
        )

    def _finish_stage(self, union: UnionFind, state: dict[str, Any], stage: int) -> None:
        """Merge the pairs of a stage into the groups, save them, and remove the files of the stage."""
        store, job = self._job.store, self._job
        names = [f"stage{stage}-pairs-{part}" for part in range(job.n_parts)]
        names += [f"stage0-pairs-b{i}" for i in range(job.n_blocks)] if stage == 0 else []
        for name in names:
            pairs = store.read(name)
            if stage and job.verify is not None:
                self._candidates += int(pairs[:, 0].sum())
            else:
                union.join(pairs[:, 0], pairs[:, 1])
        if not isinstance(store, MemoryStore):
            store.write(f"groups-{stage + 1}", union.parent)
        state |= {"stage": stage + 1, "candidates": self._candidates}
        store.save_state(state)
        store.remove(f"stage{stage}-")
        store.remove(f"groups-{stage}.")

    def _chosen(self) -> list[Table]:
        """The tables for the distinct codes."""
        job, samples, distinct = self._job, [], 0
        for part in range(job.n_parts):
            records = job.store.read(f"distinct-{part}-words")
            distinct += len(records)
            step = max(1, len(records) * job.n_parts // _SAMPLE)
            samples.append(records[::step])
        sort = {} if job.n_parts == 1 else {"sort": _SORT}
        sample = np.concatenate(samples)
        return choose_scheme(sample, distinct, job.radius, one_part=job.n_parts == 1, **sort).tables()

    def _sample(self) -> Codes:
        """Rows that represent all."""
        step = max(1, self._n // _SAMPLE)
        if self._on_cluster:
            from manihash.rows.dask import computed

            return check_codes(computed(self._codes[::step]), self._job.n_bits)
        return check_codes(np.asarray(self._codes[::step]), self._job.n_bits)

    def _say(self, scheme: Scheme, folder: Path | None) -> None:
        """Report the estimated time, memory and disk of long work."""
        job = self._job
        start = perf_counter()
        np.sort(np.random.default_rng(0).integers(2**63, size=_TRIAL, dtype=np.uint64))
        speed = (perf_counter() - start) / _REFERENCE
        tables = len(scheme.tables()) if job.radius or job.verify else 0
        seconds = speed * (self._n * _SORT + (scheme.seconds if tables else 0))
        if seconds < LONG and (folder is None or self._options.work is None):
            return
        disk = 0 if folder is None else self._n * (2 * (8 * job.width + 4) + 16)
        size = f"{disk / 1e9:.1f} GB" if disk > 5e8 else f"{disk / 1e6:.0f} MB"
        where = f"at most {size} of disk in {folder}, " if disk else ""
        time = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
        note(
            f"{self._n:,} codes of {job.n_bits} bits within radius {job.radius}: {tables} tables, "
            f"{job.n_parts} parts, {where}about {time} on one core"
        )


def _as_table(bits: list[list[int]]) -> tuple[Words, tuple[Words, ...]]:
    """Key and sets of differing bits of a table, from the numbers of a state."""
    key, *differ = (np.array(words_, np.uint64) for words_ in bits)
    return key, tuple(differ)


def _sizes(n: int, n_bits: int, memory: int, *, spread: bool) -> tuple[int, int]:
    """Rows of a block and number of parts for n codes in this many bytes; many parts for a cluster."""
    each = 8 * -(-n_bytes(n_bits) // 8) + _TEMPORARY
    rows = max(64, memory // (2 * each), -(-n // _PARTS))
    if spread:
        rows = min(rows, max(2**16, -(-n // 64)))
    if n <= rows:
        return n, 1
    parts = 1 << max(0, -(-n // min(rows, _PART_ROWS)) - 1).bit_length()
    return min(rows, _BLOCK_ROWS), parts


def fits_into_memory(n: int, n_bits: int, memory: int) -> bool:
    """Whether n codes are joined in memory, without parts on disk."""
    return _sizes(n, n_bits, memory, spread=False)[0] == n


def parse_memory(memory: Any) -> int:
    """A number of bytes from an integer, or from text such as "2G" or "500M"."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    if isinstance(memory, str):
        text = memory.strip().upper().removesuffix("B").removesuffix("I")
        number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
        try:
            memory = int(float(number) * unit)
        except (ValueError, OverflowError):
            raise ValueError(
                f"memory must be a number of bytes, such as 500M or 2G, not {memory!r}"
            ) from None
    size = positive_int(memory, "memory")
    if size < LEAST_MEMORY:
        raise ValueError(
            f"got memory of {size:,} bytes: did you mean {size}M? At least 1M is needed, such as 500M or 2G"
        )
    return size
