"""ONNX files: what onnxruntime computes from them, in a process without manihash, equals ``encode``."""

import json
import subprocess
import sys

import numpy as np
import pytest
from command import run, stderr_line
from public_names import public_names
from sklearn.datasets import load_digits

import manihash
from manihash import IMH, Hasher, Hybrid, load
from manihash.base import CoarseNeighbors, ExactNeighbors, KMeansBase, LargeBase, ListedNeighbors, ReducedBase
from manihash.embeddings import PCA
from manihash.export import compare, compare_onnx, graph
from manihash.export.formulas import SUPPORTED
from manihash.hashers import AGH, LSH
from manihash.rotation import ITQRotation

pytestmark = pytest.mark.extra
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS.astype(np.float32)
SMALL = {"base": KMeansBase(60), "embedding": PCA(), "n_neighbors": 5}


def on_large_base(neighbors, **options):
    return IMH(12, base=LargeBase(150, neighbors=neighbors), embedding=PCA(), **options)


HASHERS = {
    "imh": IMH(12, **SMALL),
    "imh-normalized-rotated": IMH(16, **SMALL, normalize=True, rotation=ITQRotation(n_iter=5)),
    "imh-narrow": IMH(8, base=KMeansBase(60), embedding=PCA(), bandwidth=1e-30),
    "imh-one-neighbor": IMH(8, base=KMeansBase(60), embedding=PCA(), n_neighbors=1),
    "imh-coarse": on_large_base(CoarseNeighbors(probes=2)),
    "imh-listed": on_large_base(ListedNeighbors(probes=1)),
    "imh-exact": on_large_base(ExactNeighbors(), normalize=True),
    "imh-reduced": IMH(9, base=ReducedBase(KMeansBase(60), n_components=20), embedding=PCA()),
    "imh-reduced-coarse": IMH(
        9,
        base=ReducedBase(LargeBase(150, neighbors=CoarseNeighbors(probes=2)), n_components=20),
        embedding=PCA(),
    ),
    "supervised-imh": manihash.hashers.SupervisedIMH(8, **SMALL),
    "agh": AGH(10, base=KMeansBase(60)),
    "agh-two-layers": AGH(11, base=KMeansBase(60), layers=2, normalize=True),
    "hybrid": Hybrid(IMH(5, **SMALL), manihash.hashers.ITQ(12, n_iter=5, normalize=True)),
    "hybrid-of-hybrids": Hybrid(Hybrid(LSH(3), LSH(4)), manihash.hashers.SpH(5, max_iter=5)),
    "bridged": manihash.hashers.BridgedHasher(IMH(12, **SMALL, normalize=True), kind="ridge"),
    "bridged-low-rank": manihash.hashers.BridgedHasher(manihash.hashers.ITQ(12), kind="low-rank"),
    "bridged-residual": manihash.hashers.BridgedHasher(
        Hybrid(LSH(5), manihash.hashers.ITQ(6)), kind="residual"
    ),
    "lsh": LSH(20),
    "lsh-uncentered": LSH(20, center=False),
    "pcah": manihash.hashers.PCAH(16),
    "itq": manihash.hashers.ITQ(16, n_iter=5, normalize=True),
    "opq": manihash.hashers.ProductQuantizer(32, max_iter=4),
    "opq-four-bits": manihash.hashers.ProductQuantizer(36, bits_per_field=4, max_iter=4, normalize=True),
    "pq": manihash.hashers.ProductQuantizer(24, rotation=False, max_iter=4),
    "sh": manihash.hashers.SH(40),
    "sign": manihash.hashers.SignQuantizer(64),
    "sign-rotated": manihash.hashers.SignQuantizer(70, normalize=True),
    "sign-prefix": manihash.hashers.SignQuantizer(20, center="median", prefix=True),
    "bre": manihash.hashers.BRE(8, n_train=100, max_iter=3),
    "sth": manihash.hashers.STH(8, n_neighbors=5),
    "sph": manihash.hashers.SpH(16, max_iter=10),
    "sklsh": manihash.hashers.SKLSH(40),
    "klsh": manihash.hashers.KLSH(24, n_train=100),
    "klsh-linear": manihash.hashers.KLSH(24, n_train=100, kernel="linear"),
    "e2lsh": manihash.hashers.E2LSH(24),
    "e2lsh-l1": manihash.hashers.E2LSH(24, p=1),
    "rmmh": manihash.hashers.RMMH(16),
    "rmmh-rbf": manihash.hashers.RMMH(16, kernel="rbf"),
    "mahalanobis": manihash.hashers.MahalanobisLSH(16),
    "cgh": manihash.hashers.CGH(8, n_triplets=500, n_neighbors=5),
    "ksh": manihash.hashers.KSH(8, n_anchors=50, n_iter=5),
    "ssh": manihash.hashers.SSH(8),
    "ldahash": manihash.hashers.LDAHash(8),
}


def fitted(name, X=DIGITS, n=900):
    target = turned(X[:n]) if name.startswith("bridged") else LABELS[:n]
    return HASHERS[name].set_params(random_state=0).fit(X[:n], target)


def turned(X):
    """The same items in another space (n, 40)."""
    return np.tanh((X - X.mean(axis=0)) / 16) @ np.random.default_rng(3).normal(size=(64, 40))


def rows_with_extremes(X):
    """Rows between those of X, a zero row, and rows so small that squares underflow float32."""
    rng = np.random.default_rng(0)
    Q = (X + X[rng.permutation(len(X))]) / 2
    Q[0], Q[1], Q[2] = 0, X[1] * 1e-25, X[2] * 1e-42
    return Q.astype(np.float32)


ALONE = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("manihash", "onnx", "sklearn", "scipy"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import numpy as np, onnxruntime
for name in sys.argv[1:]:
    session = onnxruntime.InferenceSession(name + ".onnx")
    codes, values = session.run(None, {"rows": np.load("rows.npy")})
    one, _ = session.run(None, {"rows": np.load("rows.npy")[5:6]})
    none, _ = session.run(None, {"rows": np.load("rows.npy")[:0]})
    assert none.shape == (0, codes.shape[1]) and np.array_equal(one, codes[5:6])
    np.savez(name, codes=codes, values=values)
assert "manihash" not in sys.modules
"""


@pytest.mark.parametrize("far", [0, 1000], ids=["", "far-from-zero"])
def test_every_hasher_gives_the_codes_of_encode_without_manihash(far, tmp_path):
    noise = np.random.default_rng(1).normal(size=DIGITS.shape)
    X = (DIGITS + noise + far).astype(np.float32) if far else DIGITS
    Q = rows_with_extremes(X)
    np.save(tmp_path / "rows.npy", Q)
    expected = {}
    for name in HASHERS:
        hasher = fitted(name, X)
        hasher.to_onnx(tmp_path / f"{name}-single.onnx")
        hasher.to_onnx(tmp_path / f"{name}-double.onnx", double=True)
        exact = Q.astype(np.float64)
        assert np.array_equal(hasher.encode(exact), hasher.encode(Q)), name
        expected[name] = hasher.encode(exact), hasher.embed(exact), hasher.n_bits_
    files = [f"{name}-{kind}" for name in HASHERS for kind in ("single", "double")]
    subprocess.run([sys.executable, "-c", ALONE, *files], check=True, cwd=tmp_path)
    total = differing = 0
    for name, (codes, values, n_bits) in expected.items():
        single, double = np.load(tmp_path / f"{name}-single.npz"), np.load(tmp_path / f"{name}-double.npz")
        assert np.array_equal(double["codes"], codes), name
        assert double["values"].dtype == np.float64
        np.testing.assert_allclose(double["values"], values, rtol=1e-7, atol=1e-7 * np.abs(values).max())
        assert single["values"].dtype == np.float32
        differ = int(np.bitwise_count(single["codes"] ^ codes).sum())
        if isinstance(HASHERS[name], manihash.hashers.ProductQuantizer):
            # Rows between rows of small integers lie halfway between centers; several bits change at once.
            assert (single["codes"] != codes).any(axis=1).sum() <= 5, name
            continue
        assert differ <= 1, name
        total, differing = total + codes.shape[0] * n_bits, differing + differ
    assert differing <= max(1, 1e-5 * total)


def test_unused_bits_of_the_last_byte_are_zero(tmp_path):
    import onnxruntime

    fitted("imh").to_onnx(tmp_path / "e.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx")
    codes, values = session.run(None, {"rows": DIGITS})
    assert codes.shape == (len(DIGITS), 2)
    assert not (codes[:, 1] & 0x0F).any()
    assert np.array_equal(manihash.pack(values > 0), codes)


def test_the_file_describes_itself_and_uses_standard_operators(tmp_path):
    hasher = fitted("hybrid")
    hasher.to_onnx(tmp_path / "e.onnx", double=True)
    model = onnx.load(tmp_path / "e.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 18)]
    assert {node.domain for node in model.graph.node} == {""}
    facts = graph.read_metadata(tmp_path / "e.onnx")
    assert facts["class"] == "Hybrid"
    assert (facts["n_bits"], facts["n_features"], facts["look_up_bits"]) == ("17", "64", "5")
    assert facts["manihash_version"] == manihash.__version__
    assert facts["precision"] == "float64"
    (rows,) = model.graph.input
    assert rows.type.tensor_type.shape.dim[0].dim_param


def test_a_float64_model_is_computed_in_float64_in_both_graphs(tmp_path):
    X = (DIGITS + 3000).astype(np.float32)  # STH depends on the origin, so nothing can be subtracted
    hasher = manihash.hashers.STH(8, n_neighbors=5, random_state=0).fit(X[:900])
    assert hasher.in_float64_
    hasher.to_onnx(tmp_path / "e.onnx")
    assert compare_onnx(tmp_path / "e.onnx", hasher, X).different_bits == 0


@pytest.mark.parametrize("name", HASHERS)
def test_rows_are_drawn_where_codes_vary(name, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "_BITS", 50_000)
    hasher = fitted(name)
    hasher.to_onnx(tmp_path / "e.onnx")
    found = compare_onnx(tmp_path / "e.onnx", hasher)
    assert found.different_rows <= 2  # encode is exact, the graph computes in float32
    assert found.bits >= 50_000 or found.rows >= 1000
    bits = hasher.transform(compare.sample_near(hasher, np.random.default_rng(0)))
    assert (bits.mean(axis=0) > 0.02).mean() > 0.7
    assert (bits.mean(axis=0) < 0.98).mean() > 0.7


def test_drawn_rows_give_no_warning_about_codes(tmp_path, recwarn):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(12, 512)), 5, axis=0) + 0.1 * rng.normal(size=(60, 512))
    hasher = manihash.hashers.ITQ(n_bits=32, normalize=True, random_state=0).fit(X)
    hasher.to_onnx(tmp_path / "e.onnx")
    recwarn.clear()
    compare_onnx(tmp_path / "e.onnx", hasher)
    assert not [each for each in recwarn if issubclass(each.category, manihash.hashers.CollapsedCodesWarning)]


@pytest.mark.filterwarnings("ignore:codes cannot tell")
@pytest.mark.parametrize(
    "hasher", [manihash.hashers.SpH(16, max_iter=10), manihash.hashers.KLSH(16), manihash.hashers.KSH(16)]
)
def test_distances_of_rows_beside_zero_are_rounded_as_in_encode(hasher, tmp_path):
    X = np.random.default_rng(0).normal(9, 1, (6000, 64)).astype(np.float32)
    hasher.set_params(random_state=0).fit(X, X[:, 0] > 9)
    assert hasher.origin_ is None
    hasher.to_onnx(tmp_path / "e.onnx")
    assert compare_onnx(tmp_path / "e.onnx", hasher, X).different_bits == 0


def test_differences_are_counted(tmp_path):
    hasher = fitted("lsh")
    hasher.to_onnx(tmp_path / "e.onnx")
    hasher.projection_ = -hasher.projection_
    hasher.offset_ = -hasher.offset_
    found = compare_onnx(tmp_path / "e.onnx", hasher, DIGITS)
    assert found.different_bits == found.bits == len(DIGITS) * 20
    assert found.different_rows == found.rows == len(DIGITS)
    assert not found.acceptable


class Squares(LSH):
    def _embed(self, X):
        return super()._embed(X) ** 2


def test_a_hasher_without_a_formula_is_an_error_that_lists_the_supported_ones(tmp_path):
    with pytest.raises(ValueError, match="Squares has no formula in ONNX operators: supported are IMH"):
        Squares(8).fit(DIGITS).to_onnx(tmp_path / "e.onnx")
    by_function = manihash.hashers.KLSH(8, kernel=lambda X, Z: (X @ Z.T) ** 2, n_train=50).fit(DIGITS / 16)
    with pytest.raises(ValueError, match="KLSH with a function as kernel has no formula"):
        by_function.to_onnx(tmp_path / "e.onnx")
    assert not list(tmp_path.iterdir())


def test_every_public_hasher_is_supported_and_listed():
    values = public_names().values()
    public = {value.__name__ for value in values if isinstance(value, type) and issubclass(value, Hasher)}
    assert public - {"Hasher"} == {type(hasher).__name__ for hasher in HASHERS.values()}
    assert all(name in SUPPORTED for name in public - {"Hasher"})


def test_a_subclass_that_inherits_the_formula_is_accepted(tmp_path):
    class Mine(LSH):
        pass

    hasher = Mine(8, random_state=0).fit(DIGITS)
    hasher.to_onnx(tmp_path / "e.onnx")
    assert compare_onnx(tmp_path / "e.onnx", hasher, DIGITS).different_bits == 0


def test_bad_input_is_an_error_and_writes_nothing(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="not fitted"):
        LSH().to_onnx(tmp_path / "e.onnx")
    with pytest.raises(ValueError, match="hasher must be a fitted hasher"):
        manihash.export_onnx(DIGITS, tmp_path / "e.onnx")
    with pytest.raises(ValueError, match="double must be true or false"):
        fitted("lsh").to_onnx(tmp_path / "e.onnx", double="yes")
    with pytest.raises(FileNotFoundError, match="cannot write"):
        fitted("lsh").to_onnx(tmp_path / "missing" / "e.onnx")
    monkeypatch.setattr(graph, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="at most 2 GB"):
        fitted("lsh").to_onnx(tmp_path / "e.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_model_is_an_error(tmp_path):
    fitted("lsh").to_onnx(tmp_path / "e.onnx")
    with pytest.raises(ValueError, match="holds another model"):
        compare_onnx(tmp_path / "e.onnx", fitted("imh"), DIGITS)
    with pytest.raises(ValueError, match="features"):
        compare_onnx(tmp_path / "e.onnx", fitted("lsh"), DIGITS[:, :5])


@pytest.fixture
def model_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", DIGITS)
    fitted("imh-normalized-rotated").save("model.mhash")
    return "model.mhash"


def test_the_command_writes_and_compares(model_file):
    text = run("onnx", model_file, "-o", "e.onnx").stdout
    assert "0 of 1,000,000 bits differ" in text or "bits differ" in text
    assert "rows: float32 (batch, 64)" in text
    assert "codes: uint8 (batch, 2)" in text
    hasher = load(model_file)
    import onnxruntime

    codes, _ = onnxruntime.InferenceSession("e.onnx").run(None, {"rows": DIGITS})
    assert np.array_equal(codes, hasher.encode(DIGITS))


def test_the_command_reports_json_of_a_given_sample(model_file):
    found = json.loads(
        run("onnx", model_file, "-o", "e.onnx", "--double", "--sample", "X.npy", "--json").stdout
    )
    assert found["rows_compared"] == len(DIGITS)
    assert found["different_bits"] == 0
    assert found["metadata"]["precision"] == "float64"


def test_the_command_reports_bad_input(model_file):
    np.save("wrong.npy", DIGITS[:, :3])
    assert "no model file" in stderr_line(run("onnx", "none.mhash", "-o", "e.onnx", code=2))
    assert "is also an input file" in stderr_line(run("onnx", model_file, "-o", model_file, code=2))
    assert "features" in stderr_line(run("onnx", model_file, "-o", "e.onnx", "--sample", "wrong.npy", code=2))


def test_info_describes_an_onnx_file(model_file):
    run("onnx", model_file, "-o", "e.onnx", "--sample", "X.npy")
    text = run("info", "e.onnx").stdout
    assert "codes of 16 bits" in text
    assert load(model_file).lineage_["id"] in text
    found = json.loads(run("info", "e.onnx", "--json").stdout)
    assert (found["class"], found["n_bits"], found["precision"]) == ("IMH", "16", "float32")


def test_a_damaged_or_foreign_onnx_file_is_named_as_such(model_file, tmp_path):
    run("onnx", model_file, "-o", "e.onnx", "--sample", "X.npy")
    content = (tmp_path / "e.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(content[: len(content) // 2])
    foreign = onnx.load("e.onnx")
    foreign.producer_name = "pytorch"
    onnx.save(foreign, "foreign.onnx")
    assert "it is damaged" in stderr_line(run("info", "cut.onnx", code=2))
    assert "an ONNX file of pytorch, not of manihash" in stderr_line(run("info", "foreign.onnx", code=2))
    with pytest.raises(manihash.errors.ModelFileError, match="it is damaged"):
        compare_onnx("cut.onnx", load(model_file), DIGITS)
