"""LanceDB: a table on disk with nothing to start. Codes are uint8 vectors, searched flat and so exactly."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manihash.checks import extra
from manihash.codes import n_bytes
from manihash.files.arrow import arrow, as_lists
from manihash.stores._store import Answers, Ints, NoStore, StoreError, in_order, where_ids, with_whole_ties
from manihash.types import Codes

_N_BITS = b"manihash.n_bits"
_ADDS_BEFORE_MERGING = 64  # each add leaves a file, and every query opens all of them


class LanceTable:
    """The table ``name.lance`` in a folder: columns ``id`` and ``code``."""

    writes_whole = False

    def __init__(self, path: Path, table: Any) -> None:
        self._table = table
        self.n_bits = _bits_of(path, table.schema)
        self._width = n_bytes(self.n_bits)
        self._adds = 0

    @classmethod
    def open(cls, path: Path) -> "LanceTable":
        """The table at a path that ends in .lance."""
        if not path.is_dir():
            raise NoStore(f"no LanceDB table at {path}: create it, or give the path of one")
        with _told(path):
            return cls(path, _connect(path).open_table(path.stem))

    @classmethod
    def create(cls, path: Path, n_bits: int) -> "LanceTable":
        """A table of no rows, at a new path that ends in .lance."""
        if path.exists():
            raise StoreError(f"{path} is there already: open it, or give another name")
        pa = arrow("lancedb")
        vector = pa.list_(pa.uint8(), n_bytes(n_bits))
        fields = [pa.field("id", pa.int64(), False), pa.field("code", vector, False)]
        with _told(path):
            schema = pa.schema(fields, metadata={_N_BITS: str(n_bits)})
            return cls(path, _connect(path).create_table(path.stem, schema=schema))

    def add(self, codes: Codes, ids: Ints) -> None:
        """One version of the table more, which holds all of the rows."""
        pa = arrow("lancedb")
        vectors = as_lists(codes, "lancedb")
        with _told():
            self._table.add(pa.table([pa.array(ids), vectors], schema=self._table.schema))
            self._adds += 1
            if self._adds % _ADDS_BEFORE_MERGING == 0:
                self._table.optimize()

    def search(self, queries: Codes, k: int) -> list[Answers]:
        """The k nearest of each query, by a scan."""
        return [with_whole_ties(k, partial(self._scan, q), partial(self._within, q)) for q in queries]

    def within(self, queries: Codes, radius: int) -> list[Answers]:
        """All within the radius of each query, by a scan."""
        return [self._within(query, radius) for query in queries]

    def fetch(self, ids: Ints) -> tuple[Ints, Codes]:
        """Rows by id."""
        with _told():
            found = self._table.search().where(where_ids(ids, "id IN ({})")).select(["id", "code"])
            rows = found.limit(len(ids)).to_arrow()
        codes = rows["code"].combine_chunks().flatten().to_numpy().reshape(-1, self._width)
        return rows["id"].to_numpy().astype(np.int64), codes

    def delete(self, ids: Ints) -> None:
        """One version of the table more, without these rows."""
        with _told():
            self._table.delete(where_ids(ids, "id IN ({})"))

    def count(self) -> int:
        """Rows of the latest version."""
        with _told():
            return int(self._table.count_rows())

    def close(self) -> None:
        """Nothing is held open."""

    def _within(self, query: Codes, radius: int) -> Answers:
        return self._scan(query, max(1, self.count()), radius)

    def _scan(self, query: Codes, limit: int, radius: int | None = None) -> Answers:
        with _told():
            scan = self._table.search(query, vector_column_name="code").distance_type("hamming")
            scan = scan.bypass_vector_index().limit(limit).select(["id", "_distance"])
            if radius is not None:
                scan = scan.distance_range(upper_bound=radius + 0.5)
            rows = scan.to_arrow()
        return in_order(rows["_distance"].to_numpy(), rows["id"].to_numpy())


def _connect(path: Path) -> Any:
    """The folder of a table as a database that sees what other processes wrote."""
    lancedb = extra("lancedb", "lancedb")
    return lancedb.connect(str(path.parent), read_consistency_interval=timedelta(0))


def _bits_of(path: Path, schema: Any) -> int:
    """n_bits as the table notes it; all bits of the bytes in a table that somebody else made."""
    pa = arrow("lancedb")
    columns = dict(zip(schema.names, schema.types, strict=True))
    vector: Any = columns.get("code")
    fits = isinstance(vector, pa.FixedSizeListType) and vector.value_type == pa.uint8()
    if not fits or columns.get("id") != pa.int64():
        shown = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        raise StoreError(
            f"{path} has the columns {shown}: id of int64 and code, a fixed list of uint8, were wanted. "
            "Give another table"
        )
    return int((schema.metadata or {}).get(_N_BITS, 8 * vector.list_size))


@contextmanager
def _told(path: Path | None = None) -> Iterator[None]:
    """What LanceDB raises, as an error of ours."""
    try:
        yield
    except StoreError:
        raise
    except (ValueError, RuntimeError, OSError) as error:
        where = f"{path}: " if path else ""
        raise StoreError(f"{where}LanceDB refused: {str(error).splitlines()[0]}") from error
