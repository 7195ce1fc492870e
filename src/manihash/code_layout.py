"""Codes of two parts, and the weighted distance between them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import checks
from manihash.codes import hamming, n_bytes
from manihash.types import Codes, Floats, Ints

# Copies of the parts have at most this many times the bits of a code, and fewer than 2^16.
_MOST_COPIED = 8
# Pairs of distances (d_first, d_second) in a table.
_MOST_PAIRS = 2**22
# Distances up to here are float32 numbers, too.
_MOST_WEIGHT = 1e30


@dataclass(frozen=True)
class CodeLayout:
    """Codes of ``n_bits`` whose first ``first_bits`` bits are one part and whose other bits are another.

    The distance of two codes is d = d_first + weight * d_second in float64, with the Hamming distances of the
    parts. A *level* is a whole number of at least 0 that has the order and the ties of the distances.
    """

    n_bits: int
    first_bits: int
    weight: float = 0.5

    def __post_init__(self) -> None:
        checks.positive_int(self.first_bits, "first_bits")
        if self.first_bits >= self.n_bits:
            raise ValueError(
                f"first_bits={self.first_bits} leaves none of the {self.n_bits} bits of a code for the "
                f"second part: lower first_bits to {self.n_bits - 1}, or omit it if codes have one part"
            )
        if check_weight(self.weight) and self.copies is None and self._n_pairs > _MOST_PAIRS:
            raise ValueError(
                f"weight={self.weight} is not supported for parts of {self.first_bits} and "
                f"{self.second_bits} bits: use a multiple of 1/4, or shorter codes"
            )

    @property
    def second_bits(self) -> int:
        """Number of bits of the second part."""
        return self.n_bits - self.first_bits

    @cached_property
    def copies(self) -> tuple[int, int] | None:
        """Numbers of copies (q, p) of the parts whose Hamming distance is q * d; None if they are too many.

        This is weight = p / q, so that q d = q d_first + p d_second.
        """
        p, q = float(self.weight).as_integer_ratio()
        bits = q * self.first_bits + p * self.second_bits
        return (q, p) if bits <= min(_MOST_COPIED * self.n_bits, 2**16 - 1) else None

    @property
    def n_levels(self) -> int:
        """Number of possible levels, from 0 on."""
        if self.copies is None:
            return len(self._values)
        q, p = self.copies
        return 1 + q * self.first_bits + p * self.second_bits

    def first(self, codes: Codes) -> Codes:
        """The first part of codes (n, b), packed: (n, ceil(first_bits / 8)); b may include padding."""
        part = codes[:, : n_bytes(self.first_bits)].copy()
        if self.first_bits % 8:
            part[:, -1] &= np.uint8(0xFF << 8 - self.first_bits % 8 & 0xFF)
        return part

    def second(self, codes: Codes) -> Codes:
        """The second part of codes (n, b), packed: (n, ceil(second_bits / 8))."""
        start, shift = divmod(self.first_bits, 8)
        padded = codes[:, start : n_bytes(self.n_bits)]
        if not shift:
            return padded.copy()
        part = padded << np.uint8(shift)
        part[:, :-1] |= padded[:, 1:] >> np.uint8(8 - shift)
        return part[:, : n_bytes(self.second_bits)]

    def copied(self, codes: Codes) -> Codes:
        """The copies of the parts of codes (n, b) side by side, if ``copies`` is not None."""
        q, p = self.copies or (1, 1)
        return np.hstack([self.first(codes)] * q + [self.second(codes)] * p)

    def levels(self, queries: Codes, codes: Codes) -> NDArray[Any]:
        """Levels (q, n) of queries (q, b) and codes (n, b)."""
        if self.copies is not None:
            return hamming(self.copied(queries), self.copied(codes))
        pair = hamming(self.first(queries), self.first(codes)).astype(np.int32)
        pair *= self.second_bits + 1
        pair += hamming(self.second(queries), self.second(codes))
        return self._levels_of_pairs[pair]

    def distances(self, levels: Ints) -> Floats:
        """Distances of levels, in float64."""
        return self._values[levels] if self.copies is None else levels / self.copies[0]

    @property
    def _n_pairs(self) -> int:
        return (self.first_bits + 1) * (self.second_bits + 1)

    @cached_property
    def _pair_table(self) -> tuple[Floats, NDArray[Any]]:
        """The distinct distances, ascending, and the level of each pair (d_first, d_second)."""
        d = np.arange(self.first_bits + 1)[:, None] + float(self.weight) * np.arange(self.second_bits + 1)
        values, levels = np.unique(d.ravel(), return_inverse=True)
        return values, levels.astype(np.uint16 if len(values) < 2**16 else np.int32)

    @property
    def _values(self) -> Floats:
        return self._pair_table[0]

    @property
    def _levels_of_pairs(self) -> NDArray[Any]:
        return self._pair_table[1]


def layout_of(n_bits: int, first_bits: int | None, weight: float) -> CodeLayout | None:
    """The layout of codes of n_bits; None if ``first_bits`` is None, that is for codes of one part."""
    if first_bits is not None:
        return CodeLayout(n_bits, first_bits, weight)
    check_weight(weight)
    return None


def layout_options(model: Any) -> dict[str, Any]:
    """The options ``first_bits`` and ``weight`` of a model's codes; none if the codes have one part."""
    if getattr(model, "first_bits_", None) is None:
        return {}
    return {"first_bits": model.first_bits_, "weight": model.weight_}


def check_weight(weight: Any) -> float:
    """The weight of a second part as a float; raise unless it is from 0 to 1e30."""
    if checks.positive_number(weight, "weight", zero=True) > _MOST_WEIGHT:
        raise ValueError(f"weight must be at most {_MOST_WEIGHT:g}, not {weight!r}")
    return float(weight)
