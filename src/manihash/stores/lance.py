"""LanceDB: a table on disk, without a server. Codes are uint8 vectors, searched exactly by a scan."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from manihash.checks import extra
from manihash.codes import n_bytes
from manihash.errors import StoreError, StoreNotFoundError
from manihash.files.locks import locked
from manihash.files.parquet import arrow, as_column
from manihash.stores.driver import (
    Matches,
    creating,
    first_line,
    id_array,
    id_condition,
    nearest_with_ties,
    sorted_matches,
)
from manihash.types import Codes, Ids

_N_BITS = b"manihash.n_bits"
_ADDS_BETWEEN_COMPACTIONS = 64  # each add creates a file, and every query opens all files


class LanceTable:
    """The table ``name.lance`` in a folder, with the columns ``id`` and ``code``."""

    rewrites_on_add = False
    look_up_bits: int | None = None

    def __init__(self, path: Path, table: Any) -> None:
        self._path, self._table = path, table
        self.n_bits, self.id_type = _layout_of(path, table.schema)
        self._width = n_bytes(self.n_bits)
        self._adds = 0

    @classmethod
    def open(cls, path: Path) -> "LanceTable":
        """Open the table at a path that ends in .lance."""
        if not path.is_dir():
            raise StoreNotFoundError(f"no LanceDB table at {path}: create it, or give the path of one")
        with _translated_errors(path):
            return cls(path, _connect(path).open_table(path.stem))

    @classmethod
    def create(cls, path: Path, n_bits: int, id_type: type) -> "LanceTable":
        """Create an empty table at a path that ends in .lance."""
        pa = arrow("lancedb")
        vector = pa.list_(pa.uint8(), n_bytes(n_bits))
        id_kind = pa.string() if id_type is str else pa.int64()
        fields = [pa.field("id", id_kind, False), pa.field("code", vector, False)]
        with creating(path), _translated_errors(path):
            schema = pa.schema(fields, metadata={_N_BITS: str(n_bits)})
            return cls(path, _connect(path).create_table(path.stem, schema=schema))

    def writing(self) -> AbstractContextManager[None]:
        """Lock the folder of the table."""
        return locked(self._path)

    def add(self, codes: Codes, ids: Ids) -> None:
        """Add all rows in one new version of the table."""
        pa = arrow("lancedb")
        vectors = as_column(codes, "lancedb")
        with _translated_errors():
            self._table.add(pa.table([pa.array(ids), vectors], schema=self._table.schema))
            self._adds += 1
            if self._adds % _ADDS_BETWEEN_COMPACTIONS == 0:
                self._table.optimize()

    def search(self, queries: Codes, k: int) -> list[Matches]:
        """Return the k nearest of each query, found by a scan."""
        return [nearest_with_ties(k, partial(self._scan, q), partial(self._within, q)) for q in queries]

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes within the radius of each query, found by a scan."""
        return [self._within(query, radius) for query in queries]

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return rows by id."""
        with _translated_errors():
            found = (
                self._table.search().where(id_condition(ids, "id IN ({})", _literal)).select(["id", "code"])
            )
            rows = found.limit(len(ids)).to_arrow()
        codes = rows["code"].combine_chunks().flatten().to_numpy().reshape(-1, self._width)
        return id_array(rows["id"].to_numpy()), codes

    def delete(self, ids: Ids) -> None:
        """Delete all rows in one new version of the table."""
        with _translated_errors():
            self._table.delete(id_condition(ids, "id IN ({})", _literal))

    def count(self) -> int:
        """Return the number of rows of the latest version."""
        with _translated_errors():
            return int(self._table.count_rows())

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _within(self, query: Codes, radius: int) -> Matches:
        return self._scan(query, max(1, self.count()), radius)

    def _scan(self, query: Codes, limit: int, radius: int | None = None) -> Matches:
        with _translated_errors():
            scan = self._table.search(query, vector_column_name="code").distance_type("hamming")
            scan = scan.bypass_vector_index().limit(limit).select(["id", "_distance"])
            if radius is not None:
                scan = scan.distance_range(upper_bound=radius + 0.5)
            rows = scan.to_arrow()
        return sorted_matches(rows["_distance"].to_numpy(), rows["id"].to_numpy())


def _connect(path: Path) -> Any:
    """Return the folder of a table as a database that sees the changes of other processes."""
    lancedb = extra("lancedb", "lancedb")
    return lancedb.connect(str(path.parent), read_consistency_interval=timedelta(0))


def _literal(text: str) -> str:
    """Return a string as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _layout_of(path: Path, schema: Any) -> tuple[int, type]:
    """Return n_bits and the type of the ids; in a table of another program, n_bits is that of the bytes."""
    pa = arrow("lancedb")
    columns = dict(zip(schema.names, schema.types, strict=True))
    vector: Any = columns.get("code")
    fits = isinstance(vector, pa.FixedSizeListType) and vector.value_type == pa.uint8()
    id_type = {pa.int64(): int, pa.string(): str, pa.large_string(): str}.get(columns.get("id"))
    if not fits or id_type is None:
        shown = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        raise StoreError(
            f"{path} has the columns {shown}: expected id of int64 or string, and code, a fixed-size list of "
            "uint8. Use another table"
        )
    return int((schema.metadata or {}).get(_N_BITS, 8 * vector.list_size)), id_type


@contextmanager
def _translated_errors(path: Path | None = None) -> Iterator[None]:
    """Raise errors of LanceDB as StoreError."""
    try:
        yield
    except StoreError:
        raise
    except (ValueError, RuntimeError, OSError) as error:
        where = f"{path}: " if path else ""
        raise StoreError(f"{where}LanceDB reports an error: {first_line(error)}") from error
