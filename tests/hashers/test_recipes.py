"""Recipes: every name builds a hasher, and the docstring of ``recipe`` lists all names and all options."""

import textwrap

import pytest

from manihash import Hasher, recipe, recipe_names
from manihash.hashers.recipe_table import RECIPES

# Arguments of ``recipe`` itself, and what a hasher sets on its parts.
SET_ELSEWHERE = {"n_bits", "random_state"}


def parts_of(estimator, prefix=""):
    """All parts of an estimator with the prefixes of their options, the estimator itself first."""
    yield prefix, estimator
    for name, value in estimator.get_params(deep=False).items():
        if hasattr(value, "get_params"):
            yield from parts_of(value, f"{prefix}{name}__")


def documented_recipes():
    """The lines of the docstring that list the recipes."""
    for name, method in RECIPES.items():
        built = " ".join(repr(method.make()).split())
        yield from textwrap.wrap(f"{name} : {built}", 106, subsequent_indent=8 * " ", break_on_hyphens=False)
        yield from textwrap.wrap(f"    {method.about}.", 106)


def documented_options():
    """The lines of the docstring that list the options of every class."""
    found = {}
    for method in RECIPES.values():
        for prefix, part in parts_of(method.make()):
            options = [name for name in part.get_params(deep=False) if name not in SET_ELSEWHERE]
            if prefix.endswith("embedding__"):
                options.remove("n_components")
            found.setdefault((prefix, type(part).__name__), options)
    for (prefix, name), options in sorted(found.items()):
        text = f"{name}: {', '.join(prefix + option for option in options) or 'none'}"
        yield from textwrap.wrap(text, 106, subsequent_indent="    ")


@pytest.mark.parametrize("lines", [documented_recipes, documented_options])
def test_the_docstring_lists_every_recipe_and_every_option(lines):
    expected = textwrap.indent("\n".join(lines()), "    ")
    assert expected in recipe.__doc__, f"the docstring of recipe() must contain:\n{expected}"


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_builds_an_unfitted_hasher_with_the_given_options(name):
    hasher = recipe(name, n_bits=24, random_state=7, normalize=False)
    assert isinstance(hasher, Hasher)
    assert (hasher.n_bits, hasher.random_state, hasher.normalize) == (24, 7, False)
    assert not hasher.__sklearn_is_fitted__()


def test_two_hashers_of_one_recipe_share_no_parts():
    first, second = recipe("imh-tsne"), recipe("imh-tsne")
    assert first.embedding is not second.embedding
    first.set_params(embedding__perplexity=3)
    assert second.embedding.perplexity != 3
