"""Labels: every accepted form, clear errors for the others, and a sample with balanced classes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import get_tags

from manihash.base.kmeans import KMeansBase
from manihash.embeddings.pca import PCA
from manihash.files.model import load
from manihash.hashers._labels import LabeledRows, balanced_order, parse_labels, rank_in_class
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
every_hasher = pytest.mark.parametrize("hasher", SUPERVISED, ids=repr)


@every_hasher
def test_unusable_labels_raise_an_error_with_the_reason(hasher):
    for bad, message in [
        (None, "requires y to be passed"),
        (y[:-1], r"one label per row, shape \(1797,\), got shape \(1796,\)"),
        (y[:, None], r"got shape \(1797, 1\)"),
        (np.full(len(X), 3), r"only one class \(3\)"),
        (np.full(len(X), -1), "contains no class"),
        (np.where(y == 3, 3, -1), r"only one class .* rows have no label"),
        (np.where(y == 3, np.nan, y), "NaN"),
        (y + 0.5, "not integers"),
    ]:
        with pytest.raises(ValueError, match=message):
            hasher.fit(X, bad)


@every_hasher
def test_integer_and_string_labels_give_the_same_codes(hasher):
    numbered, named = y, np.array(list("abcdefghij"))[y]
    expected = hasher.fit(X, numbered).encode(X)
    for form in (named, list(named), named.astype(object), numbered.astype(float), numbered.astype(np.uint8)):
        assert np.array_equal(hasher.fit(X, form).encode(X), expected)


@every_hasher
def test_labels_that_are_not_sampled_have_no_effect_on_the_number_used(hasher):
    chosen = hasher._sample_labels(X, y, np.random.default_rng(0)).index
    hidden = np.full(len(y), -1)
    hidden[chosen] = y[chosen]
    assert len(chosen) == hasher.fit(X, y).n_labels_ == 200
    assert hasher.fit(X, hidden).n_labels_ == 200
    assert hasher.set_params(n_labels=None).fit(X, hidden).n_labels_ == 200
    hasher.set_params(n_labels=200)


def test_by_default_forty_labels_per_class_are_used_if_that_is_more_than_a_thousand():
    rng = np.random.default_rng(0)
    many, few = np.repeat(np.arange(50), 60), np.repeat(np.arange(3), 1000)
    rows = rng.normal(size=(3000, 4))
    assert LDAHash(2).fit(rows, many).n_labels_ == 2000
    assert LDAHash(2).fit(rows, few).n_labels_ == 1000
    with pytest.raises(ValueError, match="n_labels"):
        LDAHash(2, n_labels="all").fit(rows, few)


@every_hasher
def test_a_model_file_gives_the_same_codes_without_labels(hasher, tmp_path):
    hasher.fit(X, y).save(tmp_path / "m.mhash")
    assert np.array_equal(load(tmp_path / "m.mhash").encode(X), hasher.encode(X))


@every_hasher
def test_a_second_fit_with_the_same_seed_gives_the_same_codes(hasher):
    codes = hasher.fit(X, y).encode(X)
    assert np.array_equal(hasher.fit(X, y).encode(X), codes)


@every_hasher
def test_the_scikit_learn_tags_require_labels(hasher):
    assert get_tags(hasher).target_tags.required


@every_hasher
def test_nan_in_any_row_raises_an_error(hasher):
    damaged = X.copy()
    damaged[1234, 5] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*1234"):
        hasher.fit(damaged, y)


def test_minus_one_and_none_mark_rows_without_a_label():
    index, classes = parse_labels([2, -1, 0, 2], 4)
    assert index.tolist() == [0, 2, 3]
    assert classes.tolist() == [1, 0, 1]
    index, classes = parse_labels(["b", None, "a", "b"], 4)
    assert index.tolist() == [0, 2, 3]
    assert classes.tolist() == [1, 0, 1]
    assert parse_labels([7, None, -1, 3], 4)[0].tolist() == [0, 3]
    assert parse_labels([True, False, True], 3)[1].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "bad", [["a", float("nan"), "b"], [{"a"}, {"b"}, {"c"}], np.array(["2020", "2021", "2022"], "M8[Y]")]
)
def test_values_that_are_neither_integers_nor_strings_raise_an_error(bad):
    with pytest.raises(ValueError, match=r"^y "):
        parse_labels(bad, 3)


def test_every_prefix_of_the_balanced_order_has_balanced_classes():
    classes = np.repeat([0, 1, 2], [5, 300, 40])
    order = balanced_order(classes, np.random.default_rng(0))
    assert sorted(order) == list(range(345))
    for size in (3, 15):
        assert np.bincount(classes[order[:size]]).tolist() == [size / 3] * 3
    assert np.bincount(classes[order[:85]]).tolist() == [5, 40, 40]


def test_rank_in_class_counts_earlier_rows_of_the_class():
    assert rank_in_class(np.array([1, 0, 1, 1, 0])).tolist() == [0, 0, 1, 2, 1]


def test_similarity_times_equals_the_product_with_the_full_matrix():
    labeled = LabeledRows(np.arange(6), np.array([0, 2, 1, 0, 2, 2]))
    S = np.where(labeled.classes[:, None] == labeled.classes, 1.0, -1.0)
    B = np.random.default_rng(0).standard_normal((6, 4))
    assert labeled.similarity_times(B) == pytest.approx(S @ B)
    assert labeled.similarity_times(B[:, 0]) == pytest.approx(S @ B[:, 0])


def test_minus_one_beside_strings_is_no_label():
    names = [*["a", "b"] * 4, -1, None]
    index, classes = parse_labels(names, 10)
    assert index.tolist() == list(range(8))
    assert classes.tolist() == [0, 1] * 4
