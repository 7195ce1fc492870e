"""Search among packed codes by Hamming distance."""

from manihash.search.index import HammingIndex

__all__ = ["HammingIndex"]
