"""Codes as pictures: a square per bit, with marks at the bits in which a code differs from a query's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.codes import n_bytes, unpack
from manihash.pages import pictures
from reproduction.demo.measure import Demo, ShownCodes

_GAP = 1.0  # between the parts of a code, in squares
_SIDE = 0.84  # of a square
_NEAREST, _QUERIES = 8, 2  # answers shown with their codes, and queries


@dataclass(frozen=True)
class CodeDrawing:
    """A code as paths of an SVG whose unit is a square, as hexadecimal digits, and in words."""

    width: float
    zeros: str
    first: str
    second: str
    marks: str
    digits: str
    about: str


def draw(codes: ShownCodes, code: NDArray[np.uint8], query: NDArray[np.uint8] | None = None) -> CodeDrawing:
    """A code (b,); compared with the code of a query, the bits that differ are marked."""
    n_bits, first = codes.layout.n_bits, codes.layout.look_up_bits
    bits = unpack(code[None], n_bits)[0].astype(bool)
    x = np.arange(n_bits) + _GAP * (np.arange(n_bits) >= first)
    differ = np.zeros_like(bits) if query is None else bits != unpack(query[None], n_bits)[0].astype(bool)
    in_first = np.arange(n_bits) < first
    return CodeDrawing(
        width=float(x[-1]) + 1,
        zeros=_squares(x[~bits]),
        first=_squares(x[bits & in_first]),
        second=_squares(x[bits & ~in_first]),
        marks="".join(f"M{at + 0.08:g} -.9h.84l-.42 .7z" for at in x[differ]),
        digits=_digits(code, codes),
        about="" if query is None else _distance(codes, int(differ[:first].sum()), int(differ[first:].sum())),
    )


def _squares(x: NDArray[Any]) -> str:
    return "".join(f"M{at + (1 - _SIDE) / 2:g} .08h{_SIDE}v{_SIDE}h-{_SIDE}z" for at in x)


def _digits(code: NDArray[np.uint8], codes: ShownCodes) -> str:
    """The code in hexadecimal, with a space between its parts if it falls between two digits."""
    layout = codes.layout
    text = code[: n_bytes(layout.n_bits)].tobytes().hex()
    if not layout.has_two_parts or layout.look_up_bits % 4:
        return text
    return f"{text[: layout.look_up_bits // 4]} {text[layout.look_up_bits // 4 :]}"


def _distance(codes: ShownCodes, first: int, second: int) -> str:
    """The distance to the query in words."""
    layout = codes.layout
    if layout.has_fields:
        return f"{first} bits of the first part differ"
    if layout.is_hamming:
        return f"{first} bits differ"
    return f"{first} + {layout.weight:g} × {second} = {first + layout.weight * second:g}"


def codes_of_queries(demo: Demo) -> list[dict[str, Any]]:
    """The queries shown, with their codes."""
    setup, codes = demo.setup, demo.codes
    return [
        {
            "pixels": pictures.ink(setup.data.X_test[query], setup.shape),
            "alt": f"query of class {setup.y_test[query]}",
            "class": "tile query",
            "code": draw(codes, codes.queries[query]),
        }
        for query in demo.shown_queries
    ]


def nearest_codes(demo: Demo) -> list[list[dict[str, Any]]]:
    """For the first queries shown: the query with its code, and its nearest rows with theirs."""
    setup, codes, queries = demo.setup, demo.codes, codes_of_queries(demo)
    found = []
    for query, own in list(zip(demo.shown_queries, queries, strict=True))[:_QUERIES]:
        answers = zip(demo.by_code.ids[query, :_NEAREST], demo.by_code.relevant[query], strict=False)
        rows = [
            {
                "pixels": pictures.ink(setup.data.X_train[i], setup.shape),
                "alt": f"class {setup.y_train[i]}" + ("" if relevant else ", wrong"),
                "class": "tile" if relevant else "tile wrong",
                "code": draw(codes, codes.rows[i], codes.queries[query]),
            }
            for i, relevant in answers
        ]
        found.append([own, *rows])
    return found
