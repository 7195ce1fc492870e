"""What a row looks like: an image of an array or of a folder, or its values as a strip of colors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manihash.pages import pictures
from manihash.pages.image_folder import image_paths
from manihash.pages.pictures import Image
from manihash.rows import rows_of
from manihash.types import Floats

SIDE = 96  # longest side of a thumbnail in pixels
_SAMPLE = 2000  # rows from which the colors of strips are scaled
_COLUMNS = 16  # of a strip, at most
# Low values are blue, high ones orange; both ends are distinct with any color vision.
_LOW, _MIDDLE, _HIGH = np.array([0, 90, 160]), np.array([247, 247, 247]), np.array([200, 80, 0])


class Thumbnails(Protocol):
    """Pictures of n rows."""

    def __len__(self) -> int:
        """Number of rows."""

    def pixels(self, row: int) -> Image:
        """Gray (h, w) or RGB (h, w, 3) pixels of a row."""


class ArrayImages:
    """Images (n, h, w) or (n, h, w, channels) of an array: bytes, or numbers that are scaled to bytes.

    Fractions are scaled for each image, from its smallest value to its largest: with one scale for all
    images, a single bright one would make the others black. With ``ink``, the smallest value is white and the
    largest one black, as handwriting is stored.
    """

    def __init__(self, images: Any, *, ink: bool = False) -> None:
        shape = tuple(images.shape)
        if len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3, 4)) or 0 in shape:
            raise ValueError(
                f"the images have the shape {shape}: expected (n, height, width) for gray images, or "
                "(n, height, width, 3) for colors"
            )
        if images.dtype.kind not in "buif":
            raise ValueError(f"the images hold values of type {images.dtype}: expected numbers")
        self.images, self.ink = images, ink
        self.scale = _scale(images)

    def __len__(self) -> int:
        return len(self.images)

    def pixels(self, row: int) -> Image:
        """The image of a row, made smaller if it is large."""
        values = np.nan_to_num(np.asarray(self.images[row], np.float64))
        if self.images.dtype.kind == "f":
            low, high = float(values.min()), float(values.max())
            low = low if low < high else min(0.0, low)
            values = (values - low) * (255 / (high - low or 1.0))
        else:
            values *= self.scale
        drawn = np.round(values).clip(0, 255).astype(np.uint8)
        if drawn.ndim == 3:
            drawn = drawn[:, :, 0] if drawn.shape[2] == 1 else drawn[:, :, :3]
        return pictures.smaller(255 - drawn if self.ink else drawn, SIDE)

    def vector(self, image: Image) -> Floats:
        """The row of pixels (d,) that an image becomes, in the numbers of this array."""
        shape = self.images.shape[1:]
        fitting = pictures.resized(image, shape[:2], gray=len(shape) == 2 or shape[2] == 1)
        values = (255 - fitting if self.ink else fitting).astype(np.float64) / self.scale
        if len(shape) == 3 and shape[2] == 4:
            values = np.concatenate([values, np.full((*values.shape[:2], 1), 255 / self.scale)], axis=2)
        return values.reshape(-1)


class FolderImages:
    """The images of a folder in the order of their names, or those of a list of files."""

    def __init__(self, folder: Path | Sequence[Path]) -> None:
        self.paths = image_paths(folder) if isinstance(folder, Path) else list(folder)

    def __len__(self) -> int:
        return len(self.paths)

    def pixels(self, row: int) -> Image:
        """The image of a row, made smaller if it is large; gray with a cross if it cannot be read."""
        try:
            return pictures.read(self.paths[row].read_bytes(), SIDE)
        except (OSError, ValueError):
            return _unreadable()


class ValueStrips:
    """The values of a row as squares of color: blue below the mean of a column, orange above it."""

    def __init__(self, X: Any) -> None:
        self.rows = rows_of(X)
        self._scaling: tuple[Floats, Floats] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def pixels(self, row: int) -> Image:
        """The values of a row, in lines of the same length."""
        if self._scaling is None:
            step = max(1, len(self.rows) // _SAMPLE)
            some = self.rows.take(np.arange(0, len(self.rows), step)[:_SAMPLE])
            self._scaling = some.mean(axis=0), np.maximum(some.std(axis=0), 1e-12)
        mean, spread = self._scaling
        scores = np.clip((self.rows.take([row])[0] - mean) / (2 * spread), -1, 1)
        return _colored(_averaged(scores))


def is_pixels(images: ArrayImages, X: Any, sample: Sequence[int]) -> bool:
    """Whether the vectors are the pixels of the images, so that an uploaded image has a vector."""
    width = int(np.prod(images.images.shape[1:]))
    if width != X.shape[1]:
        return False
    rows = rows_of(X).take(np.asarray(sample))
    pixels = np.stack([np.asarray(images.images[i], rows.dtype).reshape(-1) for i in sample])
    return bool(np.allclose(rows, pixels, rtol=1e-5, atol=1e-6))


def _scale(images: Any) -> float:
    """The factor that makes bytes of the values of images: 1 for bytes, 255 for numbers up to 1."""
    if images.dtype == np.uint8 and _largest(images) > 16:
        return 1.0
    if images.dtype.kind == "b":
        return 255.0
    largest = _largest(images)
    return 255.0 if largest <= 1 else 1.0 if images.dtype.kind in "iu" and largest > 16 else 255.0 / largest


def _largest(images: Any) -> float:
    """The largest value of a sample of images."""
    step = max(1, len(images) // 200)
    largest = float(np.nanmax(np.asarray(images[::step], np.float64), initial=0.0))
    return largest if np.isfinite(largest) and largest > 0 else 1.0


def _averaged(scores: Floats) -> NDArray[Any]:
    """Scores (d,) as lines (h, w) of at most 16 values, of which each is the mean of neighbors if d > 256."""
    most = _COLUMNS**2
    if len(scores) > most:
        scores = np.array([part.mean() for part in np.array_split(scores, most)])
    w = min(len(scores), _COLUMNS)
    h = -(-len(scores) // w)
    return np.concatenate([scores, np.zeros(h * w - len(scores))]).reshape(h, w)


def _colored(scores: NDArray[Any]) -> Image:
    """Scores from -1 to 1 (h, w) as colors (h, w, 3)."""
    s = scores[..., None]
    end = np.where(s < 0, _LOW, _HIGH)
    return np.round(_MIDDLE + np.abs(s) * (end - _MIDDLE)).astype(np.uint8)


def _unreadable() -> Image:
    """A gray picture with a cross, for an image file that cannot be read."""
    drawn = np.full((32, 32), 225, np.uint8)
    i = np.arange(6, 26)
    drawn[i, i] = drawn[i, 31 - i] = 120
    return drawn
