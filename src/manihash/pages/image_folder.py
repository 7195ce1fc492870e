"""The image files of a folder, as one array of small images."""

import os
from pathlib import Path

import numpy as np

from manihash.datasets.gist import SIDE, area_scaled
from manihash.errors import DataFileError
from manihash.pages import pictures
from manihash.progress import advance
from manihash.types import Floats

SUFFIXES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"}
_ANY_SIZE = 2**16


def image_paths(folder: str | os.PathLike[str]) -> list[Path]:
    """The image files of a folder in the order of their names; raise if there is none."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder at {folder}: give a folder with one image per row")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise ValueError(f"{folder} holds no image ({', '.join(sorted(SUFFIXES))})")
    return paths


def small_images(paths: list[Path]) -> Floats:
    """The images of files as RGB (n, 32, 32, 3), scaled by area: GIST describes them like the originals."""
    images = np.empty((len(paths), SIDE, SIDE, 3), np.float32)
    for i, path in enumerate(paths):
        try:
            pixels = pictures.read(path.read_bytes(), _ANY_SIZE).astype(np.float32)
        except ValueError as error:
            raise DataFileError(f"{path}: {error}, or remove it") from error
        planes = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, 2, 0)
        images[i] = np.moveaxis(area_scaled(planes), 0, 2)
        advance("reading images", i + 1, len(paths))
    return images
