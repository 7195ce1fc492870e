"""Search among packed codes by Hamming distance, or by the distance of their layout."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manihash.errors import DamagedIndexError
from manihash.search.byte_vectors import ByteVectors
from manihash.search.duplicates import Duplicates, dedup
from manihash.search.faiss_peers import FaissIndex, FaissQuantizer
from manihash.search.faiss_vectors import faiss_vectors
from manihash.search.index import HammingIndex
from manihash.search.known import KnownRows, known_rows, prepare_tables
from manihash.search.radius_curve import RadiusStep
from manihash.search.rescore import Rescore
from manihash.search.routes import QueryPlan
from manihash.search.stats import IndexStats
from manihash.search.tables import asymmetric_distances
from manihash.search.verified import VerifiedDuplicates, verified_duplicates

if TYPE_CHECKING:
    from manihash.search.lsh_tables import LSHTables
    from manihash.search.model_index import Index
    from manihash.search.tensor_index import TensorIndex

# These need estimators, which take a second to load, or torch.
_LATER = {"Index": "model_index", "LSHTables": "lsh_tables", "TensorIndex": "tensor_index"}

__all__ = [
    "ByteVectors",
    "DamagedIndexError",
    "Duplicates",
    "FaissIndex",
    "FaissQuantizer",
    "HammingIndex",
    "Index",
    "IndexStats",
    "KnownRows",
    "LSHTables",
    "QueryPlan",
    "RadiusStep",
    "Rescore",
    "TensorIndex",
    "VerifiedDuplicates",
    "asymmetric_distances",
    "dedup",
    "faiss_vectors",
    "known_rows",
    "prepare_tables",
    "verified_duplicates",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
