"""Recipes: every name builds a hasher."""

import pytest

from manihash import Hasher, recipe, recipe_names


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
