"""Parquet files: vectors are a column of lists of one length, labels a column of numbers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.files.arrow import arrow, as_lists
from manihash.files.errors import DataFileError
from manihash.files.stored import StoredRows, choose, parsing

EXTRA = "parquet"
BATCH_ROWS = 8192
GROUP_ROWS = 65536


def open_parquet(path: Path, key: str | None) -> StoredRows:
    """The rows of a column of lists, which are read as they are asked for."""
    with parsing(path):
        column = _Column(path, key)
        if column.width is None:
            raise DataFileError(f"{path}: {column.name} holds one number a row: a column of lists was wanted")
        return StoredRows(path, (column.n_rows, column.width), column.dtype, column.read)


def read_parquet(path: Path, key: str | None) -> NDArray[Any]:
    """A column in memory: lists as rows, numbers as they are."""
    with parsing(path):
        column = _Column(path, key)
        return column.read(0, column.n_rows)


def write_parquet(part: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays (n, d) as columns of lists, and arrays (n,) as columns of numbers."""
    pa = arrow(EXTRA)
    lengths = {len(array) for array in arrays.values() if array.ndim in (1, 2) and array.size}
    if len(lengths) != 1 or not all(array.ndim in (1, 2) for array in arrays.values()):
        shapes = ", ".join(str(array.shape) for array in arrays.values())
        raise ValueError(f"arrays of shape {shapes} came: parquet files hold rows, as many in each column")
    (n,) = lengths
    types = {name: as_lists(array[:1], EXTRA).type for name, array in arrays.items()}
    with pa.parquet.ParquetWriter(part, pa.schema(types)) as file:
        for start in range(0, n, GROUP_ROWS):
            columns = [as_lists(array[start : start + GROUP_ROWS], EXTRA) for array in arrays.values()]
            file.write_table(pa.table(columns, schema=pa.schema(types)))


class _Column:
    """A column of a Parquet file, read forwards: the batch at hand is kept, a step back seeks its group."""

    def __init__(self, path: Path, key: str | None) -> None:
        pa = arrow(EXTRA)
        self._path = path
        self._file = pa.parquet.ParquetFile(path, memory_map=True, pre_buffer=False)
        fields = {field.name: field.type for field in self._file.schema_arrow}
        lists = {name: kind for name, kind in fields.items() if _is_list(pa, kind)}
        numbers = {name: kind for name, kind in fields.items() if _is_number(pa, kind)}
        usable = list(lists if key is None else lists | numbers)
        asked = fields if key is None else {name: kind for name, kind in fields.items() if name == key}
        if not asked.keys() & usable and (asked or key is None):
            raise _unusable(path, asked, usable)
        self.name = choose(path, usable, key)
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])
        self.n_rows = int(self._starts[-1])
        self._lock = Lock()
        self._at: int
        self._held: NDArray[Any]
        self._batches: Iterator[Any]
        self._seek(0)
        kind = fields[self.name]
        self.dtype = np.dtype((kind.value_type if self.name in lists else kind).to_pandas_dtype())
        self.width = self._width(lists.get(self.name))

    def _width(self, kind: Any) -> int | None:
        """Numbers in a list: what the type says, or how many the first row has."""
        if kind is None:
            return None
        if hasattr(kind, "list_size"):
            return int(kind.list_size)
        first = next(self._file.iter_batches(1, columns=[self.name]), None)
        if first is None:
            return 0
        if first.column(0).null_count:
            raise self._bad(0, "is empty (null)")
        return len(first.column(0)[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop."""
        with self._lock:
            group = int(np.searchsorted(self._starts, start, "right")) - 1
            if start < self._at or self._starts[group] > self._at + len(self._held):
                self._seek(group)
            parts = []
            while start < stop:
                if start >= self._at + len(self._held):
                    self._at += len(self._held)
                    self._held = self._values(next(self._batches).column(0))
                    continue
                part = self._held[start - self._at : stop - self._at]
                parts.append(part)
                start += len(part)
            return np.concatenate(parts) if parts else self._held[:0]

    def _seek(self, group: int) -> None:
        self._at = int(self._starts[group])
        self._held = np.empty(0)
        groups = range(group, len(self._starts) - 1)
        self._batches = self._file.iter_batches(
            BATCH_ROWS, row_groups=groups, columns=[self.name], use_threads=False
        )

    def _values(self, column: Any) -> NDArray[Any]:
        """A batch as an array; a gap or a list of another length is an error that names its row."""
        if column.null_count:
            raise self._bad(int(np.asarray(column.is_null()).argmax()), "is empty (null)")
        if self.width is None:
            return np.asarray(column)
        if not hasattr(column.type, "list_size"):
            lengths = np.asarray(column.value_lengths())
            if (lengths != self.width).any():
                row = int((lengths != self.width).argmax())
                raise self._bad(row, f"has {lengths[row]} numbers, and row 0 has {self.width}")
        values = column.flatten()
        if values.null_count:
            raise self._bad(int(np.asarray(values.is_null()).argmax()) // self.width, "has a gap (null)")
        return np.asarray(values).reshape(-1, self.width)

    def _bad(self, row: int, what: str) -> DataFileError:
        return DataFileError(
            f"{self._path}: row {self._at + row} of {self.name} {what}. Lists of one length, full of "
            "numbers, were wanted: remove these rows or fill them"
        )


def _unusable(path: Path, fields: Mapping[str, Any], usable: list[str]) -> DataFileError:
    held = ", ".join(f"{name} holds {'text' if kind == 'string' else kind}" for name, kind in fields.items())
    way_out = f"name one of {', '.join(usable)}" if usable else "write the vectors as lists of one length"
    return DataFileError(f"{path}: {held or 'it has no columns'}; numbers were wanted: {way_out}")


def _is_list(pa: Any, kind: Any) -> bool:
    types = pa.types
    listed = types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)
    return listed and _is_number(pa, kind.value_type)


def _is_number(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
