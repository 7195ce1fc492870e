"""docs/guide/onnx.md agrees with the measurements of ``make bench-onnx``."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="the documentation is not part of this installation"
)


def test_the_table_has_the_measured_values_which_meet_the_limits():
    page = (DOCS / "guide" / "onnx.md").read_text(encoding="utf-8")
    models = json.loads((DOCS / "results" / "onnx.json").read_text(encoding="utf-8"))["models"]
    for name, found in models.items():
        shown = [
            f"{found[f'{precision}, bits that differ']} | {found[f'{precision}, one row in products']:.2f}"
            for precision in ("float32", "float64")
        ]
        assert f"| {name} | {' | '.join(shown)} |" in page
        assert found["float32, bits that differ"] <= 1e-5 * found["bits"]
        assert found["float64, bits that differ"] == 0
    assert models["IMH, 400 base points"]["float32, one row in products"] <= 4
