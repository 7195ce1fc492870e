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


class _TooLargeError(ValueError):
    """Raised for an image with more pixels than allowed."""


def read(content: bytes, side: int, most_pixels: int | None = None) -> Image:
    """The pixels of an image file, gray or RGB, at most ``side`` wide and high; raise if it is no image.

    An image with more than ``most_pixels`` is refused before it is decoded.
    """
    module = extra("PIL.Image", "plot")
    try:
        with module.open(BytesIO(content)) as opened:
            if most_pixels is not None and opened.width * opened.height > most_pixels:
                raise _TooLargeError(
                    f"the image has {opened.width:,} x {opened.height:,} pixels, more than {most_pixels:,}: "
                    "give a smaller one"
                )
            opened.draft("RGB", (2 * side, 2 * side))  # JPEG files are decoded smaller, which is faster
            kept = opened.convert("L" if opened.mode in ("1", "L", "I", "I;16", "F") else "RGB")
    except _TooLargeError:
        raise
    except (OSError, ValueError, SyntaxError, module.DecompressionBombError) as error:
        raise ValueError("the file is not an image that can be read: give a PNG or JPEG file") from error
    return smaller(np.asarray(kept), side)


def smaller(pixels: Image, side: int) -> Image:
    """The pixels, reduced to at most ``side`` on the longer side."""
    if max(pixels.shape[:2]) <= side:
        return pixels
    h, w = pixels.shape[:2]
    scale = side / max(h, w)
    return _resampled(pixels, (max(1, round(h * scale)), max(1, round(w * scale))))


def resized(pixels: Image, shape: Sequence[int], *, gray: bool) -> Image:
    """The pixels with this height and width, as gray (h, w) or RGB (h, w, 3)."""
    module = extra("PIL.Image", "plot")
    converted = module.fromarray(pixels).convert("L" if gray else "RGB")
    return _resampled(np.asarray(converted), shape)


def sheet(pixels: Sequence[Image], shape: Sequence[int], columns: int) -> Image:
    """Pictures of one shape side by side in lines, as one RGB picture, or gray if all are gray."""
    gray = all(each.ndim == 2 for each in pixels)
    fitting = [resized(each, shape, gray=gray) for each in pixels]
    lines = -(-len(fitting) // columns)
    h, w = shape
    out = np.full((lines * h, columns * w) if gray else (lines * h, columns * w, 3), 255, np.uint8)
    for i, each in enumerate(fitting):
        y, x = i // columns * h, i % columns * w
        out[y : y + h, x : x + w] = each
    return out


def webp(pixels: Image, quality: int) -> bytes:
    """A WebP file of gray or RGB pixels."""
    file = BytesIO()
    extra("PIL.Image", "plot").fromarray(pixels).save(file, "WEBP", quality=quality)
    return file.getvalue()


def _resampled(pixels: Image, shape: Sequence[int]) -> Image:
    module = extra("PIL.Image", "plot")
    if tuple(pixels.shape[:2]) == tuple(shape):
        return pixels
    return np.asarray(module.fromarray(pixels).resize((shape[1], shape[0]), module.Resampling.LANCZOS))
