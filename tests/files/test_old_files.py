"""Model and index files of earlier versions load and give the same codes and answers."""

from pathlib import Path

import numpy as np
import pytest

from manihash import HammingIndex, load
from manihash.codes import hamming

FOLDER = Path(__file__).parent / "v0.1.0"
EXPECTED = dict(np.load(FOLDER / "expected.npz"))
MODELS = sorted(path.stem for path in FOLDER.glob("*.mhash"))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_version_0_1_0_gives_the_same_codes(name):
    model = load(FOLDER / f"{name}.mhash")
    if name == "inductive-embedding":
        np.testing.assert_allclose(model.transform(EXPECTED["X"]), EXPECTED[name], rtol=1e-10, atol=1e-12)
    else:
        np.testing.assert_array_equal(model.encode(EXPECTED["X"]), EXPECTED[name])


def test_there_is_a_model_of_every_recipe_of_that_version():
    assert len(MODELS) == 36


@pytest.mark.parametrize("name", ["rows", "ids"])
def test_an_index_of_version_0_1_0_gives_the_nearest_rows(name):
    codes, index = EXPECTED["rows.mhx"], HammingIndex.load(FOLDER / f"{name}.mhx")
    index.verify()
    ids, kept = (
        (np.arange(200), slice(0, 200)) if name == "rows" else (np.arange(200) * 7 + 1000, slice(2, 200))
    )
    distance = hamming(codes[:10], codes[kept])
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :7]
    found_distances, found_ids = index.search(codes[:10], k=7)
    np.testing.assert_array_equal(found_distances, np.take_along_axis(distance, nearest, axis=1))
    np.testing.assert_array_equal(found_ids, ids[kept][nearest])
