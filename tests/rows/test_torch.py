"""Rows for torch: tensors, and rows streamed from main memory, in blocks that fit into the GPU."""

import logging
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from torch_devices import DEVICES, device, on_a_gpu, points, share_off, torch

import manihash
from manihash import IMH, on_device
from manihash.base import CoarseNeighbors, ExactNeighbors, KMeansBase, LargeBase, ListedNeighbors
from manihash.compute import torch as torch_backend
from manihash.embeddings import PCA
from manihash.rotation import ITQRotation
from manihash.rows.torch import TorchRows

pytestmark = pytest.mark.extra


@device
def test_blocks_of_codes_are_the_codes_from_any_row_on(device, monkeypatch):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    monkeypatch.setattr(TorchRows, "_block_rows", lambda rows: 700)
    for rows in (torch.as_tensor(X, device=device), on_device(X, device)):
        blocks = list(hasher.encode_blocks(rows, 100))
        assert share_off(np.vstack(blocks), hasher.encode(X)[100:]) < 1e-4


@device
def test_rows_that_stay_in_main_memory_are_streamed(device, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", points(dtype=np.float64))
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    made = IMH(16, base=KMeansBase(60), normalize=True, rotation=ITQRotation(n_iter=3), random_state=0)
    whole = clone(made).fit(torch.as_tensor(np.array(X), device=device))
    monkeypatch.setattr(TorchRows, "_block_rows", lambda rows: 700)
    for room in (2.0**40, 0):  # cached on the device, and copied again on each visit
        monkeypatch.setattr(TorchRows, "_cache_bytes", lambda rows, room=room: room)
        streamed = clone(made).fit(on_device(X, device))
        np.testing.assert_allclose(streamed.base_points_, whole.base_points_, atol=1e-9)
    codes = whole.encode(on_device(X, device))
    assert isinstance(codes, np.ndarray)
    assert share_off(codes, whole.encode(X)) < 1e-4
    narrow = np.asarray(X, np.float32)
    assert share_off(whole.encode(on_device(narrow, device)), whole.encode(narrow)) < 1e-4


@pytest.mark.parametrize("dtype", [">f4", "<f8", "u2", "i8", "?", "f2"])
def test_types_that_torch_does_not_support_are_streamed(dtype):
    X = (points() * 100 > 60 if dtype == "?" else points() * 100).astype(dtype)
    hasher = IMH(8, base=KMeansBase(30), random_state=0).fit(X)
    assert share_off(hasher.encode(on_device(X, "cpu")), hasher.encode(X)) < 1e-3


def test_a_tensor_or_text_or_an_unknown_device_is_an_error():
    with pytest.raises(TypeError, match="pass it to fit and encode as it is"):
        on_device(torch.zeros((3, 3)), "cpu")
    with pytest.raises(ValueError, match="real numbers"):
        on_device(np.array([["a"]]), "cpu")
    with pytest.raises(ValueError, match="'tpu'"):
        on_device(points(), "tpu")


@pytest.mark.skipif("cuda" in DEVICES, reason="has a GPU")
def test_a_missing_gpu_is_named():
    with pytest.raises(ValueError, match=r"'cuda' cannot be used with this torch.*no GPU was found"):
        on_device(points(), "cuda")


def test_without_torch_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\nfrom manihash import on_device\n"
        "try:\n    on_device(np.zeros((3, 3)), 'cuda')\n"
        "except ImportError as error:\n    print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "manihash[torch]" in out


def test_a_block_is_halved_while_the_gpu_is_out_of_memory(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    rows = TorchRows(torch.as_tensor(points()))
    monkeypatch.setattr(torch_backend, "out_of_memory", lambda: KeyError)
    monkeypatch.setattr(TorchRows, "_block_rows", lambda rows: 2000)

    def f(block, most=600):
        if len(block) > most:
            raise KeyError
        return block[:, :1]

    assert torch.equal(rows.stack(f, 1, np.float32), rows.X[:, :1])
    assert [len(part) for part in rows.map(f)] == [500] * 6
    assert "is out of memory" in caplog.text
    with pytest.raises(MemoryError, match="too little free memory"):
        rows.stack(lambda block: f(block, 10), 1, np.float32)


@on_a_gpu
def test_a_gpu_with_little_memory_computes_smaller_blocks():
    T = torch.as_tensor(points(200_000), device="cuda")
    hasher = IMH(16, base=KMeansBase(2000), random_state=0).fit(T[:5000])
    with manihash.gpu_precision("float32"):
        codes = hasher.encode(T)
        total = torch.cuda.mem_get_info()[1]
        try:
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + 2**28) / total)
            assert share_off(hasher.encode(T), codes) < 1e-4
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)


def test_the_command_computes_on_a_device(tmp_path):
    from command import run, stderr_line

    np.save(tmp_path / "x.npy", points())
    x, model, codes, plain = (str(tmp_path / name) for name in ("x.npy", "m.mhash", "c.npy", "p.npy"))
    fit = ["fit", x, "--device", "cpu", "--recipe", "imh-tsne", "--bits", "16", "--set", "base__size=60"]
    run(*fit, "-o", model)
    run("encode", model, x, "--device", "cpu", "--precision", "tf32", "-o", codes)
    run("encode", model, x, "-o", plain)
    assert share_off(np.load(codes), np.load(plain)) < 1e-4
    failed = run("encode", model, x, "--device", "nonsense", "-o", str(tmp_path / "d.npy"), code=2)
    assert "'nonsense' cannot be used" in stderr_line(failed)
    failed = run("encode", model, x, "--precision", "half", "-o", str(tmp_path / "d.npy"), code=2)
    assert "filtered, tf32, float32" in stderr_line(failed)
    failed = run("fit", x, "--device", "cpu", "--dask", "1", "-o", str(tmp_path / "d.mhash"), code=2)
    assert "give one" in stderr_line(failed)


def test_the_command_without_torch_names_the_extra(tmp_path, monkeypatch):
    from command import run, stderr_line

    np.save(tmp_path / "x.npy", points())
    monkeypatch.setitem(sys.modules, "torch", None)
    failed = run("fit", str(tmp_path / "x.npy"), "--device", "cuda", "-o", str(tmp_path / "m.mhash"), code=2)
    assert "manihash[torch]" in stderr_line(failed)


RECIPES = [
    "imh-tsne",
    "imh-tsne-rotated",
    "imh-large",
    "imh-large-fast",
    "imh-graph",
    "imh-hybrid",
    "agh",
    "agh2",
]
RECIPES += ["itq", "lsh", "pcah", "sth", "ksh", "sph"]


@on_a_gpu
@pytest.mark.parametrize("name", RECIPES)
def test_codes_on_a_gpu_are_those_of_the_cpu(name):
    X = points(6000, 40)
    labels = np.arange(len(X)) % 20
    hasher = manihash.recipe(name, n_bits=24, random_state=0).fit(X, labels)
    codes = hasher.encode(X)
    for rows in (torch.as_tensor(X, device="cuda"), on_device(X, "cuda")):
        assert share_off(hasher.encode(rows), codes) == 0
    bits = hasher.transform(torch.as_tensor(X, device="cuda"))
    assert np.array_equal(np.packbits(np.asarray(torch.as_tensor(bits).cpu()), axis=1), codes)


@pytest.mark.parametrize("finder", [CoarseNeighbors(probes=3), ListedNeighbors(probes=3), ExactNeighbors()])
def test_a_finder_finds_the_same_points_for_tensors(finder):
    X = points(2000, 12, dtype=np.float64)
    hasher = IMH(8, base=LargeBase(300, neighbors=finder), embedding=PCA(), random_state=0).fit(X)
    B = hasher.base_points_
    squared, index = hasher.finder_.k_nearest(X, B, 4)
    found = hasher.finder_.k_nearest(torch.as_tensor(X), B, 4)
    np.testing.assert_array_equal(found[1], index)
    np.testing.assert_allclose(found[0], squared, atol=1e-12)
