"""The classes that may appear in a model file, by the name that the file uses.

The names are part of the file format and never change. When a class is renamed or moved, only its import
path changes here: old files still load, and new files look the same. A new estimator needs one line.
"""

from importlib import import_module
from typing import Any

from manihash.files.errors import ModelFileError

# name in the file -> module:class. Models are what load() returns.
MODELS = {
    "AGH": "manihash.hashers.agh:AGH",
    "BRE": "manihash.hashers.bre:BRE",
    "BridgedHasher": "manihash.hashers.bridged:BridgedHasher",
    "CGH": "manihash.hashers.cgh:CGH",
    "E2LSH": "manihash.hashers.e2lsh:E2LSH",
    "Hybrid": "manihash.hashers.hybrid:Hybrid",
    "IMH": "manihash.hashers.imh:IMH",
    "ITQ": "manihash.hashers.itq:ITQ",
    "InductiveEmbedding": "manihash.induction:InductiveEmbedding",
    "KLSH": "manihash.hashers.klsh:KLSH",
    "KSH": "manihash.hashers.ksh:KSH",
    "LDAHash": "manihash.hashers.ldahash:LDAHash",
    "LSH": "manihash.hashers.lsh:LSH",
    "MahalanobisLSH": "manihash.hashers.mahalanobis:MahalanobisLSH",
    "PCAH": "manihash.hashers.pcah:PCAH",
    "ProductQuantizer": "manihash.hashers.product:ProductQuantizer",
    "RMMH": "manihash.hashers.rmmh:RMMH",
    "SH": "manihash.hashers.sh:SH",
    "SKLSH": "manihash.hashers.sklsh:SKLSH",
    "SSH": "manihash.hashers.ssh:SSH",
    "STH": "manihash.hashers.sth:STH",
    "SignQuantizer": "manihash.hashers.sign:SignQuantizer",
    "SpH": "manihash.hashers.sph:SpH",
    "SupervisedIMH": "manihash.hashers.supervised_imh:SupervisedIMH",
}
# Parts are parameters or fitted values of models: base sets, embeddings, neighbor finders, rotations.
PARTS = {
    "CoarseNeighbors": "manihash.base.neighbors:CoarseNeighbors",
    "DiffusionMaps": "manihash.embeddings.diffusion:DiffusionMaps",
    "ElasticEmbedding": "manihash.embeddings.ee:ElasticEmbedding",
    "ExactNeighbors": "manihash.base.neighbors:ExactNeighbors",
    "GraphAffinity": "manihash.base.affinity:GraphAffinity",
    "ITQRotation": "manihash.rotation:ITQRotation",
    "Isomap": "manihash.embeddings.isomap:Isomap",
    "KMeansBase": "manihash.base.kmeans:KMeansBase",
    "LLE": "manihash.embeddings.lle:LLE",
    "LaplacianEigenmaps": "manihash.embeddings.le:LaplacianEigenmaps",
    "LargeBase": "manihash.base.large:LargeBase",
    "ListedNeighbors": "manihash.base.listed:ListedNeighbors",
    "PCA": "manihash.embeddings.pca:PCA",
    "RandomBase": "manihash.base.kmeans:RandomBase",
    "ReducedBase": "manihash.base.reduced:ReducedBase",
    "ReducedNeighbors": "manihash.base.reduced_neighbors:ReducedNeighbors",
    "RelaxedLE": "manihash.embeddings.relaxed_le:RelaxedLE",
    "SNE": "manihash.embeddings.sne:SNE",
    "TSNE": "manihash.embeddings.tsne:TSNE",
}


def model_class(name: str) -> Any:
    """The class of a model, by its name in the file."""
    if name in PARTS:
        raise ModelFileError(f"the file holds a {name}, which is part of a model and not a model")
    return _import(name, MODELS)


def part_class(name: str) -> Any:
    """The class of a part of a model, by its name in the file."""
    return _import(name, MODELS | PARTS)


def name_in_files(cls: type) -> str | None:
    """The name of a class in model files; None if files cannot hold it."""
    place = f"{cls.__module__}:{cls.__qualname__}"
    return next((name for name, path in (MODELS | PARTS).items() if path == place), None)


def _import(name: str, table: dict[str, str]) -> Any:
    """The class that a table has under a name."""
    if name not in table:
        raise ModelFileError(
            f"the file names the class {name!r}, which this version of manihash does not have: "
            "upgrade manihash"
        )
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(module), attribute)
