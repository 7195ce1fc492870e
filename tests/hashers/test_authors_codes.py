"""The codes that the paper's authors computed on MNIST, for 300 images: 30 of each digit.

``imh_authors_slice.npz`` has these images, the base points that are among the five nearest of any of them (82
of the 400), the embeddings of these points and the codes. test_imh.py tests all of the codes, on real data.
"""

from pathlib import Path

import numpy as np
import pytest

from manihash import IMH

SLICE = dict(np.load(Path(__file__).parents[1] / "golden" / "imh_authors_slice.npz"))


class Given:
    """An embedding that was computed elsewhere."""

    def __init__(self, Y):
        self.Y = Y

    def fit_transform(self, X):
        return self.Y


def authors_model(name, dtype):
    Y = SLICE[name]
    model = IMH(
        n_bits=Y.shape[1],
        base=SLICE["centres"],
        embedding=Given(Y),
        bandwidth=float(SLICE["sigma"]),
        normalize=True,
    ).fit(SLICE["images"].astype(dtype))
    model.base_embedding_ = Y  # fit subtracts the mean, which is that of all 400 points
    return model


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize("name", ["tsne_16", "tsne_64", "le_16", "le_64"])
def test_encode_gives_the_authors_codes_bit_for_bit(name):
    codes = authors_model(name, np.float64).encode(SLICE["images"].astype(np.float64))
    np.testing.assert_array_equal(codes, SLICE[f"{name}_codes"])


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize("name", ["tsne_16", "tsne_64", "le_16", "le_64"])
def test_in_float32_at_most_one_bit_differs(name):
    codes = authors_model(name, np.float32).encode(SLICE["images"].astype(np.float32))
    assert int(np.bitwise_count(codes ^ SLICE[f"{name}_codes"]).sum()) <= 1
