"""IMH: the authors' codes bit for bit, the quality they report on MNIST, and what any hasher must keep."""

import gzip
from functools import cache

import numpy as np
import pytest
from released_code import released_map
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from manihash import IMH, recipe, recipe_names
from manihash.base import KMeansBase, RandomBase
from manihash.codes import pack, unpack
from manihash.embeddings import PCA, TSNE
from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers.imh import IMH as IMHClass
from manihash.hashers.recipes import recipe_of
from manihash.rotation import ITQRotation


class Given:
    """An embedding that was computed elsewhere."""

    def __init__(self, Y):
        self.Y = Y

    def fit_transform(self, X):
        return self.Y


@cache
def golden(folder):
    return dict(np.load(folder / "imh-golden" / "imh_golden.npz"))


@cache
def mnist(folder):
    """The 70,000 images (n, 784), training images first."""
    parts = []
    for name in ("train", "t10k"):
        with gzip.open(folder / "mnist" / f"{name}-images-idx3-ubyte.gz") as file:
            parts.append(np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784))
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture(scope="module")
def small(digits):
    return IMH(13, KMeansBase(60), TSNE(n_iter=60), rotation=ITQRotation(5), random_state=0).fit(digits)


def authors_model(gold, images, name, dtype):
    few = images[gold["train_idx"][:10]].astype(dtype)
    Y = gold[name]
    model = IMH(
        Y.shape[1], base=gold["centres"], embedding=Given(Y), bandwidth=float(gold["sigma"]), normalize=True
    )
    return model.fit(few)


@pytest.mark.parametrize("name", ["tsne_16", "tsne_64", "le_16", "le_64"])
def test_encode_gives_the_authors_codes_bit_for_bit(data_folder, name):
    gold, images = golden(data_folder), mnist(data_folder)
    model = authors_model(gold, images, name, np.float64)
    test, train = images[gold["test_idx"]], images[gold["train_idx"][:5000]]
    assert np.array_equal(model.encode(test.astype(np.float64)), gold[f"{name}_test_codes"])
    assert np.array_equal(model.encode(train.astype(np.float64)), gold[f"{name}_train_codes_first_5000"])


@pytest.mark.parametrize("name", ["tsne_16", "tsne_64", "le_16", "le_64"])
def test_in_float32_at_most_three_bits_in_a_million_differ(data_folder, name):
    gold, images = golden(data_folder), mnist(data_folder)
    model = authors_model(gold, images, name, np.float32)
    rows = images[np.concatenate([gold["test_idx"], gold["train_idx"][:5000]])]
    expected = np.concatenate([gold[f"{name}_test_codes"], gold[f"{name}_train_codes_first_5000"]])
    wrong = int(np.bitwise_count(model.encode(rows) ^ expected).sum())
    assert wrong <= 3e-6 * len(rows) * gold[name].shape[1]


def test_the_bandwidth_rule_gives_the_authors_sigma(data_folder):
    gold, images = golden(data_folder), mnist(data_folder)
    model = IMH(16, base=gold["centres"], embedding=Given(gold["tsne_16"]), normalize=True)
    model.fit(images[gold["train_idx"]])
    assert model.bandwidth_ == pytest.approx(float(gold["sigma"]), rel=1e-5)


def fitted(folder, name, n_bits):
    gold, images = golden(folder), mnist(folder)
    return recipe(name, n_bits, random_state=0).fit(images[gold["train_idx"]])


def look_up(folder, model):
    """What 300 of the test images find among 20,000 of the training images."""
    gold, images = golden(folder), mnist(folder)
    queries, database = images[gold["test_idx"][:300]], images[gold["train_idx"][:20_000]]
    truth = LabelTruth(gold["test_label"][:300], gold["train_label"][:20_000])
    return evaluate(model.encode(queries), model.encode(database), truth, model.n_bits)


@pytest.mark.parametrize("name", ["imh-tsne", "imh-le"])
def test_mnist_at_32_bits_is_ranked_as_well_as_by_the_authors(data_folder, name):
    """The authors' value is a mean of five seeds; one seed gets a margin."""
    assert look_up(data_folder, fitted(data_folder, name, 32)).map >= released_map(name, 32) - 0.04


def test_rotation_multiplies_the_f1_of_a_look_up_within_radius_two(data_folder):
    model = fitted(data_folder, "imh-tsne-rotated", 64)
    rotated = look_up(data_folder, model).f1
    model.base_embedding_ = model.base_embedding_ @ model.rotation_.T + model.mean_
    assert rotated > 0.6
    assert rotated > 1.5 * look_up(data_folder, model).f1


def test_encode_transform_and_embed_agree(digits, small):
    Y = small.embed(digits)
    assert np.array_equal(small.transform(digits), (Y > 0).astype(np.uint8))
    assert np.array_equal(small.encode(digits), pack(Y > 0))
    assert np.array_equal(unpack(small.encode(digits), 13), small.transform(digits))
    assert small.encode(digits).shape == (len(digits), 2)


@pytest.mark.usefixtures("seed_of_zero")
def test_a_value_of_exactly_zero_gives_a_bit_of_zero():
    B = np.array([[0.0], [10.0], [20.0]])
    model = IMH(1, B, Given(np.array([[-1.0], [0.0], [1.0]])), n_neighbors=1, bandwidth=1.0).fit(B)
    assert np.array_equal(model.embed(B), [[-1], [0], [1]])
    assert np.array_equal(model.transform(B), [[0], [0], [1]])
    assert np.array_equal(model.encode(B), [[0], [0], [128]])


@pytest.mark.parametrize("n_bits", [1, 7, 8, 9, 13, 59])
def test_any_number_of_bits_is_valid(digits, n_bits):
    model = IMH(n_bits, KMeansBase(60), TSNE(n_iter=20), random_state=0).fit(digits)
    codes = model.encode(digits)
    assert codes.shape == (len(digits), -(-n_bits // 8))
    assert unpack(codes, n_bits).shape == (len(digits), n_bits)
    assert 0 < unpack(codes, n_bits).mean() < 1


def test_threads_do_not_change_a_code(digits):
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(recipe("imh-tsne-rotated", 32, 0, base=KMeansBase(100)).fit(digits).encode(digits))
    assert np.array_equal(*found)


def test_a_zero_row_and_a_constant_column_have_codes(digits):
    X = digits.copy()
    X[3] = 0
    X[:, 7] = 5
    for normalize in (False, True):
        model = IMH(8, KMeansBase(40), TSNE(n_iter=20), normalize=normalize, random_state=0).fit(X)
        assert np.isfinite(model.embed(X)).all()
        assert np.isfinite(model.embed(np.zeros((1, 64)))).all()


def test_with_unit_length_codes_do_not_depend_on_scale(digits):
    model = IMH(8, KMeansBase(40), TSNE(n_iter=20), normalize=True, random_state=0).fit(digits)
    assert np.array_equal(model.encode(digits * 4), model.encode(digits))
    assert np.array_equal(model.encode(digits[:1] * 1024), model.encode(digits[:1]))


def test_float32_and_bytes_give_the_codes_of_float64_but_for_a_few_bits(digits, small):
    exact = small.embed(digits)
    assert exact.dtype == np.float64
    for dtype in (np.float32, np.uint8, np.float16):
        assert small.embed(digits.astype(dtype)).dtype == np.float32
        assert np.mean(small.transform(digits.astype(dtype)) != (exact > 0)) < 1e-3


def test_the_rotation_is_orthogonal_and_its_error_never_rises():
    Y = np.random.default_rng(0).standard_normal((500, 12)) * np.arange(1, 13)
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-4)):
        part = ITQRotation(30, random_state=0).fit(Y.astype(dtype))
        assert np.allclose(part.rotation_.T @ part.rotation_, np.eye(12), atol=tolerance)
        assert (np.diff(part.errors_) <= tolerance).all()
        assert part.errors_[-1] < part.errors_[0]


def test_the_rotation_is_the_procrustes_solution_of_its_last_signs():
    Y = np.random.default_rng(0).standard_normal((300, 5)) @ np.diag([5.0, 3, 2, 1, 1])
    before, after = (ITQRotation(n, random_state=1).fit(Y).rotation_ for n in (9, 10))
    signs = np.where(Y @ before > 0, 1, -1)
    U, _, Vt = np.linalg.svd(Y.T @ signs)
    assert np.allclose(after, U @ Vt)


def test_whole_numbers_are_rotated_like_their_floats():
    Y = np.random.default_rng(0).integers(-9, 9, (100, 4))
    turned = ITQRotation(random_state=0).fit(Y).rotation_
    assert np.allclose(turned, ITQRotation(random_state=0).fit(Y.astype(np.float32)).rotation_)


def test_a_rotation_folded_into_the_base_is_one_applied_after_induction(digits):
    parts = {"n_bits": 10, "base": KMeansBase(60), "embedding": TSNE(n_iter=60), "random_state": 0}
    plain, rotated = IMH(**parts).fit(digits), IMH(**parts, rotation=ITQRotation()).fit(digits)
    assert np.array_equal(plain.base_points_, rotated.base_points_)
    expected = (plain.embed(digits) - plain.embed(digits).mean(axis=0)) @ rotated.rotation_
    assert np.allclose(rotated.embed(digits), expected, atol=1e-8 * np.abs(expected).max())
    assert np.allclose(rotated.embed(digits).mean(axis=0), 0, atol=1e-8 * np.abs(expected).max())


def test_a_rotation_is_learned_in_blocks_of_rows(digits, monkeypatch):
    """n x m is never held: no block of rows that is induced is longer than a block."""
    longest = []
    embed = IMHClass._induction.fget

    def watched(self):
        induce = embed(self)
        return lambda X: (longest.append(len(X)), induce(X))[1]

    monkeypatch.setattr(IMHClass, "_induction", property(watched))
    X = np.tile(digits, (3, 1))
    IMH(4, RandomBase(30), PCA(), rotation=ITQRotation(2), random_state=0).fit(X)
    assert max(longest) <= 2048


def test_options_set_after_fit_do_not_change_the_length_of_codes(digits):
    model = IMH(4, KMeansBase(40), PCA(), random_state=0).fit(digits)
    before = model.encode(digits)
    assert np.array_equal(model.set_params(n_bits=12).encode(digits), before)


@pytest.mark.usefixtures("seed_of_zero")
def test_after_a_fit_that_failed_the_hasher_says_that_it_is_not_fitted(digits):
    model = IMH(4, KMeansBase(4), PCA(), n_neighbors=9)
    with pytest.raises(ValueError, match="n_neighbors=9 exceeds"):
        model.fit(digits)
    with pytest.raises(ValueError, match="not fitted"):
        model.encode(digits)


def test_a_recipe_takes_options_of_the_hasher_and_of_its_parts():
    model = recipe("imh-tsne", 32, 7, n_neighbors=3, embedding__perplexity=15)
    assert (model.n_bits, model.random_state, model.n_neighbors) == (32, 7, 3)
    assert model.embedding.perplexity == 15
    assert recipe("imh-tsne").embedding.perplexity != 15


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_known_by_its_parameters(name):
    assert recipe_of(recipe(name, n_bits=24, random_state=5)) == (name, {})
    other = not recipe(name).normalize
    assert recipe_of(recipe(name, normalize=other)) == (name, {"normalize": other})


def test_a_hasher_with_other_parts_matches_no_recipe():
    parts = {"base": KMeansBase(30), "embedding": TSNE()}
    assert recipe_of(IMH(**parts, rotation=ITQRotation(3))) == (
        "imh-tsne-rotated",
        {"base__size": 30, "normalize": False, "rotation__n_iter": 3},
    )
    assert recipe_of(IMH(**parts, bandwidth=2.0)) is not None
    assert recipe_of(IMH(**parts | {"base": np.zeros((30, 4))})) is None
    assert recipe_of(IMH(**parts | {"embedding": Given(np.zeros((30, 2)))})) is None


def test_options_given_to_one_recipe_do_not_reach_the_next():
    recipe("imh-tsne-rotated", rotation__n_iter=1)
    recipe("imh-le-random", base__size=7)
    assert recipe("imh-tsne-rotated").rotation.n_iter > 1
    assert recipe("imh-le-random").base.size > 7


def test_an_unknown_recipe_or_parameter_is_answered_with_close_names():
    with pytest.raises(ValueError, match=r"'imh-tsn': did you mean 'imh-tsne' or .*\? recipe_names"):
        recipe("imh-tsn")
    with pytest.raises(ValueError, match="no recipe 'zzz': 'imh-hybrid' is a good start, and recipe_names"):
        recipe("zzz")
    with pytest.raises(ValueError, match="no recipe 'imh-foo': 'imh-hybrid' is a good start"):
        recipe("imh-foo")
    with pytest.raises(ValueError, match=r"did you mean 'imh-hybrid'\? recipe_names"):
        recipe("IMH_Hybird")
    with pytest.raises(ValueError, match=r"'itq' has no parameter 'bits' \(did you mean 'n_bits'\?\): its"):
        recipe("itq", bits=64)
    with pytest.raises(ValueError, match=r"has no parameter 'basis__size': its parameters are .*base"):
        recipe("imh-tsne", basis__size=64)


def test_rows_in_another_order_are_coded_in_that_order(digits, small):
    order = np.random.default_rng(0).permutation(len(digits))
    assert np.array_equal(small.encode(digits[order]), small.encode(digits)[order])


def test_a_memory_map_has_the_codes_of_its_array(digits, small, tmp_path):
    np.save(tmp_path / "x.npy", digits)
    assert np.array_equal(small.encode(np.load(tmp_path / "x.npy", mmap_mode="r")), small.encode(digits))


@pytest.mark.parametrize("rotation", [5, ITQRotation])
def test_an_invalid_rotation_is_refused_before_any_work(digits, rotation):
    with pytest.raises(ValueError, match=r"rotation must be None or an object such as ITQRotation\(\)"):
        IMH(8, rotation=rotation).fit(digits)


@pytest.mark.parametrize("given", ["no", "False", 0, None])
def test_a_flag_that_is_neither_true_nor_false_is_refused(given):
    with pytest.raises(ValueError, match="normalize must be true or false"):
        IMH(8, normalize=given).fit(np.eye(30))
