"""Codes as those of one product quantizer of FAISS: its centers, and the vectors that it ranks codes by.

A byte of signs is a field whose 256 centers are the corners of a cube, and a byte of fields of a product
quantizer is a field with its own centers. FAISS's squared distance of a query's vector to a code is then the
distance of ``CodeLayout.tables``, plus a number that depends on the query alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.code_layout import CodeLayout
from manihash.code_tables import bounded
from manihash.codes import n_bytes, unpack
from manihash.types import Floats


def faiss_vectors(values: ArrayLike, layout: CodeLayout) -> NDArray[np.float32]:
    """Compute the vectors by which the FAISS file of ``manihash export`` ranks codes.

    A code with fields of a product quantizer is exported to FAISS as a code of an ``IndexPQ``, and these are
    its queries. The value y_j of a sign becomes min(|y_j|, rms) / rms / 2 with the sign of y_j, where rms is
    the root mean square of the query's values of signs. The coordinates of the product quantizer are
    multiplied by √(weight * scale). Each group of 8 signs and each byte of fields is filled up with zeros to
    the same number of columns. ``IndexPQ.add`` encodes such vectors to the codes of ``encode``.

    Parameters
    ----------
    values : array-like of shape (q, n_values)
        Real values of the queries, as ``embed`` returns them.
    layout : CodeLayout
        The parts of the codes, ``hasher.layout_``. They must have fields of a product quantizer.

    Returns
    -------
    ndarray of shape (q, D), float32
        Vectors with as many columns as the FAISS index.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import ProductQuantizer
    >>> from manihash.search import faiss_vectors
    >>> X = np.random.default_rng(0).standard_normal((1000, 32))
    >>> hasher = ProductQuantizer(n_bits=32, random_state=0).fit(X)
    >>> faiss_vectors(hasher.embed(X[:5]), hasher.layout_).shape
    (5, 32)
    """
    return vectors_of(values, FieldShape.of(layout, 8), layout)


@dataclass(frozen=True)
class FieldShape:
    """Fields of ``bits`` bits that a code is cut into: those of signs, those of fields, and their columns."""

    bits: int
    signs: int
    fields: int
    per_field: int  # columns that a field of the product quantizer part fills
    columns: int  # of every field, filled up with zeros

    @classmethod
    def of(cls, layout: CodeLayout, bits: int) -> "FieldShape":
        """The shape of split codes with fields; ``bits`` is a multiple of those of the layout's fields."""
        if layout.codebooks is None:
            raise ValueError(
                "the codes have no fields of a product quantizer: FAISS ranks codes of signs with its binary "
                "indexes, which take the codes themselves"
            )
        f, _, w = layout.codebooks.shape
        joined = bits // layout.bits_per_field
        signs, fields = n_bytes(layout.look_up_bits) * 8 // bits, -(-f // joined)
        if bits < 8:  # a byte is filled up, as codes are
            fields += fields % 2
        return cls(bits, signs, fields, joined * w, max(joined * w, bits if signs else 0))


def vectors_of(values: ArrayLike, shape: FieldShape, layout: CodeLayout) -> NDArray[np.float32]:
    """As ``faiss_vectors``, for fields of any shape."""
    given = layout.checked_values(values)
    q, signs = len(given), bounded(given[:, : layout.look_up_bits], scaled=True) / 2
    coordinates = given[:, layout.look_up_bits :] * _factor(layout)
    found = np.zeros((q, shape.signs + shape.fields, shape.columns), np.float32)
    if shape.signs:
        found[:, : shape.signs, : shape.bits] = _filled(signs, shape.signs, shape.bits)
    found[:, shape.signs :, : shape.per_field] = _filled(coordinates, shape.fields, shape.per_field)
    return found.reshape(q, -1)


def centers_of(shape: FieldShape, layout: CodeLayout) -> NDArray[np.float32]:
    """The centers (signs + fields, 2^bits, columns) of all fields of split codes."""
    assert layout.codebooks is not None
    f, c, w = layout.codebooks.shape
    number = np.arange(2**shape.bits)
    found = np.zeros((shape.signs + shape.fields, len(number), shape.columns), np.float32)
    # Unused bits and fields, which are 0 in codes, are at 0 in vectors: other values of them are farther.
    bits = unpack(number.astype(np.uint8)[:, None], 8)[:, 8 - shape.bits :]
    used = np.arange(shape.signs * shape.bits).reshape(shape.signs, 1, shape.bits) < layout.look_up_bits
    found[: shape.signs, :, : shape.bits] = np.where(used, bits - 0.5, bits) if shape.signs else 0
    joined = shape.bits // layout.bits_per_field
    books = np.zeros((shape.fields * joined, c, w))
    books[f:, 1:, 0] = 1
    books[:f] = layout.codebooks * _factor(layout)
    for i in range(joined):
        label = number >> shape.bits - layout.bits_per_field * (i + 1) & c - 1
        found[shape.signs :, :, i * w : (i + 1) * w] = books[i::joined, label]
    return found


def _filled(values: Floats, fields: int, columns: int) -> Floats:
    """Values (q, v) as (q, fields, columns), filled up with zeros."""
    filled = np.zeros((len(values), fields * columns))
    filled[:, : values.shape[1]] = values
    return filled.reshape(len(values), fields, columns)


def _factor(layout: CodeLayout) -> float:
    """Factor of coordinates and centers, whose square is that of distances of the part of fields."""
    return float(np.sqrt(layout.weight * layout.scale)) if layout.has_two_parts else 1.0
