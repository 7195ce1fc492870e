"""``fit`` on Dask workers that are killed at random moments: every recipe learns the bits of one machine.

MANIHASH_KILLS sets the number of fits, in each of which a worker is killed; the seed of a fit is its number.
"""

import os
import signal

import numpy as np
import pytest
from dask_vectors import differing, small_recipe

from manihash import recipe_names
from manihash.rows import dask as dask_module
from manihash.rows import rows as rows_module

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.extra
KILLS = int(os.environ.get("MANIHASH_KILLS", "4"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))


@pytest.fixture(scope="module")
def client():
    with dask_module.connected("2"):  # as ``--dask 2``
        yield distributed.default_client()


def kill_one(client):
    """Kill a worker process; those that do not answer are being started."""
    numbers = []
    while not numbers:
        client.wait_for_workers(1, timeout=300)
        answers = client.run(os.getpid, on_error="ignore").values()
        numbers = [number for number in answers if number != os.getpid()]
    os.kill(sorted(numbers)[0], signal.SIGKILL)


def generated_rows(rng):
    """Rows with labels, enough for a product quantizer, of a random type and width, and their chunks."""
    n, d = int(rng.integers(260, 900)), int(rng.choice([20, 40, 300]))
    y = rng.integers(5, size=n)
    X = 2 * rng.normal(size=(5, d))[y] + rng.normal(size=(n, d)) + rng.choice([0, 0, 100])
    return X.astype(rng.choice([np.float32, np.float64])), y, int(rng.integers(50, n))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + KILLS))
def test_a_worker_killed_in_fit_changes_no_bit(client, monkeypatch, seed):
    import dask.array as da

    monkeypatch.setattr(rows_module, "_SPAN_NUMBERS", 2**12)
    rng = np.random.default_rng(seed)
    name = recipe_names()[seed % len(recipe_names())]
    X, y, chunks = generated_rows(rng)
    here = small_recipe(name).fit(X, y)
    results, left = dask_module._results, []

    def and_kill(tasks):
        for result in results(tasks):
            if left[0] == 0:
                kill_one(client)
            left[0] -= 1
            yield result

    client.wait_for_workers(1, timeout=300)  # a killed worker is started again
    monkeypatch.setattr(dask_module, "_results", and_kill)
    moment = int(rng.integers(0, 22))
    for _ in range(2):
        left[:] = [moment]
        there = small_recipe(name).fit(da.from_array(X, chunks=(chunks, -1)), y)
        assert differing(here, there) == []
        if left[0] < 0:
            return
        moment = int(rng.integers(0, moment - left[0]))  # the fit had fewer results
    raise AssertionError("no worker was killed")
