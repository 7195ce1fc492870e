"""Read safetensors files with numpy alone: models are loaded where nothing else is installed.

A file is the length of its header (8 bytes, little-endian), the header (JSON) and the numbers. The header
gives for each array its type, its shape and its place among the numbers.
"""

import json
import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_TYPES = {
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"I{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    "BOOL": "?",
}
_MAX_HEADER = 100_000_000  # as in safetensors


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file; raise a ValueError if it is damaged."""
    with open(path, "rb") as file:
        header, size = _header(file, path.stat().st_size)
        header.pop("__metadata__", None)
        arrays, end = {}, 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            arrays[name], end = _array(file, entry, end, size)
        if end != size:
            raise ValueError(f"it holds {size} bytes of numbers, expected {end}")
    return arrays


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file."""
    with open(path, "rb") as file:
        return _header(file, path.stat().st_size)[0].get("__metadata__", {})


def _header(file: BinaryIO, file_size: int) -> tuple[dict[str, Any], int]:
    """The header of an open file, and the number of bytes that follow it."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(_MAX_HEADER, file_size - 8):
        raise ValueError("its first bytes are not the length of a header")
    header = json.loads(file.read(length))
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__", {}), dict):
        raise ValueError("its header does not describe arrays")
    return header, file_size - 8 - length


def _array(file: BinaryIO, entry: dict[str, Any], start: int, size: int) -> tuple[NDArray[Any], int]:
    """The array of an open file that starts at byte ``start`` of ``size``, and its end."""
    dtype, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"])
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"an array has the shape {shape}")
    count = math.prod(shape)
    end = start + count * dtype.itemsize
    if entry["data_offsets"] != [start, end] or end > size:
        raise ValueError(f"an array is at {entry['data_offsets']} of {size} bytes, expected {[start, end]}")
    return np.fromfile(file, dtype, count).reshape(shape).astype(dtype.newbyteorder("="), copy=False), end
