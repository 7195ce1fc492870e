"""The map: rows in two dimensions by an inductive embedding, so that new rows get a place, too."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.base.kmeans import KMeansBase
from manihash.embeddings.tsne import TSNE
from manihash.induction import InductiveEmbedding
from manihash.rows import rows_of
from manihash.types import Floats

_MOST_BASE, _ROWS_PER_BASE_POINT = 1000, 5
_PERPLEXITY = 30
_SAMPLE = 50_000  # rows that the base set of the map is learned from
_BLOCK = 2**16
_STEPS = 2**16 - 1


@dataclass(frozen=True, eq=False)
class Plane:
    """A fitted map; places are in a square whose sides go from 0 to 1."""

    embedding: InductiveEmbedding
    normalize: bool
    low: NDArray[np.float64]  # (2,), the corner of the square in the embedding
    side: float

    def places(self, X: Any) -> Floats:
        """Places (n, 2) of rows, seen or unseen."""
        rows = rows_of(X, normalize=self.normalize)
        found = [
            self.embedding.transform(rows.block(start, min(start + _BLOCK, len(rows))))
            for start in range(0, len(rows), _BLOCK)
        ]
        return (np.concatenate(found) - self.low) / self.side


def fit_plane(X: Any, *, normalize: bool, seed: int) -> tuple[Plane, NDArray[np.uint16]]:
    """The map of rows, and their places in steps of 1 / 65,535 of the square (n, 2).

    ``normalize`` is that of the hasher, so that map and codes see the same rows.
    """
    rng = np.random.default_rng(seed)
    n = int(X.shape[0])
    sample = np.sort(rng.choice(n, _SAMPLE, replace=False)) if n > _SAMPLE else np.arange(n)
    rows = rows_of(X, normalize=normalize).take(sample)
    size = max(min(_MOST_BASE, n // _ROWS_PER_BASE_POINT), min(n, 50))
    embedding = InductiveEmbedding(
        2,
        base=KMeansBase(size),
        embedding=TSNE(perplexity=min(_PERPLEXITY, max(2, (size - 1) // 3))),
        n_neighbors=min(5, size),
        random_state=seed,
    ).fit(rows)
    raw = Plane(embedding, normalize, np.zeros(2), 1.0).places(X)
    low, high = raw.min(axis=0).astype(np.float64), raw.max(axis=0).astype(np.float64)
    side = float((high - low).max()) * 1.04 or 1.0
    plane = Plane(embedding, normalize, (low + high) / 2 - side / 2, side)
    steps = np.round((raw - plane.low) / side * _STEPS).clip(0, _STEPS)
    return plane, steps.astype(np.uint16)
