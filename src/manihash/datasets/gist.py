"""GIST: the magnitude of oriented band-pass filters, averaged over a 4 x 4 grid of an image.

512-D gray: 4 scales x 8 orientations x 16 blocks of the mean of RGB. 960-D color: three planes x 20 filters
(8, 8 and 4 orientations) x 16 blocks. Every image is scaled to 32 x 32 by area first. The numbers are
ordered by plane, then by filter, then by block, column by column.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import finite_block
from manihash.progress import advance
from manihash.types import Floats

SIDE = 32
GRID = 4
GRAY_ORIENTATIONS = (8, 8, 8, 8)
COLOR_ORIENTATIONS = (8, 8, 4)
CONTRAST_BORDER = 5
FILTER_BORDER = 32
IMAGES_PER_BLOCK = 32


def gist(images: ArrayLike, *, color: bool = False) -> Floats:
    """Compute GIST descriptors of images.

    Parameters
    ----------
    images : array-like of shape (n, h, w, 3) or (n, h, w)
        The images, with pixels from 0 to 255. Gray descriptors do not depend on that scale.
    color : bool, default=False
        Whether to describe the three color planes instead of their mean.

    Returns
    -------
    ndarray of shape (n, 512) or (n, 960)
        The descriptors as float32, 960 numbers per image if ``color``.
    """
    pixels = _check_images(images, color)
    orientations = COLOR_ORIENTATIONS if color else GRAY_ORIENTATIONS
    n, planes = len(pixels), 3 if color else 1
    descriptors = np.empty((n, planes * sum(orientations) * GRID**2), np.float32)
    for start in range(0, n, IMAGES_PER_BLOCK):
        stop = min(start + IMAGES_PER_BLOCK, n)
        block = _planes(pixels[start:stop], color)
        descriptors[start:stop] = _block_means(_normalize_contrast(block), orientations)
        advance("GIST", stop, n)
    return descriptors


def _check_images(images: ArrayLike, color: bool) -> NDArray[Any]:
    """The images as an array, if they are valid."""
    pixels = np.asanyarray(images)
    expected = "(n, h, w, 3)" if color else "(n, h, w, 3) or (n, h, w)"
    fits = (pixels.ndim == 4 and pixels.shape[3] == 3) or (pixels.ndim == 3 and not color)
    if not fits or 0 in pixels.shape[1:]:
        raise ValueError(
            f"got images of shape {pixels.shape}, expected {expected}: stack them into one array"
        )
    if pixels.dtype.kind not in "buif":
        raise ValueError(f"got images of type {pixels.dtype}: give pixels as numbers from 0 to 255")
    finite_block(pixels.reshape(len(pixels), math.prod(pixels.shape[1:])))
    if pixels.size and pixels.min() < 0:
        raise ValueError(f"got a pixel of {pixels.min()}: give pixels as numbers from 0 to 255")
    return pixels


def _planes(pixels: NDArray[Any], color: bool) -> Floats:
    """Planes (b, p, 32, 32) of images: the three colors, or their mean stretched to 0..255."""
    block = pixels.astype(np.float32)
    planes = np.moveaxis(block, 3, 1) if block.ndim == 4 else block[:, None]
    if not color:
        planes = planes.mean(axis=1, keepdims=True)
    scaled = area_scaled(planes)
    if not color:
        scaled -= scaled.min(axis=(2, 3), keepdims=True)
        top = scaled.max(axis=(2, 3), keepdims=True)
        scaled *= 255 / np.where(top > 0, top, 1)
    return scaled


def area_scaled(planes: Floats) -> Floats:
    """Planes (..., 32, 32) of planes (..., h, w): each pixel is the mean of the area that it replaces."""
    height, width = planes.shape[-2:]
    scaled: Floats = np.matmul(np.matmul(_area_weights(height), planes), _area_weights(width).T)
    return scaled


@lru_cache(maxsize=8)
def _area_weights(length: int) -> Floats:
    """Weights (32, length) of ``length`` pixels in the 32 pixels that replace them."""
    if length == SIDE:
        return np.eye(SIDE, dtype=np.float32)
    edges = np.arange(SIDE + 1) * length / SIDE
    pixel = np.arange(length)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return (np.maximum(overlap, 0) * SIDE / length).astype(np.float32)


def _normalize_contrast(planes: Floats) -> Floats:
    """log(1 + x) minus its low frequencies, divided by 0.2 + the local deviation of the mean plane."""
    x = _mirrored(np.log1p(planes), CONTRAST_BORDER)
    low = _low_pass(x.shape[-1])
    x -= np.fft.ifft2(np.fft.fft2(x) * low).real
    energy = x.mean(axis=1, keepdims=True) ** 2
    deviation = np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(energy) * low)))
    x /= 0.2 + deviation
    return x[..., CONTRAST_BORDER:-CONTRAST_BORDER, CONTRAST_BORDER:-CONTRAST_BORDER]


def _mirrored(planes: Floats, border: int) -> Floats:
    """Planes (b, p, h + 2 border, w + 2 border), mirrored at the edges."""
    return np.pad(planes, ((0, 0), (0, 0), (border, border), (border, border)), mode="symmetric")


def _frequencies(n: int) -> NDArray[np.floating]:
    """The frequencies (n,) of the discrete Fourier transform, in cycles per image."""
    return np.fft.fftfreq(n, 1 / n)


@lru_cache(maxsize=1)
def _low_pass(n: int, cut: float = 4.0) -> Floats:
    """Gaussian transfer function (n, n) that is 1/2 at ``cut`` cycles per image."""
    f = _frequencies(n)
    return np.exp2(-(f[:, None] ** 2 + f**2) / cut**2).astype(np.float32)


@lru_cache(maxsize=2)
def _gabor(n: int, orientations: tuple[int, ...]) -> Floats:
    """Filters (f, n, n) with transfer exp(-3.5 (f/n / (0.3 / 1.85^i) - 1)² - 2 (16 o² / 32²) pi theta²)."""
    f = _frequencies(n)
    radius = np.hypot(f[:, None], f)
    angle = np.arctan2(f[:, None], f)
    filters = []
    for i, o in enumerate(orientations):
        band = -3.5 * (radius / n / (0.3 / 1.85**i) - 1) ** 2
        for j in range(o):
            theta = angle + np.pi * j / o
            theta = np.where(theta > np.pi, theta - 2 * np.pi, theta)
            filters.append(np.exp(band - 2 * (16 * o**2 / 32**2) * np.pi * theta**2))
    return np.stack(filters).astype(np.float32)


@lru_cache(maxsize=1)
def _inner_rows(n: int) -> NDArray[np.complex64]:
    """The rows (32, n) of the inverse Fourier transform that are inside the mirrored border.

    A product with them is faster than the whole transform, of which eight ninths would be discarded.
    """
    place = np.arange(FILTER_BORDER, FILTER_BORDER + SIDE)
    return (np.exp(2j * np.pi * np.outer(place, np.arange(n)) / n) / n).astype(np.complex64)


def _block_means(planes: Floats, orientations: tuple[int, ...]) -> Floats:
    """Mean magnitudes (b, p * filters * 16) of the responses in each block of planes (b, p, 32, 32)."""
    spectrum = np.fft.fft2(_mirrored(planes, FILTER_BORDER)).astype(np.complex64, copy=False)
    n = spectrum.shape[-1]
    rows = _inner_rows(n)
    means = []
    for transfer in _gabor(n, orientations):
        magnitude = np.abs(rows @ (spectrum * transfer) @ rows.T)
        blocks = magnitude.reshape(*planes.shape[:2], GRID, SIDE // GRID, GRID, SIDE // GRID)
        means.append(blocks.mean(axis=(3, 5)).swapaxes(2, 3))
    return np.stack(means, axis=2).reshape(len(planes), -1)
