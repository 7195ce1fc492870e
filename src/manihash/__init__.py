"""Compact binary codes that keep the neighbors of the manifold that vectors lie on.

The public names are imported when they are first used, so that ``import manihash`` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from manihash.advice.choice import Choice
    from manihash.advice.choose import choose
    from manihash.base.affinity import GraphAffinity
    from manihash.base.kmeans import KMeansBase, RandomBase
    from manihash.base.large import LargeBase
    from manihash.base.listed import ListedNeighbors
    from manihash.base.neighbors import CoarseNeighbors, ExactNeighbors
    from manihash.base.reduced import ReducedBase
    from manihash.base.reduced_neighbors import ReducedNeighbors
    from manihash.checks import BadRowsError
    from manihash.code_layout import CodeLayout
    from manihash.codes import pack, unpack
    from manihash.compute.fused import gpu_precision
    from manihash.datasets import load_dataset
    from manihash.embeddings.diffusion import DiffusionMaps
    from manihash.embeddings.ee import ElasticEmbedding
    from manihash.embeddings.isomap import Isomap
    from manihash.embeddings.le import LaplacianEigenmaps
    from manihash.embeddings.lle import LLE
    from manihash.embeddings.pca import PCA
    from manihash.embeddings.relaxed_le import RelaxedLE
    from manihash.embeddings.sne import SNE
    from manihash.embeddings.tsne import TSNE
    from manihash.evaluation.harness import Curves, Evaluation, evaluate
    from manihash.evaluation.truth import EuclideanTruth, LabelTruth
    from manihash.export.compare import OnnxComparison, compare_onnx
    from manihash.export.encoder import export_onnx
    from manihash.files.errors import DataFileError, MissingDataError, ModelFileError
    from manihash.files.formats import open_vectors
    from manihash.hashers._hasher import Hasher
    from manihash.hashers.agh import AGH
    from manihash.hashers.bre import BRE
    from manihash.hashers.bridged import BridgedHasher
    from manihash.hashers.cgh import CGH
    from manihash.hashers.collapse import CollapsedCodesWarning
    from manihash.hashers.e2lsh import E2LSH
    from manihash.hashers.hybrid import Hybrid
    from manihash.hashers.imh import IMH
    from manihash.hashers.itq import ITQ
    from manihash.hashers.klsh import KLSH
    from manihash.hashers.ksh import KSH
    from manihash.hashers.ldahash import LDAHash
    from manihash.hashers.lsh import LSH
    from manihash.hashers.mahalanobis import MahalanobisLSH
    from manihash.hashers.pcah import PCAH
    from manihash.hashers.product import ProductQuantizer
    from manihash.hashers.recipes import recipe, recipe_names
    from manihash.hashers.rmmh import RMMH
    from manihash.hashers.sh import SH
    from manihash.hashers.sign import SignQuantizer
    from manihash.hashers.sklsh import SKLSH
    from manihash.hashers.sph import SpH
    from manihash.hashers.ssh import SSH
    from manihash.hashers.sth import STH
    from manihash.hashers.supervised_imh import SupervisedIMH
    from manihash.induction import InductiveEmbedding
    from manihash.living.bridge_quality import BridgeQuality
    from manihash.living.drift import Drift
    from manihash.living.refit import Refit
    from manihash.living.update import Update
    from manihash.opening import load
    from manihash.rotation import ITQRotation
    from manihash.rows.torch import on_device
    from manihash.search import (
        DamagedIndexError,
        Duplicates,
        HammingIndex,
        IndexStats,
        KnownRows,
        QueryPlan,
        RadiusStep,
        Rescore,
        VerifiedDuplicates,
        dedup,
        known_rows,
        prepare_tables,
        verified_duplicates,
    )
    from manihash.search.lsh_tables import LSHTables
    from manihash.search.model_index import Index
    from manihash.search.tensor_index import TensorIndex
    from manihash.stores import (
        ExportResult,
        Store,
        StoreConnectionError,
        StoreError,
        StoreNotFoundError,
        create_store,
        export_codes,
        open_store,
    )

_HOMES = {
    "choose": "manihash.advice.choose",
    "Choice": "manihash.advice.choice",
    "IMH": "manihash.hashers.imh",
    "Hasher": "manihash.hashers._hasher",
    "Hybrid": "manihash.hashers.hybrid",
    "recipe": "manihash.hashers.recipes",
    "recipe_names": "manihash.hashers.recipes",
    "load": "manihash.opening",
    "LSH": "manihash.hashers.lsh",
    "PCAH": "manihash.hashers.pcah",
    "ITQ": "manihash.hashers.itq",
    "ProductQuantizer": "manihash.hashers.product",
    "SH": "manihash.hashers.sh",
    "SignQuantizer": "manihash.hashers.sign",
    "BRE": "manihash.hashers.bre",
    "STH": "manihash.hashers.sth",
    "AGH": "manihash.hashers.agh",
    "SpH": "manihash.hashers.sph",
    "SKLSH": "manihash.hashers.sklsh",
    "KLSH": "manihash.hashers.klsh",
    "E2LSH": "manihash.hashers.e2lsh",
    "RMMH": "manihash.hashers.rmmh",
    "CGH": "manihash.hashers.cgh",
    "MahalanobisLSH": "manihash.hashers.mahalanobis",
    "LSHTables": "manihash.search.lsh_tables",
    "KSH": "manihash.hashers.ksh",
    "SSH": "manihash.hashers.ssh",
    "LDAHash": "manihash.hashers.ldahash",
    "SupervisedIMH": "manihash.hashers.supervised_imh",
    "InductiveEmbedding": "manihash.induction",
    "BridgedHasher": "manihash.hashers.bridged",
    "BridgeQuality": "manihash.living.bridge_quality",
    "Drift": "manihash.living.drift",
    "Update": "manihash.living.update",
    "Refit": "manihash.living.refit",
    "GraphAffinity": "manihash.base.affinity",
    "KMeansBase": "manihash.base.kmeans",
    "RandomBase": "manihash.base.kmeans",
    "LargeBase": "manihash.base.large",
    "ReducedBase": "manihash.base.reduced",
    "CoarseNeighbors": "manihash.base.neighbors",
    "ExactNeighbors": "manihash.base.neighbors",
    "ListedNeighbors": "manihash.base.listed",
    "ReducedNeighbors": "manihash.base.reduced_neighbors",
    "ITQRotation": "manihash.rotation",
    "TSNE": "manihash.embeddings.tsne",
    "SNE": "manihash.embeddings.sne",
    "ElasticEmbedding": "manihash.embeddings.ee",
    "LaplacianEigenmaps": "manihash.embeddings.le",
    "RelaxedLE": "manihash.embeddings.relaxed_le",
    "LLE": "manihash.embeddings.lle",
    "Isomap": "manihash.embeddings.isomap",
    "DiffusionMaps": "manihash.embeddings.diffusion",
    "PCA": "manihash.embeddings.pca",
    "Index": "manihash.search.model_index",
    "CodeLayout": "manihash.code_layout",
    "HammingIndex": "manihash.search",
    "DamagedIndexError": "manihash.search",
    "Duplicates": "manihash.search",
    "IndexStats": "manihash.search",
    "QueryPlan": "manihash.search",
    "Rescore": "manihash.search",
    "RadiusStep": "manihash.search",
    "VerifiedDuplicates": "manihash.search",
    "dedup": "manihash.search",
    "KnownRows": "manihash.search",
    "known_rows": "manihash.search",
    "prepare_tables": "manihash.search",
    "verified_duplicates": "manihash.search",
    "TensorIndex": "manihash.search.tensor_index",
    "pack": "manihash.codes",
    "unpack": "manihash.codes",
    "on_device": "manihash.rows.torch",
    "gpu_precision": "manihash.compute.fused",
    "BadRowsError": "manihash.checks",
    "CollapsedCodesWarning": "manihash.hashers.collapse",
    "open_store": "manihash.stores",
    "create_store": "manihash.stores",
    "export_codes": "manihash.stores",
    "ExportResult": "manihash.stores",
    "Store": "manihash.stores",
    "StoreError": "manihash.stores",
    "StoreNotFoundError": "manihash.stores",
    "StoreConnectionError": "manihash.stores",
    "export_onnx": "manihash.export.encoder",
    "compare_onnx": "manihash.export.compare",
    "OnnxComparison": "manihash.export.compare",
    "evaluate": "manihash.evaluation.harness",
    "Evaluation": "manihash.evaluation.harness",
    "Curves": "manihash.evaluation.harness",
    "LabelTruth": "manihash.evaluation.truth",
    "EuclideanTruth": "manihash.evaluation.truth",
    "load_dataset": "manihash.datasets",
    "open_vectors": "manihash.files.formats",
    "ModelFileError": "manihash.files.errors",
    "DataFileError": "manihash.files.errors",
    "MissingDataError": "manihash.files.errors",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'manihash' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
