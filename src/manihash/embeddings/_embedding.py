"""The contract of an embedding: points (m, d) in, coordinates (m, r) out."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.estimator import checked
from manihash.rows.torch import rows_of
from manihash.types import Floats


class Embedding(BaseEstimator):
    """Embeds the points it is given, and no others: subclasses write ``_embed``.

    ``embedding_`` (m, r) keeps the coordinates. New points are placed by ``InductiveEmbedding``.
    """

    takes_tensors = False

    n_components: int
    n_features_in_: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Embed the points of X; the coordinates are ``embedding_``."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """The coordinates (m, r) of the points of X (m, d)."""
        points = self._points(X)
        self.embedding_ = self._embed(points)
        return self.embedding_

    def _points(self, X: Any) -> Floats:
        r = checks.positive_int(self.n_components, "n_components")
        rows = rows_of(checked(self, X, fitting=True, least=2))
        points = rows.take(np.arange(len(rows))) if rows.device is None else rows.block(0, len(rows))
        if r > len(points) - 1:
            raise too_many(r, len(points) - 1, f"{len(points)} points")
        return points

    def _embed(self, B: Floats) -> Floats:
        raise TypeError(f"{type(self).__name__} embeds nothing")


def too_many(r: int, most: int, what: str) -> ValueError:
    """The error where more dimensions are asked of an embedding than it can give."""
    return ValueError(
        f"{r} dimensions (bits) asked of an embedding of {what}, which gives at most {most}: "
        f"lower n_bits (n_components; --bits) or {checks.LARGER_BASE}"
    )
