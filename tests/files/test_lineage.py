"""The lineage of a model: its id is a hash of what determines its codes."""

from pathlib import Path

import numpy as np
import pytest

import manihash
from manihash import IMH, Hybrid, load
from manihash.base import CoarseNeighbors, KMeansBase, LargeBase
from manihash.embeddings import PCA
from manihash.errors import ModelFileError
from manihash.files import model_format
from manihash.files.lineage import accepts_codes_of, content_id, new_lineage
from manihash.hashers import ITQ, KLSH, LSH

X = np.random.default_rng(0).normal(size=(400, 6))
OLD = Path(__file__).parent / "v0.1.0"


def imh(**options):
    return IMH(4, KMeansBase(20), PCA(), **{"random_state": 0} | options)


def test_equal_fits_have_equal_ids_and_others_have_others():
    models = [
        imh(),
        imh(random_state=1),
        imh(n_neighbors=4),
        imh(bandwidth=1.0),
        imh(normalize=True),
        LSH(4, random_state=0),
        LSH(5, random_state=0),
        Hybrid(imh(), ITQ(4), random_state=0),
        Hybrid(imh(random_state=1), ITQ(4), random_state=0),
    ]
    ids = [model.fit(X).lineage_["id"] for model in models]
    assert len(set(ids)) == len(models)
    assert [model.fit(X).lineage_["id"] for model in models] == ids
    assert imh().fit(X + 1).lineage_["id"] not in ids


@pytest.mark.parametrize(
    "part",
    [
        lambda: ITQ(4, random_state=np.random.default_rng(1)),
        lambda: LSH(4, random_state=np.random.RandomState(1)),
        lambda: KLSH(4, kernel=lambda X, Z: X @ Z.T, random_state=1),
    ],
)
def test_objects_with_an_address_do_not_change_the_id(part):
    models = [Hybrid(imh(), part(), random_state=0).fit(X) for _ in range(2)]
    assert models[0].lineage_ == models[1].lineage_


def test_a_generator_has_the_id_of_a_model_that_was_saved(tmp_path):
    hasher = Hybrid(imh(), ITQ(4, random_state=np.random.default_rng(1)), random_state=0).fit(X)
    hasher.save(tmp_path / "m.mhash")
    assert content_id(load(tmp_path / "m.mhash")) == content_id(hasher)


def test_the_options_of_a_neighbor_finder_are_part_of_the_id():
    ids = set()
    for probes in (2, 3):
        base = LargeBase(60, neighbors=CoarseNeighbors(probes, cells=8))
        ids.add(IMH(4, base, PCA(), random_state=0).fit(X).lineage_["id"])
    assert len(ids) == 2


def test_a_fit_has_no_parent_and_records_the_version():
    lineage = imh().fit(X).lineage_
    assert (lineage["parent"], lineage["compatible"]) == (None, [])
    assert lineage["version"] == manihash.__version__


def test_a_loaded_model_has_the_lineage_of_the_saved_one(tmp_path):
    model = imh().fit(X)
    model.save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    assert loaded.lineage_ == model.lineage_
    assert content_id(loaded) == model.lineage_["id"]


@pytest.mark.parametrize("name", ["imh-tsne", "imh-large", "itq", "inductive-embedding"])
def test_a_file_without_a_lineage_gets_the_same_id_each_time(name, tmp_path):
    first, second = (load(OLD / f"{name}.mhash") for _ in range(2))
    assert first.lineage_ == second.lineage_
    assert (first.lineage_["parent"], first.lineage_["version"]) == (None, None)
    first.save(tmp_path / "m.mhash")
    assert load(tmp_path / "m.mhash").lineage_ == first.lineage_


def test_codes_of_all_earlier_models_are_accepted_after_updates_and_none_after_a_refit():
    model = imh().fit(X)
    first = model.lineage_
    model.base_embedding_ = model.base_embedding_ + 1
    second = new_lineage(model, first, keeps_codes=True)
    model.base_embedding_ = model.base_embedding_ + 1
    third = new_lineage(model, second, keeps_codes=True)
    assert third["compatible"] == [first["id"], second["id"]]
    assert accepts_codes_of(third, first["id"])
    assert accepts_codes_of(third, third["id"])
    assert not accepts_codes_of(first, third["id"])
    refitted = new_lineage(model, second)
    assert refitted["parent"] == second["id"]
    assert not accepts_codes_of(refitted, second["id"])


@pytest.mark.parametrize("lineage", ["abc", {"dict": {"id": 3}}, {"dict": {"id": "a", "parent": "b"}}, None])
def test_a_file_with_an_invalid_lineage_is_refused(lineage, tmp_path):
    imh().fit(X).save(tmp_path / "m.mhash")
    document, arrays = model_format.read_document(tmp_path / "m.mhash")
    document["fitted"]["dict"]["lineage_"] = lineage
    model_format.write_document(tmp_path / "m.mhash", document, arrays)
    with pytest.raises(ModelFileError, match=r"lineage_ is .* expected id, parent"):
        load(tmp_path / "m.mhash")
