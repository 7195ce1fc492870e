"""Hybrid codes on the command line: search says by which distance it ranks."""

import json

import numpy as np
import pytest
from command import run

from manihash import IMH, ITQ, Hybrid, KMeansBase, load


@pytest.mark.parametrize(
    ("options", "ranked_by"), [(["-k", "3"], "weighted hamming"), (["--radius", "2"], "first-part hamming")]
)
def test_search_names_the_distance_of_hybrid_codes(options, ranked_by, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(300, 16))
    np.save("x.npy", X)
    hasher = Hybrid(IMH(8, KMeansBase(20)), ITQ(8), random_state=0).fit(X)
    hasher.save("m.mhash")
    np.save("c.npy", hasher.encode(X))
    result = json.loads(run("search", "m.mhash", "c.npy", "x.npy", *options, "--json").stdout)
    assert result["ranked_by"] == ranked_by
    assert 0 in result["answers"][0]["ids"]


def test_fit_without_a_recipe_gives_hybrid_codes_that_can_be_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(300, 40))
    np.save("x.npy", X)
    run("fit", "x.npy", "-o", "m.mhash")
    run("encode", "m.mhash", "x.npy", "-o", "c.npy")
    model = load("m.mhash")
    assert isinstance(model, Hybrid)
    assert np.load("c.npy").shape == (300, 8)
    result = json.loads(run("search", "m.mhash", "c.npy", "x.npy", "-k", "3", "--json").stdout)
    assert [answer["ids"][0] for answer in result["answers"]] == list(range(300))


def test_options_of_the_parts_are_set_by_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(300, 40)))
    settings = ["--set=first__n_neighbors=3", "--set=first__base__base__size=20", "--set=second__n_iter=2"]
    run("fit", "x.npy", "--recipe=imh-hybrid", "--bits=24", *settings, "--set=weight=1", "-o", "m.mhash")
    model = load("m.mhash")
    assert (model.first_.n_neighbors_, len(model.first_.base_points_), model.weight_) == (3, 20, 1)
    assert (model.first_bits_, model.n_bits_, model.second_.n_iter) == (12, 24, 2)


def test_the_hint_names_the_option_of_the_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(60, 40)))
    result = run("fit", "x.npy", "--bits=8", "--set=first__n_neighbors=30", "-o", "m.mhash", code=2)
    assert "--set first__n_neighbors=K" in result.stderr
    assert "--set n_neighbors=K" not in result.stderr
