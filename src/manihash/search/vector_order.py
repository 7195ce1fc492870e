"""Whether vectors to rerank with belong to the rows that they stand for: the codes of some of them tell."""

from typing import Any

import numpy as np

from manihash.compute import backend
from manihash.hashers._hasher import Hasher
from manihash.types import Codes, Ints

_CHECKED = 32  # vectors that are encoded
_DIFFERENT = 0.1  # share of the bits in which a code of a vector with rounded values may differ


def some_of(n: int) -> Ints:
    """Positions of some of n rows, ascending."""
    return np.unique(np.linspace(0, max(n - 1, 0), min(n, _CHECKED)).astype(np.int64))


def first_misplaced(hasher: Hasher, vectors: Any, places: Ints, codes: Codes) -> int | None:
    """The position of the first of some places whose vector does not have the code that is stored.

    None unless most of them are so: rows may have been updated. Also None if the vectors cannot be encoded,
    as those of an old embedding model by the bridge of a new one.
    """
    bridged = type(hasher)._as_stored is not Hasher._as_stored
    if bridged or not len(places) or tuple(vectors.shape[1:]) != (hasher.n_features_in_,):
        return None
    own = as_array(hasher.encode(np.asarray(vectors[places])))
    differing = np.unpackbits(codes ^ own, axis=1).sum(axis=1) > _DIFFERENT * hasher.n_bits_
    return int(differing.argmax()) if differing.mean() > 0.5 else None


def as_array(X: Any) -> Any:
    """An array of numpy, computed if it is one of dask, copied if it is a tensor."""
    X = X.compute() if hasattr(X, "compute") else X
    return np.asarray(backend(X).to_numpy(X)) if hasattr(X, "dtype") else np.asarray(X)
