"""What the tests of torch share: the devices of this machine, and rows to compute with."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'manihash[torch]'")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
device = pytest.mark.parametrize("device", DEVICES)
on_a_gpu = pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")


def points(n=3000, d=30, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    centers = rng.random((20, d))
    return (centers[rng.integers(0, 20, n)] + 0.3 * rng.random((n, d))).astype(dtype)


def share_off(a, b):
    """The fraction of bits in which two arrays or tensors of codes differ."""
    a, b = (np.asarray(codes.cpu() if isinstance(codes, torch.Tensor) else codes) for codes in (a, b))
    return np.unpackbits(a ^ b).mean()
