"""The command uses the layout of a hybrid model by itself."""

import json

import numpy as np
import pytest
from command import run, stderr_line

from manihash import ITQ, LSH, HammingIndex, Hybrid


@pytest.fixture
def hybrid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((200, 12))
    model = Hybrid(LSH(5), ITQ(8), weight=0.25, random_state=0).fit(X)
    model.save("model.mhash")
    np.save("codes.npy", model.encode(X))
    np.save("Q.npy", X[:6])
    return model


def answers(*args):
    return json.loads(run("search", "model.mhash", *args, "--json").stdout)["answers"]


def index_of(model, weight=0.25):
    return HammingIndex(np.load("codes.npy"), 13, first_bits=5, weight=weight)


@pytest.mark.parametrize("source", ["codes.npy", "codes.mhx", "plain.mhx"])
def test_search_ranks_by_the_parts_of_the_model(hybrid, source):
    run("index", "codes.npy", "--model", "model.mhash", "-o", "codes.mhx")
    run("index", "codes.npy", "--bits", "13", "-o", "plain.mhx")
    asked = hybrid.encode(np.load("Q.npy"))
    distances, ids = index_of(hybrid).search(asked, 7)
    found = answers(source, "Q.npy", "-k", "7")
    assert [answer["ids"] for answer in found] == ids.tolist()
    assert [answer["distances"] for answer in found] == distances.tolist()
    lims, _, ids = index_of(hybrid).within(asked, 1, part="first")
    found = answers(source, "Q.npy", "--radius", "1")
    assert [answer["ids"] for answer in found] == [part.tolist() for part in np.split(ids, lims[1:-1])]


def test_an_index_with_another_layout_is_refused(hybrid):
    index_of(hybrid, weight=0.5).save("other.mhx")
    message = stderr_line(run("search", "model.mhash", "other.mhx", "Q.npy", code=2))
    assert "first_bits=5 and weight=0.5" in message


def test_info_and_index_show_the_parts(hybrid):
    facts = json.loads(run("info", "model.mhash", "--json").stdout)
    assert (facts["bits"], facts["first_bits"], facts["weight"]) == (13, 5, 0.25)
    made = json.loads(run("index", "codes.npy", "--model", "model.mhash", "-o", "codes.mhx", "--json").stdout)
    assert (made["first_bits"], made["weight"]) == (5, 0.25)
