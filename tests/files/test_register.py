"""A class of another package: registered by the program, built by its recipe, saved and loaded."""

import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import manihash as mh
from manihash.errors import ModelFileError
from manihash.files import registry
from manihash.hashers.recipe_table import RECIPES

X = np.random.default_rng(0).normal(size=(60, 5))


class AboveMean(mh.Hasher):
    """Bits of columns above their mean."""

    def __init__(self, n_bits=5, normalize=False, random_state=None):
        self.n_bits = n_bits
        self.normalize = normalize
        self.random_state = random_state

    def _fit(self, rows, y, rng):
        self.mean_ = rows.take(np.arange(len(rows))).mean(axis=0)

    def _embed(self, X):
        return X - self.mean_


class Columns(BaseEstimator):
    """An embedding: the first columns."""

    def __init__(self, n_components=2):
        self.n_components = n_components

    def fit_transform(self, X, y=None):
        return X[:, : self.n_components] - X[:, : self.n_components].mean(axis=0)


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    before = dict(RECIPES)
    yield
    RECIPES.clear()
    RECIPES.update(before)


def test_a_registered_hasher_is_a_recipe_and_can_be_saved_and_loaded(tmp_path):
    assert mh.register("above-mean", AboveMean, about="columns above their mean") is AboveMean
    assert "above-mean" in mh.recipe_names()
    hasher = mh.recipe("above-mean", n_bits=5).fit(X)
    assert type(hasher) is AboveMean
    hasher.save(tmp_path / "m.mhash")
    loaded = mh.load(tmp_path / "m.mhash")
    np.testing.assert_array_equal(loaded.encode(X), hasher.encode(X))
    assert loaded.lineage_ == hasher.lineage_


def test_an_index_and_a_hybrid_hold_a_registered_hasher(tmp_path):
    mh.register("above-mean", AboveMean)
    hasher = mh.Hybrid(AboveMean(), mh.hashers.LSH(8), random_state=0).fit(X)
    hasher.index(X).save(tmp_path / "items.mhx")
    loaded = mh.load(tmp_path / "items.mhx").hasher
    assert type(loaded.first_) is AboveMean
    np.testing.assert_array_equal(loaded.encode(X), hasher.encode(X))


def test_a_class_that_is_not_registered_is_neither_saved_nor_loaded(tmp_path, monkeypatch):
    hasher = AboveMean().fit(X)
    with pytest.raises(ValueError, match=r"AboveMean cannot be saved: .* Call manihash\.register"):
        hasher.save(tmp_path / "m.mhash")
    mh.register("above-mean", AboveMean)
    hasher.save(tmp_path / "m.mhash")
    monkeypatch.setattr(registry, "_registered", {})
    expected = "names the class 'above-mean', which is not registered in this program: import the module"
    with pytest.raises(ModelFileError, match=expected):
        mh.load(tmp_path / "m.mhash")


def test_a_file_runs_no_code_of_a_package_that_it_names(tmp_path):
    """Another process, in which the module of the class exists and was not imported."""
    (tmp_path / "mine.py").write_text(
        "import manihash as mh\nfrom manihash.hashers import LSH\nprint('imported')\n"
        "@mh.register('mine')\nclass Mine(LSH):\n    pass\n"
    )
    save = "import mine, numpy as np; mine.Mine(4).fit(np.random.rand(9, 4)).save('m.mhash')"
    load = "import manihash; {}print(type(manihash.load('m.mhash')).__name__)"
    codes = [save, load.format(""), load.format("import mine; ")]
    runs = [
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        for code in codes
    ]
    assert runs[0].returncode == 0, runs[0].stderr
    assert runs[1].stdout == ""
    assert "which is not registered" in runs[1].stderr
    assert runs[2].stdout.split() == ["imported", "Mine"]


def test_a_registered_part_is_in_model_files_and_is_no_recipe(tmp_path):
    mh.register("columns", Columns)
    assert "columns" not in mh.recipe_names()
    hasher = mh.IMH(2, mh.base.KMeansBase(10), Columns(), random_state=0).fit(X)
    hasher.save(tmp_path / "m.mhash")
    assert type(mh.load(tmp_path / "m.mhash").embedding) is Columns


def test_a_class_can_be_defined_again_and_a_name_belongs_to_one_class():
    mh.register("above-mean", AboveMean)
    again = type("AboveMean", (AboveMean,), {"__module__": __name__})
    assert mh.register("above-mean", again) is again
    assert type(mh.recipe("above-mean")) is again
    with pytest.raises(ValueError, match=re.escape("register Columns under another name")):
        mh.register("above-mean", Columns)


@pytest.mark.parametrize(("name", "cls"), [("imh-tsne", AboveMean), ("IMH", AboveMean), ("new", len)])
def test_names_of_manihash_and_things_that_are_no_estimators_are_refused(name, cls):
    with pytest.raises(ValueError, match=r"under another name|give a class that inherits"):
        mh.register(name, cls)
    assert name == "imh-tsne" or name not in RECIPES
