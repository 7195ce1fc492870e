"""Uploaded .npy files, of which only the header is trusted to allocate nothing."""

import io
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEADER_ERRORS = (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError, OverflowError)


def array_of_npy(body: bytes) -> NDArray[Any]:
    """The real numbers of an .npy file; nothing is allocated before its size is checked."""
    file = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(file)
    except _HEADER_ERRORS as error:
        raise ValueError("the body is not an .npy file that numpy.save wrote") from error
    if any(isinstance(length, bool) for length in shape):  # numpy lets True pass
        raise ValueError("the body is not an .npy file that numpy.save wrote")
    if dtype.kind not in "fiub":
        raise ValueError(f"the array has shape {shape} and type {dtype}: expected real numbers")
    content = memoryview(body)[file.tell() :]
    if min(shape, default=0) < 0 or len(content) != prod(shape) * dtype.itemsize:
        raise ValueError("the .npy file is truncated, or has more bytes than its array")
    array = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran_order else "C")
    return np.ascontiguousarray(array, dtype.newbyteorder("=")).reshape(shape)
