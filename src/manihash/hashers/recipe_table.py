"""The table of recipes: every method under a fixed name, with the settings that the paper compares."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from manihash.base.affinity import GraphAffinity
from manihash.base.kmeans import KMeansBase, RandomBase
from manihash.base.large import LargeBase
from manihash.base.listed import ListedNeighbors
from manihash.base.neighbors import CoarseNeighbors
from manihash.base.reduced import ReducedBase
from manihash.embeddings.diffusion import DiffusionMaps
from manihash.embeddings.ee import ElasticEmbedding
from manihash.embeddings.isomap import Isomap
from manihash.embeddings.le import LaplacianEigenmaps
from manihash.embeddings.lle import LLE
from manihash.embeddings.pca import PCA
from manihash.embeddings.relaxed_le import RelaxedLE
from manihash.embeddings.sne import SNE
from manihash.embeddings.tsne import TSNE
from manihash.hashers._hasher import Hasher
from manihash.hashers.agh import AGH
from manihash.hashers.bre import BRE
from manihash.hashers.cgh import CGH
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
from manihash.hashers.rmmh import RMMH
from manihash.hashers.sh import SH
from manihash.hashers.sign import SignQuantizer
from manihash.hashers.sklsh import SKLSH
from manihash.hashers.sph import SpH
from manihash.hashers.ssh import SSH
from manihash.hashers.sth import STH
from manihash.hashers.supervised_imh import SupervisedIMH
from manihash.rotation import ITQRotation


@dataclass(frozen=True)
class Recipe:
    """A named method: how the unfitted hasher is built, its title in figures, and one line about it."""

    make: Callable[[], Hasher]
    title: str
    about: str


def _imh(
    title: str, about: str, embedding: Callable[[], Any], base: Callable[[], Any] = KMeansBase, **parts: Any
) -> Recipe:
    """IMH with the settings of the authors: rows of unit length, 400 base points, 5 neighbors."""
    return Recipe(lambda: IMH(base=base(), embedding=embedding(), normalize=True, **parts), title, about)


def _unit(title: str, about: str, method: Callable[..., Hasher]) -> Recipe:
    """A method with its default options on rows of unit length, as in the comparisons of the paper."""
    return Recipe(lambda: method(normalize=True), title, about)


def _agh(**options: Any) -> AGH:
    """AGH with an explicit base set, so that ``base__size`` can be set."""
    return AGH(base=KMeansBase(), **options)


def _supervised(**options: Any) -> SupervisedIMH:
    """Supervised IMH with explicit parts, so that their options can be set."""
    return SupervisedIMH(base=KMeansBase(), embedding=TSNE(), **options)


def _supervised_large(**options: Any) -> SupervisedIMH:
    """Supervised IMH with thousands of base points and all labels: many classes need many base points."""
    base = ReducedBase(LargeBase(10_000, neighbors=CoarseNeighbors()), n_components=64)
    return SupervisedIMH(base=base, embedding=_short_tsne(), n_labels=None, **options)


def _hybrid_supervised() -> Hybrid:
    """A manifold part that learns from labels, and the quantizer of imh-hybrid."""
    return Hybrid(_supervised_large(normalize=True), RECIPES["imh-hybrid"].make().second, weight="auto")


def _original_le() -> LaplacianEigenmaps:
    """The original algorithm, as in the paper: with it LE_B ranks below PCA on CIFAR-10, as there."""
    return LaplacianEigenmaps(normalized=True)


def _large(
    title: str,
    about: str,
    embedding: Callable[[], Any],
    neighbors: Callable[[], Any],
    n_components: int = 64,
    normalize: bool = True,
    size: int = 10_000,
    rotation: Callable[[], Any] = ITQRotation,
) -> Recipe:
    """Thousands of base points in the space of the principal components, and a rotation."""

    def make() -> IMH:
        base = ReducedBase(LargeBase(size, neighbors=neighbors()), n_components=n_components)
        return IMH(base=base, embedding=embedding(), rotation=rotation(), normalize=normalize)

    return Recipe(make, title, about)


def _short_tsne() -> TSNE:
    """Few iterations with a little late exaggeration: ranks as well as many iterations without."""
    return TSNE(n_iter=125, exaggeration=(4.0, 1.5), sampled=256)


def _short_ee() -> ElasticEmbedding:
    """Few iterations, for many base points."""
    return ElasticEmbedding(n_iter=250, sampled=256)


def _hybrid() -> Hybrid:
    """A manifold part for look-up, and a product quantizer for the first answers."""
    second = ProductQuantizer(n_components=256, normalize=True)
    return Hybrid(RECIPES["imh-mixed"].make(), second, weight="auto")


def _hybrid_hamming() -> Hybrid:
    """The parts of imh-graph, and ITQ for the other bits."""
    return Hybrid(RECIPES["imh-graph"].make(), ITQ(normalize=True), weight="auto")


def _mixed_tsne() -> TSNE:
    """Affinities from rows and, if these are few, from distances: bits that go well with a quantizer."""
    return TSNE(
        n_iter=125,
        exaggeration=(4.0, 1.5),
        sampled=256,
        affinity=GraphAffinity(n_steps="auto", walk="auto", share="auto"),
        annealed=True,
    )


def _graph_tsne() -> TSNE:
    """Affinities from all rows: dense clusters, for look-up as well as ranking."""
    return TSNE(
        n_iter=125,
        exaggeration=(4.0, "auto"),
        sampled=256,
        affinity=GraphAffinity(n_steps="auto", walk="auto"),
        annealed=True,
    )


RECIPES: dict[str, Recipe] = {
    "imh-tsne": _imh("IMH-tSNE", "t-SNE of a k-means base set: the best method of the paper", TSNE),
    "imh-tsne-turned": _imh(
        "IMH-tSNE turned",
        "imh-tsne in the best of 100 random orientations: ranks slightly better",
        partial(TSNE, n_rotations=100),
    ),
    "imh-tsne-rotated": _imh(
        "IMH-tSNE rotated",
        "imh-tsne with ITQ's rotation before the sign: better search within a radius",
        TSNE,
        rotation=ITQRotation(),
    ),
    "imh-large": _large(
        "IMH-tSNE large",
        "ten thousand base points (all rows if they are fewer): for ranking",
        _short_tsne,
        CoarseNeighbors,
    ),
    "imh-large-fast": _large(
        "IMH-tSNE large, fast",
        "imh-large with twice the encoding speed and a slightly worse ranking",
        _short_tsne,
        ListedNeighbors,
    ),
    "imh-graph": _large(
        "IMH-tSNE graph",
        "imh-large with affinities from all rows: ranks better, and finds more within a radius",
        _graph_tsne,
        CoarseNeighbors,
        rotation=partial(ITQRotation, adaptive=True),
    ),
    "imh-graph-small": _large(
        "IMH-tSNE graph, small",
        "imh-graph with 2,000 base points: fits in about half the time",
        _graph_tsne,
        CoarseNeighbors,
        size=2000,
        rotation=partial(ITQRotation, adaptive=True),
    ),
    "imh-mixed": _large(
        "IMH-tSNE mixed",
        "imh-graph with affinities from distances, too, if rows are few: a first part of longer codes",
        _mixed_tsne,
        CoarseNeighbors,
    ),
    "imh-hybrid": Recipe(
        _hybrid,
        "IMH-tSNE + OPQ",
        "24 of 64 bits for look-up, the rest a product quantizer for the first answers",
    ),
    "imh-hybrid-hamming": Recipe(
        _hybrid_hamming,
        "IMH-tSNE graph + ITQ",
        "imh-graph for look-up, and ITQ for the first answers: for databases that know Hamming distance only",
    ),
    "imh-large-ee": _large(
        "IMH-EE large",
        "imh-large with elastic embedding, not normalized: for data without clear clusters",
        _short_ee,
        CoarseNeighbors,
        n_components=128,
        normalize=False,
    ),
    "imh-le": _imh("IMH-LE", "Laplacian eigenmaps of base set and data together", RelaxedLE),
    "imh-le-b": _imh("IMH-LE_B", "Laplacian eigenmaps of the base set alone", _original_le),
    "imh-sne": _imh("IMH-SNE", "stochastic neighbor embedding", SNE),
    "imh-ee": _imh("IMH-EE", "elastic embedding", ElasticEmbedding),
    "imh-lle": _imh("IMH-LLE", "locally linear embedding", LLE),
    "imh-isomap": _imh("IMH-Isomap", "Isomap: distances along the neighbor graph", Isomap),
    "imh-dm": _imh("IMH-DM", "diffusion maps", DiffusionMaps),
    "imh-pca": _imh("IMH-PCA", "principal components of the base set: the linear baseline", PCA),
    "imh-tsne-random": _imh("IMH-tSNE, random base", "imh-tsne with a random base set", TSNE, RandomBase),
    "imh-le-random": _imh("IMH-LE, random base", "imh-le with a random base set", RelaxedLE, RandomBase),
    "imh-le-b-random": _imh(
        "IMH-LE_B, random base", "imh-le-b with a random base set", _original_le, RandomBase
    ),
    "lsh": _unit("LSH", "signs of random projections", LSH),
    "pcah": _unit("PCAH", "signs of the principal components", PCAH),
    "itq": _unit("ITQ", "principal components, rotated so that the sign loses less", ITQ),
    "sh": _unit("SH", "spectral hashing: smooth waves along the principal components", SH),
    "agh": _unit("AGH", "anchor graph hashing: the smoothest eigenvectors of a graph over base points", _agh),
    "agh2": _unit(
        "AGH two layers",
        "agh with half as many eigenvectors and two bits per eigenvector",
        partial(_agh, layers=2),
    ),
    "sph": _unit("SpH", "spherical hashing: inside or outside of balanced spheres", SpH),
    "bre": _unit("BRE", "binary reconstructive embeddings: Hamming distances fitted to Euclidean ones", BRE),
    "sth": _unit("STH", "self-taught hashing: bits of a neighbor graph, learned by linear SVMs", STH),
    "sklsh": _unit("SKLSH", "signs of random Fourier features of a Gaussian kernel", SKLSH),
    "klsh": _unit("KLSH", "random hyperplanes in the feature space of a kernel", KLSH),
    "e2lsh": _unit("E2LSH", "parity of the bins of p-stable random projections", E2LSH),
    "rmmh": _unit("RMMH", "maximum margins between random halves of a few rows", RMMH),
    "mahalanobis-lsh": _unit("Mahalanobis LSH", "LSH on whitened rows, or under a metric", MahalanobisLSH),
    "cgh": _unit("CGH", "large margins on triplets of labeled rows, or of neighbors without labels", CGH),
    "ksh": _unit("KSH", "supervised hashing with kernels: needs labels", KSH),
    "ssh": _unit("SSH", "semi-supervised hashing, sequential: linear, needs some labels", SSH),
    "ldahash": _unit("LDAHash", "linear discriminants with the best thresholds: needs labels", LDAHash),
    "imh-supervised": _unit(
        "IMH-tSNE supervised",
        "imh-tsne with labels in the embedding of the base set: needs some labels",
        _supervised,
    ),
    "imh-supervised-large": _unit(
        "IMH-tSNE large supervised",
        "imh-supervised with ten thousand base points and all labels: for many classes",
        _supervised_large,
    ),
    "imh-hybrid-supervised": Recipe(
        _hybrid_supervised,
        "IMH-tSNE supervised + OPQ",
        "imh-hybrid with labels in its first part: needs some labels",
    ),
    "sign": _unit("Sign", "the sign of each coordinate, or of a random rotation: no training", SignQuantizer),
    "sign-zero": _unit(
        "Sign at zero",
        "sign with the threshold 0: the binary quantization of vector databases",
        partial(SignQuantizer, center=False),
    ),
    "sign-median": _unit(
        "Sign at the median",
        "sign with the median of each column as threshold",
        partial(SignQuantizer, center="median"),
    ),
    "sign-prefix": _unit(
        "Sign of the first columns",
        "sign-median of the first columns: for Matryoshka embeddings",
        partial(SignQuantizer, center="median", prefix=True),
    ),
    "pq": _unit("PQ", "nearest centers of groups of columns", partial(ProductQuantizer, rotation=False)),
    "opq": _unit("OPQ", "nearest centers of groups of rotated principal components", ProductQuantizer),
}
