"""Pictures of rows: vectors of pixels as gray images, and images as PNG files."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import extra

Image = NDArray[np.uint8]  # gray (h, w) or RGB (h, w, 3)

_COARSE = 16  # images with fewer pixels per side are drawn as squares, not smoothed


def png(pixels: Image) -> bytes:
    """A PNG file of gray (h, w) or RGB (h, w, 3) pixels."""
    file = BytesIO()
    extra("PIL.Image", "plot").fromarray(np.ascontiguousarray(pixels, np.uint8)).save(
        file, "PNG", compress_level=9
    )
    return file.getvalue()


def ink(row: NDArray[Any], shape: Sequence[int]) -> Image:
    """A row of gray values as dark ink on white: zero is white, the row's largest value black."""
    values = np.asarray(row, np.float64).reshape(shape)
    largest = values.max()
    return np.round(255 * (1 - values / (largest if largest > 0 else 1))).clip(0, 255).astype(np.uint8)


def is_coarse(pixels: Image) -> bool:
    """Whether an image has so few pixels that it should not be smoothed."""
    return bool(min(pixels.shape[:2]) < _COARSE)
