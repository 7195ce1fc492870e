"""Labels: every form they come in, what is wrong with them said clearly, a draw that is fair to classes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import get_tags

from manihash.base.kmeans import KMeansBase
from manihash.embeddings.pca import PCA
from manihash.files.model import load
from manihash.hashers._labels import Labeled, in_turns, labels, turn
from manihash.hashers.ksh import KSH
from manihash.hashers.ldahash import LDAHash
from manihash.hashers.ssh import SSH
from manihash.hashers.supervised_imh import SupervisedIMH

X, y = load_digits(return_X_y=True)
SUPERVISED = [
    KSH(5, n_anchors=40, n_labels=200, random_state=0),
    SSH(5, n_labels=200, random_state=0),
    SSH(5, step=None, n_labels=200, random_state=0),
    LDAHash(5, n_labels=200, random_state=0),
    LDAHash(5, alpha=2.0, n_labels=200, random_state=0),
    SupervisedIMH(5, base=KMeansBase(40), embedding=PCA(), n_labels=200, random_state=0),
]
every_one = pytest.mark.parametrize("hasher", SUPERVISED, ids=repr)


@every_one
def test_labels_that_teach_nothing_are_refused_with_the_reason(hasher):
    for bad, message in [
        (None, "requires y to be passed"),
        (y[:-1], r"one label a row, shape \(1797,\), not \(1796,\)"),
        (y[:, None], r"not \(1797, 1\)"),
        (np.full(len(X), 3), r"one class only \(3\)"),
        (np.full(len(X), -1), "no class at all"),
        (np.where(y == 3, 3, -1), r"one class only .* rows have no label"),
        (np.where(y == 3, np.nan, y), "NaN"),
        (y + 0.5, "not whole"),
    ]:
        with pytest.raises(ValueError, match=message):
            hasher.fit(X, bad)


@every_one
def test_names_and_numbers_of_classes_give_the_same_codes(hasher):
    numbered, named = y, np.array(list("abcdefghij"))[y]
    expected = hasher.fit(X, numbered).encode(X)
    for form in (named, list(named), named.astype(object), numbered.astype(float), numbered.astype(np.uint8)):
        assert np.array_equal(hasher.fit(X, form).encode(X), expected)


@every_one
def test_a_label_that_is_not_used_changes_nothing(hasher):
    chosen = hasher._labeled(X, y, np.random.default_rng(0)).index
    hidden = np.full(len(y), -1)
    hidden[chosen] = y[chosen]
    assert len(chosen) == hasher.fit(X, y).n_labels_ == 200
    assert hasher.fit(X, hidden).n_labels_ == 200
    assert hasher.set_params(n_labels=None).fit(X, hidden).n_labels_ == 200
    hasher.set_params(n_labels=200)


@every_one
def test_a_model_file_gives_the_same_codes_without_labels(hasher, tmp_path):
    hasher.fit(X, y).save(tmp_path / "m.mhash")
    assert np.array_equal(load(tmp_path / "m.mhash").encode(X), hasher.encode(X))


@every_one
def test_a_second_fit_with_the_same_seed_gives_the_same_codes(hasher):
    codes = hasher.fit(X, y).encode(X)
    assert np.array_equal(hasher.fit(X, y).encode(X), codes)


@every_one
def test_scikit_learn_is_told_that_labels_are_needed(hasher):
    assert get_tags(hasher).target_tags.required


@every_one
def test_nan_is_found_in_any_row(hasher):
    spoilt = X.copy()
    spoilt[1234, 5] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*1234"):
        hasher.fit(spoilt, y)


def test_minus_one_and_none_mark_rows_without_a_label():
    index, number = labels([2, -1, 0, 2], 4)
    assert index.tolist() == [0, 2, 3]
    assert number.tolist() == [1, 0, 1]
    index, number = labels(["b", None, "a", "b"], 4)
    assert index.tolist() == [0, 2, 3]
    assert number.tolist() == [1, 0, 1]
    assert labels([7, None, -1, 3], 4)[0].tolist() == [0, 3]
    assert labels([True, False, True], 3)[1].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "bad", [["a", float("nan"), "b"], [{"a"}, {"b"}, {"c"}], np.array(["2020", "2021", "2022"], "M8[Y]")]
)
def test_other_things_are_no_labels(bad):
    with pytest.raises(ValueError, match=r"^y "):
        labels(bad, 3)


def test_any_start_of_the_draw_is_balanced():
    number = np.repeat([0, 1, 2], [5, 300, 40])
    order = in_turns(number, np.random.default_rng(0))
    assert sorted(order) == list(range(345))
    for size in (3, 15):
        assert np.bincount(number[order[:size]]).tolist() == [size / 3] * 3
    assert np.bincount(number[order[:85]]).tolist() == [5, 40, 40]


def test_turns_count_earlier_rows_of_the_class():
    assert turn(np.array([1, 0, 1, 1, 0])).tolist() == [0, 0, 1, 2, 1]


def test_products_with_the_similarity_need_no_matrix():
    labeled = Labeled(np.arange(6), np.array([0, 2, 1, 0, 2, 2]))
    S = np.where(labeled.number[:, None] == labeled.number, 1.0, -1.0)
    B = np.random.default_rng(0).standard_normal((6, 4))
    assert labeled.similarity_times(B) == pytest.approx(S @ B)
    assert labeled.similarity_times(B[:, 0]) == pytest.approx(S @ B[:, 0])
