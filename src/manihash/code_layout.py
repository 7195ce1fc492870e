"""The layout of codes: their parts, and the distance that ranks them.

A code has one or two parts. A part is signs, compared by Hamming distance, or fields of a product quantizer,
each of which is the number of a center. The first part, if it is signs, is the one that rows are looked up
by.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash import checks
from manihash.code_tables import (
    bounded,
    by_coordinate,
    byte_tables,
    center_distances,
    sign_costs,
    table_distances,
)
from manihash.codes import hamming, n_bytes, pack, unpack
from manihash.types import Codes, Floats, Ints

# The name of ``look_up_bits`` in files: in the headers of indexes, and in old files of hybrid models.
FIRST_BITS = "first_bits"
# Copies of the parts have at most this many times the bits of a code, and fewer than 2^16.
_MOST_COPIED = 8
# Queries whose tables are computed at once, so that they stay in the cache.
_QUERIES = 16
# Pairs of distances (d_first, d_second) in a table.
_MOST_PAIRS = 2**22
# Distances up to here are float32 numbers, too.
_MOST_WEIGHT = 1e30


@dataclass(frozen=True, eq=False)
class CodeLayout:
    """The parts of codes of ``n_bits``, and the distance that ranks them.

    The first ``look_up_bits`` bits are signs, by which rows are looked up. The others are signs, too, or the
    fields of a product quantizer if there are ``codebooks``. The distance of two codes is

        d = d_first + weight * scale * d_second,

    with the Hamming distance of signs, and Σ_j |c_j - c'_j|² over the centers of fields. A query whose real
    values are known is not rounded to a code: see ``tables``.

    Parameters
    ----------
    n_bits : int
        Length of a code.
    look_up_bits : int, default=None
        Length of the first part; ``n_bits`` (None, too) if a code is one part of signs, and 0 if it is one
        part of fields.
    weight : float, default=1.0
        Weight of the second part, at least 0.
    codebooks : ndarray of shape (f, c, w), default=None
        The c centers of each of f fields of the second part, in w coordinates; None if it is signs.
    scale : float, default=1.0
        Factor that brings distances of the second part to the scale of the first.

    Examples
    --------
    >>> from manihash import CodeLayout
    >>> layout = CodeLayout(n_bits=64, look_up_bits=24, weight=0.5)
    >>> layout.described()
    '24 + 40 signs, weight 0.5'
    >>> layout.with_weight(1.0).weight
    1.0
    """

    n_bits: int
    look_up_bits: int = None  # type: ignore[assignment]
    weight: float = 1.0
    codebooks: NDArray[np.float32] | None = field(default=None, repr=False)
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.look_up_bits is None:
            object.__setattr__(self, "look_up_bits", self.n_bits)
        least = 1 if self.codebooks is None else 0
        if not least <= checks.positive_int(self.look_up_bits, "look_up_bits", least=0) <= self.n_bits:
            raise ValueError(
                f"look_up_bits={self.look_up_bits} is not a number of bits from {least} to the {self.n_bits} "
                "of a code"
            )
        check_weight(self.weight)
        check_weight(self.scale, "scale")
        if self.codebooks is not None:
            self._check_codebooks(self.codebooks)
        elif self.has_two_parts and self.copies is None and self._n_pairs > _MOST_PAIRS:
            raise ValueError(
                f"weight={self.weight} is not supported for parts of {self.look_up_bits} and "
                f"{self.second_bits} bits: use a multiple of 1/4, or shorter codes"
            )

    def _check_codebooks(self, codebooks: Any) -> None:
        shape = np.shape(codebooks)
        bits = int(shape[1] - 1).bit_length() if len(shape) == 3 else 0
        if bits not in (1, 2, 4, 8) or shape[1] != 2**bits or shape[0] * bits != self.second_bits:
            raise ValueError(
                f"codebooks of shape {shape} do not fit a part of {self.second_bits} bits: expected f fields "
                "of 256, 16, 4 or 2 centers whose numbers fill the part"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CodeLayout):
            return NotImplemented
        if (self.codebooks is None) != (other.codebooks is None):
            return False
        same = self.codebooks is None or np.array_equal(self.codebooks, other.codebooks)  # type: ignore[arg-type]
        return same and self._numbers == other._numbers

    def __hash__(self) -> int:
        return hash(self._numbers)

    @property
    def _numbers(self) -> tuple[float, ...]:
        # The weight of a second part that does not exist means nothing.
        weights = (float(self.weight), float(self.scale)) if self.has_two_parts else ()
        return (self.n_bits, self.look_up_bits, *weights)

    @property
    def second_bits(self) -> int:
        """Number of bits of the second part."""
        return self.n_bits - self.look_up_bits

    @property
    def has_two_parts(self) -> bool:
        """Whether codes have two parts."""
        return 0 < self.look_up_bits < self.n_bits

    @property
    def is_hamming(self) -> bool:
        """Whether the distance of codes is the Hamming distance of all bits."""
        return self.look_up_bits == self.n_bits

    @property
    def has_fields(self) -> bool:
        """Whether codes have a part of fields, which only ``tables`` rank."""
        return self.codebooks is not None

    @property
    def n_values(self) -> int:
        """Number of real values of a row, as ``embed`` returns them."""
        return self.look_up_bits + (self.second_bits if self.codebooks is None else self._n_coordinates)

    @property
    def _n_coordinates(self) -> int:
        return 0 if self.codebooks is None else self.codebooks.shape[0] * self.codebooks.shape[2]

    @property
    def bits_per_field(self) -> int:
        """Number of bits of a field; 0 without fields."""
        return 0 if self.codebooks is None else int(self.codebooks.shape[1] - 1).bit_length()

    def with_weight(self, weight: float) -> "CodeLayout":
        """Return the same parts with another weight of the second one.

        Parameters
        ----------
        weight : float
            The weight, at least 0.

        Returns
        -------
        CodeLayout
            The new layout.
        """
        return replace(self, weight=check_weight(weight))

    def to_metadata(self) -> dict[str, str]:
        """Describe the parts for the header of a file; codebooks are arrays beside it.

        Returns
        -------
        dict of str to str
            Empty if codes are one part of signs.
        """
        if self.is_hamming:
            return {}
        numbers = {FIRST_BITS: str(self.look_up_bits), "weight": repr(float(self.weight))}
        return numbers | ({"scale": repr(float(self.scale))} if self.has_fields else {})

    @classmethod
    def from_metadata(
        cls, n_bits: int, metadata: dict[str, str], codebooks: NDArray[Any] | None = None
    ) -> "CodeLayout":
        """Return the layout that the header of a file describes.

        Parameters
        ----------
        n_bits : int
            Length of a code.
        metadata : dict of str to str
            The header, with what ``to_metadata`` returned.
        codebooks : ndarray of shape (f, c, w), default=None
            The codebooks of the file, if it has some.

        Returns
        -------
        CodeLayout
            The layout.

        Raises
        ------
        ValueError
            If the header describes no layout of codes of ``n_bits``.
        """
        if FIRST_BITS not in metadata:
            return cls(n_bits)
        if codebooks is not None and not np.isfinite(codebooks).all():
            raise ValueError("its codebooks are not finite numbers")
        first, weight = int(metadata[FIRST_BITS]), float(metadata["weight"])
        if codebooks is None and first >= n_bits:
            raise ValueError(f"its header has {FIRST_BITS}={first} of {n_bits}")
        return cls(n_bits, first, weight, codebooks, float(metadata.get("scale", "1")))

    def described(self) -> str:
        """Describe the parts in words.

        Returns
        -------
        str
            Such as ``"24 signs + 5 fields of 8 bits, weight 0.5"``.
        """
        if self.is_hamming:
            return _counted(self.n_bits, "sign")
        if self.codebooks is None:
            return f"{self.look_up_bits} + {self.second_bits} signs, weight {self.weight:g}"
        fields = f"{_counted(len(self.codebooks), 'field')} of {_counted(self.bits_per_field, 'bit')}"
        if not self.look_up_bits:
            return fields
        return f"{_counted(self.look_up_bits, 'sign')} + {fields}, weight {self.weight:g}"

    # Codes

    def first(self, codes: Codes) -> Codes:
        """Return the first part of codes.

        Parameters
        ----------
        codes : ndarray of shape (n, b), uint8
            Packed codes; b may include padding.

        Returns
        -------
        ndarray of shape (n, ceil(look_up_bits / 8)), uint8
            The bits of the first part, packed.
        """
        part = codes[:, : n_bytes(self.look_up_bits)].copy()
        if self.look_up_bits % 8:
            part[:, -1] &= np.uint8(0xFF << 8 - self.look_up_bits % 8 & 0xFF)
        return part

    def second(self, codes: Codes) -> Codes:
        """Return the second part of codes.

        Parameters
        ----------
        codes : ndarray of shape (n, b), uint8
            Packed codes; b may include padding.

        Returns
        -------
        ndarray of shape (n, ceil(second_bits / 8)), uint8
            The bits of the second part, packed.
        """
        start, shift = divmod(self.look_up_bits, 8)
        padded = codes[:, start : n_bytes(self.n_bits)]
        if not shift:
            return padded.copy()
        part = padded << np.uint8(shift)
        part[:, :-1] |= padded[:, 1:] >> np.uint8(8 - shift)
        return part[:, : n_bytes(self.second_bits)]

    @property
    def n_split_bytes(self) -> int:
        """Number of bytes of codes as ``split`` returns them, without padding."""
        if self.is_split:
            return n_bytes(self.n_bits)
        return n_bytes(self.look_up_bits) + n_bytes(self.second_bits)

    @property
    def is_split(self) -> bool:
        """Whether no byte holds bits of both parts, so that ``tables`` rank codes as they are."""
        return self.codebooks is None or self.look_up_bits % 8 == 0

    def split(self, codes: Codes) -> Codes:
        """Return codes with each part in bytes of its own, in the order of ``tables``.

        Parameters
        ----------
        codes : ndarray of shape (n, b), uint8
            Packed codes; b may include padding.

        Returns
        -------
        ndarray of shape (n, bytes), uint8
            The codes themselves if no byte holds bits of both parts.
        """
        return codes if self.is_split else np.hstack([self.first(codes), self.second(codes)])

    def joined(self, codes: Codes) -> Codes:
        """Return packed codes from codes with each part in bytes of its own, as ``split`` returns them.

        Parameters
        ----------
        codes : ndarray of shape (n, bytes), uint8
            Split codes.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)), uint8
            Packed codes; the given ones if no byte holds bits of both parts.
        """
        if self.is_split:
            return codes
        bits, start = unpack(np.ascontiguousarray(codes), 8 * codes.shape[1]), 8 * n_bytes(self.look_up_bits)
        return pack(np.hstack([bits[:, : self.look_up_bits], bits[:, start : start + self.second_bits]]))

    def code_distances(self, queries: Codes, codes: Codes) -> NDArray[Any]:
        """Compute numbers with the order of the distances between codes.

        Parameters
        ----------
        queries : ndarray of shape (q, b), uint8
            Packed codes of queries.
        codes : ndarray of shape (n, b), uint8
            Packed codes; b may include padding.

        Returns
        -------
        ndarray of shape (q, n)
            Levels of codes of signs, otherwise distances.
        """
        if not self.has_fields:
            return self.levels(queries, codes)
        return table_distances(self.tables(self.values_of(queries)), self.split(codes))

    def values_of(self, codes: Codes) -> Floats:
        """Return the real values that codes stand for: 1 and -1 for signs, centers for fields.

        Parameters
        ----------
        codes : ndarray of shape (n, b), uint8
            Packed codes; b may include padding.

        Returns
        -------
        ndarray of shape (n, n_values)
            Real values, as ``tables`` takes them.
        """
        bits = unpack(np.ascontiguousarray(codes[:, : n_bytes(self.n_bits)]), self.n_bits)
        if self.codebooks is None:
            return np.where(bits > 0, 1.0, -1.0)
        labels = self._labels(bits[:, self.look_up_bits :])
        centers = self.codebooks[np.arange(len(self.codebooks)), labels].reshape(
            len(codes), self._n_coordinates
        )
        return np.hstack([np.where(bits[:, : self.look_up_bits] > 0, 1.0, -1.0), centers])

    def _labels(self, bits: NDArray[Any]) -> Ints:
        """Numbers (n, f) of the centers of fields with these bits (n, second_bits)."""
        b = self.bits_per_field
        powers = 2 ** np.arange(b - 1, -1, -1)
        return np.asarray(bits.reshape(len(bits), self.second_bits // b, b) @ powers, np.int64)

    # Distances of two codes by Hamming distances

    @cached_property
    def copies(self) -> tuple[int, int] | None:
        """Numbers of copies (q, p) of two parts of signs whose Hamming distance is q * d; None if too many.

        This is weight = p / q, so that q d = q d_first + p d_second.
        """
        if not self.has_two_parts:  # a weight means nothing
            return 1, 1
        p, q = float(self.weight).as_integer_ratio()
        bits = q * self.look_up_bits + p * self.second_bits
        return (q, p) if bits <= min(_MOST_COPIED * self.n_bits, 2**16 - 1) else None

    @property
    def n_levels(self) -> int:
        """Number of possible levels, from 0 on; a level is a whole number with the order of distances."""
        if self.is_hamming:
            return self.n_bits + 1
        if self.copies is None:
            return len(self._values)
        q, p = self.copies
        return 1 + q * self.look_up_bits + p * self.second_bits

    def copied(self, codes: Codes) -> Codes:
        """Return the copies of the parts of codes side by side, if ``copies`` is not None.

        Parameters
        ----------
        codes : ndarray of shape (n, b), uint8
            Packed codes; b may include padding.

        Returns
        -------
        ndarray of shape (n, bytes), uint8
            Codes whose Hamming distances are levels.
        """
        q, p = self.copies or (1, 1)
        return np.hstack([self.first(codes)] * q + [self.second(codes)] * p)

    def levels(self, queries: Codes, codes: Codes) -> NDArray[Any]:
        """Compute levels of queries and codes whose parts are signs.

        Parameters
        ----------
        queries : ndarray of shape (q, b), uint8
            Packed codes of queries.
        codes : ndarray of shape (n, b), uint8
            Packed codes; b may include padding.

        Returns
        -------
        ndarray of shape (q, n)
            Whole numbers of at least 0 with the order and the ties of the distances.
        """
        if self.is_hamming:
            return hamming(queries, codes)
        if self.copies is not None:
            return hamming(self.copied(queries), self.copied(codes))
        pair = hamming(self.first(queries), self.first(codes)).astype(np.int32)
        pair *= self.second_bits + 1
        pair += hamming(self.second(queries), self.second(codes))
        return self._levels_of_pairs[pair]

    def distances(self, levels: Ints) -> Floats:
        """Compute the distances of levels.

        Parameters
        ----------
        levels : ndarray of int
            Levels, as ``levels`` returns them.

        Returns
        -------
        ndarray of float64
            Distances of the same shape.
        """
        return self._values[levels] if self.copies is None else levels / self.copies[0]

    @property
    def _n_pairs(self) -> int:
        return (self.look_up_bits + 1) * (self.second_bits + 1)

    @cached_property
    def _pair_table(self) -> tuple[Floats, NDArray[Any]]:
        """The distinct distances, ascending, and the level of each pair (d_first, d_second)."""
        d = np.arange(self.look_up_bits + 1)[:, None] + float(self.weight) * np.arange(self.second_bits + 1)
        values, levels = np.unique(d.ravel(), return_inverse=True)
        return values, levels.astype(np.uint16 if len(values) < 2**16 else np.int32)

    @property
    def _values(self) -> Floats:
        return self._pair_table[0]

    @property
    def _levels_of_pairs(self) -> NDArray[Any]:
        return self._pair_table[1]

    # Distances of real values and codes

    def tables(self, values: ArrayLike, factors: tuple[float, float] | None = None) -> NDArray[np.float32]:
        """Contribution of each value of each byte of a code to its distance from a query.

        The distance of a query and a code is the sum of the entries for the bytes of ``split`` codes, in
        their order, in float32. It is d_first + weight * scale * d_second, where the distance of a part of
        signs is Σ_j w_j [bit_j ≠ (y_j > 0)] with w_j = min(|y_j|, rms) / rms for the root mean square rms of
        the query's values in this part, and that of a part of fields is Σ_j |z_j - c_j|². If codes are one
        part of signs, the weights w_j are not divided by rms.

        Parameters
        ----------
        values : array-like of shape (q, n_values)
            Real values of the queries, as ``embed`` returns them.
        factors : tuple of two floats, default=None
            Factors of the parts instead of 1 and ``weight * scale``.

        Returns
        -------
        ndarray of shape (q, bytes, 256), float32
            The tables.
        """
        given = self.checked_values(values)
        first, second = factors or (1.0, float(self.weight) * float(self.scale))
        tables = np.empty((len(given), self.n_split_bytes, 256), np.float32)
        for i in range(0, len(given), _QUERIES):
            self._set_tables(tables[i : i + _QUERIES], given[i : i + _QUERIES], first, second)
        return tables

    def _set_tables(
        self, tables: NDArray[np.float32], given: NDArray[Any], first: float, second: float
    ) -> None:
        """Set the tables (q, bytes, 256) of values (q, n_values) with these factors of the parts."""
        r = self.look_up_bits
        if self.codebooks is None:
            weights = bounded(given[:, :r], scaled=not self.is_hamming)
            if self.has_two_parts:
                weights = np.hstack([first * weights, second * bounded(given[:, r:], scaled=True)])
            tables[:] = byte_tables(sign_costs(weights, given > 0))
            return
        fields = byte_tables(center_distances(given[:, r:], self._centers))
        if r:
            fields *= second
            signs = given[:, :r]
            tables[:, : n_bytes(r)] = byte_tables(sign_costs(first * bounded(signs, scaled=True), signs > 0))
        tables[:, n_bytes(r) :] = fields

    @cached_property
    def _centers(self) -> Floats:
        """The codebooks (w, f, c) as ``center_distances`` takes them."""
        assert self.codebooks is not None
        return by_coordinate(self.codebooks)

    def checked_values(self, values: ArrayLike) -> NDArray[Any]:
        """Return real values of queries as an array.

        Parameters
        ----------
        values : array-like of shape (q, n_values)
            Real values of the queries, as ``embed`` returns them.

        Returns
        -------
        ndarray of shape (q, n_values)
            The values.

        Raises
        ------
        ValueError
            If they are not finite real numbers of this shape.
        """
        checks.check_unmasked(values, "the embedding of the queries")
        given = np.asarray(values)
        if given.ndim != 2 or given.shape[1] != self.n_values or given.dtype.kind not in "fiu":
            raise ValueError(
                f"the embedding of the queries must be real numbers of shape (q, {self.n_values}), as "
                f"embed() returns them, got shape {given.shape} and type {given.dtype}"
            )
        checks.finite_block(given, name="the embedding of the queries")
        return given


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def check_weight(weight: Any, name: str = "weight") -> float:
    """The weight of a second part as a float; raise unless it is from 0 to 1e30."""
    if checks.positive_number(weight, name, zero=True) > _MOST_WEIGHT:
        raise ValueError(f"{name} must be at most {_MOST_WEIGHT:g}, not {weight!r}")
    return float(weight)
