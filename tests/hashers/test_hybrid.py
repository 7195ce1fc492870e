"""Hybrid: a code is the codes of two hashers side by side, and works like that of any other hasher."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils import get_tags

from manihash import IMH, Hasher, Hybrid, load, pack, recipe, unpack
from manihash.base import KMeansBase, LargeBase, ReducedBase
from manihash.embeddings import PCA
from manihash.errors import BadRowsError
from manihash.hashers import ITQ, KSH, LSH, PCAH, ProductQuantizer
from manihash.hashers.hybrid import agreement, least_weight, separated_groups, weight_by_groups
from manihash.rotation import ITQRotation

X, y = load_digits(return_X_y=True)


def imh(n_bits, **options):
    return IMH(n_bits, KMeansBase(40), PCA(), rotation=ITQRotation(3), random_state=1, **options)


def large(n_bits):
    return IMH(n_bits, ReducedBase(LargeBase(200), n_components=20), PCA(), random_state=1)


PAIRS = {
    "imh and itq": lambda: Hybrid(imh(16), ITQ(16)),
    "odd lengths": lambda: Hybrid(imh(5), ITQ(14)),
    "one bit each": lambda: Hybrid(LSH(1), PCAH(1)),
    "normalized parts": lambda: Hybrid(imh(7, normalize=True), ITQ(9, normalize=True)),
    "one part normalized": lambda: Hybrid(imh(7), ITQ(9, normalize=True)),
    "base points in cells": lambda: Hybrid(large(11), ITQ(20)),
    "a hybrid in a hybrid": lambda: Hybrid(Hybrid(imh(3), large(4)), ITQ(5)),
    "a length for both": lambda: Hybrid(imh(2), ITQ(2), n_bits=40, normalize=True),
}


def rows_of_kind(kind):
    return {
        "float64": X,
        "float32": X.astype(np.float32),
        "far from zero": X.astype(np.float32) + 5000,
        "integers": X.astype(np.int16),
        "sparse": sp.csr_array(X.astype(np.float32)),
        "tiny rows": X.astype(np.float32) * np.float32(1e-15),
    }[kind]


def codes_of_parts(hybrid, rows):
    parts = (hybrid.first_, hybrid.second_)
    return pack(np.hstack([unpack(part.encode(rows), part.n_bits_) for part in parts]))


@pytest.mark.cases(12)
@pytest.mark.parametrize("kind", ["float64", "float32", "far from zero", "integers", "sparse", "tiny rows"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_code_is_the_codes_of_the_parts_side_by_side(pair, kind):
    rows = rows_of_kind(kind)
    hybrid = PAIRS[pair]().set_params(random_state=0).fit(rows)
    codes = hybrid.encode(rows)
    assert np.array_equal(codes, codes_of_parts(hybrid, rows))
    assert np.array_equal(np.vstack(list(hybrid.encode_blocks(rows, start=100))), codes[100:])
    assert np.array_equal(pack(hybrid.transform(rows)), codes)
    assert np.array_equal(pack(hybrid.embed(rows) > 0), codes)
    for size in (1, 2, 7, 100):
        assert np.array_equal(hybrid.encode(rows[30 : 30 + size]), codes[30 : 30 + size])


def test_the_parts_are_those_that_a_user_fits_on_their_own():
    hybrid = Hybrid(imh(6), ITQ(10, random_state=2)).fit(X)
    expected = [part.fit(X).encode(X) for part in (imh(6), ITQ(10, random_state=2))]
    assert np.array_equal(hybrid.first_.encode(X), expected[0])
    assert np.array_equal(hybrid.second_.encode(X), expected[1])
    assert not hasattr(hybrid.first, "n_bits_")


@pytest.mark.parametrize(("n_bits", "first"), [(2, 1), (3, 1), (16, 8), (64, 24), (65, 24), (96, 24)])
def test_a_length_is_divided_between_the_parts(n_bits, first):
    hybrid = Hybrid(LSH(5), LSH(5), n_bits=n_bits, random_state=0).fit(X)
    assert (hybrid.layout_.look_up_bits, hybrid.n_bits_) == (first, n_bits)
    assert hybrid.second_.n_bits_ == n_bits - first
    assert hybrid.encode(X).shape[1] == -(-n_bits // 8)


def test_the_length_of_a_part_is_refused_beside_the_length_of_the_code():
    with pytest.raises(ValueError, match=r"first__n_bits would have no effect, because n_bits=64 is divided"):
        recipe("imh-hybrid", n_bits=64, first__n_bits=20)
    own = recipe("imh-hybrid", n_bits=None, first__n_bits=20, second__n_bits=40)
    assert (own.first.n_bits, own.second.n_bits) == (20, 40)


def test_a_seed_reaches_the_parts_that_have_none():
    one, other = (Hybrid(LSH(8, random_state=5), LSH(8), random_state=seed).fit(X) for seed in (1, 2))
    assert np.array_equal(one.first_.encode(X), other.first_.encode(X))
    assert not np.array_equal(one.second_.encode(X), other.second_.encode(X))
    assert np.array_equal(clone(one).fit(X).encode(X), one.encode(X))


@pytest.mark.parametrize("pair", PAIRS)
def test_a_saved_hybrid_gives_the_same_codes(pair, tmp_path):
    hybrid = PAIRS[pair]().set_params(random_state=0, weight=0.25).fit(X)
    hybrid.save(tmp_path / "model.mhash")
    loaded = load(tmp_path / "model.mhash")
    assert np.array_equal(loaded.encode(X), hybrid.encode(X))
    assert (loaded.n_bits_, loaded.layout_.look_up_bits, loaded.weight_) == (
        hybrid.n_bits_,
        hybrid.layout_.look_up_bits,
        0.25,
    )
    assert np.array_equal(loaded.fit(X).encode(X), hybrid.encode(X))


class Foreign(LSH):
    """A hasher that is not one of manihash."""


@pytest.mark.parametrize("hybrid", [Hybrid(Foreign(3), LSH(3)), Hybrid(Hybrid(LSH(3), Foreign(3)), LSH(3))])
def test_a_hybrid_with_a_hasher_of_the_user_works_but_is_not_saved(hybrid, tmp_path):
    hybrid.set_params(random_state=0).fit(X)
    assert np.array_equal(hybrid.encode(X), codes_of_parts(hybrid, X))
    with pytest.raises(ValueError, match=r"Hybrid cannot be saved: its .*_ is a Foreign"):
        hybrid.save(tmp_path / "model.mhash")
    assert not (tmp_path / "model.mhash").exists()


@pytest.mark.extra
def test_a_dask_array_gives_the_same_codes():
    da = pytest.importorskip("dask.array")
    hybrid = Hybrid(imh(5), ITQ(14), weight="auto").set_params(random_state=0)
    array = da.from_array(X, chunks=(500, -1))
    fitted = clone(hybrid).fit(array)
    codes = fitted.encode(array)
    assert isinstance(codes, da.Array), "nothing is computed yet"
    assert np.array_equal(codes.compute(), hybrid.fit(X).encode(X))
    assert fitted.weight_ == hybrid.weight_


@pytest.mark.extra
@pytest.mark.parametrize("first", [imh(5), large(5), LSH(5)])
def test_tensors_give_the_codes_that_the_parts_give(first):
    torch = pytest.importorskip("torch")
    rows = torch.as_tensor(X.astype(np.float32) + 5000)
    hybrid = Hybrid(first, ITQ(14, normalize=True), random_state=0).fit(rows)
    parts = [np.asarray(part.encode(rows)) for part in (hybrid.first_, hybrid.second_)]
    expected = pack(np.hstack([unpack(codes, bits) for codes, bits in zip(parts, (5, 14), strict=True)]))
    assert np.array_equal(np.asarray(hybrid.encode(rows)), expected)


def test_labels_reach_the_parts_and_are_required_if_a_part_requires_them():
    hybrid = Hybrid(KSH(4, n_anchors=20, n_iter=3), LSH(4), random_state=0)
    assert get_tags(hybrid).target_tags.required
    assert not get_tags(Hybrid(LSH(4), LSH(4))).target_tags.required
    assert np.array_equal(hybrid.fit(X, y).encode(X), codes_of_parts(hybrid, X))
    with pytest.raises(ValueError, match=r"the first part, KSH: .*y"):
        hybrid.fit(X)


def test_parts_that_were_fitted_on_other_widths_are_fitted_again():
    hybrid = Hybrid(imh(5).fit(X[:, :20]), ITQ(6).fit(X[:, :30]), random_state=0).fit(X)
    assert np.array_equal(hybrid.encode(X), codes_of_parts(hybrid, X))
    assert hybrid.first.n_features_in_ == 20
    with pytest.raises(ValueError, match="30 features, but Hybrid is expecting 64"):
        hybrid.encode(X[:, :30])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": "imh"}, "first must be a hasher such as IMH.*, not 'imh'"),
        ({"second": LSH}, "second must be a hasher"),
        ({"second": KMeansBase(3)}, "second must be a hasher"),
        ({"second": Hybrid(LSH(4), ProductQuantizer(16))}, "not a Hybrid with a ProductQuantizer"),
        ({"first": LSH(0)}, "the first part, LSH: n_bits must be a whole number of at least 1, not 0"),
        ({"second": ITQ(65)}, "the second part, ITQ: n_bits=65 exceeds the 64 bits"),
        ({"n_bits": 1}, "n_bits must be a whole number of at least 2, not 1"),
        ({"n_bits": 2.5}, "n_bits must be a whole number of at least 2, not 2.5"),
        ({"normalize": "yes"}, "normalize must be true or false"),
        ({"weight": -0.5}, "weight must be a finite number of at least zero, not -0.5"),
        ({"weight": np.inf}, "weight must be a finite number of at least zero, not inf"),
        ({"weight": np.nan}, "weight must be a finite number of at least zero, not nan"),
        ({"weight": "0.5"}, "weight must be a finite number of at least zero, not '0.5'"),
        ({"weight": 1e300}, r"weight must be at most 1e\+30"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Hybrid(**{"first": LSH(4), "second": LSH(4), "random_state": 0} | options).fit(X)


def bits_of_groups(groups: int, n_bits: int):
    """Bits of 2,000 rows in groups of about equal size: each group has a random code."""
    rng = np.random.default_rng(0)
    return (rng.random((groups, n_bits)) < 0.5)[rng.integers(0, groups, 2000)]


@pytest.mark.parametrize("n_bits", [16, 32, 64])
@pytest.mark.parametrize("groups", [5, 10, 20, 40])
def test_bits_of_any_length_show_the_number_of_groups(groups, n_bits):
    assert separated_groups(bits_of_groups(groups, n_bits)) == pytest.approx(groups, rel=0.35)


@pytest.mark.parametrize(
    ("groups", "of_signs", "of_fields"), [(2, 1, 4), (8, 0.25, 0.125), (50, 0.5, 1), (1000, 0.5, 1)]
)
def test_a_few_groups_give_the_second_part_the_least_weight(groups, of_signs, of_fields):
    bits = bits_of_groups(groups, 64)
    assert weight_by_groups(bits, fields=False) == of_signs
    assert weight_by_groups(bits, fields=True) == of_fields


def test_independent_bits_tell_many_groups_apart():
    bits = np.random.default_rng(0).random((2000, 32)) < 0.5
    assert separated_groups(bits) > 500


@pytest.mark.parametrize("bits", [np.ones((50, 8), bool), np.arange(50)[:, None] % 2 == np.zeros(8)])
def test_a_first_part_that_tells_nothing_has_the_least_weight(bits):
    assert weight_by_groups(bits, fields=False) == 1
    assert weight_by_groups(bits, fields=True) == 4


def test_agreement_is_the_share_of_nearest_rows_with_the_same_bits():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (300, 3)).astype(float)  # many equal distances
    bits = rng.random((300, 2)) < 0.5
    found = []
    for i, row in enumerate(rows):
        squared = ((rows - row) ** 2).sum(axis=1)
        squared[i] = np.inf
        found.append((bits[squared == squared.min()] == bits[i]).all(axis=1).mean())
    assert agreement(bits, rows) == pytest.approx(np.mean(found))


@pytest.mark.parametrize("offset", [1e5, 1e8])
def test_agreement_and_weight_do_not_depend_on_where_the_rows_lie(offset):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 600)
    rows = 5 * rng.normal(size=(10, 16))[y] + 0.1 * rng.normal(size=(600, 16))
    bits = (rng.random((10, 12)) < 0.5)[y]
    assert agreement(bits, rows + offset) == agreement(bits, rows) == 1
    assert least_weight(bits, rows + offset) == 0.125


def test_bits_that_separate_neighbors_do_not_outweigh_the_quantizer():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8, 1000)
    rows = 20 * rng.normal(size=(8, 16))[y] + rng.normal(size=(1000, 16))
    of_groups = (rng.random((8, 24)) < 0.5)[y]
    assert least_weight(of_groups, rows) == 0.125
    assert least_weight((rng.random((8, 24)) < 0.5)[rng.permutation(y)], rows) == 1


def test_the_weight_is_chosen_without_changing_the_codes():
    rng = np.random.default_rng(0)
    groups = rng.normal(size=(8, 32))[rng.integers(0, 8, 1500)] + 0.1 * rng.normal(size=(1500, 32))
    line = np.linspace(0, 1, 1500)[:, None] * rng.normal(size=32) + 0.01 * rng.normal(size=(1500, 32))
    first = IMH(n_bits=20, base=KMeansBase(60), embedding=PCA(), rotation=ITQRotation())
    for rows, weight in ((groups, 0.25), (line, 1)):
        hasher = Hybrid(clone(first), ITQ(n_bits=12), weight="auto", random_state=0).fit(rows)
        plain = Hybrid(clone(first), ITQ(n_bits=12), weight=2, random_state=0).fit(rows)
        assert hasher.weight_ == weight
        assert (hasher.encode(rows) == plain.encode(rows)).all()
        assert hasher.weight == "auto"


def test_a_weight_of_zero_is_allowed():
    assert Hybrid(LSH(4), LSH(4), weight=0, random_state=0).fit(X).weight_ == 0.0


def test_a_bad_row_is_named_as_by_any_hasher():
    rows = X.copy()
    rows[7, 3] = np.nan
    with pytest.raises(BadRowsError, match=r"^Input X contains NaN: the first such row is 7"):
        Hybrid(LSH(4), imh(4), random_state=0).fit(rows)


def test_without_arguments_it_is_imh_and_itq():
    hybrid = Hybrid(random_state=0).fit(X)
    assert isinstance(hybrid, Hasher)
    assert (type(hybrid.first_), type(hybrid.second_), hybrid.n_bits_) == (IMH, ITQ, 64)


@pytest.mark.parametrize(
    ("name", "n", "d", "n_bits", "first"),
    [
        ("imh-hybrid-hamming", 300, 16, 64, 48),
        ("imh-hybrid-hamming", 20, 64, 64, 19),
        ("imh-hybrid-hamming", 6, 64, 16, 5),
        ("imh-hybrid-hamming", 300, 64, 64, 24),
        ("imh-hybrid", 300, 64, 64, 24),
        ("imh-hybrid", 300, 64, 128, 32),
        ("imh-hybrid", 300, 64, 256, 64),
        ("imh-hybrid", 300, 64, 20, 12),  # one field of 8 bits
        ("imh-hybrid", 300, 64, 10, 6),  # one field of 4 bits
        ("imh-hybrid", 300, 2, 64, 48),  # as many fields as columns
        ("imh-hybrid", 20, 64, 64, 16),  # 16 centers for 20 rows, fewer bits than rows
        ("imh-hybrid", 300, 64, 300, 68),
    ],
)
def test_the_bits_are_divided_as_few_rows_and_columns_allow(name, n, d, n_bits, first):
    rows = np.random.default_rng(0).normal(size=(n, d))
    hybrid = recipe(name, n_bits, 0).fit(rows)
    assert (hybrid.layout_.look_up_bits, hybrid.n_bits_) == (first, n_bits)


def test_too_many_bits_are_refused_before_the_first_part_is_fitted():
    class Unfittable(LSH):
        def _fit(self, rows, y, rng):
            raise AssertionError("fitted")

    with pytest.raises(ValueError, match="the second part, ITQ: n_bits=50 exceeds the 9 bits"):
        Hybrid(Unfittable(8), ITQ(50)).fit(X[:, :9])
    with pytest.raises(ValueError, match="10 rows of 8 columns allow"):
        recipe("imh-hybrid", 64, 0).fit(np.random.default_rng(0).normal(size=(10, 8)))


@pytest.mark.parametrize(
    ("name", "n", "d", "most", "of_parts"),
    [
        ("imh-hybrid", 300, 5, 339, "299 for the first part and 40"),
        ("imh-hybrid", 6, 3, 8, "5 for the first part and 3"),
        ("imh-hybrid-hamming", 300, 5, 304, "299 for the first part and 5"),
    ],
)
def test_the_message_of_too_many_bits_names_the_longest_possible_code(name, n, d, most, of_parts):
    rows = np.random.default_rng(0).normal(size=(n, d))
    expected = f"n_bits={most + 1} exceeds the {most} bits that {n} rows of {d} columns allow, {of_parts} for"
    with pytest.raises(ValueError, match=f"^{expected}"):
        recipe(name, most + 1, 0).fit(rows)
    assert recipe(name, most, 0).fit(rows).n_bits_ == most
