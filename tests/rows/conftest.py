"""What the tests of dask share."""

import pytest

from manihash.rows import rows as rows_module


@pytest.fixture(scope="module")
def client():
    """A cluster of two worker processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture
def small_spans(monkeypatch):
    """Spans of one block of 2,048 rows, so that a small array has nine."""
    monkeypatch.setattr(rows_module, "_SPAN_NUMBERS", 2**15)
