"""Vectors that the tests of dask compute with: clusters of points, in nine blocks of rows."""

import numpy as np

N, D = 18_000, 16


def vectors(dtype=np.float32):
    rng = np.random.default_rng(0)
    return (4 * rng.standard_normal((9, D))[rng.integers(9, size=N)] + rng.standard_normal((N, D))).astype(
        dtype
    )
