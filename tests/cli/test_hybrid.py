"""Hybrid codes on the command line: search says by which distance it ranks."""

import json

import numpy as np
import pytest
from command import run

from manihash import IMH, ITQ, Hybrid, KMeansBase


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
