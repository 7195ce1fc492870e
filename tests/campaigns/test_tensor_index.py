"""Random codes and queries: a TensorIndex answers as a HammingIndex does, bit for bit.

MANIHASH_CASES sets the number of cases, and the seed of a case is its number.
"""

import os

import numpy as np
import pytest

from manihash import HammingIndex
from manihash.codes import pack
from manihash.search import TensorIndex

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.extra
CASES = int(os.environ.get("MANIHASH_CASES", "60"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
GROUP = 20  # cases per test
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def some_codes(rng, n, n_bits):
    """Random codes: all distinct or few distinct ones, dense or with few bits, some of them equal to zero."""
    bits = rng.random((n, n_bits)) < rng.choice([0.02, 0.3, 0.5])
    bits[rng.random(n) < rng.choice([0, 0.5])] = False
    codes = pack(bits)
    return codes if rng.random() < 0.5 else codes[rng.integers(0, max(1, n // 20), n)]


def check_case(seed):
    """Search in both indexes, with codes in several types of memory."""
    rng = np.random.default_rng(seed)
    n_bits, n = int(rng.choice([1, 7, 8, 9, 31, 64, 65, 128, 200, 513])), int(rng.choice([1, 2, 50, 3000]))
    codes = some_codes(rng, n, n_bits)
    queries = np.vstack([codes[rng.integers(n, size=3)], some_codes(rng, 3, n_bits)])
    device = DEVICES[seed % len(DEVICES)]
    given = torch.as_tensor(np.asfortranarray(codes) if seed % 3 == 0 else codes, device=device)
    if seed % 5 == 0:
        given = given.repeat_interleave(2, dim=0)[::2]  # not contiguous
    k = int(rng.integers(1, n + 5))
    found = TensorIndex(given, n_bits).search(torch.as_tensor(queries), k)
    expected = HammingIndex(codes, n_bits).search(queries, k)
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a.cpu().numpy(), b), (seed, n_bits, n, k)


@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, GROUP))
def test_a_tensor_index_answers_as_the_index_does(first):
    for seed in range(first, min(first + GROUP, FIRST + CASES)):
        check_case(seed)
