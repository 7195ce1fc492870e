"""The part of a FAISS file that is an ``IndexPQ``: centers and codes, read and written without the library.

Codes with fields of a product quantizer are such codes as a whole (``search/faiss_vectors.py``). manihash
writes the layout of the codes behind all that FAISS reads.
"""

import struct
from typing import BinaryIO

import numpy as np

from manihash.code_layout import CodeLayout
from manihash.search.faiss_vectors import FieldShape, centers_of
from manihash.types import Codes

QUANTIZER, ID_MAPS = b"IxPq", (b"IxMp", b"IxM2")
# Kind, dimensions, rows, two unused numbers, trained, metric.
HEADER = struct.Struct("<4siqqq?i")
_UNUSED, _L2 = 2**20, 1
_SHAPE = struct.Struct("<QQQ")  # dimensions, fields, bits of a field
_TAIL = struct.Struct("<i?i")  # kind of search, whether signs are encoded, radius of polysemous codes
_LENGTH = struct.Struct("<Q")
_LAYOUT = struct.Struct("<8sqddqqq")  # "layout", look_up_bits, weight, scale, shape of the codebooks
_LAYOUT_NAME = b"layout\0\0"
_ROWS_PER_WRITE = 2**16


def write_quantizer(file: BinaryIO, layout: CodeLayout, codes: Codes) -> None:
    """Write an ``IndexIDMap`` and its ``IndexPQ``; the ids follow."""
    centers = centers_of(FieldShape.of(layout, 8), layout)
    fields, _, columns = centers.shape
    for kind in (ID_MAPS[0], QUANTIZER):
        file.write(HEADER.pack(kind, fields * columns, len(codes), _UNUSED, _UNUSED, True, _L2))
    file.write(_SHAPE.pack(fields * columns, fields, 8))
    file.write(_LENGTH.pack(centers.size) + centers.astype("<f4").tobytes())
    file.write(_LENGTH.pack(len(codes) * fields))
    for i in range(0, len(codes), _ROWS_PER_WRITE):
        file.write(layout.split(np.asarray(codes[i : i + _ROWS_PER_WRITE])).tobytes())
    file.write(_TAIL.pack(0, False, 0))


def write_layout(file: BinaryIO, layout: CodeLayout) -> None:
    """Write the layout of the codes."""
    assert layout.codebooks is not None
    numbers = layout.look_up_bits, float(layout.weight), float(layout.scale)
    file.write(_LAYOUT.pack(_LAYOUT_NAME, *numbers, *layout.codebooks.shape))
    file.write(layout.codebooks.astype("<f4").tobytes())


def read_header(file: BinaryIO) -> tuple[bytes, int, int, int]:
    """Return kind, dimensions, rows and metric of the index that starts here."""
    raw = file.read(HEADER.size)
    if len(raw) < HEADER.size:
        raise ValueError("the file is too short")
    kind, d, n, _, _, _, metric = HEADER.unpack(raw)
    return kind, d, n, metric


def read_quantizer(file: BinaryIO, size: int) -> tuple[int, int, int]:
    """Return the rows and bytes of the codes of the ``IndexPQ`` that starts here, and where they start."""
    kind, d, n, metric = read_header(file)
    if kind != QUANTIZER or metric != _L2:
        raise ValueError(f"it has an index of kind {kind!r}, expected {QUANTIZER!r} and squared distances")
    raw = file.read(_SHAPE.size)
    dimensions, fields, bits = _SHAPE.unpack(raw) if len(raw) == _SHAPE.size else (0, 0, 0)
    if bits != 8 or dimensions != d or not 0 < fields <= d <= size or d % fields or not 0 <= n <= size:
        raise ValueError(f"{fields} fields of {bits} bits in {d} dimensions, expected fields of 8 bits")
    _skip(file, size, 256 * d, 4)
    start = _skip(file, size, n * fields, 1)
    file.seek(_TAIL.size, 1)
    return n, fields, start


def read_layout(file: BinaryIO, size: int, n_bits: int) -> CodeLayout:
    """Return the layout that ``write_layout`` wrote."""
    raw = file.read(_LAYOUT.size)
    if len(raw) < _LAYOUT.size or not raw.startswith(_LAYOUT_NAME):
        raise ValueError("it does not hold the layout of the codes")
    _, look_up_bits, weight, scale, f, c, w = _LAYOUT.unpack(raw)
    if min(f, c, w) < 1 or max(f, c, w) > size or 4 * f * c * w > size - file.tell():
        raise ValueError(f"codebooks of shape {(f, c, w)} in a file of {size:,} bytes")
    codebooks = np.frombuffer(file.read(4 * f * c * w), "<f4").astype(np.float32).reshape(f, c, w)
    return CodeLayout(n_bits, look_up_bits, weight, codebooks, scale)


def _skip(file: BinaryIO, size: int, length: int, item: int) -> int:
    """Return where an array of `length` items starts, and move behind it."""
    raw = file.read(_LENGTH.size)
    start = file.tell()
    if len(raw) < _LENGTH.size or _LENGTH.unpack(raw)[0] != length or start + length * item > size:
        raise ValueError(f"{length:,} items expected in a file of {size:,} bytes")
    file.seek(start + length * item)
    return start
