"""Run docstring examples in an empty folder, with fixed print options; skip those without their imports."""

import ast
import importlib.util

import numpy as np
import pytest
from _pytest.doctest import DoctestItem


@pytest.fixture(autouse=True)
def _doctest_surroundings(request):
    """Give an example an empty current folder and numpy's default print options."""
    if not isinstance(request.node, DoctestItem):
        yield
        return
    request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
    with np.printoptions(precision=4, suppress=True, threshold=1000, linewidth=88):
        yield


def pytest_collection_modifyitems(items):
    """Skip examples that import a library which is not installed."""
    for item in items:
        if isinstance(item, DoctestItem) and (missing := _missing_imports(item.dtest)):
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(sorted(missing))}"))


def _missing_imports(doctest):
    """Names of the top-level modules that the examples import and that are not installed."""
    roots = set()
    for example in doctest.examples:
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Import):
                roots |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                roots.add(node.module.partition(".")[0])
    return {root for root in roots if importlib.util.find_spec(root) is None}
