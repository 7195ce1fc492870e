"""Qdrant: +1 and -1 for the bits of a code, as a vector with the dot product, on a server or in a folder.

Qdrant has no Hamming distance for bits. The dot product of two such vectors of n bits is n - 2 d, with the
Hamming distance d, so the order is the same. It costs 4 bytes per bit: 32 times the bytes of a code.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from manihash.checks import extra
from manihash.code_layout import CodeLayout
from manihash.codes import n_bytes, pack, unpack
from manihash.errors import StoreConnectionError, StoreError, StoreExistsError, StoreNotFoundError
from manihash.search.ids import string_array
from manihash.stores.driver import Matches, RowFormat, first_line, nearest_with_ties, sorted_matches
from manihash.types import Codes, Ids

_VALUES_PER_MESSAGE = 2**22  # a value takes up to 5 characters, and a server accepts 32 MB
_shared_folders: dict[str, list[Any]] = {}  # the client of a folder, and the number of its users
_IN_USE = RLock()  # the client of a folder refuses calls of two threads at a time


class QdrantCollection:
    """A collection with the vector ``code``, and ``first`` if codes have two parts.

    Integers are ids of points as unsigned numbers. Strings are in the payload ``id``, and the id of the point
    is a UUID made from the string.
    """

    rewrites_on_add = False

    def __init__(self, client: Any, name: str, *, hnsw: bool, folder: str | None) -> None:
        self._client, self._name, self._folder = client, name, folder
        self._in_use: AbstractContextManager[Any] = nullcontext() if folder is None else _IN_USE
        form = _format_of(name, client.get_collection(name).config)
        self.n_bits, self.id_type, self.look_up_bits = form.n_bits, form.id_type, form.look_up_bits
        models = extra("qdrant_client.models", "qdrant")
        # A folder is always searched exactly.
        exact = None if folder is not None or hnsw else models.SearchParams(exact=True)
        self._models, self._hnsw, self._params = models, hnsw, exact

    @classmethod
    def open(cls, address: dict[str, Any], name: str, *, hnsw: bool = False) -> "QdrantCollection":
        """Open a collection; ``address`` holds the arguments of QdrantClient."""
        with _connected(address) as client, _translated_errors():
            if not client.collection_exists(name):
                raise StoreNotFoundError(
                    f"no collection {name} in this Qdrant: create it, or name another one with ?table=NAME"
                )
            return cls(client, name, hnsw=hnsw, folder=address.get("path"))

    @classmethod
    def create(
        cls, address: dict[str, Any], name: str, row_format: RowFormat, *, hnsw: bool = False
    ) -> "QdrantCollection":
        """Create an empty collection."""
        models = extra("qdrant_client.models", "qdrant")
        sizes = {"code": row_format.n_bits}
        if row_format.look_up_bits is not None:
            sizes["first"] = row_format.look_up_bits
        vectors = {
            part: models.VectorParams(size=size, distance=models.Distance.DOT) for part, size in sizes.items()
        }
        with _connected(address) as client, _translated_errors():
            if client.collection_exists(name):
                raise StoreExistsError(
                    f"collection {name} already exists: open it, or name another one with ?table=NAME"
                )
            metadata = {"manihash": {"ids": row_format.id_type.__name__}}
            client.create_collection(name, vectors_config=vectors, metadata=metadata)
            return cls(client, name, hnsw=hnsw, folder=address.get("path"))

    def writing(self) -> AbstractContextManager[Any]:
        """Let other threads wait if this is a folder; a server has no locks."""
        return self._in_use

    def add(self, codes: Codes, ids: Ids) -> None:
        """Insert rows, several messages if they are many."""
        rows = max(1, _VALUES_PER_MESSAGE // self.n_bits)
        for i in range(0, len(ids), rows):
            self._upsert(codes[i : i + rows], ids[i : i + rows])

    def put(self, codes: Codes, ids: Ids) -> None:
        """Replace or insert rows: Qdrant does both in the same way."""
        self.add(codes, ids)

    def search(self, queries: Codes, k: int) -> list[Matches]:
        """Return the k nearest of each query, exactly, or by the HNSW graph of a server."""
        find = partial(self._find, "code", self.n_bits)
        near = partial(self._near, "code", self.n_bits)
        if self._hnsw:
            return [find(query, k) for query in _vectors(queries, self.n_bits)]
        return [
            nearest_with_ties(k, partial(find, query), partial(near, query))
            for query in _vectors(queries, self.n_bits)
        ]

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes within the radius of each query."""
        return [self._near("code", self.n_bits, q, radius) for q in _vectors(queries, self.n_bits)]

    def within_first(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all rows whose first part is within the radius of each first part of a query."""
        bits = self.look_up_bits or 0
        return [self._near("first", bits, q, radius) for q in _vectors(queries, bits)]

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return rows by id."""
        with self._in_use, _translated_errors():
            points = self._client.retrieve(self._name, self._points(ids), with_vectors=["code"])
        if not points:
            return self._ids([]), np.empty((0, n_bytes(self.n_bits)), np.uint8)
        return self._ids(points), pack(np.array([point.vector["code"] for point in points]) > 0)

    def delete(self, ids: Ids) -> None:
        """Delete rows in one message."""
        with self._in_use, _translated_errors():
            selected = self._models.PointIdsList(points=self._points(ids))
            self._client.delete(self._name, selected, wait=True)

    def count(self) -> int:
        """Return the number of rows of the collection."""
        with self._in_use, _translated_errors():
            return int(self._client.count(self._name, exact=True).count)

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            _released(client, self._folder)

    def _upsert(self, codes: Codes, ids: Ids) -> None:
        vectors = {"code": _vectors(codes, self.n_bits)}
        if self.look_up_bits is not None:
            first = CodeLayout(self.n_bits, self.look_up_bits).first(codes)
            vectors["first"] = _vectors(first, self.look_up_bits)
        payloads = [{"id": name} for name in ids.tolist()] if self.id_type is str else None
        with self._in_use, _translated_errors():
            batch = self._models.Batch(ids=self._points(ids), vectors=vectors, payloads=payloads)
            self._client.upsert(self._name, batch, wait=True)

    def _near(self, part: str, n_bits: int, query: list[float], radius: int) -> Matches:
        return self._find(part, n_bits, query, max(1, self.count()), radius)

    def _find(
        self, part: str, n_bits: int, query: list[float], limit: int, radius: int | None = None
    ) -> Matches:
        with self._in_use, _translated_errors():
            points = self._client.query_points(
                self._name,
                query=query,
                using=part,
                limit=limit,
                score_threshold=None if radius is None else n_bits - 2 * radius - 0.5,
                search_params=self._params,
                with_payload=self.id_type is str,
            ).points
        distances = (n_bits - np.array([point.score for point in points])) / 2
        return sorted_matches(np.rint(distances), self._ids(points))

    def _points(self, ids: Ids) -> list[Any]:
        """The ids of the points of rows."""
        if self.id_type is str:
            return [str(uuid5(NAMESPACE_URL, name)) for name in ids.tolist()]
        return ids.astype(np.int64).view(np.uint64).tolist()

    def _ids(self, points: Sequence[Any]) -> Ids:
        """The ids of the rows of points."""
        if self.id_type is str:
            return string_array(point.payload["id"] for point in points)
        return np.array([point.id for point in points], np.uint64).view(np.int64)


def _vectors(codes: Codes, n_bits: int) -> list[list[float]]:
    """The bits of codes as +1.0 and -1.0."""
    return (2.0 * unpack(codes, n_bits) - 1).tolist()


def _format_of(name: str, config: Any) -> RowFormat:
    """The format of a collection, from its vectors and its metadata."""
    vectors = config.params.vectors
    vectors = vectors if isinstance(vectors, dict) else {"": vectors}
    if "code" not in vectors or vectors["code"].distance != "Dot":
        shown = ", ".join(f"{part or 'unnamed'} {own.distance.value}" for part, own in vectors.items())
        raise StoreError(
            f"collection {name} has the vectors {shown}: expected code with the distance Dot. Name another "
            "one with ?table=NAME"
        )
    own = (config.metadata or {}).get("manihash", {})
    first = vectors["first"].size if "first" in vectors else None
    return RowFormat(vectors["code"].size, str if own.get("ids") == "str" else int, first)


@contextmanager
def _connected(address: dict[str, Any]) -> Iterator[Any]:
    """A client, closed after an error. All stores of a folder share one: it can be open only once."""
    client = _opened(address)
    try:
        yield client
    except BaseException:
        _released(client, address.get("path"))
        raise


def _opened(address: dict[str, Any]) -> Any:
    library, folder = extra("qdrant_client", "qdrant"), address.get("path")
    if folder is None:
        with _translated_errors():
            return library.QdrantClient(**address, check_compatibility=False)
    with _IN_USE, _translated_errors():
        key = str(Path(folder).resolve())
        if key not in _shared_folders:
            client = library.QdrantClient(path=folder, force_disable_check_same_thread=True)
            _shared_folders[key] = [client, 0]
        _shared_folders[key][1] += 1
        return _shared_folders[key][0]


def _released(client: Any, folder: str | None) -> None:
    """Close a client, that of a folder with its last user."""
    with _IN_USE:
        if folder is not None:
            key = str(Path(folder).resolve())
            users = _shared_folders[key]
            users[1] -= 1
            if users[1]:
                return
            del _shared_folders[key]
        client.close()


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise errors of qdrant-client as errors of the store."""
    exceptions = extra("qdrant_client.http.exceptions", "qdrant")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Local mode is not recommended", UserWarning)
            yield
    except exceptions.ResponseHandlingException as error:
        raise StoreConnectionError(f"Qdrant does not respond: {first_line(error)}") from error
    except exceptions.UnexpectedResponse as error:
        raise StoreError(
            f"Qdrant reports an error: {error.status_code} {error.reason_phrase}{_details(error)}"
        ) from error
    except (ValueError, RuntimeError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"Qdrant reports an error: {first_line(error)}") from error


def _details(error: Any) -> str:
    """The first line of what the server answered."""
    text = error.content.decode(errors="replace").strip()
    return f" ({text.splitlines()[0][:200]})" if text else ""
