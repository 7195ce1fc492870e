"""idx, the format of MNIST: four magic bytes, the shape, then the values, big-endian; gzipped or not."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from manihash.errors import DataFileError

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MAX_GZIP_RATIO = 1032


def read_idx(path: Path, *, zipped: bool) -> NDArray[Any]:
    """The array of an idx file; memory-mapped if it is not gzipped."""
    try:
        with gzip.open(path) if zipped else open(path, "rb") as file:
            dtype, shape, offset = _read_header(path, file)
            size = math.prod(shape) * dtype.itemsize
            _check_size(path, size, offset, zipped)
            if not zipped and size:
                return np.memmap(path, dtype, "r", offset, shape)
            content = bytearray(file.read(size + 1))
        if len(content) != size:
            raise EOFError(
                f"expected {size} bytes of shape {shape}, got {'fewer' if len(content) < size else 'more'}"
            )
        return np.frombuffer(content, dtype).reshape(shape)
    except DataFileError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise DataFileError(
            f"{path} is not a complete idx file ({error}): copy or download it again"
        ) from error


def _read_header(path: Path, file: BinaryIO | gzip.GzipFile) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Type and shape of the array, and the length of the header in bytes."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPES:
        raise DataFileError(
            f"{path} is not an idx file: it starts with {magic!r}, not with two zeros and a type"
        )
    n_dims = magic[3]
    sizes = file.read(4 * n_dims)
    if len(sizes) < 4 * n_dims:
        raise DataFileError(f"{path} is truncated inside its header: copy or download it again")
    return np.dtype(TYPES[magic[2]]), struct.unpack(f">{n_dims}I", sizes), 4 + 4 * n_dims


def _check_size(path: Path, size: int, offset: int, zipped: bool) -> None:
    """Raise if the file cannot hold what its header promises, before any memory is allocated."""
    on_disk = path.stat().st_size
    possible = on_disk * MAX_GZIP_RATIO if zipped else on_disk - offset
    if size > possible or (not zipped and size < possible):
        raise DataFileError(
            f"{path} is truncated or damaged: its header promises {size} bytes of values, and the file has "
            f"{on_disk} bytes{' gzipped' if zipped else ''}. Copy or download it again"
        )


def write_idx(part: Path, array: NDArray[Any], *, zipped: bool) -> None:
    """Write an array to ``part`` as idx, gzipped if ``zipped``."""
    codes = {np.dtype(name).newbyteorder("="): code for code, name in TYPES.items()}
    code = codes.get(array.dtype.newbyteorder("="))
    if code is None or array.ndim > 255 or max(array.shape, default=0) >= 2**32:
        raise ValueError(
            f"got an array of type {array.dtype} and shape {array.shape}: idx files hold "
            f"{', '.join(map(str, codes))}. Convert it with astype, or write .npy"
        )
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content = header + array.astype(TYPES[code], copy=False).tobytes()
    part.write_bytes(gzip.compress(content, mtime=0) if zipped else content)
