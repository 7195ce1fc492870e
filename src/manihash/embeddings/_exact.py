"""The loss of a descent over all pairs of points, in numpy.

The (m, m) matrix is processed in chunks of rows that fit into a core's cache. Their size depends on m only,
so the number of threads does not change the result.
"""

from functools import partial
from typing import Protocol

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.embeddings._descent import Each
from manihash.types import Floats

_CHUNK_NUMBERS = 2**18
# For fewer points, an iteration ends before other threads have started.
_THREADED = 500


class Objective(Protocol):
    """A method's loss, as a function of the squared distances E (m, m) of the embedded points.

    S is ``factor`` times the result of ``forces``. E is inf for a point and itself.
    """

    factor: float

    def kernel(self, E: Floats) -> Floats:
        """Turn rows E (b, m) into rows of the kernel K; return the sums (b,) that normalize them."""

    def forces(self, K: Floats, part: slice, sums: Floats, share: float) -> Floats:
        """Return rows (b, m) of attraction minus ``share`` times repulsion; ``sums`` is (m,)."""

    def loss(self, E: Floats) -> float:
        """Return the loss; may overwrite E."""


class ExactLoss:
    """An objective over all pairs of points."""

    pace = 1.0

    def __init__(self, objective: Objective, m: int) -> None:
        self.objective, self.threaded = objective, m >= _THREADED
        chunks = 2 * -(-m * m // (2 * _CHUNK_NUMBERS))
        rows = -(-m // chunks)
        self.parts = [slice(a, min(a + rows, m)) for a in range(0, m, rows)]
        self.pairs: _Pairs | None = None

    def gradient(self, Y: Floats, exaggeration: float, each: Each = map) -> Floats:
        """Return Σ_j S_ij (y_i - y_j), (m, r)."""
        each = each if self.threaded else map
        pairs = self._pairs(Y)
        sums = np.concatenate(list(each(partial(self._kernel, pairs), self.parts)))
        of_part = partial(self._gradient, pairs, sums, 1 / exaggeration)
        gradient = np.concatenate(list(each(of_part, self.parts)))
        gradient *= self.objective.factor * exaggeration
        return gradient

    def value(self, Y: Floats, each: Each = map) -> float:
        """Return the loss at Y."""
        pairs = self._pairs(Y)
        for part in self.parts:
            pairs.distances(part)
        return self.objective.loss(pairs.E)

    def _pairs(self, Y: Floats) -> "_Pairs":
        self.pairs = self.pairs or _Pairs(Y)
        self.pairs.place(Y)
        return self.pairs

    def _kernel(self, pairs: "_Pairs", part: slice) -> Floats:
        return self.objective.kernel(pairs.distances(part))

    def _gradient(self, pairs: "_Pairs", sums: Floats, share: float, part: slice) -> Floats:
        S = self.objective.forces(pairs.E, part, sums, share)
        gradient = pairs.Y[part] * row_sums(S)[:, None]
        gradient -= S @ pairs.Y
        return gradient


class _Pairs:
    """|y_i - y_j|² for all pairs by one product of [-2Y, |y|², 1] and [Y, 1, |y|²], in one matrix E."""

    def __init__(self, Y: Floats) -> None:
        m, r = Y.shape
        self.left, self.right = np.ones((2, m, r + 2), Y.dtype)
        self.E = np.empty((m, m), Y.dtype)

    def place(self, Y: Floats) -> None:
        """Set the points Y (m, r)."""
        squared = numpy_backend.squared_norms(Y)
        np.multiply(Y, -2, out=self.left[:, :-2])
        self.left[:, -2] = squared
        self.right[:, :-2] = Y
        self.right[:, -1] = squared
        self.Y = Y

    def distances(self, part: slice) -> Floats:
        """Return rows of E, inf for a point and itself."""
        E = np.matmul(self.left[part], self.right.T, out=self.E[part])
        E.reshape(-1)[part.start :: len(self.E) + 1] = np.inf
        return E


def row_sums(S: Floats) -> Floats:
    """Return the sum of each row (b,), by BLAS, which is five times faster than numpy here."""
    return S @ np.ones(S.shape[1], S.dtype)
