"""Updates keep the codes of old rows and give new rows codes of their own; refits keep most bits."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from manihash import IMH, Hybrid, load, recipe
from manihash.base import (
    CoarseNeighbors,
    ExactNeighbors,
    GraphAffinity,
    KMeansBase,
    LargeBase,
    ListedNeighbors,
    ReducedBase,
)
from manihash.base.graph import nearest
from manihash.codes import hamming
from manihash.embeddings import PCA, TSNE, ElasticEmbedding
from manihash.embeddings._descent import Start
from manihash.files.lineage import accepts_codes_of
from manihash.hashers import AGH, ITQ, LSH, ProductQuantizer
from manihash.maintenance.update import _apart
from manihash.rotation import ITQRotation


def clusters(n, seed, classes):
    """n rows (n, 12) of some of eight clusters, and their labels."""
    rng = np.random.default_rng(seed)
    centers = 3 * np.random.default_rng(99).normal(size=(8, 12))
    y = rng.choice(list(classes), n)
    return centers[y] + rng.normal(size=(n, 12)), y


OLD, Y_OLD = clusters(1200, 0, range(6))
NEW, Y_NEW = clusters(400, 1, [6, 7])
SHORT = {"n_iter": 250, "perplexity": 5}
HASHERS = {
    "k-means": lambda: IMH(16, KMeansBase(60), TSNE(**SHORT), random_state=0),
    # With one seed of four a new cluster gets the codes of an old one; with this seed none does.
    "rotated": lambda: IMH(16, KMeansBase(60), TSNE(**SHORT), rotation=ITQRotation(), random_state=1),
    "elastic": lambda: IMH(16, KMeansBase(60), ElasticEmbedding(**SHORT), random_state=0),
    "cells": lambda: IMH(
        16,
        ReducedBase(LargeBase(100, neighbors=CoarseNeighbors()), 8),
        TSNE(affinity=GraphAffinity(), **SHORT),
        normalize=True,
        random_state=0,
    ),
    "exact": lambda: IMH(16, LargeBase(100, neighbors=ExactNeighbors()), TSNE(**SHORT), random_state=0),
    "hybrid": lambda: Hybrid(IMH(16, KMeansBase(60), TSNE(**SHORT)), ITQ(8), random_state=0),
}


@pytest.mark.parametrize("name", HASHERS)
def test_old_rows_keep_their_codes_and_new_clusters_get_their_own(name):
    hasher = HASHERS[name]().fit(OLD)
    before = hasher.encode(OLD)
    parent = hasher.lineage_
    mixed_before = _share_of_own_cluster(hasher)
    result = hasher.update(NEW, OLD)
    changed = (hasher.encode(OLD) != before).any(axis=1)
    assert result.n_added > 0
    assert changed.mean() == pytest.approx(result.changed, abs=1e-9)
    assert changed.mean() <= 0.02
    assert _share_of_own_cluster(hasher) >= max(0.9, mixed_before - 0.02)
    assert hasher.lineage_["parent"] == parent["id"] != hasher.lineage_["id"]
    assert accepts_codes_of(hasher.lineage_, parent["id"])


def _share_of_own_cluster(hasher, X=NEW, y=Y_NEW):
    """Share of the 20 rows nearest by code to each of 100 rows that are of its cluster."""
    codes, labels = hasher.encode(np.vstack([OLD, NEW])), np.concatenate([Y_OLD, Y_NEW])
    order = np.argsort(hamming(hasher.encode(X[:100]), codes), axis=1, kind="stable")[:, :20]
    return (labels[order] == y[:100, None]).mean()


def test_a_new_cluster_starts_away_from_old_points_and_an_extended_one_among_them():
    """Old points 0 to 19, new points 20 to 39: a cluster of their own, or neighbors of the old points."""
    Y, among = np.random.default_rng(0).normal(size=(20, 8)), np.full((20, 8), 7.0)

    def start(to_old):
        P = np.block(
            [[np.ones((20, 20)), np.full((20, 20), to_old)], [np.full((20, 20), to_old), np.ones((20, 20))]]
        )
        return _apart(sp.csr_array(P), Y, among, np.random.default_rng(0))

    apart = start(0.01)
    np.testing.assert_allclose(np.linalg.norm(apart, axis=1), np.median(np.linalg.norm(Y, axis=1)))
    assert np.ptp(apart, axis=0).max() < 1e-6  # together
    np.testing.assert_array_equal(start(0.5), among)


def test_old_base_points_and_sigma_stay_and_rows_without_new_neighbors_keep_their_values():
    hasher = HASHERS["rotated"]().fit(OLD)
    B, Y, sigma, values = hasher.base_points_, hasher.base_embedding_, hasher.bandwidth_, hasher.embed(OLD)
    hasher.update(NEW, OLD)
    np.testing.assert_array_equal(hasher.base_points_[: len(B)], B)
    np.testing.assert_array_equal(hasher.base_embedding_[: len(B)], Y)
    assert hasher.bandwidth_ == sigma
    index = nearest(OLD, hasher.base_points_, 5)[1]
    kept = (index < len(B)).all(axis=1)
    assert kept.mean() > 0.9
    np.testing.assert_array_equal(hasher.embed(OLD)[kept], values[kept])


def test_an_update_is_reproducible_and_can_be_saved(tmp_path):
    hasher = HASHERS["cells"]().fit(OLD)
    hasher.save(tmp_path / "m.mhash")
    again = load(tmp_path / "m.mhash")
    assert hasher.update(NEW, OLD) == again.update(NEW, OLD)
    assert hasher.lineage_ == again.lineage_
    hasher.save(tmp_path / "m2.mhash")
    np.testing.assert_array_equal(load(tmp_path / "m2.mhash").encode(NEW), hasher.encode(NEW))


@pytest.mark.parametrize("name", ["k-means", "hybrid"])
def test_an_updated_model_knows_the_new_rows(name):
    hasher = HASHERS[name]().fit(OLD)
    both = np.vstack([OLD[:900], NEW[:300]])
    assert hasher.drift(both).drifted
    hasher.update(NEW, OLD)
    assert not hasher.drift(both).drifted


def test_rows_that_are_near_add_nothing_and_the_model_stays_the_same():
    hasher = HASHERS["k-means"]().fit(OLD)
    before = hasher.lineage_
    result = hasher.update(hasher.base_points_, OLD)
    assert (result.n_added, result.changed) == (0, 0)
    assert hasher.lineage_ == before


def test_limits_are_kept_and_without_old_rows_the_change_is_not_known():
    hasher = HASHERS["k-means"]().fit(OLD)
    result = hasher.update(NEW, max_new_points=5)
    assert (result.n_added, result.changed) == (5, None)
    assert len(hasher.base_points_) == 65


@pytest.mark.parametrize(
    ("hasher", "text"),
    [
        (ITQ(8), "ITQ cannot be updated.*refit"),
        (AGH(8, base=KMeansBase(60)), "AGH cannot be updated.*fit a new model"),
        (IMH(8, KMeansBase(60), PCA()), "with PCA cannot be updated.*fit a new model"),
        (
            IMH(8, LargeBase(100, neighbors=ListedNeighbors()), TSNE(**SHORT)),
            "ListedNeighbors cannot be updated",
        ),
    ],
)
def test_a_hasher_that_cannot_be_updated_says_so_and_stays_as_it_is(hasher, text):
    hasher.set_params(random_state=0).fit(OLD)
    before = hasher.lineage_, hasher.encode(NEW)
    with pytest.raises(ValueError, match=text):
        hasher.update(NEW, OLD)
    assert hasher.lineage_ == before[0]
    np.testing.assert_array_equal(hasher.encode(NEW), before[1])


def test_a_finder_with_more_points_finds_the_same_as_all_comparisons():
    rng = np.random.default_rng(0)
    B, more, X = rng.normal(size=(200, 4)), rng.normal(size=(50, 4)), rng.normal(size=(100, 4))
    finder = CoarseNeighbors(probes=14, cells=14, random_state=0).fit(B)
    B = B[finder.order_]
    larger, order = finder.with_points(len(B), more)
    points = np.vstack([B, more])[order]
    np.testing.assert_array_equal(larger.k_nearest(X, points, 5)[1], nearest(X, points, 5)[1])


def test_fixed_points_do_not_move():
    rng = np.random.default_rng(0)
    B, Y = rng.normal(size=(60, 5)), rng.normal(size=(60, 3))
    for embedding in (TSNE(3, n_iter=20), ElasticEmbedding(3, n_iter=20)):
        moved = embedding.fit_transform(B, start=Start(Y, fixed=40))
        np.testing.assert_array_equal(moved[:40], Y[:40])
        assert (moved[40:] != Y[40:]).all()


@pytest.mark.parametrize("name", ["k-means", "rotated", "cells", "hybrid", "itq"])
def test_a_refit_with_another_seed_keeps_most_bits(name):
    hasher = (ITQ(8, random_state=0) if name == "itq" else HASHERS[name]()).fit(OLD)
    before, parent = hasher.transform(OLD), hasher.lineage_
    fresh = (ITQ(8) if name == "itq" else HASHERS[name]()).set_params(random_state=2).fit(OLD)
    from_nothing = (fresh.transform(OLD) != before).mean()
    result = hasher.set_params(random_state=2).refit(OLD)
    changed = hasher.transform(OLD) != before
    assert result.changed_bits == pytest.approx(changed.mean())
    assert changed.mean() < 0.1 < from_nothing
    assert hasher.lineage_["parent"] == parent["id"]
    assert not accepts_codes_of(hasher.lineage_, parent["id"])
    assert _share_of_own_cluster(hasher, OLD, Y_OLD) >= _share_of_own_cluster(fresh, OLD, Y_OLD) - 0.05


def test_a_refit_on_more_rows_knows_them():
    hasher = HASHERS["rotated"]().fit(OLD)
    before = hasher.transform(OLD)
    hasher.refit(np.vstack([OLD, NEW]))
    assert (hasher.transform(OLD) != before).mean() < 0.1
    assert _share_of_own_cluster(hasher) > 0.9
    assert not hasher.drift(np.vstack([clusters(300, 5, range(6))[0], clusters(100, 5, [6, 7])[0]])).drifted


@pytest.mark.parametrize(
    "hasher",
    [ITQ(8), IMH(16, KMeansBase(60), TSNE(n_iter=50)), Hybrid(ITQ(8), ProductQuantizer(8, bits_per_field=4))],
    ids=["itq", "imh", "hybrid"],
)
def test_the_few_last_rows_of_a_refit_are_no_drift_afterwards(hasher):
    """Few among all rows, new rows were outside the training range, and drift advised a refit again."""
    new, newer = NEW[:40], 3 * NEW[40:80]
    hasher.set_params(random_state=0).fit(OLD)
    rows = [OLD]
    for batch in (new, newer):
        assert hasher.drift(batch).advice == "refit"
        rows.append(batch)
        hasher.refit(np.vstack(rows))
        for known in [*rows, np.vstack(rows)]:
            assert not hasher.drift(known).drifted
    assert hasher.drift(-NEW).drifted


def test_a_refit_keeps_the_samples_that_an_update_added():
    hasher = HASHERS["k-means"]().fit(OLD)
    hasher.update(NEW[:40], OLD)
    hasher.refit(np.vstack([OLD, NEW[:40]]))
    assert not hasher.drift(NEW[:40]).drifted
    assert not hasher.drift(OLD).drifted


def test_a_hybrid_with_a_hybrid_as_its_second_part_is_updated():
    """Its second part has statistics in its own parts only: the update named an earlier version."""
    hasher = Hybrid(IMH(16, KMeansBase(60), TSNE(n_iter=50)), Hybrid(ITQ(8), LSH(8)), random_state=0).fit(OLD)
    hasher.update(NEW, OLD)
    assert not hasher.drift(NEW).drifted
    assert not hasher.drift(OLD).drifted


@pytest.mark.parametrize(
    ("hasher", "instead"),
    [(Hybrid(AGH(8), ITQ(8)), r"hasher\.refit\(X\)"), (Hybrid(AGH(8), LSH(8)), "fit a new model")],
)
def test_a_hybrid_that_cannot_be_updated_names_what_is_possible(hasher, instead):
    hasher.set_params(random_state=0, first__base=KMeansBase(60)).fit(OLD)
    with pytest.raises(ValueError, match=rf"Hybrid of AGH and \w+ cannot be updated.*Instead, .*{instead}"):
        hasher.update(NEW, OLD)


@pytest.mark.filterwarnings("ignore:codes cannot tell")
def test_many_refits_keep_few_samples():
    hasher, rows = ITQ(8, random_state=0).fit(OLD), OLD
    for batch in range(12):
        rows = np.vstack([rows, NEW[:40] + 5 * batch])
        hasher.refit(rows)
    assert len(hasher.statistics_["references"]) == 9
    assert not hasher.drift(rows[-40:]).drifted
    assert not hasher.drift(rows).drifted


@pytest.mark.parametrize("hasher", [LSH(8), IMH(8, KMeansBase(60), PCA())])
def test_a_hasher_that_cannot_be_refitted_says_so(hasher):
    hasher.set_params(random_state=0).fit(OLD)
    with pytest.raises(ValueError, match=r"cannot be refitted.*fit a new model"):
        hasher.refit(OLD)


def test_invalid_options_are_named():
    hasher = HASHERS["k-means"]().fit(OLD)
    with pytest.raises(ValueError, match="max_new_points"):
        hasher.update(NEW, max_new_points=0)
    with pytest.raises(ValueError, match="max_changed=2 is not between 0 and 1"):
        hasher.update(NEW, max_changed=2)
    with pytest.raises(ValueError, match="12 features"):
        hasher.update(NEW[:, :5])


@pytest.mark.parametrize("name", [*HASHERS, "itq"])
def test_the_rows_of_an_update_or_a_refit_are_no_drift_afterwards(name):
    hasher = (ITQ(8, random_state=0) if name == "itq" else HASHERS[name]()).fit(OLD)
    both = np.vstack([OLD, NEW])
    assert hasher.drift(NEW).drifted
    if name != "itq":
        hasher.update(NEW, OLD)
        for rows in (NEW, OLD, both, np.vstack([OLD[:100], NEW])):
            assert not hasher.drift(rows).drifted
            assert hasher.drift(rows).advice == "nothing"
        assert hasher.drift(np.roll(NEW, 1, axis=1)).drifted
    hasher.refit(both)
    assert not hasher.drift(both).drifted
    assert hasher.drift(NEW).advice == "nothing"


def test_many_updates_keep_few_samples_and_all_their_rows_are_known():
    hasher = HASHERS["k-means"]().fit(OLD)
    batches = [clusters(60, seed, [6 + seed % 2])[0] + seed for seed in range(12)]
    for batch in batches:
        hasher.update(batch, max_new_points=3)
        assert not hasher.drift(batch).drifted
    assert len(hasher.statistics_["references"]) <= 9
    assert hasher.statistics_["n_rows"] == 1200 + 12 * 60


def test_an_update_that_adds_nothing_still_knows_its_rows():
    hasher = HASHERS["k-means"]().fit(OLD)
    near = np.repeat(hasher.base_points_[:3], 40, axis=0)
    assert hasher.drift(near).drifted
    assert hasher.update(near).n_added == 0
    assert not hasher.drift(near).drifted


def test_a_refit_says_before_it_works_that_a_new_fit_is_better(caplog):
    hasher = HASHERS["k-means"]().fit(OLD)
    hasher.refit(OLD)
    assert not caplog.records
    hasher.refit(np.vstack([OLD, NEW]))
    assert "but update(X_new, X_old) with the new rows alone, or a new fit, usually ranks" in caplog.text
    caplog.clear()
    ITQ(8, random_state=0).fit(OLD).refit(np.vstack([OLD, NEW]))
    assert "but a new fit usually ranks new kinds of rows better" in caplog.text


@pytest.mark.parametrize("name", ["k-means", "cells"])
def test_a_refit_gives_new_clusters_codes_of_their_own(name):
    hasher = HASHERS[name]().fit(OLD)
    hasher.refit(np.vstack([OLD, NEW]))
    assert _share_of_own_cluster(hasher) > 0.9


def test_a_refit_ranks_new_digits_nearly_as_well_as_a_new_fit_and_keeps_most_bits():
    """Fit on the digits 0 to 7 of scikit-learn, refit with all: the kept rotation had no bits for 8 and 9."""
    X, y = load_digits(return_X_y=True)
    hasher = recipe("imh-graph", n_bits=64, random_state=0).fit(X[y < 8])
    fresh = recipe("imh-graph", n_bits=64, random_state=0).fit(X)
    assert hasher.refit(X).changed_bits < 0.15

    def precision(model):
        codes, new = model.encode(X), np.flatnonzero(y >= 8)
        order = np.argsort(hamming(codes[new], codes), axis=1, kind="stable")[:, 1:151]
        return (y[order] == y[new][:, None]).mean()

    assert precision(hasher) > 0.95 * precision(fresh)


def test_a_few_new_digits_after_the_old_ones_get_codes_of_their_own_in_a_refit(caplog):
    """100 among 1,543 rows hardly change the whole: the refit took them for known ones (0.09 of 0.74)."""
    X, y = load_digits(return_X_y=True)
    some, others = np.flatnonzero(y >= 8)[:100], np.flatnonzero(y >= 8)[100:]
    rows = np.concatenate([np.flatnonzero(y < 8), some])
    hasher = recipe("imh-graph", n_bits=64, random_state=0).fit(X[y < 8])
    fresh = recipe("imh-graph", n_bits=64, random_state=0).fit(X[rows])
    assert not hasher.drift(X[rows]).drifted
    assert hasher.refit(X[rows]).changed_bits < 0.15
    assert "usually ranks new kinds of rows better" in caplog.text

    def precision(model):
        ids = model.index(X[rows]).search(X[others], k=30)[1]
        return (y[rows][ids] == y[others][:, None]).mean()

    assert precision(hasher) > 0.9 * precision(fresh)


def test_new_rows_of_a_sparse_matrix_are_compared_alone_by_a_hybrid(caplog):
    hasher = Hybrid(ITQ(8), ITQ(8), random_state=0).fit(sp.csr_matrix(OLD))
    hasher.refit(sp.csr_matrix(np.vstack([OLD, NEW[:30]])))
    assert "the rows differ" in caplog.text
    assert not hasher.drift(NEW[:30]).drifted
