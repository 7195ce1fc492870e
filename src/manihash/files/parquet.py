"""Parquet files: vectors are a column of lists of one length or one column per feature, labels a column.

This is the only file that imports pyarrow.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import extra
from manihash.errors import DataFileError
from manihash.files.stored import StoredRows, choose_key, parser_errors
from manihash.progress import note

EXTRA = "parquet"
BATCH_ROWS = 8192
GROUP_ROWS = 65536
_NOT_FEATURES = frozenset(  # names of columns of numbers that describe rows
    (
        "label",
        "labels",
        "class",
        "target",
        "category",
        "y",
        "id",
        "ids",
        "index",
        "row",
        "row_id",
        "rowid",
        "key",
    )
)
_NAMES_SHOWN = 5


def arrow(extra_name: str) -> Any:
    """pyarrow with its Parquet module; ``extra_name`` is the extra of manihash that installs it."""
    extra("pyarrow.parquet", extra_name)
    return extra("pyarrow", extra_name)


def as_column(array: NDArray[Any], extra_name: str) -> Any:
    """An Arrow column: fixed-size lists from an array (n, d), numbers from an array (n,)."""
    pa = arrow(extra_name)
    if array.ndim == 1:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1]
    )


def open_parquet(path: Path, key: str | None, index_column: bool | None = None) -> StoredRows:
    """The rows (n, d) of a column of lists, or of one column per feature, read in slices."""
    with parser_errors(path):
        column = _Column(path, key, index_column)
        if column.width is None:
            raise DataFileError(f"{path}: {column.name} holds one number per row: expected a column of lists")
        return StoredRows(path, (column.n_rows, column.width), column.dtype, column.read)


def read_parquet(path: Path, key: str | None, index_column: bool | None = None) -> NDArray[Any]:
    """Vectors (n, d) in memory; a column of numbers that is named by ``key`` is (n,)."""
    with parser_errors(path):
        column = _Column(path, key, index_column)
        return column.read(0, column.n_rows)


def write_parquet(part: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays (n, d) as columns of lists and arrays (n,) as columns of numbers to ``part``."""
    pa = arrow(EXTRA)
    lengths = {len(array) for array in arrays.values() if array.ndim in (1, 2) and array.size}
    if len(lengths) != 1 or not all(array.ndim in (1, 2) for array in arrays.values()):
        shapes = ", ".join(str(array.shape) for array in arrays.values())
        raise ValueError(f"got arrays of shape {shapes}: the columns of a parquet file have one length")
    (n,) = lengths
    types = {name: as_column(array[:1], EXTRA).type for name, array in arrays.items()}
    with pa.parquet.ParquetWriter(part, pa.schema(types)) as file:
        for start in range(0, n, GROUP_ROWS):
            columns = [as_column(array[start : start + GROUP_ROWS], EXTRA) for array in arrays.values()]
            file.write_table(pa.table(columns, schema=pa.schema(types)))


class _Column:
    """A column, or one column per feature, of a Parquet file.

    It is read forwards: the current batch is kept, and a step back seeks its group.
    """

    def __init__(self, path: Path, key: str | None, index_column: bool | None) -> None:
        pa = arrow(EXTRA)
        self._path = path
        self._file = pa.parquet.ParquetFile(path, memory_map=True, pre_buffer=False)
        fields = {field.name: field.type for field in self._file.schema_arrow}
        lists = {name: kind for name, kind in fields.items() if _is_list(pa, kind)}
        numbers = {name: kind for name, kind in fields.items() if _is_number(pa, kind)}
        self._names = [] if key or lists else _features(path, self._file.schema_arrow, numbers, index_column)
        if self._names:
            self.name = f"columns {_some(self._names)}"
        else:
            self.name = _one_column(path, fields, lists, numbers, key)
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])
        self.n_rows = int(self._starts[-1])
        self._lock = Lock()
        self._at: int
        self._held: NDArray[Any]
        self._batches: Iterator[Any]
        self._seek(0)
        kinds = [fields[name] for name in self._names] or [lists.get(self.name, fields.get(self.name))]
        types = [kind.value_type if _is_list(pa, kind) else kind for kind in kinds]
        self.dtype = np.result_type(*(np.dtype(kind.to_pandas_dtype()) for kind in types))
        self.width = len(self._names) or self._width(lists.get(self.name))

    def _width(self, kind: Any) -> int | None:
        """The length of the lists, from the type or the first row; None for a column of numbers."""
        if kind is None:
            return None
        if hasattr(kind, "list_size"):
            return int(kind.list_size)
        first = next(self._file.iter_batches(1, columns=[self.name]), None)
        if first is None:
            return 0
        if first.column(0).null_count:
            raise self._bad_row(0, "is null")
        return len(first.column(0)[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop - start, d) or (stop - start,)."""
        with self._lock:
            group = int(np.searchsorted(self._starts, start, "right")) - 1
            if start < self._at or self._starts[group] > self._at + len(self._held):
                self._seek(group)
            parts = []
            while start < stop:
                if start >= self._at + len(self._held):
                    self._at += len(self._held)
                    self._held = self._batch(next(self._batches))
                    continue
                part = self._held[start - self._at : stop - self._at]
                parts.append(part)
                start += len(part)
            return np.concatenate(parts) if parts else self._held[:0]

    def _seek(self, group: int) -> None:
        """Start reading at a row group."""
        self._at = int(self._starts[group])
        self._held = np.empty(0)
        groups = range(group, len(self._starts) - 1)
        self._batches = self._file.iter_batches(
            BATCH_ROWS, row_groups=groups, columns=self._names or [self.name], use_threads=False
        )

    def _batch(self, batch: Any) -> NDArray[Any]:
        """A batch as an array (b, d) or (b,)."""
        if not self._names:
            return self._values(batch.column(0))
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count:
                raise self._bad_row(int(np.asarray(column.is_null()).argmax()), f"is null in {name}")
        return np.stack([np.asarray(batch.column(name), self.dtype) for name in self._names], axis=1)

    def _values(self, column: Any) -> NDArray[Any]:
        """A batch as an array; a null or a list of another length raises an error that names its row."""
        if column.null_count:
            raise self._bad_row(int(np.asarray(column.is_null()).argmax()), "is null")
        if self.width is None:
            return np.asarray(column)
        if not hasattr(column.type, "list_size"):
            lengths = np.asarray(column.value_lengths())
            if (lengths != self.width).any():
                row = int((lengths != self.width).argmax())
                raise self._bad_row(row, f"has {lengths[row]} numbers, and row 0 has {self.width}")
        values = column.flatten()
        if values.null_count:
            raise self._bad_row(int(np.asarray(values.is_null()).argmax()) // self.width, "contains a null")
        return np.asarray(values).reshape(-1, self.width)

    def _bad_row(self, row: int, what: str) -> DataFileError:
        """The error for a row of the current batch."""
        return DataFileError(
            f"{self._path}: row {self._at + row} of {self.name} {what}. Expected "
            f"{'numbers' if self._names else 'lists of one length'} without nulls: "
            "remove such rows or fill them"
        )


def _features(path: Path, schema: Any, numbers: Mapping[str, Any], index_column: bool | None) -> list[str]:
    """The columns of numbers that are features, [] if there are fewer than two; a note names the others."""
    pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    index = [name for name in pandas.get("index_columns", ()) if isinstance(name, str)]
    if index_column is not None:
        index = (index or schema.names[:1]) if index_column else []
    chosen = [name for name in numbers if name.lower() not in _NOT_FEATURES and name not in index]
    if len(chosen) < 2:
        return []
    left_out = [name for name in schema.names if name not in chosen]
    without = f"; left out: {_some(left_out)}" if left_out else ""
    note(f"{path}: {len(chosen):,} columns of numbers are taken as features, {_some(chosen)}{without}")
    return chosen


def _some(names: Sequence[str]) -> str:
    """Names as text, the first and the last if there are many."""
    shown = names if len(names) <= _NAMES_SHOWN else [*names[: _NAMES_SHOWN - 2], "…", names[-1]]
    return ", ".join(shown)


def _one_column(
    path: Path,
    fields: Mapping[str, Any],
    lists: Mapping[str, Any],
    numbers: Mapping[str, Any],
    key: str | None,
) -> str:
    """The name of the column of lists or, if ``key`` names it, of numbers."""
    usable = list(lists if key is None else {**lists, **numbers})
    asked = fields if key is None else {name: kind for name, kind in fields.items() if name == key}
    if not asked.keys() & usable and (asked or key is None):
        raise _no_numbers(path, asked, usable)
    return choose_key(path, usable, key)


def _no_numbers(path: Path, fields: Mapping[str, Any], usable: list[str]) -> DataFileError:
    """The error for a file or column without numbers."""
    held = _some([f"{name} holds {'text' if kind == 'string' else kind}" for name, kind in fields.items()])
    remedy = f"name one of {_some(usable)}" if usable else "write the vectors as lists of one length"
    return DataFileError(f"{path}: {held or 'it has no columns'}; expected numbers: {remedy}")


def _is_list(pa: Any, kind: Any) -> bool:
    """Whether an Arrow type is a list of numbers."""
    types = pa.types
    listed = types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)
    return listed and _is_number(pa, kind.value_type)


def _is_number(pa: Any, kind: Any) -> bool:
    """Whether an Arrow type is a number."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
