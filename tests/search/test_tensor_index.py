"""A TensorIndex finds what a HammingIndex finds, on every device of this machine."""

import numpy as np
import pytest
from torch_devices import device, torch

from manihash import HammingIndex
from manihash.codes import hamming, pack
from manihash.search import TensorIndex

pytestmark = pytest.mark.extra


@device
@pytest.mark.parametrize("n_bits", [5, 16, 64, 100, 300])
@pytest.mark.parametrize("distinct", [None, 50])
def test_a_tensor_index_finds_what_a_hamming_index_finds(device, n_bits, distinct):
    rng = np.random.default_rng(n_bits)
    codes = pack(rng.random((40_000, n_bits)) > 0.5)
    codes = codes if distinct is None else codes[rng.integers(0, distinct, len(codes))]
    queries = np.vstack([codes[:20], pack(rng.random((20, n_bits)) > 0.5)])
    found = TensorIndex(torch.as_tensor(codes, device=device), n_bits).search(torch.as_tensor(queries), 30)
    expected = HammingIndex(codes, n_bits).search(queries, 30)
    assert found[0].device.type == device
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a.cpu().numpy(), b)


@device
def test_codes_in_the_worst_order_are_found(device):
    bits = np.tril(np.ones((64, 64), bool))[::-1].repeat(1000, axis=0)  # each nearer to the query
    codes, query = pack(bits), np.zeros((1, 8), np.uint8)
    distance, ids = TensorIndex(torch.as_tensor(codes, device=device), 64).search(
        torch.as_tensor(query), 1500
    )
    order = np.argsort(hamming(query, codes)[0], kind="stable")[:1500]
    assert np.array_equal(ids.cpu().numpy()[0], order)
    assert np.array_equal(distance.cpu().numpy()[0], hamming(query, codes)[0][order])


@device
def test_with_fewer_than_k_codes_all_are_returned(device, caplog):
    codes = torch.as_tensor(pack(np.random.default_rng(0).random((7, 16)) > 0.5), device=device)
    distances, ids = TensorIndex(codes, 16).search(codes, 10)
    assert distances.shape == ids.shape == (7, 7)
    assert "all 7 are returned" in caplog.text


def test_a_tensor_that_holds_no_codes_is_an_error():
    with pytest.raises(TypeError, match="use HammingIndex for arrays"):
        TensorIndex(np.zeros((3, 2), np.uint8), 16)
    with pytest.raises(ValueError, match="bytes"):
        TensorIndex(torch.zeros((3, 2)), 16)
    with pytest.raises(ValueError, match="2 bytes per row"):
        TensorIndex(torch.zeros((3, 2), dtype=torch.uint8), 64)
    with pytest.raises(ValueError, match="beyond the first 13"):
        TensorIndex(torch.full((3, 2), 255, dtype=torch.uint8), 13)
    with pytest.raises(ValueError, match="at least one"):
        TensorIndex(torch.zeros((0, 2), dtype=torch.uint8), 16)
