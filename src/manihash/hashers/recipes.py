"""Hashers by the names of their recipes."""

from difflib import get_close_matches
from typing import Any

from sklearn.base import clone

from manihash.hashers._hasher import Hasher
from manihash.hashers.recipe_table import RECIPES


def recipe_names() -> list[str]:
    """Return the names of all recipes.

    Returns
    -------
    list of str
        The names that ``recipe`` accepts.

    Examples
    --------
    >>> from manihash import recipe_names
    >>> recipe_names()[:3]
    ['imh-tsne', 'imh-tsne-turned', 'imh-tsne-rotated']
    """
    return list(RECIPES)


def recipe(name: str, n_bits: int = 64, random_state: Any = None, **params: Any) -> Hasher:
    """Build an unfitted hasher by the name of its recipe.

    A recipe is a method with fixed settings. Where the paper compares methods, the settings are those of the
    comparison: rows of unit length (``normalize=True``) and, for IMH, 400 base points and 5 neighbors.

    Parameters
    ----------
    name : str
        Name of the recipe, listed in the notes below.
    n_bits : int, default=64
        Length of the codes.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the method. The same seed gives the same codes.
    **params : dict
        Options of the hasher, as for its ``set_params``. The options of a part have the name of the part and
        two underscores as prefix, such as ``embedding__perplexity``.

    Returns
    -------
    Hasher
        The unfitted hasher.

    Raises
    ------
    ValueError
        If there is no recipe of this name, or the hasher has no such option.

    See Also
    --------
    recipe_names : The names of all recipes.

    Notes
    -----
    The recipes, and what they build:

    imh-tsne : IMH(base=KMeansBase(), embedding=TSNE(), normalize=True)
        t-SNE of a k-means base set: the best method of the paper.
    imh-tsne-turned : IMH(base=KMeansBase(), embedding=TSNE(turns=100), normalize=True)
        imh-tsne in the best of 100 random orientations: ranks slightly better.
    imh-tsne-rotated : IMH(base=KMeansBase(), embedding=TSNE(), normalize=True, rotation=ITQRotation())
        imh-tsne with ITQ's rotation before the sign: better search within a radius.
    imh-large : IMH(base=ReducedBase(base=LargeBase(neighbors=CoarseNeighbors())),
            embedding=TSNE(exaggeration=(4.0, 1.5), n_iter=125, sampled=256), normalize=True,
            rotation=ITQRotation())
        ten thousand base points (all rows if they are fewer): for ranking.
    imh-large-fast : IMH(base=ReducedBase(base=LargeBase(neighbors=ListedNeighbors())),
            embedding=TSNE(exaggeration=(4.0, 1.5), n_iter=125, sampled=256), normalize=True,
            rotation=ITQRotation())
        imh-large with twice the encoding speed and a slightly worse ranking.
    imh-graph : IMH(base=ReducedBase(base=LargeBase(neighbors=CoarseNeighbors())),
            embedding=TSNE(affinity=GraphAffinity(), annealed=True, exaggeration=(4.0, 'auto'), n_iter=125,
            sampled=256), normalize=True, rotation=ITQRotation(adaptive=True))
        imh-large with affinities from all rows: ranks better, and finds more within a radius.
    imh-graph-small : IMH(base=ReducedBase(base=LargeBase(neighbors=CoarseNeighbors(), size=2000)),
            embedding=TSNE(affinity=GraphAffinity(), annealed=True, exaggeration=(4.0, 'auto'), n_iter=125,
            sampled=256), normalize=True, rotation=ITQRotation(adaptive=True))
        imh-graph with 2,000 base points: fits in about half the time.
    imh-mixed : IMH(base=ReducedBase(base=LargeBase(neighbors=CoarseNeighbors())),
            embedding=TSNE(affinity=GraphAffinity(share=0.5), annealed=True, exaggeration=(4.0, 1.5),
            n_iter=125, sampled=256), normalize=True, rotation=ITQRotation())
        imh-large with affinities half from all rows and half from distances: a first part of longer codes.
    imh-hybrid : Hybrid(first=IMH(base=ReducedBase(base=LargeBase(neighbors=CoarseNeighbors())),
            embedding=TSNE(affinity=GraphAffinity(share=0.5), annealed=True, exaggeration=(4.0, 1.5),
            n_iter=125, sampled=256), normalize=True, rotation=ITQRotation()),
            second=ProductQuantizer(n_components=256, normalize=True), weight='auto')
        half of the bits, at most 32, for look-up, the rest a product quantizer for the first answers.
    imh-hybrid-hamming : Hybrid(first=IMH(base=ReducedBase(base=LargeBase(neighbors=CoarseNeighbors())),
            embedding=TSNE(affinity=GraphAffinity(), annealed=True, exaggeration=(4.0, 'auto'), n_iter=125,
            sampled=256), normalize=True, rotation=ITQRotation(adaptive=True)), second=ITQ(normalize=True),
            weight='auto')
        imh-graph for look-up, and ITQ for the first answers: for databases that know Hamming distance only.
    imh-large-ee : IMH(base=ReducedBase(base=LargeBase(neighbors=CoarseNeighbors()), n_components=128),
            embedding=ElasticEmbedding(n_iter=250, sampled=256), rotation=ITQRotation())
        imh-large with elastic embedding, not normalized: for data without clear clusters.
    imh-le : IMH(base=KMeansBase(), embedding=RelaxedLE(), normalize=True)
        Laplacian eigenmaps of base set and data together.
    imh-le-b : IMH(base=KMeansBase(), embedding=LaplacianEigenmaps(normalized=True), normalize=True)
        Laplacian eigenmaps of the base set alone.
    imh-sne : IMH(base=KMeansBase(), embedding=SNE(), normalize=True)
        stochastic neighbor embedding.
    imh-ee : IMH(base=KMeansBase(), embedding=ElasticEmbedding(), normalize=True)
        elastic embedding.
    imh-lle : IMH(base=KMeansBase(), embedding=LLE(), normalize=True)
        locally linear embedding.
    imh-isomap : IMH(base=KMeansBase(), embedding=Isomap(), normalize=True)
        Isomap: distances along the neighbor graph.
    imh-dm : IMH(base=KMeansBase(), embedding=DiffusionMaps(), normalize=True)
        diffusion maps.
    imh-pca : IMH(base=KMeansBase(), embedding=PCA(), normalize=True)
        principal components of the base set: the linear baseline.
    imh-tsne-random : IMH(base=RandomBase(), embedding=TSNE(), normalize=True)
        imh-tsne with a random base set.
    imh-le-random : IMH(base=RandomBase(), embedding=RelaxedLE(), normalize=True)
        imh-le with a random base set.
    imh-le-b-random : IMH(base=RandomBase(), embedding=LaplacianEigenmaps(normalized=True), normalize=True)
        imh-le-b with a random base set.
    lsh : LSH(normalize=True)
        signs of random projections.
    pcah : PCAH(normalize=True)
        signs of the principal components.
    itq : ITQ(normalize=True)
        principal components, rotated so that the sign loses less.
    sh : SH(normalize=True)
        spectral hashing: smooth waves along the principal components.
    agh : AGH(base=KMeansBase(), normalize=True)
        anchor graph hashing: the smoothest eigenvectors of a graph over base points.
    agh2 : AGH(base=KMeansBase(), layers=2, normalize=True)
        agh with half as many eigenvectors and two bits per eigenvector.
    sph : SpH(normalize=True)
        spherical hashing: inside or outside of balanced spheres.
    bre : BRE(normalize=True)
        binary reconstructive embeddings: Hamming distances fitted to Euclidean ones.
    sth : STH(normalize=True)
        self-taught hashing: bits of a neighbor graph, learned by linear SVMs.
    sklsh : SKLSH(normalize=True)
        signs of random Fourier features of a Gaussian kernel.
    klsh : KLSH(normalize=True)
        random hyperplanes in the feature space of a kernel.
    e2lsh : E2LSH(normalize=True)
        parity of the bins of p-stable random projections.
    rmmh : RMMH(normalize=True)
        maximum margins between random halves of a few rows.
    mahalanobis-lsh : MahalanobisLSH(normalize=True)
        LSH on whitened rows, or under a metric.
    cgh : CGH(normalize=True)
        large margins on triplets of labeled rows, or of neighbors without labels.
    ksh : KSH(normalize=True)
        supervised hashing with kernels: needs labels.
    ssh : SSH(normalize=True)
        semi-supervised hashing, sequential: linear, needs some labels.
    ldahash : LDAHash(normalize=True)
        linear discriminants with the best thresholds: needs labels.
    imh-supervised : SupervisedIMH(base=KMeansBase(), embedding=TSNE(), normalize=True)
        imh-tsne with labels in the embedding of the base set: needs some labels.
    sign : SignQuantizer(normalize=True)
        the sign of each coordinate, or of a random rotation: no training.
    pq : ProductQuantizer(normalize=True, rotation=False)
        nearest centers of groups of columns.
    opq : ProductQuantizer(normalize=True)
        nearest centers of groups of rotated principal components.

    The options that ``params`` accepts, for each class above. ``help(IMH)``, for example, describes those of
    IMH.

    AGH: bandwidth, base, layers, n_neighbors, normalize
    BRE: max_iter, n_anchors, n_train, normalize, pair_fraction, tol
    CGH: C, n_neighbors, n_train, n_triplets, normalize, supervised
    E2LSH: normalize, p, width
    Hybrid: first, normalize, second, weight
    IMH: bandwidth, base, embedding, n_neighbors, normalize, rotation
    ITQ: n_iter, normalize
    KLSH: gamma, kernel, n_summed, n_train, normalize
    KSH: gamma, n_anchors, n_iter, n_labels, normalize, ridge
    LDAHash: alpha, n_labels, normalize, ridge
    LSH: center, normalize
    MahalanobisLSH: center, metric, normalize, regularization
    PCAH: normalize
    ProductQuantizer: bits_per_field, max_iter, n_components, normalize, rotation
    RMMH: C, gamma, kernel, n_train, normalize
    SH: normalize
    SKLSH: gamma, normalize
    SSH: eta, n_labels, normalize, step
    STH: C, n_neighbors, n_train, normalize
    SignQuantizer: center, normalize
    SpH: deviation, max_iter, n_train, normalize, tolerance
    SupervisedIMH: base, embedding, label_weight, n_labels, n_neighbors, normalize
    KMeansBase: base__full_rounds, base__max_iter, base__sample, base__size
    RandomBase: base__size
    ReducedBase: base__base, base__n_components
    LargeBase: base__base__max_iter, base__base__neighbors, base__base__probes, base__base__sample,
        base__base__size
    CoarseNeighbors: base__base__neighbors__cells, base__base__neighbors__probes
    ListedNeighbors: base__base__neighbors__cells, base__base__neighbors__probes
    DiffusionMaps: embedding__alpha, embedding__n_neighbors, embedding__t
    ElasticEmbedding: embedding__affinity, embedding__lam, embedding__learning_rate, embedding__n_iter,
        embedding__perplexity, embedding__sampled, embedding__turns
    Isomap: embedding__n_neighbors
    LLE: embedding__n_neighbors, embedding__reg
    LaplacianEigenmaps: embedding__n_neighbors, embedding__normalized
    PCA: none
    RelaxedLE: embedding__coupling_neighbors, embedding__lam, embedding__n_neighbors
    SNE: embedding__affinity, embedding__learning_rate, embedding__n_iter, embedding__perplexity,
        embedding__sampled, embedding__symmetric, embedding__turns
    TSNE: embedding__affinity, embedding__annealed, embedding__dof, embedding__exaggeration,
        embedding__learning_rate, embedding__n_iter, embedding__perplexity, embedding__sampled,
        embedding__turns
    GraphAffinity: embedding__affinity__n_kept, embedding__affinity__n_neighbors,
        embedding__affinity__n_steps, embedding__affinity__sample, embedding__affinity__share,
        embedding__affinity__walk
    IMH: first__bandwidth, first__base, first__embedding, first__n_neighbors, first__normalize,
        first__rotation
    ReducedBase: first__base__base, first__base__n_components
    LargeBase: first__base__base__max_iter, first__base__base__neighbors, first__base__base__probes,
        first__base__base__sample, first__base__base__size
    CoarseNeighbors: first__base__base__neighbors__cells, first__base__base__neighbors__probes
    TSNE: first__embedding__affinity, first__embedding__annealed, first__embedding__dof,
        first__embedding__exaggeration, first__embedding__learning_rate, first__embedding__n_iter,
        first__embedding__perplexity, first__embedding__sampled, first__embedding__turns
    GraphAffinity: first__embedding__affinity__n_kept, first__embedding__affinity__n_neighbors,
        first__embedding__affinity__n_steps, first__embedding__affinity__sample,
        first__embedding__affinity__share, first__embedding__affinity__walk
    ITQRotation: first__rotation__adaptive, first__rotation__n_iter
    ITQRotation: rotation__adaptive, rotation__n_iter
    ITQ: second__n_iter, second__normalize
    ProductQuantizer: second__bits_per_field, second__max_iter, second__n_components, second__normalize,
        second__rotation

    Examples
    --------
    >>> from manihash import recipe
    >>> recipe("imh-tsne", n_bits=32, random_state=0, n_neighbors=3, embedding__perplexity=15)
    IMH(base=KMeansBase(), embedding=TSNE(perplexity=15), n_bits=32, n_neighbors=3,
        normalize=True, random_state=0)
    >>> recipe("lsh", center=False)
    LSH(center=False, normalize=True)
    """
    if name not in RECIPES:
        raise ValueError(
            f"no recipe {name!r}: {_suggestion(str(name))}recipe_names() lists all {len(RECIPES)}"
        )
    hasher: Hasher = clone(RECIPES[name].make())
    _check_names(name, params, list(hasher.get_params(deep=False)))
    return hasher.set_params(n_bits=n_bits, random_state=random_state, **params)


def _suggestion(name: str) -> str:
    """The recipes with similar names; imh-, which many names start with, is not compared."""
    endings = {known.removeprefix("imh-"): known for known in RECIPES}
    wanted = name.lower().replace("_", "-").removeprefix("imh-")
    if close := [endings[found] for found in get_close_matches(wanted, endings)]:
        return f"did you mean {' or '.join(map(repr, close))}? "
    return "'imh-hybrid' is a good start, and "


def _check_names(name: str, params: dict[str, Any], known: list[str]) -> None:
    """Raise for a parameter that a recipe does not have; set_params checks the names of its parts."""
    for given in params:
        if given.partition("__")[0] not in known:
            close = get_close_matches(given, known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(
                f"recipe {name!r} has no parameter {given!r}{hint}: its parameters are {', '.join(known)}"
            )


def recipe_of(hasher: Any) -> tuple[str, dict[str, Any]] | None:
    """The recipe that builds a hasher with the fewest options, and these options; None if there is none."""
    found = []
    for name, method in RECIPES.items():
        if type(method.make()) is type(hasher):
            usual = recipe(name, hasher.n_bits, hasher.random_state)
            if (options := _changed_options(hasher.get_params(), usual.get_params())) is not None:
                found.append((name, options))
    return min(found, key=lambda named: len(named[1]), default=None)


def _changed_options(params: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any] | None:
    """The parameters that differ from the usual ones; None if one of them is a part or an array."""
    if params.keys() != usual.keys():
        return None
    plain = (type(None), bool, int, float, str, list, tuple)
    options = {}
    for name, value in params.items():
        if not isinstance(value, plain) or not isinstance(usual[name], plain):
            if type(value) is not type(usual[name]) or not hasattr(value, "get_params"):
                return None
        elif value != usual[name]:
            options[name] = value
    return options
