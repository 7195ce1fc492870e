"""Quantizers of FAISS as baselines: their distances are those of FAISS, their size is as stated."""

import sys

import numpy as np
import pytest

from manihash.evaluation import NeighborTruth, evaluate_ranking
from manihash.search import FaissQuantizer
from manihash.search.faiss_baselines import BASELINES

faiss = pytest.importorskip("faiss")
METHODS = sorted(BASELINES.values())


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    monkeypatch.setattr("manihash.search.faiss_baselines._OPQ_ROUNDS", 3)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(600, 12)) @ rng.normal(size=(12, 20))).astype(np.float32)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_bits", [12, 64])
def test_the_first_answers_are_the_smallest_of_all_distances(rows, method, n_bits):
    quantizer = FaissQuantizer(method, n_bits, random_state=0).fit(rows)
    index = quantizer.index(quantizer.encode(rows))
    distances = index.distances(rows[:20])
    found, ids = index.search(rows[:20], k=5)
    np.testing.assert_allclose(found, np.sort(distances, axis=1)[:, :5], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found, np.take_along_axis(distances, ids, axis=1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_code_has_as_many_bytes_as_stated(rows, method):
    quantizer = FaissQuantizer(method, 36, random_state=0).fit(rows)
    codes = quantizer.encode(rows[:7])
    assert codes.shape == (7, quantizer.bytes_per_row_)
    assert quantizer.bytes_per_row_ == 5 + (8 if method == "rabitq" else 0)


def test_distances_of_pq_are_those_to_the_decoded_rows(rows):
    quantizer = FaissQuantizer("pq", 64, random_state=0).fit(rows)
    codes = quantizer.encode(rows)
    decoded = quantizer._quantizer.sa_decode(codes)[:, :20]  # 20 columns are padded to 24
    expected = np.square(rows[:5, None] - decoded).sum(axis=2)
    np.testing.assert_allclose(quantizer.index(codes).distances(rows[:5]), expected, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_more_bits_find_more_of_the_nearest_rows(rows, method):
    truth = NeighborTruth(rows[:50], rows)
    recall = []
    for n_bits in (16, 64):
        quantizer = FaissQuantizer(method, n_bits, random_state=0).fit(rows)
        index = quantizer.index(quantizer.encode(rows))
        found = evaluate_ranking(lambda i, j, index=index: index.distances(rows[i:j]), truth, neighbors=truth)
        recall.append(found.recall_at_10)
    assert 0.05 < recall[0] < recall[1] - 0.1


def test_the_same_seed_gives_the_same_codes(rows):
    codes = [FaissQuantizer("opq", 32, random_state=s).fit(rows).encode(rows) for s in (0, 0, 1)]
    assert (codes[0] == codes[1]).all()
    assert (codes[0] != codes[2]).any()


def test_lengths_do_not_count_if_rows_are_normalized(rows):
    quantizer = FaissQuantizer("pq", 32, normalize=True, random_state=0).fit(rows)
    assert (quantizer.encode(7 * rows[:50]) == quantizer.encode(rows[:50])).all()


def test_bad_input_is_refused(rows):
    with pytest.raises(ValueError, match="method must be 'pq', 'opq' or 'rabitq', got 'ivf'"):
        FaissQuantizer("ivf")
    for method in ("pq", "opq", "rabitq"):
        with pytest.raises(ValueError, match="exceeds the limit of 65,535"):
            FaissQuantizer(method, 10**20)
    with pytest.raises(ValueError, match="OPQ of 4096 bits needs at least 512 rows, got 300: lower n_bits"):
        FaissQuantizer("opq", 4096).fit(rows[:300])
    with pytest.raises(ValueError, match="give at least 256"):
        FaissQuantizer("pq").fit(rows[:255])
    quantizer = FaissQuantizer("pq", 32, random_state=0).fit(rows)
    with pytest.raises(ValueError, match="X has 3 features"):
        quantizer.encode(rows[:, :3])
    with pytest.raises(ValueError, match=r"bytes \(uint8\) of shape \(n, 4\)"):
        quantizer.index(np.zeros((3, 5), np.uint8))
    with pytest.raises(ValueError, match="k=4 exceeds the 3 rows"):
        quantizer.index(quantizer.encode(rows[:3])).search(rows[:1], k=4)
    with pytest.raises(ValueError, match="contains NaN"):
        quantizer.encode(np.full((2, 20), np.nan))


def test_the_error_names_the_extra_that_installs_faiss(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install 'manihash\[faiss\]'"):
        FaissQuantizer("pq")
