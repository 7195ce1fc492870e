"""The measurements of ``make bench-onnx`` meet the limits that docs/guide/onnx.md states."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "onnx.json"
pytestmark = pytest.mark.skipif(
    not RESULTS.exists(), reason="the documentation is not part of this installation"
)


def test_measured_files_meet_the_limits():
    models = {name: part["results"] for name, part in json.loads(RESULTS.read_text("utf-8")).items()}
    for found in models.values():
        assert found["float32, bits that differ"] <= 1e-5 * found["bits"]
        assert found["float64, bits that differ"] == 0
    assert models["IMH, 400 base points"]["float32, one row in products"] <= 4
