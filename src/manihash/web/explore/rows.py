"""The rows that are explored: vectors, labels, and what a person sees of a row."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.pages.thumbnails import Thumbnails, ValueStrips
from manihash.rows import Rows, rows_of
from manihash.types import Floats, Ids

NO_LABEL = 2**16 - 1  # the number of the label of a row without a label
_LEAST_ROWS = 10
_ROUNDING = 1 + 1e-4  # rows this much further than the k-th are compared in float64
_TEXT_LETTERS = 400  # of a text that are shown


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of rows: their names, sorted, and the number of the name of each row."""

    names: tuple[str, ...]
    numbers: NDArray[np.uint16]  # (n,), NO_LABEL for a row without a label

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows with each label."""
        return np.bincount(self.numbers[self.numbers != NO_LABEL], minlength=len(self.names))

    def for_fit(self) -> NDArray[np.int64]:
        """The number of the label of each row as hashers expect it: -1 for a row without a label."""
        return np.where(self.numbers == NO_LABEL, np.int64(-1), self.numbers.astype(np.int64))

    def shares(self, ids: Any) -> list[list[int]]:
        """Labels of some rows with their numbers of rows, most frequent first: pairs [label, count]."""
        numbers = self.numbers[ids]
        found, count = np.unique(numbers[numbers != NO_LABEL], return_counts=True)
        order = np.argsort(-count, kind="stable")
        return [[int(found[i]), int(count[i])] for i in order]


@dataclass(frozen=True, eq=False)
class ExploredRows:
    """Rows with a name; ``pictures`` draws a row, ``texts`` are shown instead of pictures."""

    name: str
    X: Any  # (n, d), in memory or in a file
    labels: Labels | None = None
    pictures: Thumbnails = field(default_factory=lambda: ValueStrips(np.zeros((1, 1))))
    texts: Sequence[str] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def width(self) -> int:
        """Length d of a vector."""
        return int(self.X.shape[1])

    @property
    def kind(self) -> str:
        """What is shown of a row: image, text or row (its values)."""
        if self.texts is not None:
            return "text"
        return "row" if isinstance(self.pictures, ValueStrips) else "image"

    def text(self, row: int) -> str:
        """The beginning of the text of a row."""
        text = "" if self.texts is None else self.texts[row]
        return text if len(text) <= _TEXT_LETTERS else text[:_TEXT_LETTERS].rstrip() + " …"

    def vectors(self, ids: Any) -> Floats:
        """The vectors at these positions."""
        return rows_of(self.X).take(np.asarray(ids, np.int64))

    @cached_property
    def in_memory(self) -> Rows:
        """The rows, kept in memory as numbers to compute with if they are not too large."""
        return rows_of(self.X).cached()

    def nearest(self, vector: Floats, k: int, without: int | None = None) -> tuple[Ids, Floats]:
        """The k rows nearest to a vector by Euclidean distance, ties by id, and their distances.

        The row ``without``, which is the query itself, is left out.
        """
        query = vector.astype(self.in_memory.dtype)

        def squares(block: Floats) -> Floats:
            apart = block - query
            return np.einsum("ij,ij->i", apart, apart)[:, None]

        found = self.in_memory.stack(squares, 1, query.dtype, "nearest rows")[:, 0]
        if without is not None:
            found[without] = np.inf
        k = min(k, len(self) - (without is not None))
        near = np.flatnonzero(found <= np.partition(found, k - 1)[k - 1] * _ROUNDING)
        apart = self.vectors(near).astype(np.float64) - vector.astype(np.float64)
        exact = np.sqrt(np.square(apart).sum(axis=1))
        order = np.argsort(exact, kind="stable")[:k]
        return near[order], exact[order]


def explored_rows(
    name: str,
    X: Any,
    *,
    labels: NDArray[Any] | None = None,
    known: NDArray[np.bool_] | None = None,
    pictures: Thumbnails | None = None,
    texts: Sequence[str] | None = None,
) -> ExploredRows:
    """The rows of a file with what belongs to them; raise if their numbers differ.

    ``known`` says which rows have a label; by default all have one.
    """
    n = int(X.shape[0])
    if n < _LEAST_ROWS:
        raise ValueError(f"{name} has {n} rows: give at least {_LEAST_ROWS} to explore them")
    for what, parts in (("images", pictures), ("texts", texts), ("labels", labels)):
        if parts is not None and len(parts) != n:
            raise ValueError(
                f"got {len(parts):,} {what} for the {n:,} rows of {name}: give one per row, in the same order"
            )
    named = None if labels is None else _labels(labels, np.ones(n, bool) if known is None else known)
    return ExploredRows(name, X, named, pictures or ValueStrips(X), texts)


def _labels(labels: NDArray[Any], known: NDArray[np.bool_]) -> Labels:
    """Labels by number, in the order of numbers, or of letters."""
    values, inverse = np.unique(labels[known], return_inverse=True)
    if len(values) >= NO_LABEL:
        raise ValueError(
            f"got {len(values):,} distinct labels, at most {NO_LABEL - 1:,} can be shown: are these classes?"
        )
    numbers = np.full(len(labels), NO_LABEL, np.uint16)
    numbers[known] = inverse
    return Labels(tuple(str(value) for value in values.tolist()), numbers)


class Selection:
    """The marked rows, ascending; ``rows`` is replaced as a whole, so any thread may read it."""

    def __init__(self) -> None:
        self.rows: Ids = np.empty(0, np.int64)

    def keep(self, body: bytes, n_rows: int) -> None:
        """Keep the row numbers of a request; raise if they are not those of rows."""
        if len(body) % 4:
            raise ValueError(f"got {len(body)} bytes: expected four per row number")
        rows = np.unique(np.frombuffer(body, "<u4").astype(np.int64))
        if len(rows) and rows[-1] >= n_rows:
            raise ValueError(f"no row {rows[-1]}: rows are numbered from 0 to {n_rows - 1}")
        self.rows = rows
