"""Stores with a column for the first part of codes: look-up by its radius, and what others say."""

import json

import numpy as np
import pytest
from command import invoke
from store_databases import WITH_FIRST, database_params, new_address, repeated_codes, scattered_ids

from manihash import HammingIndex, recipe
from manihash.code_layout import CodeLayout
from manihash.stores import StoreError, create_store, open_store
from manihash.stores.export import put_codes


@pytest.fixture(params=database_params(WITH_FIRST))
def address(request, tmp_path):
    return new_address(request.param, tmp_path)


@pytest.mark.parametrize(("n_bits", "look_up_bits"), [(64, 24), (13, 3), (200, 70)])
def test_a_look_up_by_the_first_part_is_that_of_an_index(address, n_bits, look_up_bits):
    codes, ids = repeated_codes(300, n_bits), scattered_ids(300)
    first = CodeLayout(n_bits, look_up_bits).first(codes)
    index = HammingIndex(first, look_up_bits, ids)
    with create_store(address, n_bits, layout=CodeLayout(n_bits, look_up_bits)) as store:
        store.add(codes, ids)
    with open_store(address, n_bits, layout=CodeLayout(n_bits, look_up_bits)) as store:
        assert store.look_up_bits == look_up_bits
        for radius in (0, 2, look_up_bits + 5):
            found = store.within(codes[:5], radius, part="first")
            expected = index.within(first[:5], min(radius, look_up_bits))
            for own, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(own, other)


def test_the_first_part_follows_a_code_that_is_replaced(address):
    codes = repeated_codes(20, 40)
    with create_store(address, 40, layout=CodeLayout(40, 9)) as store:
        store.add(codes, np.arange(20))
        put_codes(store, codes[10:] ^ 0xFF, np.arange(10, 20))
        near = store.within(codes[10:] ^ 0xFF, 0, part="first")[2]
        assert set(range(10, 20)) <= set(near.tolist())


def test_a_store_with_another_first_part_is_refused(address):
    create_store(address, 40, layout=CodeLayout(40, 9)).close()
    with pytest.raises(StoreError, match="has 9 bits of the first part of codes, got a layout with 8 bits"):
        open_store(address, 40, layout=CodeLayout(40, 8))
    with open_store(address) as store, pytest.raises(ValueError, match="got part='second'"):
        store.within(np.zeros((1, 5), np.uint8), 1, part="second")


def test_a_store_without_first_parts_refuses_to_look_them_up(address):
    with create_store(address, 40) as store:
        assert store.look_up_bits is None
        with pytest.raises(StoreError, match="has no column for the first part of codes: create it with"):
            store.within(np.zeros((1, 5), np.uint8), 1, part="first")
    with pytest.raises(
        StoreError, match="has no column for the first part of codes, got a layout with 9 bits"
    ):
        open_store(address, 40, layout=CodeLayout(40, 9))


def test_a_kind_of_store_without_first_parts_refuses_to_create_them(tmp_path):
    with pytest.raises(StoreError, match="a FAISS file has no column for the first part of codes"):
        create_store(str(tmp_path / "a.faiss"), 40, layout=CodeLayout(40, 9))
    with pytest.raises(ValueError, match="got n_bits=40 and a layout of 48 bits"):
        create_store(str(tmp_path / "a.db"), 40, layout=CodeLayout(48, 9))
    assert not list(tmp_path.iterdir())


@pytest.fixture
def hybrid(tmp_path, monkeypatch):
    """A folder with a hybrid model, an index file of it and queries, as the current one."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(400, 24)).astype(np.float32)
    hasher = recipe("imh-hybrid", n_bits=24, random_state=0).fit(X)
    hasher.save("model.mhash")
    index = HammingIndex(hasher.encode(X), 24, np.arange(400) + 1000, layout=hasher.layout_)
    index.save("items.mhx")
    np.save("Q.npy", X[:5])
    return hasher, index


def test_the_command_exports_an_index_with_its_ids_and_first_parts(hybrid):
    hasher, index = hybrid
    done = invoke(["export", "items.mhx", "--to", "sqlite:items.db"])
    assert done.exit_code == 0, done.output
    assert "note: SQLite looks up these codes by their first part" in " ".join(done.stderr.split())
    refused = invoke(["search", "model.mhash", "Q.npy", "--store", "items.db"])
    assert "cannot rank these codes" in " ".join(refused.stderr.split())
    assert "note" not in refused.stderr, "the error says it"
    with open_store("items.db") as store:
        assert (store.n_bits, store.look_up_bits, store.count()) == (24, hasher.layout_.look_up_bits, 400)
        np.testing.assert_array_equal(store.get(index.ids), index.codes)
    found = invoke(
        ["search", "model.mhash", "Q.npy", "--store", "items.db", "--radius", "1", "--json", "--quiet"]
    )
    answers = json.loads(found.stdout)
    layout, queries = hasher.layout_, hasher.encode(np.load("Q.npy"))
    first = HammingIndex(layout.first(index.codes), layout.look_up_bits, index.ids)
    lims, distances, ids = first.within(layout.first(queries), 1)
    assert answers["ranked_by"] == "first-part hamming"
    for i, answer in enumerate(answers["answers"]):
        assert answer["ids"] == ids[lims[i] : lims[i + 1]].tolist()
        assert answer["distances"] == distances[lims[i] : lims[i + 1]].tolist()


def test_the_command_says_at_once_what_a_store_without_first_parts_cannot_do(hybrid):
    hasher, index = hybrid
    refused = invoke(["export", "items.mhx", "--to", "items.usearch"])
    assert refused.exit_code == 2
    assert "has no column for their first part" in " ".join(refused.stderr.split())
    layout = CodeLayout(24, hasher.layout_.look_up_bits, 0.5)
    HammingIndex(index.codes, 24, layout=layout).save("signs.mhx")
    done = invoke(["export", "signs.mhx", "--to", "items.faiss"])
    assert done.exit_code == 0, done.output
    text = " ".join(done.stderr.split())
    assert "a FAISS file ranks codes of two parts by all bits alike" in text
    assert "has no column for the first part, so that --radius counts all bits" in text


def test_the_command_exports_a_product_quantizer_to_faiss_and_searches_there(hybrid):
    hasher, index = hybrid
    done = invoke(["export", "items.mhx", "--to", "items.faiss"])
    assert done.exit_code == 0, done.output
    Q = np.load("Q.npy")
    for options, kind, expected in (
        ([], "asymmetric", index.search(hasher.encode(Q), 10, asymmetric=hasher.embed(Q))),
        (["--symmetric"], "code", index.search(hasher.encode(Q), 10)),
    ):
        found = invoke(["search", "model.mhash", "Q.npy", "--store", "items.faiss", *options, "--json", "-q"])
        answers = json.loads(found.stdout)
        assert answers["ranked_by"] == kind
        assert [answer["ids"] for answer in answers["answers"]] == expected[1].tolist()
    found = invoke(
        ["search", "model.mhash", "Q.npy", "--store", "items.faiss", "--radius", "1", "--json", "-q"]
    )
    assert json.loads(found.stdout)["ranked_by"] == "first-part hamming"


def test_the_command_says_where_codes_without_signs_can_go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    recipe("pq", n_bits=16, random_state=0).fit(X).index(X).save("items.mhx")
    refused = invoke(["export", "items.mhx", "--to", "items.db"])
    assert refused.exit_code == 2
    assert "export them to a FAISS file" in " ".join(refused.stderr.split())
    assert invoke(["export", "items.mhx", "--to", "items.faiss"]).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ids", "ids.npy"], "items.mhx has its own ids: omit --ids"),
        (["--look-up-bits", "3"], "omit --look-up-bits"),
        (["--bits", "32"], "holds codes of 24 bits: omit --bits"),
    ],
)
def test_options_that_contradict_an_index_are_refused(hybrid, options, message):
    np.save("ids.npy", np.arange(400))
    done = invoke(["export", "items.mhx", "--to", "items.db", *options])
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
