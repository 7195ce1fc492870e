"""The figures in the guide are those of docs/results/explore.json."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not part of this installation")
def test_the_guide_shows_the_measured_figures():
    found = json.loads((DOCS / "results" / "explore.json").read_text("utf-8"))
    page = (DOCS / "guide" / "exploring.md").read_text("utf-8")
    first, panning = found["first_picture"], found["panning"]
    assert f"{first['seconds']:.2f} s in the median of five, {min(first['all']):.2f} s at best" in page
    for name, title in (("page", "pixels"), ("webgl", "WebGL in software")):
        assert f"points once, {title} | {panning[name]['draw_milliseconds']:.1f} ms |" in page
        assert f"100,000 points, {title} | {panning[name]['frames_per_second']:.1f} |" in page
