"""A small model with an index of its codes, and a client of the API that serves them."""

from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np
import pytest

from manihash import HammingIndex, Hybrid
from manihash.hashers import ITQ, LSH

WIDTH = 6
collect_ignore = [] if find_spec("starlette") else ["explore"]  # its modules need it on import


@pytest.fixture(scope="session")
def rows():
    """Vectors that cluster, so that codes repeat."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(20, WIDTH))
    return (centers[rng.integers(0, 20, 400)] + 0.3 * rng.normal(size=(400, WIDTH))).astype(np.float32)


@pytest.fixture(scope="session", params=["one part", "two parts"])
def hasher(request, rows):
    """A model with codes of 20 bits, which do not fill their last byte, and one with codes of two parts."""
    if request.param == "one part":
        return LSH(n_bits=20, random_state=0).fit(rows)
    return Hybrid(LSH(n_bits=10), ITQ(n_bits=6), random_state=0).fit(rows)


def index_of(hasher, rows):
    """A new index of the codes of rows."""
    return HammingIndex(hasher.encode(rows), hasher.n_bits_, layout=hasher.layout_)


@pytest.fixture
def connect(hasher, rows):
    """A context manager: a client of an API with some options of the service."""
    from starlette.testclient import TestClient

    from manihash.search.durable import DurableIndex
    from manihash.web.api.application import search_application
    from manihash.web.api.attachments import Attachments
    from manihash.web.api.messages import Limits
    from manihash.web.api.service import Service

    @contextmanager
    def connect(*, keys=None, vectors=None, labels=None, images=None, texts=None, file=None, **limits):
        durable = None if file is None else DurableIndex(file)
        index = index_of(hasher, rows) if durable is None else durable.index
        attached = Attachments(vectors, labels, images, texts=texts)
        if durable is not None:
            attached.rows = durable.attached
        service = Service(hasher, index, Limits(**limits), attached)
        app = search_application(service, keys=keys, durable=durable)
        with TestClient(app, raise_server_exceptions=False) as client:
            client.service = service
            yield client

    return connect


@pytest.fixture
def client(connect, rows):
    """A client of an API that can re-rank."""
    with connect(vectors=rows) as client:
        yield client
