"""Search among packed codes by Hamming distance."""

from manihash.search.buckets import DamagedIndexError
from manihash.search.duplicates import Duplicates, dedup
from manihash.search.index import HammingIndex
from manihash.search.rescore import Rescore, asymmetric_distances
from manihash.search.stats import Stats

__all__ = [
    "DamagedIndexError",
    "Duplicates",
    "HammingIndex",
    "Rescore",
    "Stats",
    "asymmetric_distances",
    "dedup",
]
