"""Fixtures that several test files use."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from manihash import checks

# Hypothesis draws the same examples in each run, so that a failure comes from a change of the code.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


@pytest.fixture
def seed_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make estimators with ``random_state=None`` draw from seed 0, so that the test cannot fail by chance."""
    generator = checks.generator
    monkeypatch.setattr(checks, "generator", lambda seed: generator(0 if seed is None else seed))


@pytest.fixture(scope="module")
def tiny_memory() -> Iterator[None]:
    """Allow any amount of memory, so that few codes need many parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manihash.search.duplicates.self_join.LEAST_MEMORY", 1)
        yield


@pytest.fixture
def data_folder() -> Path:
    """The folder of real data that MANIHASH_DATA names; without it the test is skipped."""
    name = os.environ.get("MANIHASH_DATA")
    if not name or not Path(name).is_dir():
        pytest.skip("needs real data: set MANIHASH_DATA to the folder that holds it")
    return Path(name)


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty MANIHASH_DATA, and an empty cache beside it."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("MANIHASH_DATA", str(folder))
    monkeypatch.setenv("MANIHASH_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def threads_switch_often(monkeypatch):
    """Threads switch every few bytecodes, and an index merges its log often."""
    monkeypatch.setattr("manihash.search.hamming_index._RECENT", 1)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.hookimpl(tryfirst=True)  # before the tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but n cases of a test with ``pytest.mark.cases(n)`` as slow; those n are spread evenly."""
    cases: dict[Any, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("cases"):
            cases.setdefault(item.function, []).append(item)  # type: ignore[attr-defined]
    for found in cases.values():
        marker = found[0].get_closest_marker("cases")
        n = min(marker.args[0], len(found)) if marker else 0
        kept = {i * len(found) // n for i in range(n)}
        for i, item in enumerate(found):
            if i not in kept:
                item.add_marker(pytest.mark.slow)
