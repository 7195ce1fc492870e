"""Search of a store with a shortlist that is ranked by the original vectors."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from manihash.search import Rerank
from manihash.stores.store import Store
from manihash.types import Codes, Ids


def search_reranked(store: Store, queries: Codes, k: int, rerank: Rerank) -> tuple[NDArray[np.float64], Ids]:
    """Distances and ids (q, min(k, rows)) of a store, with the same shortlists as those of a HammingIndex."""
    rerank.check(len(queries))
    n = store.count()
    if not n or not len(queries):
        return rerank.best([], min(k, n))
    return rerank.best(_shortlists(store, queries, min(rerank.length(k), n)), min(k, n))


def _shortlists(store: Store, queries: Codes, size: int) -> Iterator[Ids]:
    """The rows of the nearest buckets of each query: only a bucket at the largest distance can be cut."""
    distances, ids = store.search(queries, size)
    last = distances == distances[:, -1:]
    tied = np.unique(ids[last])
    codes, number = np.unique(store.get(tied), axis=0, return_inverse=True)
    lims, _, rows = store.within(codes, 0)
    for found, far in zip(ids, last, strict=True):
        shortlist = [found[~far]]
        buckets = number.ravel()[np.searchsorted(tied, found[far])]
        for bucket in dict.fromkeys(buckets.tolist()):  # in the order of their lowest ids
            if sum(map(len, shortlist)) < size:
                shortlist.append(rows[lims[bucket] : lims[bucket + 1]])
        yield np.concatenate(shortlist)
