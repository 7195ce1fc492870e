"""The table of recipes: every method by the name that papers, the command and the experiments know it by."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from manihash.base_set import RandomBase
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
from manihash.hashers.imh import IMH
from manihash.rotation import ITQRotation


@dataclass(frozen=True)
class Recipe:
    """A method ready to be fitted: how it is made, its name in print, and one line about it."""

    make: Callable[[], Hasher]
    title: str
    about: str


def _imh(title: str, about: str, embedding: Any, **parts: Any) -> Recipe:
    """IMH as the authors run it: rows of unit length, 400 base points, 5 neighbours."""
    return Recipe(lambda: IMH(embedding=embedding(), normalize=True, **parts), title, about)


RECIPES: dict[str, Recipe] = {
    "imh-tsne": _imh("IMH-tSNE", "the paper's best: t-SNE of a k-means base set", TSNE),
    "imh-tsne-rotated": _imh(
        "IMH-tSNE rotated",
        "imh-tsne with ITQ's rotation before the sign: better look-up within a radius",
        TSNE,
        rotation=ITQRotation(),
    ),
    "imh-le": _imh("IMH-LE", "Laplacian eigenmaps of base set and data together", RelaxedLE),
    "imh-le-b": _imh("IMH-LE_B", "Laplacian eigenmaps of the base set alone", LaplacianEigenmaps),
    "imh-sne": _imh("IMH-SNE", "stochastic neighbour embedding", SNE),
    "imh-ee": _imh("IMH-EE", "elastic embedding", ElasticEmbedding),
    "imh-lle": _imh("IMH-LLE", "locally linear embedding", LLE),
    "imh-isomap": _imh("IMH-Isomap", "Isomap: distances along the neighbour graph", Isomap),
    "imh-dm": _imh("IMH-DM", "diffusion maps", DiffusionMaps),
    "imh-pca": _imh("IMH-PCA", "principal components of the base set: the linear one", PCA),
    "imh-tsne-random": _imh("IMH-tSNE, random base", "imh-tsne on rows drawn at random", TSNE, base=RandomBase()),
    "imh-le-random": _imh("IMH-LE, random base", "imh-le on rows drawn at random", RelaxedLE, base=RandomBase()),
    "imh-le-b-random": _imh(
        "IMH-LE_B, random base", "imh-le-b on rows drawn at random", LaplacianEigenmaps, base=RandomBase()
    ),
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
    return RECIPES[name].make().set_params(n_bits=n_bits, random_state=random_state, **params)
