"""Rows with the codes of one model: buckets, statistics, and what each bit separates."""

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.codes import words
from manihash.hashers._hasher import Hasher
from manihash.search import HammingIndex
from manihash.search.duplicates.verified import VerifiedDuplicates, verified_duplicates
from manihash.search.stats import IndexStats
from manihash.types import Codes, Floats, Ids, Ints
from manihash.web.explore.rows import ExploredRows

BUCKETS_SHOWN = 30
ROWS_SHOWN = 24  # of a bucket, of a group, and on either side of a bit
_SAMPLE = 20_000  # rows whose real values say what a bit separates
_MOST_OTHER = 0.5  # share of rows whose vector may have another code than an index stores
_DOUBTED, _TESTED = 0.2, 2000  # share of rows outside the training range, of a sample of so many


@dataclass(frozen=True, eq=False)
class Bucket:
    """Rows with the same code, or the same first part of a code."""

    code: Codes  # (b,), of the first of the rows
    ids: Ids


@dataclass(frozen=True, eq=False)
class BitSide:
    """The rows of one side of a bit: how many, and those furthest from the threshold."""

    count: int
    ids: Ids
    sampled: Ids  # rows of the sample on this side


class CodedRows:
    """The codes of all rows by one model; ``stored`` are those of an index of the rows, if there is one."""

    def __init__(self, name: str, hasher: Hasher, rows: ExploredRows, stored: Codes | None = None) -> None:
        self.name, self.hasher, self.rows = name, hasher, rows
        encoded = hasher.encode(rows.X)
        self.codes = encoded if stored is None else stored
        self._n_other = int((self.codes != encoded).any(axis=1).sum())
        if self._n_other > _MOST_OTHER * len(rows):
            raise ValueError(
                f"{self._n_other:,} of the {len(rows):,} vectors of {rows.name} have other codes than {name} "
                "stores for them: they do not belong together. Give the vectors that the index was built "
                "from, in the order of its ids, or their ids with --ids"
            )
        self.n_bits = int(hasher.n_bits_)
        self.layout = hasher.layout_
        self.index = HammingIndex(self.codes, self.n_bits, layout=self.layout, made_by=hasher)
        self._lock = Lock()
        self._duplicates: dict[float, VerifiedDuplicates] = {}

    @property
    def look_up_bits(self) -> int:
        """Bits that a look-up by radius compares: those of the first part, or all; 0 without signs."""
        return self.layout.look_up_bits

    @cached_property
    def look_up_codes(self) -> Codes:
        """The part of the codes that a look-up by radius compares."""
        return self.layout.first(self.codes) if self.layout.has_two_parts else self.codes

    @cached_property
    def stats(self) -> IndexStats:
        """Statistics and warnings, as ``manihash stats`` shows them."""
        return self.index.stats()

    @cached_property
    def doubts(self) -> list[str]:
        """Why model and vectors may not belong together; empty if there is no such sign."""
        return [*self._other_codes(), *self._outside()]

    def _other_codes(self) -> list[str]:
        if not self._n_other:
            return []
        return [
            f"{self._n_other:,} of {len(self.rows):,} rows of {self.name} have other codes than their "
            "vectors: they were changed in the index, or in the file of vectors, since it was built"
        ]

    def _outside(self) -> list[str]:
        n = len(self.rows)
        ids = np.unique(np.linspace(0, n - 1, min(n, _TESTED)).astype(np.int64))
        try:
            outside = self.hasher.drift(self.rows.vectors(ids)).outside
        except ValueError:  # too few rows, or a model without statistics of its training rows
            return []
        if outside < _DOUBTED:
            return []
        return [
            f"{outside:.0%} of the rows lie outside the range of the rows that {self.name} was fitted to: it "
            "may be the model of other vectors, or of vectors that were scaled in another way"
        ]

    @cached_property
    def bucket_sizes(self) -> NDArray[np.uint32]:
        """Number of rows with the code of each row, or its first part, (n,)."""
        _, inverse, count = self._distinct
        return count[inverse].astype(np.uint32)

    @cached_property
    def _distinct(self) -> tuple[Ints, Ints, Ints]:
        """First row and number of rows of each distinct code, or first part, and the code of each row."""
        word = np.ascontiguousarray(words(self.look_up_codes))
        keys = word[:, 0] if word.shape[1] == 1 else word.view([("", word.dtype)] * word.shape[1])[:, 0]
        _, first, inverse, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        return first, inverse, count

    def largest_buckets(self, most: int = BUCKETS_SHOWN) -> list[Bucket]:
        """The largest buckets of at least two rows, largest first, ties by the lowest row."""
        first, inverse, count = self._distinct
        order = np.lexsort((first, -count))[:most]
        return [
            Bucket(self.codes[first[i]], np.flatnonzero(inverse == i)) for i in order.tolist() if count[i] > 1
        ]

    def duplicates(self, cosine: float) -> VerifiedDuplicates:
        """Groups of rows whose vectors have at least this cosine, found by their codes; computed once."""
        with self._lock:
            if cosine not in self._duplicates:
                X = self.rows.X
                if not isinstance(X, np.ndarray):
                    X = self.rows.vectors(np.arange(len(self.rows)))
                self._duplicates[cosine] = verified_duplicates(self.codes, self.n_bits, X, cosine=cosine)
            return self._duplicates[cosine]

    @cached_property
    def _sampled(self) -> tuple[Ids, Floats]:
        """Some rows, spread over all, and their real values before the sign."""
        n = len(self.codes)
        ids = np.arange(n) if n <= _SAMPLE else np.linspace(0, n - 1, _SAMPLE).astype(np.int64)
        return ids, self.hasher.embed(self.rows.vectors(ids))

    @cached_property
    def ones(self) -> Ints:
        """Number of rows whose bit is 1, for each bit (r,)."""
        sums = np.zeros(8 * self.codes.shape[1], np.int64)
        for start in range(0, len(self.codes), 2**16):
            sums += np.unpackbits(self.codes[start : start + 2**16], axis=1).sum(axis=0, dtype=np.int64)
        return sums[: self.n_bits]

    def sides(self, bit: int) -> tuple[BitSide, BitSide]:
        """The two sides of a bit: rows whose bit is 0, and rows whose bit is 1.

        Bits of the fields of a product quantizer have no threshold: their rows are in their own order.
        """
        ids, values = self._sampled
        column = values[:, bit] if bit < self.layout.look_up_bits else self._bit_signs(ids, bit)
        one = column > 0
        high = np.argsort(-column, kind="stable")
        count = int(self.ones[bit])
        return (
            BitSide(
                len(self.codes) - count, ids[high[::-1][: min(ROWS_SHOWN, int((~one).sum()))]], ids[~one]
            ),
            BitSide(count, ids[high[: min(ROWS_SHOWN, int(one.sum()))]], ids[one]),
        )

    def _bit_signs(self, ids: Ids, bit: int) -> Floats:
        """Bit of some rows as 1 or -1: the real values of a product quantizer belong to its fields."""
        if not self.layout.has_fields:
            return self._sampled[1][:, bit]
        return np.where(self.codes[ids, bit >> 3] >> (7 - (bit & 7)) & 1, 1.0, -1.0)

    def tables(self, vector: Floats) -> list[float] | None:
        """What ranks codes with fields for a vector: a distance for each value of each byte; else None."""
        if not self.layout.has_fields:
            return None
        return self.layout.tables(np.asarray(self.hasher.embed(vector[None])))[0].ravel().tolist()

    def encode(self, vector: Floats) -> Codes:
        """The code (b,) of one vector."""
        return self.hasher.encode(vector[None])[0]


def coded_rows(name: str, hasher: Hasher, rows: ExploredRows, stored: Codes | None = None) -> CodedRows:
    """The rows with the codes of a model; raise if the model was fitted to other vectors."""
    width: Any = hasher.n_features_in_
    if width != rows.width:
        raise ValueError(
            f"{name} was fitted to vectors of {width} columns, but {rows.name} holds vectors of "
            f"{rows.width}: they do not belong together. Give the model of these vectors, or none to fit one"
        )
    return CodedRows(name, hasher, rows, stored)
