"""Search among packed codes by Hamming distance, or by the distance of their layout."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manihash.errors import DamagedIndexError
from manihash.search.byte_vectors import ByteVectors
from manihash.search.duplicates import (
    Duplicates,
    KnownRows,
    RadiusStep,
    VerifiedDuplicates,
    dedup,
    known_rows,
    prepare_tables,
    verified_duplicates,
)
from manihash.search.faiss_baselines import FaissIndex, FaissQuantizer
from manihash.search.faiss_vectors import faiss_vectors
from manihash.search.hamming_index import HammingIndex
from manihash.search.index import Index
from manihash.search.rerank import Rerank
from manihash.search.routes import QueryPlan
from manihash.search.stats import IndexStats
from manihash.search.tables import asymmetric_distances

if TYPE_CHECKING:
    from manihash.search.lsh_tables import LSHTables
    from manihash.search.tensor_index import TensorIndex

# These need estimators, which take a second to load, or torch.
_LATER = {"LSHTables": "lsh_tables", "TensorIndex": "tensor_index"}

Rescore = Rerank  # the former name, for one version

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
    "Rerank",
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
