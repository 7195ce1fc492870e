"""A bridge gives new rows codes of the old index, says what it loses, and is a hasher like any other."""

import pickle
from copy import deepcopy

import numpy as np
import pytest

from manihash import IMH, HammingIndex, Hybrid, Index, load, pack
from manihash.base import KMeansBase
from manihash.embeddings import TSNE
from manihash.files.lineage import accepts_codes_of, model_id
from manihash.hashers import AGH, ITQ, LSH, BridgedHasher, ProductQuantizer, SpH
from manihash.maintenance import bridge_fit, bridge_map
from manihash.maintenance.bridge_map import CertainMap, SpaceMap
from manihash.maintenance.bridge_quality import BridgeQuality, _advice, _chosen, _Measured, _pairs_for_good

KINDS = ("orthogonal", "low-rank", "ridge", "residual")


def items(n, seed=0):
    """n items as rows of an old (n, 30) and of a new space (n, 50), in six clusters."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(99)
    centers, to_old, to_new = (fixed.normal(size=shape) for shape in ((6, 8), (8, 30), (8, 50)))
    latent = 2 * centers[rng.integers(6, size=n)] + rng.normal(size=(n, 8))
    old = latent @ to_old + 0.1 * rng.normal(size=(n, 30))
    return old.astype(np.float32), (5 + np.tanh(latent @ to_new / 8)).astype(np.float32)


OLD, NEW = items(1200)
Q_OLD, Q_NEW = items(400, seed=1)
HASHERS = {
    "imh": IMH(16, KMeansBase(50), TSNE(n_iter=100), normalize=True, random_state=0),
    "itq": ITQ(16, random_state=0),
    "agh": AGH(8, base=KMeansBase(40), random_state=0),
    "sph": SpH(12, random_state=0),
    "product": Hybrid(
        IMH(8, KMeansBase(50), TSNE(n_iter=100)), ProductQuantizer(16, bits_per_field=4), random_state=0
    ),
    "hybrid": Hybrid(IMH(8, KMeansBase(50), TSNE(n_iter=100)), ITQ(12), random_state=0),
}


@pytest.fixture(scope="module", params=HASHERS)
def hasher(request):
    return HASHERS[request.param].fit(OLD)


@pytest.fixture(scope="module")
def bridged(hasher):
    return hasher.bridge(NEW, OLD)


@pytest.fixture(scope="module")
def itq():
    return ITQ(16, random_state=0).fit(OLD)


def test_new_rows_get_nearly_the_codes_of_their_old_rows(hasher, bridged):
    same = bridged.transform(Q_NEW) == hasher.transform(Q_OLD)
    assert same.mean() > 0.93
    assert bridged.quality.same_bits == pytest.approx(same.mean(), abs=0.02)
    assert bridged.quality.share > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_map_can_be_asked_for(itq, kind):
    found = itq.bridge(NEW, OLD, kind=kind)
    assert found.quality.kind == kind
    assert set(found.quality.shares) == {kind}
    assert (found.transform(Q_NEW) == itq.transform(Q_OLD)).mean() > 0.85
    assert found.to_old_space(Q_NEW).shape == Q_OLD.shape


def test_an_orthogonal_change_is_undone_exactly(itq):
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(45, 30)))[0]  # (45, 30)
    bridged = itq.bridge(3 * OLD @ rotation.T + 7, OLD, kind="orthogonal")
    assert np.allclose(bridged.to_old_space(3 * Q_OLD @ rotation.T + 7), Q_OLD, atol=2e-3)
    assert (bridged.transform(3 * Q_OLD @ rotation.T + 7) == itq.transform(Q_OLD)).mean() > 0.999


def test_ridge_is_least_squares_and_its_left_out_errors_are_those_of_fits_without_the_pair():
    X, Y = NEW[:60, :9].astype(float), OLD[:60, :4].astype(float)
    penalty = np.array([0.01])
    whole = bridge_fit._ridge(X, Y, np.ones(60), penalty)
    added = 0.01 * np.linalg.eigvalsh(np.cov(X.T, bias=True) * 60).mean()
    Z = X - X.mean(axis=0)
    expected = np.linalg.solve(Z.T @ Z + added * np.eye(9), Z.T @ (Y - Y.mean(axis=0)))
    assert np.allclose(whole.M, expected)
    for i in (0, 17, 59):
        others = np.arange(60) != i
        Z, mean = X[others] - X[others].mean(axis=0), Y[others].mean(axis=0)
        M = np.linalg.solve(Z.T @ Z + added * np.eye(9), Z.T @ (Y[others] - mean))
        left_out = Y[i] - (X[i] - X[others].mean(axis=0)) @ M - mean
        assert np.allclose(whole.left_out[i], left_out, rtol=1e-6)


def test_pairs_with_wrong_partners_are_found_and_cost_little(itq):
    rng = np.random.default_rng(5)
    wrong = rng.choice(len(OLD), 60, replace=False)
    mixed = OLD.copy()
    mixed[wrong] = OLD[np.roll(wrong, 1)]
    found, clean = itq.bridge(NEW, mixed), itq.bridge(NEW, OLD)
    assert set(found.quality.wrong_pairs) <= set(wrong.tolist())
    assert len(found.quality.wrong_pairs) > 30
    assert clean.quality.wrong_pairs == []
    same = [(each.transform(Q_NEW) == itq.transform(Q_OLD)).mean() for each in (found, clean)]
    assert same[0] > same[1] - 0.005


def test_pairs_without_any_relation_are_unrelated_and_the_advice_asks_for_the_order(itq):
    noise = np.random.default_rng(0).normal(size=(600, 20))
    quality = itq.bridge(noise, OLD[:600]).quality
    assert quality.poor
    assert quality.share < 0.5
    assert quality.verdict == "unrelated"
    assert "Do the rows belong together?" in quality.advice
    assert "would bring" not in quality.advice
    assert quality.wrong_pairs == []  # nothing tells which pairs are wrong


def test_the_expected_share_is_what_later_rows_have(itq):
    old, new = items(3000, seed=2)
    index = HammingIndex(itq.encode(old), 16)
    near = np.argsort(((Q_OLD[:, None] - old[None]) ** 2).sum(axis=2), axis=1)[:, :10]

    def recall(codes):
        answers = index.search(codes, 10)[1]
        return np.mean([len(set(found) & set(true)) for found, true in zip(answers, near, strict=True)])

    bridged = itq.bridge(new[:1500], old[:1500])
    measured = recall(bridged.encode(Q_NEW)) / recall(itq.encode(Q_OLD))
    low, high = bridged.quality.interval
    assert low <= bridged.quality.share <= high
    assert high - low < 0.1
    assert measured == pytest.approx(bridged.quality.share, abs=0.06)


def rated(share, needed=None, *, n=100, ranked=20_000, bits=0.9):
    """What is known of a bridge, without its advice."""
    return BridgeQuality(
        "ridge", share, (share, share), share, 1.0, bits, n, n, [], {}, [], needed, "", ranked, 0.5
    )


@pytest.mark.parametrize(
    ("share", "ranked", "bits", "verdict"),
    [
        (1.0, 30, 0.61, "uncertain"),
        (1.0, 999, 0.89, "uncertain"),
        (1.0, 999, 0.92, "fair"),
        (1.0, 2_000, 0.6, "fair"),
        (1.0, 30, 0.98, "good"),
        (1.0, 30, 0.96, "fair"),
        (0.96, 10_000, 0.6, "good"),
        (0.9, 10_000, 0.6, "fair"),
        (0.7, 30, 0.6, "poor"),
    ],
)
def test_a_share_among_few_rows_is_good_only_if_nearly_all_bits_are_the_same(share, ranked, bits, verdict):
    text = _advice(rated(share, ranked=ranked, bits=bits), (share, False), True)
    assert text.startswith(f"{verdict}: ")
    assert ("easier to find" in text) == (verdict == "uncertain" or (verdict == "fair" and share == 1))


@pytest.fixture(scope="module")
def wide():
    """An LSH of 64 bits, 6,000 old rows (128 columns), new rows (200 columns): many pairs are needed."""
    rng = np.random.default_rng(0)
    old = rng.normal(size=(6000, 128)).astype(np.float32)
    new = np.tanh(old @ rng.normal(size=(128, 200)) / 11) + 0.05 * rng.normal(size=(6000, 200))
    return LSH(64, random_state=0).fit(old), old, new


@pytest.mark.parametrize("n", [30, 100])
def test_few_pairs_are_never_called_good_and_further_old_rows_show_the_loss(wide, n):
    hasher, old, new = wide
    alone = hasher.bridge(new[:n], old[:n], kind="ridge").quality
    among = hasher.bridge(new[:n], old[:n], kind="ridge", reference=old).quality
    assert alone.verdict in ("uncertain", "poor")
    assert (alone.n_ranked, among.n_ranked) == (n, 6000)
    assert among.same_bits == alone.same_bits
    if n == 30:
        assert alone.share > 0.85
        assert among.share < 0.3
        assert among.verdict == "poor"


def test_the_map_is_chosen_by_its_bits_where_the_recall_does_not_tell():
    def measured(bits):
        return _Measured(np.ones(100), np.full(100, bits), np.full(100, 0.5))

    cheap = SpaceMap("low-rank", False, 1.0, np.zeros(4), np.zeros(4), np.ones((4, 1)))
    dear = SpaceMap("ridge", False, 1.0, np.zeros(4), np.zeros(4), np.ones((4, 4)))
    maps = {"low-rank": cheap, "ridge": dear}
    assert _chosen({"low-rank": measured(0.8), "ridge": measured(0.95)}, maps) == "ridge"
    assert _chosen({"low-rank": measured(0.949), "ridge": measured(0.95)}, maps) == "low-rank"


def test_shuffled_pairs_are_unrelated(itq):
    order = np.random.default_rng(3).permutation(300)
    quality = itq.bridge(NEW[:300][order], OLD[:300], kind="ridge").quality
    assert quality.verdict == "unrelated"
    assert quality.same_bits == pytest.approx(quality.chance_bits, abs=0.03)


def test_old_rows_given_to_a_bridge_are_sent_to_the_old_model(itq):
    bridged = itq.bridge(NEW[:100], OLD[:100], kind="orthogonal")
    with pytest.raises(ValueError, match=r"rows of the old embedding model.*with the old model"):
        bridged.encode(Q_OLD)
    with pytest.raises(ValueError, match="Give rows of the new embedding model"):
        bridged.encode(Q_OLD[:, :7])


def test_the_learning_curve_says_how_many_pairs_would_help():
    old, gain = np.ones(1000), np.full(1000, 0.06)
    points = [(200, 0.6), (400, 0.75), (800, 0.85)]
    needed, with_four_times, helps = _pairs_for_good(points, gain, old)
    assert helps
    assert needed == 3200  # 0.85 + 0.0667 + 0.0444
    assert with_four_times == pytest.approx(0.85 + 0.1 * (2 / 3 + 4 / 9))
    text = _advice(rated(0.85, needed, n=1000), (with_four_times, helps), True)
    assert text.startswith("fair")
    assert "About 3,200 pairs instead of 1,000" in text
    assert _pairs_for_good([(1, 0.7), (2, 0.8), (4, 0.801)], gain, old)[0] is None
    assert "change little" in _advice(rated(0.8), (0.8, False), True)
    noisy = np.random.default_rng(0).normal(0.001, 1, size=100)
    few = _pairs_for_good([(1, 0.7), (2, 0.8), (4, 0.801)], noisy, np.ones(100))
    assert few[2] is None
    assert "100 pairs are too few to tell" in _advice(rated(0.801), few[1:], True)


def test_the_code_of_a_row_depends_on_nothing_but_the_row(bridged, monkeypatch):
    expected = bridged.encode(Q_NEW)
    for size in (1, 3, 50):
        parts = [bridged.encode(Q_NEW[i : i + size]) for i in range(0, 60, size)]
        assert np.array_equal(np.concatenate(parts)[:60], expected[:60])
    again = np.concatenate([bridged.encode(np.repeat(row[None], 200, axis=0))[7:8] for row in Q_NEW[:9]])
    assert np.array_equal(again, expected[:9])
    assert np.array_equal(bridged.encode(Q_NEW.astype(np.float64)), expected)
    # Numbers that the bound does not decide are computed in a fixed order: here all of them are.
    monkeypatch.setattr(bridge_map, "sum_error", lambda n, dtype: 1e6)
    assert np.array_equal(deepcopy(bridged).encode(Q_NEW[:40]), expected[:40])


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_near_the_middle_of_two_grid_points_are_computed_in_a_fixed_order(itq, kind):
    certain = itq.bridge(NEW, OLD, kind=kind)._certain()
    Y, step = certain._map.apply(Q_NEW), certain._map.step
    assert np.abs(certain.rows(Q_NEW, np.arange(len(Q_NEW))) - Y).max() <= 0.51 * step
    rows, columns = (each.ravel() for each in np.indices(Y.shape))
    ordered = certain._exact(certain._map.centered(Q_NEW), rows, columns).reshape(Y.shape)
    bound = np.sqrt((certain._map.centered(Q_NEW) ** 2).sum(axis=1))[:, None] * certain._per_length
    assert (np.abs(ordered - Y / step) <= bound + certain._fixed).all()
    assert bound.max() < 3e-5


def test_the_map_rounds_halves_in_a_fixed_order():
    exact = SpaceMap("ridge", False, 1.0, np.zeros(1), np.array([0.5]), np.ones((1, 1)))
    assert CertainMap(exact).rows(np.arange(6.0)[:, None], np.arange(6)).ravel().tolist() == [
        0,
        2,
        2,
        4,
        4,
        6,
    ]


def test_a_bridge_that_was_saved_is_the_same_and_names_the_old_model(hasher, bridged, tmp_path):
    bridged.save(tmp_path / "bridged.mhash")
    loaded = load(tmp_path / "bridged.mhash")
    assert np.array_equal(loaded.encode(Q_NEW), bridged.encode(Q_NEW))
    assert loaded.lineage_ == bridged.lineage_
    assert loaded.lineage_["parent"] == hasher.lineage_["id"]
    assert accepts_codes_of(loaded.lineage_, hasher.lineage_["id"])
    assert not accepts_codes_of(hasher.lineage_, loaded.lineage_["id"])
    assert loaded.quality == bridged.quality
    assert np.array_equal(pickle.loads(pickle.dumps(bridged)).encode(Q_NEW), bridged.encode(Q_NEW))


def test_a_model_file_holds_the_old_hasher_once(itq, tmp_path):
    wide = LSH(256, random_state=0).fit(OLD)
    wide.save(tmp_path / "old.mhash")
    wide.bridge(NEW, OLD, kind="orthogonal").save(tmp_path / "bridged.mhash")
    extra = (tmp_path / "bridged.mhash").stat().st_size - (tmp_path / "old.mhash").stat().st_size
    assert extra < 60_000  # the map, landmarks and statistics; the projection alone has 61,440 bytes


def test_the_old_hasher_is_not_changed(itq):
    before, identity = itq.encode(Q_OLD), itq.lineage_["id"]
    itq.bridge(NEW, OLD)
    assert np.array_equal(itq.encode(Q_OLD), before)
    assert itq.lineage_["id"] == identity


def test_the_same_pairs_give_the_same_bridge(itq):
    one, other = itq.bridge(NEW, OLD), itq.bridge(NEW, OLD)
    assert one.lineage_["id"] == other.lineage_["id"]
    assert one.quality == other.quality


def test_layout_and_rescoring_are_those_of_the_old_codes():
    hasher = HASHERS["hybrid"].fit(OLD)
    bridged = hasher.bridge(NEW, OLD)
    assert bridged.layout_ == hasher.layout_
    assert bridged.layout_.has_two_parts
    assert bridged._stored_width == 30
    assert np.array_equal(bridged._as_stored(Q_NEW), bridged.to_old_space(Q_NEW))


def test_an_index_of_old_codes_takes_new_vectors_by_its_bridge(itq):
    bridged = itq.bridge(NEW, OLD)
    index = Index(bridged, itq.index(OLD).codes)
    assert index.made_by == itq.lineage_["id"]
    assert np.array_equal(
        index.search(Q_NEW, 5, symmetric=True)[1], index.search(bridged.encode(Q_NEW), 5)[1]
    )
    distances, ids = index.search(Q_NEW, 3, rerank=OLD)
    nearest = OLD[ids[:, 0]].astype(np.float64) - bridged.to_old_space(Q_NEW)
    assert np.allclose(distances[:, 0], np.sqrt((nearest**2).sum(axis=1)), rtol=1e-4)


def test_a_second_change_of_the_model_is_a_bridge_in_front_of_the_first(itq):
    third = np.tanh(NEW - 5) @ np.random.default_rng(7).normal(size=(50, 90))
    queries = np.tanh(Q_NEW - 5) @ np.random.default_rng(7).normal(size=(50, 90))
    second = itq.bridge(NEW, OLD).bridge(third, NEW)
    assert second.n_features_in_ == 90
    assert model_id(second) == itq.lineage_["id"]
    assert accepts_codes_of(second.lineage_, itq.lineage_["id"])
    assert (second.transform(queries) == itq.transform(Q_OLD)).mean() > 0.9


def test_drift_is_that_of_the_new_space(bridged):
    assert not bridged.drift(Q_NEW).drifted
    found = bridged.drift(Q_NEW + 0.3)
    assert found.drifted
    assert found.advice == "refit"
    assert "bridge again" in found.reason
    # A change that the map does not see is a change of the new space all the same.
    A = bridged._space_map().linear
    if A is not None and A.shape[1] < A.shape[0]:
        unseen = np.linalg.svd(A)[0][:, -1]
        assert bridged.drift(Q_NEW + 3 * unseen).drifted


def test_update_adds_base_points_to_the_old_hasher_of_the_bridge():
    bridged = HASHERS["imh"].fit(OLD).bridge(NEW, OLD)
    before, lineage = bridged.encode(NEW), bridged.lineage_
    far = Q_NEW[:150] + np.random.default_rng(0).normal(0.8, 0.1, size=(150, 50)).astype(np.float32)
    result = bridged.update(far, NEW)
    assert result.n_added > 0
    assert (bridged.encode(NEW) != before).any(axis=1).mean() <= 0.02
    assert bridged.lineage_["parent"] == lineage["id"]
    assert accepts_codes_of(bridged.lineage_, lineage["id"])
    assert accepts_codes_of(bridged.lineage_, model_id(bridged))


def test_update_and_refit_that_cannot_work_say_why(itq):
    bridged = itq.bridge(NEW, OLD)
    with pytest.raises(
        ValueError, match="old hasher of this bridge cannot be updated: ITQ cannot be updated"
    ):
        bridged.update(Q_NEW)
    with pytest.raises(ValueError, match=r"cannot be refitted.*bridge again"):
        bridged.refit(Q_NEW)


@pytest.mark.parametrize(
    ("new", "old", "options", "message"),
    [
        (NEW[:50], OLD[:49], {}, "got 50 new rows and 49 old rows: give pairs"),
        (NEW[:9], OLD[:9], {}, "got 9 pairs: a bridge needs at least 10"),
        (NEW, OLD[:, :20], {}, "20 columns|20 features"),
        (OLD, NEW, {}, "are new and old rows swapped"),
        (NEW, None, {}, "requires y to be passed"),
        (NEW, OLD, {"kind": "linear"}, "kind='linear' is not one of auto, orthogonal"),
        (np.where(np.arange(50) == 3, np.nan, NEW), OLD, {}, "the new rows: .*NaN"),
        (NEW, np.where(np.arange(30) == 3, np.inf, OLD), {}, "the old rows: .*inf"),
    ],
)
def test_pairs_that_cannot_be_used_are_errors(itq, new, old, options, message):
    with pytest.raises(ValueError, match=message):
        itq.bridge(new, old, **options)


def test_bad_hashers_are_errors():
    with pytest.raises(ValueError, match="hasher must be a hasher"):
        BridgedHasher("itq").fit(NEW, OLD)
    with pytest.raises(ValueError, match="not fitted"):
        ITQ().bridge(NEW, OLD)


def test_a_hasher_that_is_not_fitted_is_fitted_to_the_old_rows():
    bridged = BridgedHasher(ITQ(8), random_state=0).fit(NEW, OLD)
    assert bridged.hasher_.n_features_in_ == 30
    assert (bridged.transform(Q_NEW) == bridged.hasher_.transform(Q_OLD)).mean() > 0.9


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_constant_and_few_rows_give_a_bridge(constant):
    X = np.full((12, 4), constant)
    bridged = LSH(8, random_state=0).fit(OLD).bridge(X, OLD[:12])
    assert bridged.encode(X).shape == (12, 1)
    assert 0 <= bridged.quality.interval[0] <= bridged.quality.interval[1]


def test_rows_of_any_scale_keep_their_codes(itq):
    expected = itq.bridge(NEW, OLD, kind="ridge").encode(Q_NEW)
    for scale in (2.0**-60, 2.0**40):
        found = itq.bridge(NEW * scale, OLD, kind="ridge").encode(Q_NEW * scale)
        assert np.mean(np.unpackbits(found ^ expected)) < 1e-3


def test_tensors_and_dask_arrays_give_the_same_codes(bridged):
    expected = bridged.encode(Q_NEW)
    torch = pytest.importorskip("torch")
    assert np.array_equal(np.asarray(bridged.encode(torch.from_numpy(Q_NEW))), expected)
    on_device = bridged._map_tensor(torch.from_numpy(Q_NEW), "codes")  # as blocks on a GPU are mapped
    assert np.array_equal(np.asarray(on_device), expected)
    dask = pytest.importorskip("dask.array")
    assert np.array_equal(bridged.encode(dask.from_array(Q_NEW, chunks=(70, 50))).compute(), expected)
    assert np.array_equal(pack(bridged._bits_of(bridged.embed(Q_NEW))), expected)
