"""Folders with vectors, models and codes for the tests of the command."""

from pathlib import Path

import numpy as np
import pytest
from command import SMALL, run

from manihash import HammingIndex


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a new folder with X.npy (300, 16) of six clusters, labels y.npy, and queries Q.npy, yq.npy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("MANIHASH_DEBUG", raising=False)
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=320)
    X = (4 * rng.normal(size=(6, 16))[y] + rng.normal(size=(320, 16))).astype(np.float32)
    for name, array in {"X": X[:300], "y": y[:300], "Q": X[300:], "yq": y[300:]}.items():
        np.save(f"{name}.npy", array)
    return tmp_path


@pytest.fixture
def model(folder: Path) -> str:
    """Write a model of X.npy, and the codes of X.npy to codes.npy."""
    run("fit", "X.npy", *SMALL, "-o", "model.mhash")
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy")
    return "model.mhash"


@pytest.fixture
def indexed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """X.npy (200, 8), Q.npy, ids.npy; a model of 12 bits, its codes.npy and codes.mhx; narrow.mhx."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("MANIHASH_DEBUG", raising=False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(205, 8)).astype(np.float32)
    X[50:100] = X[:50]  # duplicate rows
    np.save("X.npy", X[:200])
    np.save("Q.npy", X[200:])
    np.save("ids.npy", rng.permutation(1000)[:200] - 100)
    run("fit", "X.npy", "--recipe=lsh", "--bits=12", "-o", "model.mhash")
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy")
    run("index", "codes.npy", "--bits=12", "-o", "codes.mhx")
    HammingIndex(np.load("codes.npy")[:, :1], 8).save("narrow.mhx")
    return tmp_path
