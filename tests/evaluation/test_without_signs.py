"""Codes without signs have no Hamming radius: they are ranked, and no look-up is measured."""

import json

import numpy as np
import pytest
from command import run
from sklearn.datasets import load_digits

from manihash import LabelTruth, evaluate
from manihash.hashers import ProductQuantizer

X, Y = load_digits(return_X_y=True)
X, Y = X[:500].astype(np.float32), Y[:500]


@pytest.fixture(scope="module")
def quantizer():
    return ProductQuantizer(16, bits_per_field=4, max_iter=3, random_state=0).fit(X[50:])


def test_evaluate_reports_no_look_up(quantizer):
    found = evaluate(quantizer, X[50:], X[:50], LabelTruth(Y[:50], Y[50:]))
    assert (found.precision, found.recall, found.f1) == (None, None, None)
    assert found.map > 0.3
    assert found.precision_at_10 > 0.7


def test_the_command_leaves_the_look_up_blank(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("y.npy", Y)
    asked = ["evaluate", "--vectors", "X.npy", "--labels", "y.npy", "--recipe", "pq", "--bits", "16"]
    row = json.loads(run(*asked, "--json", "--quiet").stdout)["rows"][0]
    assert row["f1"] is None
    assert row["precision"] is None
    assert row["map"] > 0.3
    assert "pq" in run(*asked, "--quiet").stdout
