"""The order and the place of numbers in memory change no bit of what ``fit`` learns and ``embed`` returns."""

import numpy as np
import pytest
from dask_vectors import differing, small_recipe

from manihash import load, recipe_names


def unaligned(X):
    """A copy of X at an odd address, as in a packed record or a network message."""
    memory = np.empty(X.nbytes + 1, np.uint8)
    copy = memory[1:].view(X.dtype).reshape(X.shape)
    copy[...] = X
    return copy


def of_records(X):
    """X as a field of packed records."""
    records = np.zeros(len(X), [("flag", "u1"), ("values", X.dtype, X.shape[1:])])
    records["values"] = X
    return records["values"]


LAYOUTS = {
    "columns first": np.asfortranarray,
    "unaligned": unaligned,
    "records": of_records,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: X[::-1].copy()[::-1],
}


@pytest.fixture(scope="module")
def labeled():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=300)
    return 2 * rng.normal(size=(5, 40))[y] + rng.normal(size=(300, 40)), y


@pytest.mark.cases(24)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", recipe_names())
def test_rows_in_any_layout_give_the_same_model_and_values(labeled, tmp_path, name, dtype):
    X, y = labeled[0].astype(dtype), labeled[1]
    model = small_recipe(name).fit(X, y)
    values = model.embed(X)
    for layout, arranged in LAYOUTS.items():
        assert np.array_equal(model.embed(arranged(X)), values), layout
        assert np.array_equal(model.embed(arranged(X[:3])), values[:3]), layout
    for layout in ("columns first", "unaligned"):
        assert not differing(model, small_recipe(name).fit(LAYOUTS[layout](X), y)), layout
    model.save(tmp_path / "model.mhash")
    assert np.array_equal(load(tmp_path / "model.mhash").embed(X), values)
