"""The tables of the page about choosing are those of the results file."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "guide" / "choosing.md", ROOT / "docs" / "results" / "choose.json"

pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="the documentation is not installed")


def lines():
    return set(PAGE.read_text(encoding="utf-8").splitlines())


def test_the_table_of_rules_is_that_of_the_results():
    left_out = json.loads(RESULTS.read_text())["without labels"]["left out"]
    for name, ranking in left_out["ranking"].items():
        values = [
            each[key]
            for each in (ranking, left_out["auto"][name])
            for key in ("mean", "worst", "at least 0.9")
        ]
        assert f"| {name} | {' | '.join(map(str, values))} |" in lines()


def test_the_table_of_full_sets_is_that_of_the_results():
    for name, found in json.loads(RESULTS.read_text())["full"].items():
        for row in found["goals"]:
            keys = ("labels", "goal", "recommended", "score", "best", "best score", "share")
            assert f"| {name} | {' | '.join(str(row[key]) for key in keys)} |" in lines()


def test_the_table_of_duplicates_is_that_of_the_results():
    page = (ROOT / "docs" / "guide" / "near-duplicates.md").read_text(encoding="utf-8").splitlines()
    results = json.loads((ROOT / "docs" / "results" / "duplicates.json").read_text())
    results.pop("machine")
    for name, row in results.items():
        keys = ("seconds", "seconds of FAISS range_search", "FAISS / ours")
        found = [row["cosine"], row["radius"], f"{row['candidates']:,}", row["copies found"]]
        values = [*found, round(row["precision"], 3), *(row[key] for key in keys)]
        assert f"| {name} | {' | '.join(map(str, values))} |" in page
