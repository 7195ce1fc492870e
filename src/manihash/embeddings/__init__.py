"""Embeddings of the base set, one file per method."""

from manihash.embeddings.diffusion import DiffusionMaps
from manihash.embeddings.ee import ElasticEmbedding
from manihash.embeddings.isomap import Isomap
from manihash.embeddings.le import LaplacianEigenmaps
from manihash.embeddings.lle import LLE
from manihash.embeddings.pca import PCA
from manihash.embeddings.relaxed_le import RelaxedLE
from manihash.embeddings.sne import SNE
from manihash.embeddings.tsne import TSNE

__all__ = [
    "LLE",
    "PCA",
    "SNE",
    "TSNE",
    "DiffusionMaps",
    "ElasticEmbedding",
    "Isomap",
    "LaplacianEigenmaps",
    "RelaxedLE",
]
