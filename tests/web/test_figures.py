"""The figures on the page about serving are those of the load test."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "guide" / "serving.md", ROOT / "docs" / "results" / "serve.json"


@pytest.mark.skipif(not RESULTS.exists(), reason="the documentation is not part of this installation")
def test_the_page_has_the_measured_figures():
    results = json.loads(RESULTS.read_text("utf-8"))
    page = " ".join(PAGE.read_text("utf-8").split())
    found = results["malformed"]["results"]
    assert f"{found['requests']:,} searches by 16 clients, {found['malformed']:,} of them malformed" in page
    assert f"{found['wrong_answers']} wrong answers, {found['unanswered']} unanswered requests" in page
    assert f"{found['memory_growth_mb']} MB more memory" in page
    found = results["kill"]["results"]
    assert f"{found['kills']} servers killed by SIGKILL" in page
    assert f"{found['acknowledged_rows']:,} rows were acknowledged, {found['lost_rows']} were lost" in page
