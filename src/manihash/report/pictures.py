"""Pictures of rows: small images as PNG, in tiles and in rows of answers with the wrong ones marked."""

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.report.page import Html, image, tag

Image = NDArray[np.uint8]

_COARSE = 16  # images of fewer pixels a side are drawn as squares, not smoothed


def png(pixels: Image) -> bytes:
    """A PNG file of gray (h, w) or RGB (h, w, 3) pixels."""
    height, width = pixels.shape[:2]
    color = 0 if pixels.ndim == 2 else 2
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    lines = np.zeros((height, 1 + pixels[0].size), np.uint8)  # each begins with its filter, 0 for none
    lines[:, 1:] = pixels.reshape(height, -1)
    chunks = (
        _chunk(b"IHDR", header),
        _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
        _chunk(b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def ink(row: NDArray[Any], shape: Sequence[int]) -> Image:
    """A row of gray values as dark ink on white paper: zero is white, the row's largest value black."""
    values = np.asarray(row, np.float64).reshape(shape)
    largest = values.max()
    return np.round(255 * (1 - values / (largest if largest > 0 else 1))).clip(0, 255).astype(np.uint8)


def tile(pixels: Image, alt: str, *, class_: str = "tile") -> Html:
    """One picture."""
    coarse = "coarse" if min(pixels.shape[:2]) < _COARSE else "fine"
    return tag("span", image("png", png(pixels), alt, class_=coarse), class_=class_)


def tiles(pictures: Iterable[Image], alt: str) -> Html:
    """Many pictures side by side, described together."""
    return tag("span", *(tile(pixels, "") for pixels in pictures), class_="tiles", role="img", aria_label=alt)


@dataclass(frozen=True, eq=False)
class Answers:
    """What one way of searching returned for a query, nearest first."""

    by: str
    pictures: Sequence[Image]
    names: Sequence[str]  # the class of each
    right: Sequence[bool]


def answers_head(*titles: str) -> Html:
    """The line above rows of answers: the query's title first."""
    return tag("div", *(tag("span", title) for title in titles), class_="answers head", aria_hidden="true")


def answers_row(query: Image, name: str, found: Iterable[Answers]) -> Html:
    """A query and its answers by several ways: a wrong one has a red frame, a cross, and says so."""
    return tag(
        "div",
        tile(query, f"query of class {name}", class_="tile query"),
        *(_answers(answers) for answers in found),
        class_="answers",
    )


def _answers(answers: Answers) -> Html:
    shown = (
        tile(pixels, f"class {name}", class_="tile")
        if right
        else tile(pixels, f"class {name}, wrong", class_="tile wrong")
        for pixels, name, right in zip(answers.pictures, answers.names, answers.right, strict=True)
    )
    return tag("div", tag("span", answers.by, class_="by"), tag("div", *shown, class_="ten"))
