"""How a hybrid divides its bits between two hashers, and how it weighs the second part of a code."""

from typing import Any

import numpy as np

from manihash.code_layout import CodeLayout, check_weight
from manihash.code_tables import table_distances
from manihash.hashers._hasher import Hasher
from manihash.linalg import effective_number
from manihash.progress import note
from manihash.rows import Rows
from manihash.types import Codes, Floats, Ids

# With this many bits a manifold method has separated what it can; further bits are worth more as second part.
_MOST_FIRST_BITS = 24
# The same before a product quantizer, for codes shorter than ``_LONG_CODE`` and for others.
_MOST_BEFORE_FIELDS, _LONG_CODE = (32, 64), 256
_SAMPLE, _NUMBERS = 2000, 2**22  # rows whose first parts are compared, and numbers of them in memory
# Redundancy of the first part up to which the weight is the least one, and from which on it is 1: see
# docs/methods/hybrid.md for the datasets that they were chosen on.
_LOW, _HIGH, _LEAST = 5.0, 9.0, 0.25
# The same for a product quantizer as second part, with weights from 1/4 to 2.
_FIELDS_LOW, _FIELDS_HIGH, _FIELDS_LEAST, _FIELDS_MOST = 8.5, 12.0, 0.25, 2.0
_QUERIES = 250  # rows that are compared with the others for the scale of the parts


def checked_weight(weight: Any) -> float | str:
    """The weight of a second part, which may be "auto"."""
    return "auto" if isinstance(weight, str) and weight == "auto" else check_weight(weight)


def weight_by_redundancy(bits: Floats) -> float:
    """The weight of the second part, given bits of the first part (s, r): a multiple of 1/4 from 1/4 to 1.

    The redundancy is the number of bits, divided by the number of independent bits that vary as much. Bits of
    rows in many groups have a low redundancy, and the first part is to be trusted. Bits of rows without
    groups repeat a few coarse splits, which its distance counts many times: the second part has more weight.
    """
    varying = bits[:, bits.std(axis=0) > 0].astype(np.float64)
    if not varying.size:
        return 1.0
    effective = effective_number(np.atleast_2d(np.corrcoef(varying.T)))
    share = (bits.shape[1] / effective - _LOW) / (_HIGH - _LOW)
    return float(np.round(4 * np.clip(_LEAST + (1 - _LEAST) * share, _LEAST, 1)) / 4)


def weight_of_fields(bits: Floats) -> float:
    """The weight of a product quantizer as second part, given bits of the first part (s, r).

    Both distances have the same spread. The weight is 1/4, and up to 2 if the first part repeats a few coarse
    splits, as ``weight_by_redundancy`` explains.
    """
    varying = bits[:, bits.std(axis=0) > 0].astype(np.float64)
    if not varying.size:
        return _FIELDS_MOST
    redundancy = bits.shape[1] / effective_number(np.atleast_2d(np.corrcoef(varying.T)))
    share = float(np.clip((redundancy - _FIELDS_LOW) / (_FIELDS_HIGH - _FIELDS_LOW), 0, 1))
    return round(_FIELDS_LEAST * (_FIELDS_MOST / _FIELDS_LEAST) ** share, 3)


def scale_of_fields(layout: CodeLayout, values: Floats, codes: Codes) -> float:
    """Spread of the distances of the first part, divided by that of the fields, over rows (s, v), (s, b)."""
    some = values[:: max(1, len(values) // _QUERIES)]
    spread = [
        float(table_distances(layout.tables(some, factors), layout.split(codes)).std(dtype=np.float64))
        for factors in ((1.0, 0.0), (0.0, 1.0))
    ]
    return spread[0] / spread[1] if min(spread) > 0 else 1.0


def sampled_rows(rows: Rows) -> Ids:
    """Ascending positions of rows spread evenly over all rows."""
    n = len(rows)
    size = min(n, _SAMPLE, max(_NUMBERS // rows.width, 100))
    return np.asarray(np.arange(size) * n // size, np.int64)


def field_bits_of(n_bits: int, n: int) -> int:
    """Bits of a field of a quantizer as second part: fewer if codes are short, or rows fewer than centers."""
    return next(b for b in (8, 4, 1) if b == 1 or (n >= 2**b and n_bits >= 2 * b))


def first_length(
    n_bits: int, most_first: int | None, most_second: int | None, field_bits: int | None = None
) -> int:
    """Return the length of the first part: half of the bits, at most 24, if the rows allow it.

    If the second part has fields of ``field_bits``, the first has at most 32 bits, or 64 of long codes, and
    the second a whole number of fields.
    """
    most = _MOST_FIRST_BITS if field_bits is None else _MOST_BEFORE_FIELDS[n_bits >= _LONG_CODE]
    step = field_bits or 1
    usual = n_bits - (n_bits - min(most, n_bits // 2)) // step * step
    length = usual
    if most_second is not None:
        length = max(length, n_bits - most_second // step * step)
    if most_first is not None and length > max(most_first, 1):
        length = n_bits - -(-(n_bits - max(most_first, 1)) // step) * step
        if length < 1:
            length = n_bits % step or step
    if length != usual:
        note(
            f"the first part has {length} bits instead of {usual}: the number of rows or columns "
            "allows no other split"
        )
    return length


def check_limits(parts: tuple[Hasher, Hasher], limits: tuple[int | None, ...], rows: Rows) -> None:
    """Raise if a part has more bits than the rows allow, before the first one is fitted."""
    for part, most, name in zip(parts, limits, ("first", "second"), strict=True):
        if most is not None and part.n_bits > most:
            raise ValueError(
                f"the {name} part, {type(part).__name__}: n_bits={part.n_bits} exceeds the {most} bits that "
                f"{len(rows)} rows of {rows.width} columns allow: lower n_bits, or give more rows"
            )
