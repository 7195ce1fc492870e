"""Base sets, the search for their nearest points, and affinities from all rows."""

from manihash.base.affinity import GraphAffinity
from manihash.base.kmeans import KMeansBase, RandomBase
from manihash.base.large import LargeBase
from manihash.base.listed import ListedNeighbors
from manihash.base.neighbors import CoarseNeighbors, ExactNeighbors
from manihash.base.reduced import ReducedBase, ReducedNeighbors

__all__ = [
    "CoarseNeighbors",
    "ExactNeighbors",
    "GraphAffinity",
    "KMeansBase",
    "LargeBase",
    "ListedNeighbors",
    "RandomBase",
    "ReducedBase",
    "ReducedNeighbors",
]
