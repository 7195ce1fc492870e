"""An index that knows its hasher: the same answers from vectors, codes, a file, the command and a server."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from command import run, stderr_line
from sklearn.datasets import load_digits

import manihash as mh
from manihash.search import DamagedIndexError, asymmetric_distances
from manihash.search.durable import DurableIndex
from manihash.search.journal import ADD, REMOVE, UPDATE, Change

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
    with pytest.raises(ValueError, match=r"not known to be those of all.*rerank=\(vectors, ids\)"):
        loaded.search(Q, 3, rerank=X)
    with pytest.raises(ValueError, match="rerank needs the vectors of the queries, got packed codes"):
        loaded.search(hasher.encode(Q), 3, rerank=X)


def test_an_invalid_number_of_candidates_is_named_as_it_was_given(hasher, digits):
    X, Q = digits
    with pytest.raises(ValueError, match=r"^candidates must be a whole number of at least 1, not 0"):
        hasher.index(X).search(Q, 3, rerank=X, candidates=0)


@pytest.mark.parametrize("given", ["X.npy", Path("X.mhv"), True])
def test_a_path_is_not_taken_for_the_vectors_to_rerank_with(hasher, digits, given):
    X, Q = digits
    with pytest.raises(ValueError, match=r"rerank must be the vectors of the rows, not .*ByteVectors\.load"):
        hasher.index(X).search(Q, 3, rerank=given)


def test_one_vector_as_queries_is_refused_in_one_line(hashers, digits):
    X, Q = digits
    index = hashers["itq"].index(X)
    for ask in (index.search, index.within, index.count):
        for query, width in ((Q[0], 64), (index.hasher.encode(Q)[0], 4)):
            message = f"queries must be 2-D, one row per query, got shape ({width},): use Q[:1] or Q[0][None]"
            with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
                ask(query, 3)
    np.testing.assert_array_equal(index.bucket(X[0]), index.bucket(index.hasher.encode(X)[0]))


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


@pytest.mark.parametrize("width", [64, 4])
def test_the_changes_in_a_journal_are_codes_whatever_the_width_of_the_vectors(digits, tmp_path, width):
    X = digits[0][:, :width].astype(np.uint8)  # bytes, as codes are, and with 4 columns as many of them
    hasher = mh.hashers.LSH(n_bits=32, random_state=0).fit(X)
    path = tmp_path / "items.mhx"
    hasher.index(X[:100]).save(path)
    durable = DurableIndex(path)
    codes = hasher.encode(X)
    added, changed = np.arange(100, 110), np.arange(5)
    durable.commit([Change(ADD, added, codes[100:110]), Change(UPDATE, changed, codes[200:205])])
    durable.commit([Change(REMOVE, np.array([9]))])
    durable.close()
    loaded = mh.load(path)
    expected = np.vstack([codes[200:205], codes[5:9], codes[10:110]])
    np.testing.assert_array_equal(loaded.codes, expected)
    np.testing.assert_array_equal(loaded.hasher.encode(X), codes)
    loaded.save(path)
    np.testing.assert_array_equal(mh.load(path).codes, expected)


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


QUESTIONS = {
    "nearest": (["-k", "5"], {"k": 5}),
    "nearest by code": (["-k", "5", "--symmetric"], {"k": 5, "symmetric": True}),
    "within a radius": (["--radius", "2"], {"radius": 2}),
    "within a radius, by code": (["--radius", "2", "--symmetric"], {"radius": 2, "symmetric": True}),
    "reranked": (["-k", "5", "--rerank", "vectors.npy"], {"k": 5, "rerank": True}),
    "reranked by code": (
        ["-k", "5", "--rerank", "vectors.npy", "--symmetric"],
        {"k": 5, "rerank": True, "symmetric": True},
    ),
}


def answers_of(index, Q, X, question):
    """The answers of Python, a list of ids and distances per query."""
    _, options = QUESTIONS[question]
    symmetric = options.get("symmetric", False)
    if "radius" in options:
        lims, distances, ids = index.within(Q, options["radius"], symmetric=symmetric)
    else:
        rerank = X if "rerank" in options else None
        distances, ids = index.search(Q, options["k"], symmetric=symmetric, rerank=rerank)
        lims = np.arange(len(Q) + 1) * ids.shape[1]
        distances, ids = distances.ravel(), ids.ravel()
    return [(ids[a:b].tolist(), distances[a:b].tolist()) for a, b in pairwise(lims)]


def answers_of_command(*options):
    result = json.loads(run("search", "items.mhx", "queries.npy", *options, "--json", "--quiet").stdout)
    return [(answer["ids"], answer["distances"]) for answer in result["answers"]], result["ranked_by"]


@pytest.fixture(scope="module", params=["imh-hybrid", "imh-hybrid-hamming", "itq"])
def built(request, digits, tmp_path_factory):
    """The folder of items.mhx of a recipe, as the command builds it, with vectors.npy and queries.npy."""
    folder, (X, Q) = tmp_path_factory.mktemp(request.param), digits
    np.save(folder / "vectors.npy", X)
    np.save(folder / "queries.npy", Q)
    run(
        "build",
        str(folder / "vectors.npy"),
        f"--recipe={request.param}",
        "--bits=32",
        f"--out={folder / 'items.mhx'}",
        "--quiet",
    )
    return folder


@pytest.mark.parametrize("question", QUESTIONS)
def test_python_and_command_answer_the_same_questions_alike(built, digits, question, monkeypatch):
    X, Q = digits
    monkeypatch.chdir(built)
    found, ranked_by = answers_of_command(*QUESTIONS[question][0])
    index = mh.load("items.mhx")
    assert found == answers_of(index, Q, X, question)
    if "rerank" in QUESTIONS[question][1]:
        assert ranked_by == "euclidean"
    elif "symmetric" in QUESTIONS[question][1]:
        kind = "code" if index.layout.has_fields else "weighted hamming"
        assert ranked_by == ("hamming" if index.layout.is_hamming else kind)
    else:
        one_part = "radius" in QUESTIONS[question][1] and index.layout.is_hamming
        assert ranked_by == ("hamming" if one_part else "asymmetric")


@pytest.mark.extra
@pytest.mark.parametrize("question", QUESTIONS)
def test_python_and_server_answer_the_same_questions_alike(built, digits, question):
    from starlette.testclient import TestClient

    from manihash.web.api.application import search_application
    from manihash.web.api.attachments import Attachments
    from manihash.web.api.messages import Limits
    from manihash.web.api.service import Service

    X, Q = digits
    index = mh.load(built / "items.mhx")
    service = Service(index.hasher, index, Limits(), Attachments(X))
    client = TestClient(search_application(service), base_url="http://localhost")
    body = {"vectors": Q.tolist(), "dtype": "float64", **QUESTIONS[question][1]}
    answer = client.post("/v1/search", json=body)
    assert answer.status_code == 200, answer.text
    given = answer.json()
    assert list(zip(given["ids"], given["distances"], strict=True)) == answers_of(index, Q, X, question)


@pytest.mark.parametrize("options", [["-k", "5"], ["--radius", "2"], ["-k", "5", "--rerank", "vectors.npy"]])
def test_the_command_takes_another_weight_of_the_second_part(built, digits, options, monkeypatch):
    X, Q = digits
    monkeypatch.chdir(built)
    index = mh.load("items.mhx")
    if not index.layout.has_two_parts:
        refused = run("search", "items.mhx", "queries.npy", *options, "--weight", "2", code=2)
        assert "weight=2.0 is that of the second part" in stderr_line(refused)
        return
    found, _ = answers_of_command(*options, "--weight", "2")
    index.set_layout(index.layout.with_weight(2.0))
    kind = "reranked" if "--rerank" in options else "nearest" if "-k" in options else "within a radius"
    assert found == answers_of(index, Q, X, kind)


@pytest.mark.extra
@pytest.mark.parametrize("asked", [{"k": 5}, {"radius": 2}])
def test_the_server_takes_another_weight_of_the_second_part(built, digits, asked):
    from starlette.testclient import TestClient

    from manihash.web.api.application import search_application
    from manihash.web.api.messages import Limits
    from manihash.web.api.service import Service

    X, Q = digits
    index = mh.load(built / "items.mhx")
    client = TestClient(
        search_application(Service(index.hasher, index, Limits())), base_url="http://localhost"
    )
    body = {"vectors": Q.tolist(), "dtype": "float64", "weight": 2.0, **asked}
    answer = client.post("/v1/search", json=body)
    if not index.layout.has_two_parts:
        assert answer.status_code == 400
        assert "the codes have one part" in answer.json()["error"]
        return
    index.set_layout(index.layout.with_weight(2.0))
    kind = "nearest" if "k" in asked else "within a radius"
    given = answer.json()
    assert list(zip(given["ids"], given["distances"], strict=True)) == answers_of(index, Q, X, kind)


@pytest.mark.extra
def test_a_server_of_a_product_quantizer_has_no_radius(digits):
    from starlette.testclient import TestClient

    from manihash.web.api.application import search_application
    from manihash.web.api.messages import Limits
    from manihash.web.api.service import Service

    X, Q = digits
    index = mh.recipe("pq", n_bits=32, random_state=0).fit(X).index(X)
    client = TestClient(
        search_application(Service(index.hasher, index, Limits())), base_url="http://localhost"
    )
    answer = client.post("/v1/search", json={"vectors": Q.tolist(), "radius": 2})
    assert answer.status_code == 400
    assert answer.json()["error"] == "codes of a product quantizer have no Hamming radius: give k"


@pytest.mark.parametrize("address", ["codes.duckdb", "codes.db"])
def test_a_store_answers_like_python_or_says_what_it_cannot_do(built, digits, address, monkeypatch):
    if address == "codes.duckdb":
        pytest.importorskip("duckdb")
    X, Q = digits
    monkeypatch.chdir(built)
    exported = run("export", "items.mhx", "--to", address, "--quiet")
    index = mh.load("items.mhx")
    two_parts = index.layout.has_two_parts
    assert ("cannot rank them" in stderr_line(exported)) == index.layout.has_fields

    asked = ("search", "items.mhx", "queries.npy", "--store", address, "--json", "--quiet")
    looked_up = json.loads(run(*asked, "--radius", "2").stdout)
    assert looked_up["ranked_by"] == ("first-part hamming" if two_parts else "hamming")
    expected = answers_of(index, Q, X, "within a radius")
    found = [sorted(answer["ids"]) for answer in looked_up["answers"]]
    assert found == [sorted(ids) for ids, _ in expected]
    if index.layout.has_fields:
        refused = run(*asked, "-k", "5", code=2)
        assert "cannot rank these codes, whose second part is a product quantizer" in stderr_line(refused)
    else:
        nearest = json.loads(run(*asked, "-k", "5").stdout)
        bare = mh.HammingIndex(index.codes, 32)
        expected = bare.search(index.hasher.encode(Q), 5)
        assert nearest["ranked_by"] == "hamming"
        assert [answer["ids"] for answer in nearest["answers"]] == expected[1].tolist()
        assert [answer["distances"] for answer in nearest["answers"]] == expected[0].tolist()
    refused = run(*asked, "-k", "5", "--asymmetric", code=2)
    assert "--asymmetric does not work with a store that compares codes by Hamming distance" in stderr_line(
        refused
    )


def test_duplicates_count_the_same_bits_within_a_radius_as_a_look_up(built, digits, monkeypatch):
    X, Q = digits
    monkeypatch.chdir(built)
    index = mh.load("items.mhx")
    lims, _, ids = index.within(X, 2, symmetric=True)
    found = json.loads(run("dedup", "items.mhx", "--radius", "2", "--json", "--quiet").stdout)
    first = np.arange(len(X))  # the lowest id that a chain of steps within the radius leads to
    for _ in range(len(X)):
        reached = np.array([first[ids[a:b]].min() for a, b in pairwise(lims)])
        if (reached == first).all():
            break
        first = reached
    groups = [np.flatnonzero(first == i).tolist() for i in np.unique(first)]
    assert found["groups"] == [group for group in groups if len(group) > 1]
    assert found["bits"] == index.layout.look_up_bits

    known = mh.known_rows(index, Q, 2)
    np.testing.assert_array_equal(known.counts, index.count(Q, 2))
    document = json.loads(
        run("dedup", "queries.npy", "--against", "items.mhx", "--radius", "2", "--json", "--quiet").stdout
    )
    assert [each["count"] for each in document["duplicates"]] == known.counts[known.known].tolist()


def test_duplicates_within_a_radius_of_codes_of_a_quantizer_are_refused(digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, _ = digits
    mh.recipe("pq", n_bits=32, random_state=0).fit(X).index(X).save("items.mhx")
    np.save("vectors.npy", X)
    refused = run("dedup", "items.mhx", "--radius", "2", code=2)
    assert "which have no Hamming radius: give --vectors and --cosine" in " ".join(
        stderr_line(refused).replace("│", " ").split()
    )
    equal = json.loads(run("dedup", "items.mhx", "--radius", "0", "--json", "--quiet").stdout)
    codes = mh.load("items.mhx").codes
    assert equal["extra"] == len(codes) - len(np.unique(codes, axis=0))
    run("dedup", "items.mhx", "--vectors", "vectors.npy", "--cosine", "0.99", "--radius", "3", "--quiet")


def test_duplicates_by_manifold_bits_get_a_note(built, digits, monkeypatch):
    monkeypatch.chdir(built)
    index = mh.load("items.mhx")
    np.save("query_codes.npy", index.hasher.encode(digits[1]))
    two_parts = index.layout.has_two_parts  # the first part is that of IMH
    compared = f"{len(index):,} {'first parts' if two_parts else 'codes'} of {index.layout.look_up_bits} bits"
    for new in ("queries.npy", "query_codes.npy"):
        found = run("dedup", new, "--against", "items.mhx", "--radius", "1", "--quiet")
        assert compared in found.stdout
        assert ("manifold method (IMH)" in found.stderr) == two_parts
    np.save("one.npy", digits[1][0])
    message = stderr_line(run("dedup", "one.npy", "--against", "items.mhx", code=2))
    assert "one.npy: expected 2-D codes or vectors, one per row, got 1-D (64,)" in message


@pytest.mark.parametrize("name", ["itq", "imh-hybrid"])
def test_vectors_in_another_order_than_the_rows_are_refused(name, hashers, digits, tmp_path):
    X, Q = digits
    ids = np.random.default_rng(0).permutation(len(X))
    index = hashers[name].index(X, ids=ids)
    expected = index.search(Q[:4], 3, rerank=X)
    index.save(tmp_path / "items.mhx")
    loaded = mh.load(tmp_path / "items.mhx")
    with pytest.raises(ValueError, match=r"row 0 of the vectors .* rerank=\(vectors, ids\)"):
        loaded.search(Q[:4], 3, rerank=X)
    for given in ((X, ids), X[np.argsort(ids)]):
        found = loaded.search(Q[:4], 3, rerank=given)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match=r"row 0 of the vectors to rerank with is not the vector of id 'r0'"):
        hashers[name].index(X, ids=[f"r{i}" for i in range(len(X))]).search(Q[:4], 3, rerank=X[::-1])
    index = hashers[name].index(X)
    index.remove([0, 1])
    with pytest.raises(ValueError, match="is not the vector of id"):
        index.search(Q[:4], 3, rerank=X[1:])
    assert (index.search(X[2:4], 1, rerank=X)[0] == 0).all()


@pytest.mark.parametrize("kind", ["strings", "integers"])
def test_a_loaded_index_accepts_the_vectors_of_its_rows_in_the_order_of_the_ids(
    kind, hashers, digits, tmp_path, monkeypatch
):
    X, Q = digits
    n, few = len(X), Q[:4]
    ids = [f"row {i:04d}" for i in range(n)] if kind == "strings" else 7 * np.arange(n) + 5
    index = hashers["itq"].index(X, ids=ids)
    expected = index.search(few, 3, rerank=X)
    monkeypatch.chdir(tmp_path)
    index.save("items.mhx")
    np.save("X.npy", X)
    np.save("shuffled.npy", X[::-1])
    np.save("Q.npy", few)
    loaded = mh.load("items.mhx")
    for _ in range(2):  # the second search does not check the vectors again
        for own, other in zip(loaded.search(few, 3, rerank=X), expected, strict=True):
            np.testing.assert_array_equal(own, other)
    command = ["search", "items.mhx", "Q.npy", "-k", "3", "--json", "--quiet", "--rerank"]
    answers = json.loads(run(*command, "X.npy").stdout)["answers"]
    assert [each["ids"] for each in answers] == expected[1].tolist()
    refused = run(*command, "shuffled.npy", code=2)
    assert "--ids" in refused.stderr
    assert "rerank=" not in refused.stderr

    swapped = X.copy()
    swapped[1 : n // 10] = X[n // 10 - 1 : 0 : -1]  # a tenth of the rows is in another order
    shorter = X[: n - 3]
    for wrong in (X[::-1], swapped, shorter, np.vstack([X, X[:1]])):
        with pytest.raises(ValueError, match=r"rerank=\(vectors, ids\)"):
            mh.load("items.mhx").search(few, 3, rerank=wrong)
    loaded.remove([ids[0]])
    loaded.add(X[:1], ids=["zzz"] if kind == "strings" else [10**6])
    with pytest.raises(ValueError, match=r"rerank=\(vectors, ids\)"):
        loaded.search(few, 3, rerank=X)
    moved = np.vstack([X[1:], X[:1]])
    np.testing.assert_array_equal(loaded.search(few, 3, rerank=moved)[0], expected[0])


def test_vectors_in_an_order_that_codes_cannot_tell_are_refused(digits):
    X, Q = digits
    X = X[np.argsort(X @ np.ones(X.shape[1]))]
    index = (
        mh.hashers.LSH(n_bits=2, random_state=0).fit(X).index(X, ids=[f"row {i:04d}" for i in range(len(X))])
    )
    index._given_ids = None  # as in an index from a file
    with pytest.raises(ValueError, match=r"rerank=\(vectors, ids\)"):
        index.search(Q, 3, rerank=X)


def test_vectors_with_one_byte_per_value_are_accepted_in_order(hashers, digits):
    from manihash.search import ByteVectors

    X, Q = digits
    index = hashers["imh-hybrid"].index(X)
    assert index.search(Q[:4], 3, rerank=ByteVectors.of(X))[1].shape == (4, 3)
    assert index.search(Q[:4], 3, rerank=X.tolist())[1].shape == (4, 3)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_matrix, sp.csc_array, pd.DataFrame])
@pytest.mark.parametrize("name", ["itq", "pq"])
def test_sparse_rows_and_tables_are_ranked_again_as_arrays_are(name, kind, hashers, digits):
    X, Q = digits
    index = hashers[name].index(X)
    for queries in (Q, kind(Q)):
        found = index.search(queries, 5, rerank=kind(X))
        for own, expected in zip(found, index.search(Q, 5, rerank=X), strict=True):
            np.testing.assert_array_equal(own, expected)


@pytest.mark.extra
@pytest.mark.parametrize("name", ["itq", "pq"])
def test_tensors_are_ranked_again_as_arrays_are(name, hashers, digits):
    torch = pytest.importorskip("torch")
    X, Q = digits
    index = hashers[name].index(X)
    for learned in (False, True):  # numpy refuses tensors with gradients
        given = torch.as_tensor(Q), torch.tensor(X, requires_grad=learned)
        found = index.search(given[0], 5, rerank=given[1])
        for own, expected in zip(found, index.search(Q, 5, rerank=X), strict=True):
            np.testing.assert_array_equal(own, expected)
