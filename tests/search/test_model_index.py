"""An index that knows its hasher: the same answers from vectors, codes, a file, the command and a server."""

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits

import manihash as mh
from manihash.search import DamagedIndexError, asymmetric_distances

RECIPES = ("imh-hybrid", "imh-hybrid-hamming", "itq", "pq")


@pytest.fixture(scope="module")
def digits():
    X = load_digits().data
    return X[:-60], X[-60:]


@pytest.fixture(scope="module")
def hashers(digits):
    return {name: mh.recipe(name, n_bits=32, random_state=0).fit(digits[0]) for name in RECIPES}


@pytest.fixture(params=RECIPES)
def hasher(request, hashers):
    return hashers[request.param]


def test_vectors_are_ranked_by_their_real_values(hasher, digits):
    X, Q = digits
    distances, ids = hasher.index(X).search(Q, k=7)
    every = asymmetric_distances(hasher.embed(Q), hasher.encode(X), 32, layout=hasher.layout_)
    order = np.argsort(every, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(distances, np.take_along_axis(every, order, axis=1))


def test_codes_and_symmetric_vectors_give_the_same_answers(hasher, digits):
    X, Q = digits
    index = hasher.index(X)
    bare = mh.HammingIndex(hasher.encode(X), 32, layout=hasher.layout_)
    codes = hasher.encode(Q)
    for found in (index.search(Q, 5, symmetric=True), index.search(codes, 5)):
        for own, expected in zip(found, bare.search(codes, 5), strict=True):
            np.testing.assert_array_equal(own, expected)


def test_reranked_answers_are_those_of_the_vectors(hasher, digits):
    X, Q = digits
    names = [f"row {i:04d}" for i in range(len(X))][::-1]
    distances, ids = hasher.index(X, ids=names).search(Q, 3, rerank=X, candidates=len(X))
    exact = np.linalg.norm(Q[:, None] - X, axis=2)
    np.testing.assert_allclose(distances, np.sort(exact, axis=1)[:, :3])
    assert ids[0, 0] == names[int(exact[0].argmin())]
    loaded = hasher.index(X, ids=names)
    loaded._given_ids = None  # as in an index from a file
    np.testing.assert_array_equal(loaded.search(Q, 3, rerank=(X, names), candidates=len(X))[1], ids)
    with pytest.raises(ValueError, match="ids of the rows are strings"):
        loaded.search(Q, 3, rerank=X)
    with pytest.raises(ValueError, match="rerank needs the vectors of the queries, got packed codes"):
        loaded.search(hasher.encode(Q), 3, rerank=X)


def test_one_file_holds_model_and_codes(hasher, digits, tmp_path):
    X, Q = digits
    index = hasher.index(X)
    index.save(tmp_path / "items.mhx")
    loaded = mh.load(tmp_path / "items.mhx")
    assert isinstance(loaded, mh.Index)
    assert loaded.layout == index.layout
    np.testing.assert_array_equal(loaded.hasher.encode(Q), hasher.encode(Q))
    for own, expected in zip(loaded.search(Q, 5), index.search(Q, 5), strict=True):
        np.testing.assert_array_equal(own, expected)
    loaded.add(Q[:3])
    loaded.remove([0])
    loaded.save(tmp_path / "again.mhx")
    again = mh.load(tmp_path / "again.mhx")
    again.verify()
    assert len(again) == len(X) + 2
    bare = mh.HammingIndex.load(tmp_path / "again.mhx")
    bare.save(tmp_path / "bare.mhx")
    assert isinstance(mh.load(tmp_path / "bare.mhx"), mh.Index), "the model stays in the file"


def test_an_index_without_a_model_is_loaded_as_bare_codes(digits, tmp_path):
    mh.HammingIndex(np.arange(20, dtype=np.uint8)[:, None], 8).save(tmp_path / "codes.mhx")
    assert type(mh.load(tmp_path / "codes.mhx")) is mh.HammingIndex
    with pytest.raises(ValueError, match="holds codes without their model"):
        mh.Index.load(tmp_path / "codes.mhx")


def test_a_damaged_model_inside_an_index_is_refused(hashers, digits, tmp_path, monkeypatch):
    index = hashers["itq"].index(digits[0])
    monkeypatch.setattr(index, "_model_bytes", lambda: b"not a model")
    index.save(tmp_path / "items.mhx")
    with pytest.raises(DamagedIndexError, match=r"the model inside .* is damaged"):
        mh.load(tmp_path / "items.mhx")


def test_only_the_weight_of_the_layout_can_be_changed(hashers, digits):
    index = hashers["imh-hybrid"].index(digits[0])
    heavy = index.layout.with_weight(3.0)
    index.set_layout(heavy)
    assert index.layout.weight == 3.0
    with pytest.raises(ValueError, match="change only its weight"):
        index.set_layout(mh.CodeLayout(32))


def test_vectors_of_bytes_are_vectors_unless_only_codes_have_their_width(digits):
    X = (digits[0] * 15).astype(np.uint8)
    hasher = mh.recipe("itq", n_bits=16, random_state=0).fit(X)
    index = hasher.index(X)
    assert index.search(X[:2], 1)[1].tolist() == [[0], [1]]
    with pytest.raises(ValueError, match="has 3 features"):
        index.search(X[:2, :3], 1)


def parsed(lines):
    return [
        (answer["ids"], np.float32(answer["distances"]).tolist()) for answer in json.loads(lines)["answers"]
    ]


def command(*words, folder):
    done = subprocess.run(
        [sys.executable, "-m", "manihash", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.extra
@pytest.mark.parametrize("name", ["imh-hybrid", "imh-hybrid-hamming"])
def test_python_command_and_server_answer_the_same_questions_alike(name, digits, tmp_path):
    from starlette.testclient import TestClient

    from manihash.web.api.application import search_application
    from manihash.web.api.messages import Limits
    from manihash.web.api.service import Service

    X, Q = digits
    np.save(tmp_path / "vectors.npy", X)
    np.save(tmp_path / "queries.npy", Q)
    command(
        "build",
        "vectors.npy",
        "--recipe",
        name,
        "--bits",
        "32",
        "-o",
        "items.mhx",
        "--quiet",
        folder=tmp_path,
    )
    index = mh.load(tmp_path / "items.mhx")
    symmetric = not index.layout.has_fields
    distances, ids = index.search(Q, 5, symmetric=symmetric)
    expected = list(zip(ids.tolist(), distances.astype(np.float32).tolist(), strict=True))
    lims, near, found = index.within(Q, 2, symmetric=symmetric)
    looked_up = [(found[a:b].tolist(), near[a:b].astype(np.float32).tolist()) for a, b in pairwise(lims)]
    assert (
        parsed(command("search", "items.mhx", "queries.npy", "-k", "5", "--json", folder=tmp_path))
        == expected
    )
    asked = ("search", "items.mhx", "queries.npy", "--radius", "2", "--json")
    assert parsed(command(*asked, folder=tmp_path)) == looked_up
    client = TestClient(
        search_application(Service(index.hasher, index, Limits())), base_url="http://localhost"
    )
    for options, answers in (({"k": 5}, expected), ({"radius": 2}, looked_up)):
        answer = client.post("/v1/search", json={"vectors": Q.tolist(), **options})
        assert answer.status_code == 200, answer.text
        given = answer.json()
        for own, distances, (ids, near) in zip(given["ids"], given["distances"], answers, strict=True):
            assert own == ids
            # The server reads vectors as float32: real values differ in their last digits.
            np.testing.assert_allclose(distances, near, rtol=1e-5)
