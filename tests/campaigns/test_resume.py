"""``manihash encode`` that is killed again and again: the bytes of one run, whatever remained of the others.

MANIHASH_KILLS sets the number of cases, each with up to four kills; the seed of a case is its number. Between
two runs the vectors or the model may change: then the command starts again, or refuses to mix both.
"""

import os
import time

import numpy as np
import pytest

from manihash import recipe
from manihash.files.formats import write

killed_command = pytest.importorskip("killed_command", reason="needs processes that can be forked")

KILLS = int(os.environ.get("MANIHASH_KILLS", "4"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
ENCODE = ["encode", "model.mhash", "X.npy", "-o", "codes.npy"]


@pytest.fixture(scope="module")
def models():
    """Two models of the same rows, and these rows; the time that an encode takes is known after one run."""
    X = np.random.default_rng(0).integers(0, 256, (120_000, 24), np.uint8)
    return X, [recipe(name, n_bits=200, random_state=0).fit(X[:500]) for name in ("lsh", "sklsh")]


def damaged(folder, rng):
    """Cut or flip what a killed run has left; return whether there was something."""
    parts = [path for path in folder.iterdir() if ".part" in path.name and path.stat().st_size]
    if not parts or rng.random() < 0.7:
        return False
    path = parts[rng.integers(len(parts))]
    content = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        del content[int(rng.integers(len(content))) :]
    elif path.suffix == ".json":
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(content))
    return True


@pytest.mark.parametrize("seed", range(FIRST, FIRST + KILLS))
def test_a_resumed_encode_writes_the_bytes_of_one_run(models, tmp_path, seed):
    rng = np.random.default_rng(seed)
    (X, hashers), which = models, int(rng.integers(2))
    write(tmp_path / "X.npy", X)
    hashers[which].save(tmp_path / "model.mhash")
    start = time.monotonic()
    seconds = 0.4
    for _ in range(int(rng.integers(1, 5))):
        ended = killed_command.run_killed(tmp_path, ENCODE, rng.random() * seconds)
        seconds = max(seconds, (time.monotonic() - start) / 4)
        if ended == 0:
            break
        damaged(tmp_path, rng)
        if rng.random() < 0.2:
            which = 1 - which
            hashers[which].save(tmp_path / "model.mhash")
    ended = killed_command.run_killed(tmp_path, ENCODE, None)
    if ended == 2:  # refused, because the model has changed or the parts are damaged
        ended = killed_command.run_killed(tmp_path, [*ENCODE, "--restart"], None)
    assert ended == 0
    assert np.array_equal(np.load(tmp_path / "codes.npy"), hashers[which].encode(X))
    assert {path.name for path in tmp_path.iterdir()} == {"X.npy", "model.mhash", "codes.npy"}
