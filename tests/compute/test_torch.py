"""Methods give for tensors what they give for arrays, on every device of this machine."""

import numpy as np
import pytest
from sklearn.base import clone
from torch_devices import device, points, share_off, torch

import manihash
from manihash import IMH, InductiveEmbedding, on_device
from manihash.base import KMeansBase, RandomBase
from manihash.base.graph import BaseGraph
from manihash.codes import pack
from manihash.compute import numpy as numpy_backend
from manihash.compute import torch as torch_backend
from manihash.compute.torch_pairs import ElasticLoss, GaussianLoss, RowGaussianLoss, StudentLoss
from manihash.embeddings import PCA, SNE, TSNE, ElasticEmbedding, RelaxedLE
from manihash.embeddings._descent import ExactLoss
from manihash.embeddings.ee import ElasticEnergy
from manihash.embeddings.sne import GaussianDivergence, RowGaussianDivergence
from manihash.embeddings.tsne import StudentDivergence
from manihash.hashers import AGH, SupervisedIMH
from manihash.rotation import ITQRotation
from manihash.rows import rows_of
from manihash.rows.local import LocalRows
from manihash.rows.torch import TorchRows

pytestmark = pytest.mark.extra


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


GRAPHS = [
    pytest.param(AGH(20, KMeansBase(60), random_state=0), id="agh"),
    pytest.param(AGH(20, KMeansBase(60), layers=2, random_state=0), id="agh-two-layers"),
    pytest.param(SupervisedIMH(20, KMeansBase(60), PCA(), n_labels=200, random_state=0), id="supervised-imh"),
]


@device
@pytest.mark.parametrize("made", GRAPHS)
def test_the_other_methods_on_a_base_graph_compute_with_tensors(device, made, caplog):
    X = points(dtype=np.float64)
    y, T = np.arange(len(X)) % 3, torch.as_tensor(X, device=device)
    a, b = clone(made).fit(X, y), clone(made).fit(T, y)
    assert "computes with numpy" not in caplog.text
    np.testing.assert_allclose(b.base_points_, a.base_points_, atol=1e-9)
    assert b.bandwidth_ == pytest.approx(a.bandwidth_, rel=1e-9)
    codes = b.encode(T)
    assert codes.device.type == device
    assert share_off(codes, a.encode(X)) < 1e-3
    assert share_off(a.encode(T.float()), a.encode(X.astype(np.float32))) < 1e-3


@device
def test_the_same_seed_gives_the_same_bits_twice(device):
    T = torch.as_tensor(points(), device=device)
    first, again = (IMH(16, base=KMeansBase(60), random_state=3).fit(T).encode(T) for _ in range(2))
    assert torch.equal(first, again)


@device
def test_a_model_fitted_on_a_tensor_can_be_saved(device, tmp_path):
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


LOSSES = {
    "t-SNE": (lambda P: StudentDivergence(P, 1.0), lambda P: StudentLoss(P, 1.0)),
    "t-SNE, dof 3": (lambda P: StudentDivergence(P, 3.0), lambda P: StudentLoss(P, 3.0)),
    "elastic embedding": (lambda P: ElasticEnergy(P, 5.0), lambda P: ElasticLoss(P, 5.0)),
    "symmetric SNE": (GaussianDivergence, lambda P: GaussianLoss(P, 1.0)),
    "SNE": (RowGaussianDivergence, RowGaussianLoss),
}


@device
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_a_tensor_has_the_value_and_the_gradient_of_numpy(device, name):
    rng = np.random.default_rng(0)
    P = rng.random((70, 70)) * (rng.random((70, 70)) < 0.5)
    np.fill_diagonal(P, 0)
    P = P / P.sum(axis=1, keepdims=True) / 70 if name == "SNE" else (P + P.T) / (2 * P.sum())
    objective, loss_of = LOSSES[name]
    there, here = loss_of(torch.as_tensor(P, device=device)), ExactLoss(objective(P), 70)
    for Y in (rng.normal(size=(70, 5)), 1e-4 * rng.normal(size=(70, 5))):
        T = torch.as_tensor(Y, device=device)
        for exaggeration in (1.0, 4.0, 1.0):
            expected = here.gradient(Y, exaggeration)
            found = there.gradient(T, exaggeration).cpu().numpy()
            np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
        assert there.value(T) == pytest.approx(here.value(Y), rel=1e-9)


@device
@pytest.mark.parametrize(
    "embedding", [ElasticEmbedding(), SNE(), SNE(symmetric=True)], ids=["elastic", "sne", "symmetric-sne"]
)
def test_other_embeddings_of_a_tensor_are_as_good(device, embedding):
    X = points(300)
    options = {"n_components": 8, "random_state": 0, "n_iter": 300}
    here = clone(embedding).set_params(**options).fit(X)
    there = clone(embedding).set_params(**options).fit(torch.as_tensor(X, device=device))
    assert there.embedding_.device.type == device
    assert there.loss_ == pytest.approx(here.loss_, rel=0.05)


@device
def test_a_hasher_with_elastic_embedding_is_fitted_to_a_tensor(device):
    X = points(1000)
    hasher = IMH(8, KMeansBase(60), ElasticEmbedding(n_iter=100), random_state=0)
    hasher.fit(torch.as_tensor(X, device=device))
    assert isinstance(hasher.base_embedding_, np.ndarray)
    assert share_off(hasher.encode(torch.as_tensor(X, device=device)), hasher.encode(X)) < 1e-4


@device
def test_tsne_starts_from_the_probabilities_that_numpy_finds(device):
    from manihash.embeddings._perplexity import conditional_probabilities

    X = points(200, 40, dtype=np.float64)
    P = conditional_probabilities(X, 10, 20)
    found = conditional_probabilities(torch.as_tensor(X, device=device), 10, 20)
    np.testing.assert_allclose(found.cpu().numpy(), P, atol=1e-10)


@device
def test_the_coupling_of_a_tensor_is_that_of_an_array(device):
    X = points(1000)
    B = X[:40].copy()
    T = BaseGraph(B, 5, 0.8).coupling(LocalRows(X))
    np.testing.assert_allclose(
        BaseGraph(B, 5, 0.8).coupling(TorchRows(torch.as_tensor(X, device=device))), T, atol=1e-4
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
def test_the_type_of_the_tensor_decides_the_type_of_the_arithmetic(device, dtype):
    X = torch.as_tensor(points() * 100, device=device).to(getattr(torch, dtype))
    if dtype == "bool":
        X = torch.as_tensor(points() > 0.6, device=device)
    hasher = IMH(8, base=KMeansBase(30), random_state=0).fit(X)
    assert hasher.embed(X).dtype == (torch.float64 if dtype in ("float64", "int32") else torch.float32)
    plain = X.float() if dtype == "bfloat16" else X
    assert share_off(hasher.encode(X), hasher.encode(plain.cpu().numpy())) < 1e-3


@device
def test_rows_far_from_zero_are_shifted_by_an_origin(device):
    X = points() + np.float32(3000)
    T = torch.as_tensor(X, device=device)
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(T)
    assert hasher.origin_ is not None
    assert share_off(hasher.encode(T), hasher.encode(X)) < 1e-3


@device
def test_the_bits_are_those_of_the_codes(device):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    T = torch.as_tensor(X, device=device)
    assert torch.equal(torch_backend.pack(hasher.transform(T)), hasher.encode(T))
    assert torch.equal(hasher.transform(T).bool(), hasher.embed(T) > 0)


@device
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_wide_integers_become_float64(device, dtype):
    X = torch.full((4, 3), 2**24 + 1, dtype=getattr(torch, dtype), device=device)
    assert rows_of(X).dtype == np.float64


@device
def test_a_tensor_that_is_not_contiguous_is_accepted(device):
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
def test_an_invalid_row_is_named(device, normalize, value, what):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), normalize=normalize, random_state=0).fit(X)
    X[2345, 7] = value
    T = torch.as_tensor(X, device=device)
    with pytest.raises(ValueError, match=rf"{what}.*2345"):
        hasher.encode(T)
    with pytest.raises(ValueError, match=rf"{what}.*2345"):
        clone(hasher).fit(T)


@device
def test_rows_of_extreme_length_are_scaled_like_others(device):
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


def test_a_method_without_torch_computes_with_numpy_and_warns(caplog):
    X = points()
    hasher = manihash.hashers.LSH(16, random_state=0)
    codes = hasher.fit(torch.as_tensor(X)).encode(torch.as_tensor(X))
    assert "LSH computes with numpy" in caplog.text
    assert np.array_equal(codes, hasher.encode(X))


@device
@pytest.mark.parametrize("reduced", [False, True])
def test_a_large_base_is_chosen_on_the_device_of_the_rows(device, reduced, caplog):
    X = points()
    T = torch.as_tensor(X, device=device)
    base = manihash.base.LargeBase(100, probes=100, random_state=0)
    base = manihash.base.ReducedBase(base, n_components=4, random_state=0) if reduced else base
    chosen = [clone(base).fit(rows) for rows in (X, T)]
    here, there = ((part.base_ if reduced else part).inertia_ for part in chosen)
    assert there == pytest.approx(here, rel=0.05)
    hasher = IMH(8, base=base, random_state=0).fit(T)
    assert "computes with numpy" not in caplog.text
    assert np.array_equal(torch_backend.to_numpy(hasher.encode(T)), hasher.encode(X))


@device
def test_k_means_of_many_rows_uses_the_same_sample(device, monkeypatch):
    monkeypatch.setattr("manihash.base.kmeans._ALL_ROWS", 1000)
    X = points(dtype=np.float64)
    base = KMeansBase(20, sample=50, random_state=0)
    here, there = (clone(base).fit(x).points_ for x in (X, torch.as_tensor(X, device=device)))
    sent = clone(base).fit(on_device(X, device)).points_
    np.testing.assert_allclose(there, here, atol=1e-9)
    np.testing.assert_allclose(sent, here, atol=1e-9)


@device
def test_a_tensor_with_gradients_is_encoded_without(device):
    X = points()
    hasher = IMH(16, base=KMeansBase(60), random_state=0).fit(X)
    T = torch.as_tensor(X, device=device).requires_grad_()
    assert not hasher.embed(T).requires_grad
    assert share_off(hasher.encode(T), hasher.encode(X)) < 1e-4
