"""What belongs to rows besides their codes: vectors, labels, images and texts, as bytes of a journal."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

VECTORS, LABELS, IMAGES, TEXTS = NAMES = ("vectors", "labels", "images", "texts")
_LENGTH = struct.Struct("<I")
_TYPES = ("<f4", "<f8")


@dataclass(frozen=True, eq=False)
class RowFields:
    """Fields of n rows; None for a field that is not given, and None inside it for a row without a value.

    ``vectors`` are rows (n, d) of float32 or float64, ``labels`` strings and numbers, ``images`` PNG files.
    """

    vectors: NDArray[Any] | None = None
    labels: Sequence[str | float | None] | None = None
    images: Sequence[bytes | None] | None = None
    texts: Sequence[str | None] | None = None

    def check(self, n: int) -> None:
        """Raise ``ValueError`` unless each field has one value for each of n rows."""
        for name, values in self.given().items():
            if len(values) != n:
                raise ValueError(f"got {n} rows and {len(values)} {name}: give one for each row, or null")

    def given(self) -> dict[str, Any]:
        """The fields that are given, by name."""
        return {name: values for name in NAMES if (values := getattr(self, name)) is not None}

    def to_bytes(self) -> bytes:
        """The fields as bytes: a JSON header with its length, then the vectors and the images."""
        header: dict[str, Any] = {}
        parts = []
        if self.vectors is not None:
            dtype = _TYPES[self.vectors.dtype == np.float64]
            header[VECTORS] = [dtype, self.vectors.shape[1]]
            parts.append(np.ascontiguousarray(self.vectors, dtype).tobytes())
        for name in (LABELS, TEXTS):
            if (values := getattr(self, name)) is not None:
                header[name] = list(values)
        if self.images is not None:
            header[IMAGES] = [None if image is None else len(image) for image in self.images]
            parts += [image for image in self.images if image is not None]
        text = json.dumps(header, allow_nan=False).encode()
        return b"".join([_LENGTH.pack(len(text)), text, *parts])

    @classmethod
    def of_bytes(cls, content: bytes, n: int) -> "RowFields":
        """The fields of n rows that ``to_bytes`` has written; raise ``ValueError`` if they are not that."""
        if len(content) < _LENGTH.size:
            raise ValueError("the fields of rows are incomplete")
        start = _LENGTH.size + _LENGTH.unpack_from(content)[0]
        header = json.loads(content[_LENGTH.size : start])
        vectors = images = None
        if VECTORS in header:
            dtype, width = header[VECTORS]
            if dtype not in _TYPES:
                raise ValueError("vectors have an unknown type")
            flat = (
                np.frombuffer(content, dtype, n * int(width), start) if n * int(width) else np.empty(0, dtype)
            )
            vectors, start = flat.reshape(n, int(width)), start + flat.nbytes
        if IMAGES in header:
            images = []
            for size in header[IMAGES]:
                images.append(None if size is None else content[start : start + size])
                start += size or 0
        if start != len(content):
            raise ValueError("the fields of rows have another length")
        found = cls(vectors, header.get(LABELS), images, header.get(TEXTS))
        found.check(n)
        return found
