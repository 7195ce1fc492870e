"""The fused kernel gives what torch gives; it needs a GPU."""

import logging

import numpy as np
import pytest
from torch_devices import on_a_gpu, points, share_off, torch

import manihash
from manihash import IMH
from manihash.base import KMeansBase
from manihash.compute import fused
from manihash.compute import torch as torch_backend
from manihash.rows.fused import FusedRows

pytestmark = pytest.mark.extra


class _Normal:
    def __init__(self, r):
        self.r = r

    def fit_transform(self, B):
        return np.random.default_rng(0).standard_normal((len(B), self.r))


@on_a_gpu
@pytest.mark.parametrize("name", ["tf32", "filtered"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    ("n", "d", "m", "k", "r"),
    [
        (1, 3, 2, 1, 1), (130, 17, 5, 5, 9), (1000, 100, 60, 3, 64), (5000, 784, 400, 5, 64),
        (5000, 64, 401, 5, 70), (3000, 96, 1000, 10, 128), (3000, 33, 3000, 16, 48), (2000, 784, 304, 5, 256),
    ],
)  # fmt: skip
def test_the_kernel_gives_what_torch_gives(name, normalize, n, d, m, k, r):
    rng = np.random.default_rng(n + d)
    X = rng.random((n, d)).astype(np.float32) * 50
    B = np.sqrt(rng.random((m, d)), dtype=np.float32) * 50
    if normalize:
        B /= np.linalg.norm(B, axis=1, keepdims=True)
    hasher = IMH(r, base=B, embedding=_Normal(r), n_neighbors=k, normalize=normalize, random_state=0)
    hasher.fit(rng.random((50, d)).astype(np.float32) * 50)
    T = torch.as_tensor(X, device="cuda")
    with manihash.gpu_precision("float32"):
        exact, codes = hasher.embed(T.double()), hasher.encode(T.double())
    with manihash.gpu_precision(name):
        assert isinstance(hasher._mapping(T, "codes")[0], FusedRows)
        Y, found = hasher.embed(T), hasher.encode(T)
    rounding = {"tf32": 0.05, "filtered": 1e-3}[name]
    off = ((Y - exact).abs().amax(1) > rounding).double().mean()
    assert float(off) <= {"tf32": 0.05, "filtered": 0.002}[name] + 0.5 / n
    if name == "filtered":
        assert torch.equal(found, codes)
        assert np.array_equal(hasher.encode(X), codes.cpu())
        assert torch.equal(torch_backend.pack(hasher.transform(T)), codes)
    else:
        assert share_off(found, codes) < 0.02 + 0.5 / n


@on_a_gpu
def test_copying_a_model_to_a_device_is_logged(caplog):
    caplog.set_level(logging.INFO)
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    T = torch.as_tensor(X, device="cuda")
    hasher.encode(T)
    assert "copied to cuda:0 for precision" in caplog.text
    with manihash.gpu_precision("float32"):
        hasher.encode(T)
    assert "numbers of the model were copied to cuda" in caplog.text


@on_a_gpu
@pytest.mark.parametrize("stages", [30, 0])
def test_a_gpu_with_little_shared_memory_uses_fewer_stages_or_plain_torch(monkeypatch, stages):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    monkeypatch.setitem(fused._STAGES, "filtered", stages)
    monkeypatch.setattr(fused, "_cache", type(fused._cache)())
    rows = hasher._mapping(torch.as_tensor(X, device="cuda"), "codes")[0]
    assert isinstance(rows, FusedRows) == (stages > 0)
    assert share_off(hasher.encode(torch.as_tensor(X, device="cuda")), hasher.encode(X)) < 1e-4


def test_a_panel_holds_the_base_points_with_little_padding():
    assert fused.panel_parts(400, 400) == (256, 128, 16)
    for m in (1, 16, 17, 100, 300, 399, 400, 401, 1000, 4000, 10_000):
        for most in (256, 400):
            width = sum(fused.panel_parts(m, most))
            assert width <= most
            assert -(-m // width) * width <= max(16, 2 * m)


def test_an_unknown_precision_is_an_error():
    with pytest.raises(ValueError, match="filtered, tf32, float32"), manihash.gpu_precision("half"):
        pass
