"""Rows in torch tensors: what numpy gives, on every device that is here (CI has the CPU alone)."""

import importlib.util
import logging
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

import manihash
from manihash import (
    IMH,
    TSNE,
    HammingIndex,
    InductiveEmbedding,
    ITQRotation,
    KMeansBase,
    RandomBase,
    RelaxedLE,
    TensorIndex,
    on_device,
)
from manihash.base.weights import coupling
from manihash.codes import hamming, pack
from manihash.compute import fused
from manihash.compute import numpy as numpy_backend
from manihash.compute import torch as torch_backend
from manihash.rows.local import LocalRows
from manihash.rows.torch import FusedRows, TorchRows

pytestmark = pytest.mark.extra
HERE = importlib.util.find_spec("torch") is not None
if HERE:
    import torch

    DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
else:
    pytest.skip("needs torch: pip install 'manihash[torch]'", allow_module_level=True)

device = pytest.mark.parametrize("device", DEVICES)
on_a_card = pytest.mark.skipif("cuda" not in DEVICES, reason="needs a card")


def points(n=3000, d=30, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    centers = rng.random((20, d))
    return (centers[rng.integers(0, 20, n)] + 0.3 * rng.random((n, d))).astype(dtype)


def share_off(a, b):
    """The share of bits in which two arrays of codes differ."""
    return np.unpackbits(np.asarray(torch_backend.to_numpy(a)) ^ np.asarray(torch_backend.to_numpy(b))).mean()


PARTS = [
    {},
    {"normalize": True},
    {"rotation": ITQRotation(n_iter=5)},
    {"embedding": RelaxedLE(), "n_neighbors": 3},
    {"base": RandomBase(50)},
]


@device
@pytest.mark.parametrize("part", PARTS, ids=lambda part: "-".join(part) or "plain")
def test_a_fitted_model_gives_a_tensor_the_bits_it_gives_an_array(device, part):
    X = points()
    hasher = IMH(20, **{"base": KMeansBase(60), **part}, random_state=0).fit(X)
    T = torch.as_tensor(X, device=device)
    codes, Y, bits = hasher.encode(T), hasher.embed(T), hasher.transform(T)
    assert {a.device.type for a in (codes, Y, bits)} == {device}
    assert codes.dtype == bits.dtype == torch.uint8
    assert Y.dtype == torch.float32
    assert (codes.shape, Y.shape, bits.shape) == ((3000, 3), (3000, 20), (3000, 20))
    assert share_off(codes, hasher.encode(X)) < 1e-4
    # A row between two equally near points may take either; the rest differs by rounding.
    off = np.abs(Y.cpu().numpy() - hasher.embed(X)).max(axis=1) > 1e-3 * np.abs(hasher.embed(X)).max()
    assert off.mean() < 1e-3
    assert np.array_equal(pack(bits.cpu().numpy()), codes.cpu().numpy())


@device
@pytest.mark.parametrize("part", PARTS[:3], ids=lambda part: "-".join(part) or "plain")
def test_a_fit_on_a_tensor_learns_what_a_fit_on_an_array_learns(device, part):
    X = points(dtype=np.float64)  # in float32 a row between two centers may go to the other, and all follows
    made = IMH(16, base=KMeansBase(60), random_state=0, **part)
    a, b = clone(made).fit(X), clone(made).fit(torch.as_tensor(X, device=device))
    assert isinstance(b.base_points_, np.ndarray)
    assert isinstance(b.base_embedding_, np.ndarray)
    np.testing.assert_allclose(b.base_points_, a.base_points_, atol=1e-9)
    assert b.bandwidth_ == pytest.approx(a.bandwidth_, rel=1e-9)
    assert b.loss_ == pytest.approx(a.loss_, rel=0.25)


@device
def test_the_same_seed_gives_the_same_bits_twice(device):
    T = torch.as_tensor(points(), device=device)
    first, again = (IMH(16, base=KMeansBase(60), random_state=3).fit(T).encode(T) for _ in range(2))
    assert torch.equal(first, again)


@device
def test_a_model_of_a_tensor_goes_through_a_file(device, tmp_path):
    T = torch.as_tensor(points(), device=device)
    hasher = IMH(16, base=KMeansBase(60), normalize=True, random_state=0).fit(T)
    hasher.save(tmp_path / "m.mhash")
    assert torch.equal(manihash.load(tmp_path / "m.mhash").encode(T), hasher.encode(T))


@device
def test_an_inductive_embedding_places_tensors(device):
    X = points()
    placed = InductiveEmbedding(2, base=KMeansBase(60), random_state=0).fit(X)
    Y = placed.transform(torch.as_tensor(X, device=device))
    assert Y.device.type == device
    assert np.median(np.abs(Y.cpu().numpy() - placed.transform(X))) < 1e-4


@device
@pytest.mark.parametrize("dof", [1.0, 2.5])
def test_tsne_of_a_tensor_is_as_good_and_keeps_neighbors(device, dof):
    X = points(300)
    options = {"n_components": 8, "dof": dof, "random_state": 0, "n_iter": 300}
    here, there = TSNE(**options).fit(X), TSNE(**options).fit(torch.as_tensor(X, device=device))
    assert there.loss_ == pytest.approx(here.loss_, rel=0.25)
    Y = there.embedding_.cpu().numpy()
    near, kept = numpy_backend.k_nearest(X, X, 6)[1], numpy_backend.k_nearest(Y, Y, 11)[1]
    assert np.mean([np.isin(a, b).mean() for a, b in zip(near, kept, strict=True)]) > 0.6


@device
def test_tsne_starts_from_the_probabilities_that_numpy_finds(device):
    from manihash.embeddings._perplexity import conditional_probabilities
    from manihash.embeddings._tensor_tsne import joint_probabilities

    X = points(200, 40, dtype=np.float64)
    P = conditional_probabilities(X, 10, 20)
    found = joint_probabilities(torch.as_tensor(X, device=device), 10, 20)
    np.testing.assert_allclose(found.cpu().numpy(), (P + P.T) / 400, atol=1e-12)


@device
def test_the_coupling_of_a_tensor_is_that_of_an_array(device):
    X = points(1000)
    B = X[:40].copy()
    T = coupling(LocalRows(X), B, 5, 0.8)
    np.testing.assert_allclose(
        coupling(TorchRows(torch.as_tensor(X, device=device)), B, 5, 0.8), T, atol=1e-4
    )


@device
@pytest.mark.parametrize("r", [1, 7, 8, 13, 64])
def test_bits_are_packed_in_the_order_of_numpy(device, r):
    bits = np.random.default_rng(0).random((11, r)) > 0.5
    assert np.array_equal(torch_backend.pack(torch.as_tensor(bits, device=device)).cpu().numpy(), pack(bits))


@device
@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "bfloat16", "uint8", "int32", "bool"], ids=lambda name: name
)
def test_arithmetic_follows_the_type_of_the_tensor(device, dtype):
    X = torch.as_tensor(points() * 100, device=device).to(getattr(torch, dtype))
    if dtype == "bool":
        X = torch.as_tensor(points() > 0.6, device=device)
    hasher = IMH(8, base=KMeansBase(30), random_state=0).fit(X)
    assert hasher.embed(X).dtype == (torch.float64 if dtype == "float64" else torch.float32)
    plain = X.float() if dtype == "bfloat16" else X
    assert share_off(hasher.encode(X), hasher.encode(plain.cpu().numpy())) < 1e-3


@device
def test_rows_far_from_zero_are_taken_from_an_origin(device):
    X = points() + np.float32(3000)
    T = torch.as_tensor(X, device=device)
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(T)
    assert hasher.origin_ is not None
    assert share_off(hasher.encode(T), hasher.encode(X)) < 1e-3


@device
def test_a_tensor_that_is_not_contiguous_is_taken_as_it_is(device):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    T = torch.as_tensor(X, device=device)
    across = T.T.contiguous().T
    wide = torch.zeros((3000, 64), device=device)
    wide[:, :30] = T
    assert torch.equal(hasher.encode(across), hasher.encode(T))
    assert torch.equal(hasher.encode(wide[:, :30]), hasher.encode(T))


@device
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (3e20, "overflow")])
def test_a_bad_row_is_named(device, normalize, value, what):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), normalize=normalize, random_state=0).fit(X)
    X[2345, 7] = value
    T = torch.as_tensor(X, device=device)
    with pytest.raises(ValueError, match=rf"{what}.*2345"):
        hasher.encode(T)
    with pytest.raises(ValueError, match=rf"{what}.*2345"):
        clone(hasher).fit(T)


@device
def test_rows_of_odd_length_are_scaled_like_others(device):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), normalize=True, random_state=0).fit(X)
    scale = np.where(np.arange(3000) % 7 == 0, 1e-30, np.where(np.arange(3000) % 5 == 0, 1e15, 1)).astype(
        "f4"
    )
    stretched = X * scale[:, None]
    stretched[11] = 0
    T = torch.as_tensor(stretched, device=device)
    assert share_off(hasher.encode(T), hasher.encode(stretched)) < 1e-3


@device
@pytest.mark.parametrize(
    ("shape", "match"), [((5,), "expected 2"), ((0, 30), "sample"), ((4, 29), "features")]
)
def test_a_tensor_of_the_wrong_shape_is_refused(device, shape, match):
    hasher = IMH(8, base=KMeansBase(30), random_state=0).fit(points())
    with pytest.raises(ValueError, match=match):
        hasher.encode(torch.zeros(shape, device=device))


@device
def test_complex_numbers_are_refused(device):
    with pytest.raises(ValueError, match="real numbers"):
        IMH().fit(torch.zeros((500, 3), dtype=torch.complex64, device=device))


def test_a_method_without_torch_computes_in_numpy_and_says_so(caplog):
    X = points()
    hasher = manihash.LSH(16, random_state=0)
    codes = hasher.fit(torch.as_tensor(X)).encode(torch.as_tensor(X))
    assert "LSH computes with numpy" in caplog.text
    assert np.array_equal(codes, hasher.encode(X))


def test_a_base_that_is_searched_by_cells_is_searched_in_numpy(caplog):
    X = points()
    hasher = IMH(8, base=manihash.LargeBase(100), random_state=0).fit(torch.as_tensor(X))
    assert "IMH computes with numpy" in caplog.text
    assert np.array_equal(hasher.encode(torch.as_tensor(X)), hasher.encode(X))


@device
def test_k_means_of_very_many_rows_looks_at_some(device, monkeypatch):
    monkeypatch.setattr("manihash.base.lloyd._ALL_ROWS", 1000)
    X = points(dtype=np.float64)
    base = KMeansBase(20, sample=50, random_state=0)
    here, there = (clone(base).fit(x).points_ for x in (X, torch.as_tensor(X, device=device)))
    sent = clone(base).fit(on_device(X, device)).points_
    np.testing.assert_allclose(there, here, atol=1e-9)
    np.testing.assert_allclose(sent, here, atol=1e-9)


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
    for room in (2.0**40, 0):  # kept on the device, and sent anew on each visit
        monkeypatch.setattr(TorchRows, "_room", lambda rows, room=room: room)
        streamed = clone(made).fit(on_device(X, device))
        np.testing.assert_allclose(streamed.base_points_, whole.base_points_, atol=1e-9)
    codes = whole.encode(on_device(X, device))
    assert isinstance(codes, np.ndarray)
    assert share_off(codes, whole.encode(X)) < 1e-4
    narrow = np.asarray(X, np.float32)
    assert share_off(whole.encode(on_device(narrow, device)), whole.encode(narrow)) < 1e-4


@pytest.mark.parametrize("dtype", [">f4", "<f8", "u2", "i8", "?", "f2"])
def test_types_that_torch_does_not_know_are_streamed_too(dtype):
    X = (points() * 100 > 60 if dtype == "?" else points() * 100).astype(dtype)
    hasher = IMH(8, base=KMeansBase(30), random_state=0).fit(X)
    assert share_off(hasher.encode(on_device(X, "cpu")), hasher.encode(X)) < 1e-3


def test_what_cannot_be_streamed_is_refused():
    with pytest.raises(TypeError, match="give it to fit and encode as it is"):
        on_device(torch.zeros((3, 3)), "cpu")
    with pytest.raises(ValueError, match="real numbers"):
        on_device(np.array([["a"]]), "cpu")
    with pytest.raises(ValueError, match="'tpu'"):
        on_device(points(), "tpu")


@pytest.mark.skipif("cuda" in DEVICES, reason="has a card")
def test_a_card_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"'cuda' cannot be used with this torch.*no card is seen"):
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


def test_a_block_is_cut_in_two_while_the_card_is_full(monkeypatch, caplog):
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
    assert "is full" in caplog.text
    with pytest.raises(MemoryError, match="too little free memory"):
        rows.stack(lambda block: f(block, 10), 1, np.float32)


@on_a_card
def test_a_card_with_little_memory_is_used_in_smaller_blocks():
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


@on_a_card
@pytest.mark.parametrize("name", ["tf32", "tf32x3"])
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
        assert isinstance(hasher._by_kernel(hasher._rows_to_map(T), pack=True), FusedRows)
        Y, found = hasher.embed(T), hasher.encode(T)
    rounding = {"tf32": 0.05, "tf32x3": 1e-3}[name]
    off = ((Y - exact).abs().amax(1) > rounding).double().mean()
    assert float(off) <= {"tf32": 0.05, "tf32x3": 0.002}[name] + 0.5 / n
    assert share_off(found, codes) < {"tf32": 0.02, "tf32x3": 1e-3}[name] + 0.5 / n
    assert torch.equal(torch_backend.pack(Y > 0), found)


@on_a_card
def test_a_model_is_moved_to_the_device_of_the_rows_and_the_log_says_so(caplog):
    caplog.set_level(logging.INFO)
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    T = torch.as_tensor(X, device="cuda")
    hasher.encode(T)
    assert "laid out on cuda" in caplog.text
    with manihash.gpu_precision("float32"):
        hasher.encode(T)
    assert "copied to cuda" in caplog.text


@on_a_card
@pytest.mark.parametrize("stages", [30, 0])
def test_a_card_with_little_shared_memory_takes_fewer_stages_or_plain_torch(monkeypatch, stages):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    monkeypatch.setitem(fused._STAGES, "tf32x3", stages)
    monkeypatch.setattr(fused, "_cache", type(fused._cache)())
    rows = hasher._by_kernel(hasher._rows_to_map(torch.as_tensor(X, device="cuda")), pack=True)
    assert isinstance(rows, FusedRows) == (stages > 0)
    assert share_off(hasher.encode(torch.as_tensor(X, device="cuda")), hasher.encode(X)) < 1e-4


@device
def test_a_tensor_with_gradients_is_encoded_without(device):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    T = torch.as_tensor(X, device=device).requires_grad_()
    assert not hasher.embed(T).requires_grad
    assert share_off(hasher.encode(T), hasher.encode(X)) < 1e-4


class _Normal:
    def __init__(self, r):
        self.r = r

    def fit_transform(self, B):
        return np.random.default_rng(0).standard_normal((len(B), self.r))


def test_a_panel_holds_the_base_points_with_little_padding():
    assert fused.panel_parts(400, 400) == (256, 128, 16)
    for m in (1, 16, 17, 100, 300, 399, 400, 401, 1000, 4000, 10_000):
        for most in (256, 400):
            width = sum(fused.panel_parts(m, most))
            assert width <= most
            assert -(-m // width) * width <= max(16, 2 * m)


def test_a_precision_has_a_name():
    with pytest.raises(ValueError, match="tf32, tf32x3, float32"), manihash.gpu_precision("half"):
        pass


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
def test_codes_in_the_worst_order_are_found_too(device):
    bits = np.tril(np.ones((64, 64), bool))[::-1].repeat(1000, axis=0)  # ever nearer to zero
    codes, query = pack(bits), np.zeros((1, 8), np.uint8)
    distance, ids = TensorIndex(torch.as_tensor(codes, device=device), 64).search(
        torch.as_tensor(query), 1500
    )
    order = np.argsort(hamming(query, codes)[0], kind="stable")[:1500]
    assert np.array_equal(ids.cpu().numpy()[0], order)
    assert np.array_equal(distance.cpu().numpy()[0], hamming(query, codes)[0][order])


@device
def test_more_neighbors_than_codes_give_all(device, caplog):
    codes = torch.as_tensor(pack(np.random.default_rng(0).random((7, 16)) > 0.5), device=device)
    distances, ids = TensorIndex(codes, 16).search(codes, 10)
    assert distances.shape == ids.shape == (7, 7)
    assert "all 7 are given" in caplog.text


def test_what_are_no_codes_is_refused():
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


def test_the_command_computes_on_a_device(tmp_path):
    from command import run, stderr_line

    np.save(tmp_path / "x.npy", points())
    x, model, codes, plain = (str(tmp_path / name) for name in ("x.npy", "m.mhash", "c.npy", "p.npy"))
    run("fit", x, "--device", "cpu", "--bits", "16", "--set", "base__size=60", "-o", model)
    run("encode", model, x, "--device", "cpu", "--precision", "tf32", "-o", codes)
    run("encode", model, x, "-o", plain)
    assert share_off(np.load(codes), np.load(plain)) < 1e-4
    failed = run("encode", model, x, "--device", "nonsense", "-o", str(tmp_path / "d.npy"), code=2)
    assert "'nonsense' cannot be used" in stderr_line(failed)
    failed = run("encode", model, x, "--precision", "half", "-o", str(tmp_path / "d.npy"), code=2)
    assert "tf32, tf32x3, float32" in stderr_line(failed)
    failed = run("fit", x, "--device", "cpu", "--dask", "1", "-o", str(tmp_path / "d.mhash"), code=2)
    assert "give one" in stderr_line(failed)


def test_the_command_without_torch_names_the_extra(tmp_path, monkeypatch):
    from command import run, stderr_line

    np.save(tmp_path / "x.npy", points())
    monkeypatch.setitem(sys.modules, "torch", None)
    failed = run("fit", str(tmp_path / "x.npy"), "--device", "cuda", "-o", str(tmp_path / "m.mhash"), code=2)
    assert "manihash[torch]" in stderr_line(failed)
