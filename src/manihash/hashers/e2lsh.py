"""Locality-sensitive hashing by p-stable distributions (Datar, Immorlica, Indyk and Mirrokni, 2004)."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._kernel import look_through, neighbor_distance
from manihash.rows import Rows
from manihash.types import Floats


class E2LSH(Hasher):
    """Bits "is the bin ⌊(aᵀx + b) / w⌋ even?", a of the Cauchy (p = 1) or normal (p = 2) distribution.

    b is uniform in [0, w). aᵀ(x - y) is distributed as |x - y|_p times one entry of a, so how often two
    points share a bin, or the parity of their bins, depends on their l_p distance over w alone. The real
    value is the distance of aᵀx + b to the nearest border of a bin, over w: positive in even bins, else
    negative.

    After ``fit``: ``projection_`` a (d, r), ``offset_`` b (r,), ``width_`` w.

    Parameters
    ----------
    p: 2 for Euclidean distance, 1 for the sum of absolute differences.
    width: w; None for four times the mean l_p distance of a row to its 50th nearest in a sample of 2,000.
    """

    def __init__(
        self,
        n_bits: int = 64,
        p: int = 2,
        width: float | None = None,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.p = p
        self.width = width
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        if self.p not in (1, 2):
            raise ValueError(f"p must be 1 (Cauchy) or 2 (Gaussian), not {self.p!r}")
        if self.width is not None:
            checks.positive_number(self.width, "width")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        look_through(rows)
        draw = rng.standard_normal if self.p == 2 else rng.standard_cauchy
        self.projection_ = draw((rows.width, self.n_bits))
        shift = rng.uniform(0, 1, self.n_bits)
        # The paper takes w = 4 where the distance sought is 1.
        self.width_ = 4 * neighbor_distance(rows, rng, self.p) if self.width is None else float(self.width)
        self.offset_ = shift * self.width_

    def bins(self, X: Any) -> Floats:
        """The bins ⌊(aᵀx + b) / w⌋ (n, r) themselves, whole numbers: what a bit keeps the parity of."""
        rows, model = self._rows_to_map(X), self._now()
        return rows.map_blocks(lambda block: np.floor(model._places(block)), self.n_bits_, rows.dtype, "bins")

    def _places(self, X: Floats) -> Floats:
        """(aᵀx + b) / w, (b, r)."""
        Y = numpy_backend.product(X, self.projection_.T.astype(X.dtype, copy=False))
        Y += self.offset_.astype(X.dtype, copy=False)
        Y /= X.dtype.type(self.width_)
        return Y

    def _embed(self, X: Floats) -> Floats:
        return to_border(self._places(X))


def to_border(places: Floats) -> Floats:
    """Distance to the nearest whole number, positive where the floor is even, else negative; continuous."""
    half = places.dtype.type(0.5)
    return half - np.abs((places + half) % 2 - 1)
