"""Hashers by the names of their recipes."""

from difflib import get_close_matches
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator, clone

from manihash.files.registry import is_registered, register_class
from manihash.hashers._hasher import Hasher
from manihash.hashers.hybrid import Hybrid
from manihash.hashers.recipe_table import RECIPES, Recipe


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
        Name of the recipe: ``recipe_names()`` lists all, the documentation and ``manihash info`` say what
        each one is for, and ``register`` adds one.
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
        If there is no recipe of this name, the hasher has no such option, or it would have no effect.

    See Also
    --------
    recipe_names : The names of all recipes.
    register : Add a recipe of your own.

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
    _check_lengths(hasher, n_bits, params)
    return hasher.set_params(n_bits=n_bits, random_state=random_state, **params)


def register(name: str, cls: Any = None, *, title: str | None = None, about: str = "") -> Any:
    """Register a class of your own, so that recipes can build it and model files can hold it.

    A file of a fitted model names its classes and contains no code. ``load`` finds the class of such a name
    if the program has registered it before. A hasher becomes a recipe, too: ``recipe(name)``. A part of
    models, such as an embedding or a base set, is registered for model files alone.

    Parameters
    ----------
    name : str
        Name of the recipe, and of the class in model files. It must stay the same as long as files are in
        use.
    cls : type, default=None
        A subclass of ``Hasher``, or of scikit-learn's ``BaseEstimator``. It can be built without arguments.
        If None, a decorator is returned.
    title : str, default=None
        Name in figures; that of the class by default.
    about : str, default=""
        One line that says what the method does.

    Returns
    -------
    type
        The class itself, or a decorator of it.

    Raises
    ------
    ValueError
        If the name belongs to another class, or what is given is not a class of an estimator.

    See Also
    --------
    Hasher : The base class of hashers, with an example of a method.

    Examples
    --------
    >>> import numpy as np
    >>> import manihash as mh
    >>> @mh.register("doctest-above-mean", about="columns above their mean")
    ... class AboveMean(mh.Hasher):
    ...     def __init__(self, n_bits=4, normalize=False, random_state=None):
    ...         self.n_bits, self.normalize, self.random_state = n_bits, normalize, random_state
    ...
    ...     def _fit(self, rows, y, rng):
    ...         self.mean_ = rows.take(np.arange(len(rows))).mean(axis=0)
    ...
    ...     def _embed(self, X):
    ...         return X - self.mean_
    >>> mh.recipe("doctest-above-mean", n_bits=3).fit(np.arange(12.0).reshape(4, 3))
    AboveMean(n_bits=3)
    """
    if cls is None:
        return partial(register, name, title=title, about=about)
    if not isinstance(cls, type) or not issubclass(cls, BaseEstimator):
        raise ValueError(
            f"register({name!r}, …) got {cls!r}: give a class that inherits from manihash.Hasher, or from "
            "BaseEstimator of scikit-learn for a part"
        )
    if name in RECIPES and not is_registered(name):
        raise ValueError(f"{name!r} is a recipe of manihash: register {cls.__name__} under another name")
    register_class(name, cls)
    if issubclass(cls, Hasher):
        RECIPES[name] = Recipe(cls, title or cls.__name__, about)
    return cls


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


def _check_lengths(hasher: Hasher, n_bits: Any, params: dict[str, Any]) -> None:
    """Raise for the length of a part of a hybrid that ``n_bits`` would overrule."""
    own = [given for given in params if given in ("first__n_bits", "second__n_bits")]
    if own and n_bits is not None and isinstance(hasher, Hybrid):
        raise ValueError(
            f"{own[0]} would have no effect, because n_bits={n_bits} is divided among both parts: "
            "leave it out, or give n_bits=None, first__n_bits and second__n_bits"
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
