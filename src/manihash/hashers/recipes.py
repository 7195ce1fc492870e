"""The table of recipes: every method by the name that papers, the command and the experiments know it by."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from sklearn.base import clone

from manihash.base.kmeans import KMeansBase, RandomBase
from manihash.base.large import LargeBase, ReducedBase
from manihash.base.listed import ListedNeighbors
from manihash.base.neighbors import CoarseNeighbors
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
from manihash.hashers.e2lsh import E2LSH
from manihash.hashers.imh import IMH
from manihash.hashers.itq import ITQ
from manihash.hashers.klsh import KLSH
from manihash.hashers.ksh import KSH
from manihash.hashers.ldahash import LDAHash
from manihash.hashers.lsh import LSH
from manihash.hashers.mahalanobis import MahalanobisLSH
from manihash.hashers.pcah import PCAH
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
    """A method ready to be fitted: how it is made, its name in print, and one line about it."""

    make: Callable[[], Hasher]
    title: str
    about: str


def _imh(
    title: str, about: str, embedding: Callable[[], Any], base: Callable[[], Any] = KMeansBase, **parts: Any
) -> Recipe:
    """IMH as the authors run it: rows of unit length, 400 base points, 5 neighbors."""
    return Recipe(lambda: IMH(base=base(), embedding=embedding(), normalize=True, **parts), title, about)


def _unit(title: str, about: str, method: Callable[..., Hasher]) -> Recipe:
    """A method with its own defaults on rows of unit length, as the paper compares them."""
    return Recipe(lambda: method(normalize=True), title, about)


def _agh(**options: Any) -> AGH:
    """AGH with its base set named, so that its size can be set."""
    return AGH(base=KMeansBase(), **options)


def _supervised(**options: Any) -> SupervisedIMH:
    """Supervised IMH with its parts named, so that their options can be set."""
    return SupervisedIMH(base=KMeansBase(), embedding=TSNE(), **options)


def _original_le() -> LaplacianEigenmaps:
    """The original algorithm, as the paper says; with it LE_B comes out below PCA on CIFAR-10, as there."""
    return LaplacianEigenmaps(normalized=True)


def _large(
    title: str,
    about: str,
    embedding: Callable[[], Any],
    neighbors: Callable[[], Any],
    n_components: int = 64,
    normalize: bool = True,
) -> Recipe:
    """Ten thousand base points among the principal components, rotated: for ranking."""

    def make() -> IMH:
        base = ReducedBase(LargeBase(neighbors=neighbors()), n_components=n_components)
        return IMH(base=base, embedding=embedding(), rotation=ITQRotation(), normalize=normalize)

    return Recipe(make, title, about)


def _short_tsne() -> TSNE:
    """Few rounds and a little late exaggeration: as good for ranking as many rounds without."""
    return TSNE(n_iter=125, exaggeration=(4.0, 1.5), turns=0, sampled=256)


def _short_ee() -> ElasticEmbedding:
    return ElasticEmbedding(n_iter=250, turns=0, sampled=256)


RECIPES: dict[str, Recipe] = {
    "imh-tsne": _imh("IMH-tSNE", "the paper's best: t-SNE of a k-means base set", TSNE),
    "imh-tsne-rotated": _imh(
        "IMH-tSNE rotated",
        "imh-tsne with ITQ's rotation before the sign: better look-up within a radius",
        TSNE,
        rotation=ITQRotation(),
    ),
    "imh-large": _large(
        "IMH-tSNE large",
        "ten thousand base points (n // 6 of few rows): the best ranking",
        _short_tsne,
        CoarseNeighbors,
    ),
    "imh-large-fast": _large(
        "IMH-tSNE large, fast",
        "imh-large that encodes twice as fast and ranks a little worse",
        _short_tsne,
        ListedNeighbors,
    ),
    "imh-large-ee": _large(
        "IMH-EE large",
        "imh-large with elastic embedding, rows as they are: for data without clear clusters",
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
    "imh-pca": _imh("IMH-PCA", "principal components of the base set: the linear one", PCA),
    "imh-tsne-random": _imh("IMH-tSNE, random base", "imh-tsne on rows drawn at random", TSNE, RandomBase),
    "imh-le-random": _imh("IMH-LE, random base", "imh-le on rows drawn at random", RelaxedLE, RandomBase),
    "imh-le-b-random": _imh(
        "IMH-LE_B, random base", "imh-le-b on rows drawn at random", _original_le, RandomBase
    ),
    "lsh": _unit("LSH", "signs of random projections", LSH),
    "pcah": _unit("PCAH", "signs of the principal components", PCAH),
    "itq": _unit("ITQ", "principal components, rotated to lose less by the sign", ITQ),
    "sh": _unit("SH", "spectral hashing: smooth waves along the principal components", SH),
    "agh": _unit("AGH", "anchor graph hashing: the smoothest eigenvectors of a graph over base points", _agh),
    "agh2": _unit(
        "AGH two layers",
        "agh with half as many eigenvectors and two bits for each",
        partial(_agh, layers=2),
    ),
    "sph": _unit("SpH", "spherical hashing: inside or outside of balanced spheres", SpH),
    "bre": _unit("BRE", "binary reconstructive embeddings: Hamming distances fitted to Euclidean ones", BRE),
    "sth": _unit("STH", "self-taught hashing: bits of a neighbor graph, learned by linear SVMs", STH),
    "sklsh": _unit("SKLSH", "signs of random Fourier features of a Gaussian kernel", SKLSH),
    "klsh": _unit("KLSH", "random hyperplanes in the space of a kernel", KLSH),
    "e2lsh": _unit("E2LSH", "parity of the bins of p-stable random projections", E2LSH),
    "rmmh": _unit("RMMH", "maximum margins between random halves of a few rows", RMMH),
    "mahalanobis-lsh": _unit("Mahalanobis LSH", "LSH on whitened rows, or under a metric", MahalanobisLSH),
    "ksh": _unit("KSH", "supervised hashing with kernels: needs labels", KSH),
    "ssh": _unit("SSH", "semi-supervised hashing, sequential: linear, needs some labels", SSH),
    "ldahash": _unit("LDAHash", "linear discriminants with the best thresholds: needs labels", LDAHash),
    "imh-supervised": _unit(
        "IMH-tSNE supervised", "imh-tsne whose base set knows labels: needs some labels", _supervised
    ),
    "sign": _unit("Sign", "the sign of each coordinate, or of a random rotation: no training", SignQuantizer),
}


def recipe_names() -> list[str]:
    """The names that ``recipe`` knows."""
    return list(RECIPES)


def recipe(name: str, n_bits: int = 64, random_state: Any = None, **params: Any) -> Any:
    """A hasher by its name, unfitted; ``params`` are set on it as scikit-learn's set_params does.

    >>> recipe("imh-tsne", n_bits=32, random_state=0, n_neighbors=3, embedding__perplexity=15)
    """
    if name not in RECIPES:
        close = get_close_matches(name, RECIPES, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"no recipe {name!r}{hint}: the recipes are {', '.join(RECIPES)}")
    return clone(RECIPES[name].make()).set_params(n_bits=n_bits, random_state=random_state, **params)


def recipe_of(hasher: Any) -> tuple[str, dict[str, Any]] | None:
    """The recipe that makes such a hasher with the fewest settings, and these; None if none has its parts."""
    found = []
    for name, method in RECIPES.items():
        if type(method.make()) is type(hasher):
            made = recipe(name, hasher.n_bits, hasher.random_state)
            if (settings := _settings(hasher.get_params(), made.get_params())) is not None:
                found.append((name, settings))
    return min(found, key=lambda named: len(named[1]), default=None)


def _settings(params: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any] | None:
    """The parameters that are not as usual, None if one of them is a part or an array."""
    if params.keys() != usual.keys():
        return None
    plain = (type(None), bool, int, float, str, list, tuple)
    settings = {}
    for name, value in params.items():
        if not isinstance(value, plain) or not isinstance(usual[name], plain):
            if type(value) is not type(usual[name]) or not hasattr(value, "get_params"):
                return None
        elif value != usual[name]:
            settings[name] = value
    return settings
