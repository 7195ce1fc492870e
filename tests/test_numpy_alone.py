"""Loading a model and encoding rows need numpy and nothing else."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_estimators import SMALL

import manihash
from manihash import without_scikit
from manihash.estimator import RowEstimator

# Only manihash, numpy and the standard library can be imported.
BLOCKED = """
import sys
class OnlyNumpy:
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        if first not in sys.stdlib_module_names and first not in ("numpy", "manihash", "__main__"):
            raise ModuleNotFoundError(f"No module named {first!r}", name=first)
sys.meta_path.insert(0, OnlyNumpy())
import numpy as np
import manihash
"""
MODELS = [estimator for estimator in SMALL if isinstance(estimator, RowEstimator)]


def run_with_numpy_alone(code, folder):
    """What the code prints, in a process that has numpy and manihash only."""
    found = subprocess.run(
        [sys.executable, "-c", BLOCKED + code],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(manihash.__file__).parents[1]), "PATH": ""},
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 5)) + 3 * rng.integers(2, size=(60, 1)), rng.integers(3, size=60)


def output_of(model, X):
    return model.encode(X) if hasattr(model, "encode") else model.transform(X)


@pytest.fixture
def folder(rows, tmp_path):
    """Files of every model, and their codes."""
    X, y = rows
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "X32.npy", X.astype(np.float32))
    for i, model in enumerate(MODELS):
        model.fit(X, y).save(tmp_path / f"{i}.mhash")
    return tmp_path


def test_every_model_is_loaded_and_encodes_with_numpy_alone(folder, rows):
    run_with_numpy_alone(
        """
from pathlib import Path
X, X32 = np.load("X.npy"), np.load("X32.npy")
for path in Path().glob("*.mhash"):
    model = manihash.load(path)
    output = model.encode if hasattr(model, "encode") else model.transform
    np.savez(path.with_suffix(".npz"), all=output(X), single=output(X32), one=output(X[3:4]))
    assert len(model.get_feature_names_out()) == model.transform(X[:1]).shape[1]
    assert repr(model).startswith(type(model).__name__)
assert not {"sklearn", "scipy", "threadpoolctl", "safetensors"} & sys.modules.keys()
""",
        folder,
    )
    X = rows[0]
    for i, model in enumerate(MODELS):
        found = np.load(folder / f"{i}.npz")
        assert np.array_equal(found["all"], output_of(model, X)), model
        assert np.array_equal(found["single"], output_of(model, X.astype(np.float32))), model
        assert np.array_equal(found["one"], output_of(model, X[3:4])), model


def test_codes_are_searched_with_numpy_alone(folder, rows):
    codes = manihash.LSH(16, random_state=0).fit(rows[0]).encode(rows[0])
    index = manihash.HammingIndex(codes, 16)
    index.save(folder / "codes.mhx")
    np.save(folder / "codes.npy", codes)
    run_with_numpy_alone(
        """
codes = np.load("codes.npy")
index = manihash.HammingIndex.load("codes.mhx")
distances, ids = index.search(codes[:7], k=5)
lims, near, found = manihash.HammingIndex(codes, 16).within(codes[:7], radius=3)
np.savez("found.npz", distances=distances, ids=ids, lims=lims, near=near, found=found)
""",
        folder,
    )
    found = np.load(folder / "found.npz")
    for name, array in zip(("distances", "ids"), index.search(codes[:7], k=5), strict=True):
        assert np.array_equal(found[name], array)
    for name, array in zip(("lims", "near", "found"), index.within(codes[:7], radius=3), strict=True):
        assert np.array_equal(found[name], array)


def test_errors_say_what_to_do(folder):
    text = run_with_numpy_alone(
        """
X = np.load("X.npy")
model = manihash.load("0.mhash")
def show(f):
    try:
        f()
    except Exception as error:
        print(type(error).__name__, error)
show(lambda: manihash.LSH(8).fit(X))
show(lambda: manihash.IMH().fit_transform(X))
show(lambda: manihash.KMeansBase(3).fit(X))
show(lambda: manihash.PCA().fit_transform(X))
show(lambda: manihash.recipe("imh-tsne"))
show(lambda: manihash.LSH().encode(X))
show(lambda: model.encode(X[:, :2]))
show(lambda: model.encode(X[:0]))
show(lambda: model.encode(X[0]))
show(lambda: model.encode(X * np.nan))
show(lambda: model.encode(X * 1j))
show(lambda: model.encode([["a"] * 5]))
show(lambda: model.set_params(nonsense=3))
print(all(np.array_equal(model.encode(given), model.encode(X)) for given in (X.tolist(), X.astype(object))))
""",
        folder,
    ).splitlines()
    fits = text[:4]
    assert all(line.startswith("ImportError fitting ") for line in fits), fits
    assert all("pip install scikit-learn scipy" in line for line in text[:5])
    assert text[5].startswith("NotFittedError This LSH instance is not fitted yet")
    assert "expecting 5 features as input. Give vectors of the width the model was fitted on" in text[6]
    assert "give at least 1" in text[7]
    assert "expected 2: one vector per row" in text[8]
    assert text[9].startswith("BadRowsError Input X contains NaN")
    assert text[10].startswith("ValueError Complex data not supported")
    assert "give real numbers" in text[11]
    assert "Invalid parameter 'nonsense'" in text[12]
    assert text[13] == "True"


class Part(without_scikit.BaseEstimator):
    def __init__(self, size=3):
        self.size = size


class Whole(without_scikit.BaseEstimator):
    def __init__(self, part=None, seed=0):
        self.part, self.seed = part, seed


def test_parameters_work_as_in_scikit_learn():
    whole = Whole(Part(5), seed=2)
    assert whole.get_params(deep=False) == {"part": whole.part, "seed": 2}
    assert whole.get_params()["part__size"] == 5
    assert whole.set_params(part__size=7, seed=1) is whole
    assert repr(whole) == "Whole(part=Part(size=7), seed=1)"
    assert repr(Whole()) == "Whole()"
