"""What the page shows is what the library computes; rows and their parts must belong together."""

import numpy as np
import pytest

from manihash import Hybrid, InductiveEmbedding, unpack
from manihash.hashers import ITQ, LSH, ProductQuantizer
from manihash.pages.thumbnails import ArrayImages, FolderImages, ValueStrips
from manihash.search import HammingIndex
from manihash.web.explore.coded import coded_rows
from manihash.web.explore.exploration import COSINES, prepare
from manihash.web.explore.measure import radius_counts
from manihash.web.explore.rows import NO_LABEL, explored_rows


def test_nearest_rows_are_those_of_brute_force_without_the_row_itself(exploration, digits):
    X = digits[0].astype(np.float64)
    for row in (0, 17, 399):
        distance = np.sqrt(np.square(X - X[row]).sum(axis=1))
        distance[row] = np.inf
        expected = np.lexsort((np.arange(len(X)), distance))[:12]
        ids, found = exploration.rows.nearest(digits[0][row], 12, without=row)
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_allclose(found, distance[expected], atol=1e-4)


def test_a_row_with_an_equal_row_finds_it_at_distance_zero(exploration, digits):
    ids, distances = exploration.rows.nearest(digits[0][0], 1, without=0)
    assert ids.tolist() == [399]
    assert distances.tolist() == [0.0]


def test_buckets_are_those_of_the_index(exploration):
    for model in exploration.models:
        index = HammingIndex(model.codes, model.n_bits)
        np.testing.assert_array_equal(model.bucket_sizes, index.count(model.codes, 0))
        for bucket in model.largest_buckets():
            np.testing.assert_array_equal(bucket.ids, index.bucket(bucket.code))
        sizes = [len(bucket.ids) for bucket in model.largest_buckets()]
        assert sizes[0] == index.stats().largest_bucket
        assert sizes == sorted(sizes, reverse=True)


def test_the_sides_of_a_bit_are_its_zeros_and_ones(exploration):
    model = exploration.models[0]
    bits = unpack(model.codes, model.n_bits)
    values = model.hasher.embed(exploration.rows.X)
    for bit in (0, 7, 19):
        zero, one = model.sides(bit)
        assert (zero.count, one.count) == ((bits[:, bit] == 0).sum(), (bits[:, bit] == 1).sum())
        np.testing.assert_array_equal(np.sort(one.sampled), np.flatnonzero(bits[:, bit]))
        assert one.ids[0] == values[:, bit].argmax()
        assert zero.ids[0] == values[:, bit].argmin()


@pytest.mark.parametrize("signs", [0, 8])
def test_the_sides_of_bits_of_fields_are_their_zeros_and_ones(digits, signs):
    X = digits[0]
    quantizer = ProductQuantizer(8, bits_per_field=4, max_iter=2, random_state=0)
    hasher = (Hybrid(LSH(signs), quantizer, random_state=0) if signs else quantizer).fit(X)
    model = coded_rows("fields", hasher, explored_rows("digits", X))
    bits = unpack(model.codes, model.n_bits)
    assert model.look_up_bits == signs
    for bit in range(model.n_bits):
        zero, one = model.sides(bit)
        np.testing.assert_array_equal(np.sort(one.sampled), np.flatnonzero(bits[:, bit]))
        np.testing.assert_array_equal(np.sort(zero.sampled), np.flatnonzero(bits[:, bit] == 0))


def test_the_mean_picture_is_the_mean_of_the_pictures(exploration):
    ids = np.array([3, 5, 9])
    drawn = [exploration.rows.pictures.pixels(i).astype(float) for i in ids]
    np.testing.assert_array_equal(exploration.mean_picture(ids), np.round(np.mean(drawn, axis=0)))


def test_a_new_row_gets_the_place_of_an_equal_row(exploration, digits):
    found = exploration.query(digits[0][17], 5)
    np.testing.assert_allclose(found["place"], exploration.steps[17] / 65535, atol=1e-4)
    assert found["codes"][0] == exploration.models[0].codes[17].tobytes().hex()
    assert found["nearest"]["ids"][0] == 17


def test_the_map_is_an_inductive_embedding_that_keeps_neighbors(exploration, digits):
    assert isinstance(exploration.plane.embedding, InductiveEmbedding)
    places, y = exploration.steps / 65535, digits[1]
    near = np.square(places[:, None] - places[None]).sum(axis=2) + np.diag(np.full(len(y), np.inf))
    assert (y[near.argmin(axis=1)] == y).mean() > 0.8
    assert places.min() >= 0
    assert places.max() <= 1


def test_the_summary_says_what_the_statistics_of_the_index_say(exploration):
    summary = exploration.summary
    assert [model["n_bits"] for model in summary["models"]] == [20, 70]
    for shown, model in zip(summary["models"], exploration.models, strict=True):
        assert shown["stats"]["distinct_codes"] == len(np.unique(model.codes, axis=0))
    assert sum(summary["labels"]["counts"]) == 400 - 8
    assert summary["takes_images"]


def test_near_duplicates_with_equal_vectors_come_first(exploration):
    found = exploration.duplicates(exploration.models[1], 0.98)
    assert found["shown"][0]["ids"] == [0, 399]
    assert found["shown"][0]["apart"] == 0


@pytest.mark.parametrize("cosine", COSINES)
def test_near_duplicates_are_verified_by_their_vectors(digits, exploration, cosine):
    unit = digits[0].astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    found = exploration.models[1].duplicates(cosine)
    exact = set(map(tuple, np.argwhere(np.triu(unit @ unit.T >= cosine, 1)).tolist()))
    pairs = set(map(tuple, found.pairs.tolist()))
    assert pairs <= exact
    assert len(pairs) >= 0.9 * len(exact)
    for ids in found:
        assert all((ids[0], i) in exact for i in ids[1:])


def test_a_look_up_compares_the_first_part_of_a_hybrid(digits, exploration):
    X, _ = digits
    hybrid = Hybrid(LSH(n_bits=11), ITQ(n_bits=9), random_state=0).fit(X)
    found = prepare(explored_rows("digits", X), [("hybrid", hybrid)], seed=0)
    model = found.models[0]
    counts = radius_counts(found, model, np.arange(50))
    assert len(counts.answers) == 12
    expected = [model.index.count(model.codes[:50], r).mean() - 1 for r in range(12)]
    np.testing.assert_allclose(counts.answers, expected)
    np.testing.assert_array_equal(model.bucket_sizes, model.index.count(model.codes, 0))
    assert found.summary["models"][0]["parts"] == [
        {"end": 11, "step": 1, "name": "11 bits for look-up"},
        {"end": 20, "step": 1, "name": "9 bits for the order"},
    ]


def test_codes_with_a_quantizer_are_ranked_by_the_tables_of_the_query(digits):
    X, _ = digits
    hasher = Hybrid(LSH(n_bits=12), ProductQuantizer(n_bits=16), random_state=0).fit(X)
    found = prepare(explored_rows("digits", X), [("hybrid", hasher)], seed=0)
    model = found.models[0]
    (table,) = found.tables(X[17])
    split = model.layout.split(model.codes)
    sums = np.array(table, np.float32).reshape(-1, 256)[np.arange(split.shape[1]), split].sum(axis=1)
    distances, _ = hasher.index(X).search(X[17:18], 5)
    np.testing.assert_allclose(np.sort(sums)[:5], distances[0], rtol=1e-5)
    assert found.query(X[17], 3)["tables"] == [table]
    assert [part["name"] for part in found.summary["models"][0]["parts"]] == [
        "12 bits for look-up",
        "2 numbers of 8 bits",
    ]
    bits = np.unpackbits(model.codes, axis=1)[:, 20]
    below, above = model.sides(20)
    assert (below.count, above.count) == ((bits == 0).sum(), (bits == 1).sum())
    assert bits[above.ids].all()
    assert not bits[below.ids].any()


def test_images_of_fractions_have_a_contrast_of_their_own():
    images = np.zeros((3, 4, 4), np.float32)
    images[0, 0, 0], images[1, 0, 0], images[2, 0] = 1000.0, 0.01, -1.0
    drawn = [ArrayImages(images).pixels(i) for i in range(3)]
    assert [each.max() for each in drawn] == [255, 255, 255]
    assert [each.min() for each in drawn] == [0, 0, 0]
    assert ArrayImages(np.zeros((2, 4, 4))).pixels(0).max() == 0
    assert ArrayImages(np.array([[[1.0, 1.03]]])).pixels(0).tolist() == [[0, 255]]
    dark = ArrayImages(np.array([[[0, 20]], [[0, 250]]], np.uint8))
    assert dark.pixels(0).max() == 20, "bytes are pixels already"


@pytest.mark.parametrize(("change", "doubted"), [(lambda X: X, False), (lambda X: 16 - X, True)])
def test_vectors_that_the_model_was_not_fitted_to_raise_a_doubt(digits, exploration, change, doubted):
    X, _ = digits
    imh = exploration.models[0].hasher
    found = prepare(explored_rows("digits", change(X)), [("imh", imh)], seed=0)
    assert bool(found.summary["models"][0]["doubts"]) == doubted
    if doubted:
        assert "the model of other vectors" in found.models[0].doubts[0]


def test_an_uploaded_image_of_a_row_becomes_the_vector_of_the_row(exploration, digits):
    pixels = exploration.rows.pictures.pixels(17)
    np.testing.assert_allclose(exploration.image_query(pixels), digits[0][17], atol=0.05)


def test_an_image_is_refused_if_the_vectors_are_not_its_pixels(digits, exploration):
    X, _ = digits
    rows = explored_rows("other", X + 1, pictures=ArrayImages(X.reshape(-1, 8, 8)))
    model = exploration.models[1].hasher
    other = prepare(rows, [("lsh", model)], seed=0)
    assert not other.takes_images
    with pytest.raises(ValueError, match="not the pixels of their images"):
        other.image_query(np.zeros((8, 8), np.uint8))


@pytest.mark.parametrize("what", ["pictures", "texts", "labels"])
def test_parts_that_do_not_match_the_rows_are_refused(digits, what):
    X, y = digits
    parts = {"pictures": ArrayImages(X[:-1].reshape(-1, 8, 8)), "texts": ["a"] * 399, "labels": y[:-1]}
    with pytest.raises(ValueError, match=r"got 399 .* for the 400 rows of digits"):
        explored_rows("digits", X, **{what: parts[what]})


def test_a_model_of_other_vectors_is_refused(digits, exploration):
    rows = explored_rows("narrow.npy", digits[0][:, :30])
    with pytest.raises(ValueError, match=r"fitted to vectors of 64 columns, but narrow.npy holds .* 30"):
        coded_rows("a.mhash", exploration.models[0].hasher, rows)


def test_rows_without_a_label_have_no_share(exploration):
    labels = exploration.rows.labels
    assert labels.numbers[3] == NO_LABEL
    assert labels.for_fit()[3] == -1
    assert labels.shares([3]) == []
    assert sum(count for _, count in labels.shares(np.arange(60))) == 58


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (np.full((2, 4, 4), 200, np.uint8), 200),
        (np.full((2, 4, 4), 0.5), 255),
        (np.full((2, 4, 4, 1), 16), 255),
        (np.ones((2, 4, 4), bool), 255),
    ],
)
def test_numbers_of_images_are_scaled_to_bytes(images, expected):
    assert ArrayImages(images).pixels(0).tolist() == [[expected] * 4] * 4


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 5, 2), (0, 5, 5)])
def test_arrays_that_are_not_images_are_refused(shape):
    with pytest.raises(ValueError, match="expected \\(n, height, width\\)"):
        ArrayImages(np.zeros(shape))


def test_the_images_of_a_folder_are_in_the_order_of_their_names(tmp_path):
    from manihash.pages.pictures import png

    for name, value in (("b.png", 20), ("a.png", 10), ("note.txt", 0)):
        (tmp_path / name).write_bytes(png(np.full((300, 200), value, np.uint8)))
    (tmp_path / "c.jpg").write_bytes(b"no image")
    found = FolderImages(tmp_path)
    assert [path.name for path in found.paths] == ["a.png", "b.png", "c.jpg"]
    assert found.pixels(0).shape == (96, 64)
    assert found.pixels(1)[0, 0] == 20
    assert found.pixels(2).shape == (32, 32)  # a picture that says that the file cannot be read


def test_values_are_drawn_as_colors_from_blue_to_orange():
    X = np.zeros((100, 3))
    X[:50, 0], X[50:, 0] = -1, 1
    strips = ValueStrips(X)
    low, high = strips.pixels(0)[0, 0], strips.pixels(99)[0, 0]
    assert low[2] > low[0]
    assert high[0] > high[2]
    assert strips.pixels(0)[0, 1].tolist() == [247, 247, 247]
    assert ValueStrips(np.ones((20, 1000))).pixels(0).shape == (16, 16, 3)
