"""Search among packed codes by Hamming distance."""

from manihash.search.duplicates import Duplicates, dedup
from manihash.search.errors import DamagedIndexError
from manihash.search.faiss_peers import FaissIndex, FaissQuantizer
from manihash.search.index import HammingIndex
from manihash.search.known import KnownRows, known_rows, prepare_tables
from manihash.search.radius_curve import RadiusStep
from manihash.search.rescore import Rescore
from manihash.search.routes import QueryPlan
from manihash.search.stats import IndexStats
from manihash.search.tables import asymmetric_distances
from manihash.search.verified import VerifiedDuplicates, verified_duplicates

__all__ = [
    "DamagedIndexError",
    "Duplicates",
    "FaissIndex",
    "FaissQuantizer",
    "HammingIndex",
    "IndexStats",
    "KnownRows",
    "QueryPlan",
    "RadiusStep",
    "Rescore",
    "VerifiedDuplicates",
    "asymmetric_distances",
    "dedup",
    "known_rows",
    "prepare_tables",
    "verified_duplicates",
]
