"""Milvus: a BINARY_VECTOR field with a flat index, on a server or in a file of milvus-lite.

Milvus silently stores a second row under the same id, and milvus-lite truncates codes that are too long:
``Store`` checks for both before anything is sent.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import numpy as np

from manihash.checks import extra
from manihash.codes import from_milvus, n_bytes, to_milvus
from manihash.errors import StoreConnectionError, StoreError, StoreExistsError, StoreNotFoundError
from manihash.search.ids import MAX_BYTES, shown_id
from manihash.stores.driver import Matches, id_array, id_condition, nearest_with_ties, sorted_matches
from manihash.types import Codes, Ids

_MAX_MATCHES = 16_384  # the limit of Milvus per query
_MAX_INSERT_BYTES = 2**25  # half of the size limit of a message to Milvus
# pymilvus pings every 10 s, and a server closes a connection without requests that pings so often.
_PINGS = {"grpc.keepalive_time_ms": 330_000}
_CONNECT_FAILED = 2  # error code in a MilvusException


class MilvusCollection:
    """A collection with the fields ``id`` and ``code`` (BINARY_VECTOR); n_bits in its description.

    The ids are INT64, or VARCHAR if they are strings.
    """

    rewrites_on_add = False
    look_up_bits: int | None = None

    def __init__(self, client: Any, name: str, timeout: float, *, is_file: bool) -> None:
        self._client, self._name, self._timeout = client, name, timeout
        # milvus-lite puts ids into statements of SQLite between single quotes.
        self._refused = "\n\r'" if is_file else "\n\r"
        self.n_bits, self.id_type = _layout_of(name, client.describe_collection(name, timeout=timeout))

    @classmethod
    def open(cls, address: dict[str, str], name: str, *, timeout: float) -> "MilvusCollection":
        """Open a collection; ``address`` holds the arguments of MilvusClient."""
        client = _connect(address, timeout)
        with _translated_errors():
            if not client.has_collection(name, timeout=timeout):
                raise StoreNotFoundError(
                    f"no collection {name} in this Milvus: create it, or name another one with ?table=NAME"
                )
            opened = cls(client, name, timeout, is_file=_is_file(address))
            client.load_collection(name, timeout=timeout)
            return opened

    @classmethod
    def create(
        cls, address: dict[str, str], name: str, n_bits: int, id_type: type, *, timeout: float
    ) -> "MilvusCollection":
        """Create an empty collection with a flat index and strong consistency."""
        client = _connect(address, timeout)
        kinds = extra("pymilvus", "milvus").DataType
        with _translated_errors():
            if client.has_collection(name, timeout=timeout):
                raise StoreExistsError(
                    f"collection {name} already exists: open it, or name another one with ?table=NAME"
                )
            schema = client.create_schema(auto_id=False, description=f"manihash n_bits={n_bits}")
            if id_type is str:
                schema.add_field("id", kinds.VARCHAR, is_primary=True, max_length=MAX_BYTES)
            else:
                schema.add_field("id", kinds.INT64, is_primary=True)
            schema.add_field("code", kinds.BINARY_VECTOR, dim=8 * n_bytes(n_bits))
            index = client.prepare_index_params()
            index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
            with _dropped_on_error(client, name):
                client.create_collection(
                    name, schema=schema, index_params=index, consistency_level="Strong", timeout=timeout
                )
            return cls(client, name, timeout, is_file=_is_file(address))

    def writing(self) -> AbstractContextManager[None]:
        """Do nothing: Milvus has no locks."""
        return nullcontext()

    def add(self, codes: Codes, ids: Ids) -> None:
        """Insert rows in one message."""
        size = sum(map(len, ids.tolist())) if self.id_type is str else ids.nbytes
        if codes.nbytes + size > _MAX_INSERT_BYTES:
            raise StoreError(f"{len(ids):,} rows are too many for one message to Milvus: add them in batches")
        fields = zip(ids.tolist(), to_milvus(codes, self.n_bits), strict=True)
        with _translated_errors():
            rows = [{"id": number, "code": code} for number, code in fields]
            self._client.insert(self._name, rows, timeout=self._timeout)

    def search(self, queries: Codes, k: int) -> list[Matches]:
        """Return the k nearest of each query, found by the flat index."""
        if k > _MAX_MATCHES:
            raise StoreError(
                f"k={k:,} exceeds the limit of Milvus, {_MAX_MATCHES:,}: lower k, or search within a radius"
            )
        return [
            nearest_with_ties(k, partial(self._search, q), partial(self._within, q), limit=_MAX_MATCHES)
            for q in to_milvus(queries, self.n_bits)
        ]

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes within the radius of each query, found by the flat index."""
        return [self._within(query, radius) for query in to_milvus(queries, self.n_bits)]

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return rows by id."""
        with _translated_errors():
            rows = self._client.query(
                self._name,
                filter=self._condition(ids),
                output_fields=["id", "code"],
                timeout=self._timeout,
            )
        codes = [row["code"][0] if isinstance(row["code"], list) else row["code"] for row in rows]
        return id_array([row["id"] for row in rows]), from_milvus(codes, self.n_bits)

    def delete(self, ids: Ids) -> None:
        """Delete rows in one message."""
        with _translated_errors():
            self._client.delete(self._name, filter=self._condition(ids), timeout=self._timeout)

    def count(self) -> int:
        """Return the number of rows of the collection."""
        with _translated_errors():
            rows = self._client.query(
                self._name, filter="", output_fields=["count(*)"], timeout=self._timeout
            )
        return int(rows[0]["count(*)"])

    def close(self) -> None:
        """Close the connection. A file of milvus-lite stays locked by this process until it ends."""
        self._client.close()

    def _condition(self, ids: Ids) -> str:
        """Return the expression that selects ids; raise if Milvus cannot read one of them in it."""
        for identity in ids.tolist() if self.id_type is str else ():
            if any(character in identity for character in self._refused):
                raise StoreError(
                    f"Milvus cannot select the id {shown_id(identity)}: use ids without line breaks "
                    "and, in a file of milvus-lite, without single quotes"
                )
        return id_condition(ids, "id in [{}]", _literal)

    def _within(self, query: bytes, radius: int, condition: str = "") -> Matches:
        """Return all codes within the radius; above the limit of Milvus, split the ids into two halves."""
        distance, ids = self._search(query, _MAX_MATCHES, radius, condition)
        if len(ids) < _MAX_MATCHES:
            return distance, ids
        middle = np.sort(ids)[_MAX_MATCHES // 2]
        bound = _literal(middle) if self.id_type is str else str(middle)
        prefix = f"{condition} and " if condition else ""
        halves = [self._within(query, radius, f"{prefix}id {side} {bound}") for side in ("<", ">=")]
        return sorted_matches(*(np.concatenate(part) for part in zip(*halves, strict=True)))

    def _search(self, query: bytes, limit: int, radius: int | None = None, condition: str = "") -> Matches:
        bound = {} if radius is None else {"radius": radius + 1}  # exclusive
        with _translated_errors():
            (hits,) = self._client.search(
                self._name,
                [query],
                anns_field="code",
                limit=limit,
                filter=condition,
                search_params={"metric_type": "HAMMING", "params": bound},
                timeout=self._timeout,
            )
        return sorted_matches([hit["distance"] for hit in hits], [hit["id"] for hit in hits])


def _is_file(address: dict[str, str]) -> bool:
    return not address["uri"].startswith("http")


def _connect(address: dict[str, str], timeout: float) -> Any:
    if _is_file(address):
        extra("milvus_lite", "milvus-lite")
    pymilvus = extra("pymilvus", "milvus")
    with _translated_errors():
        return pymilvus.MilvusClient(**address, timeout=timeout, grpc_options=_PINGS)


@contextmanager
def _dropped_on_error(client: Any, name: str) -> Iterator[None]:
    """Drop the collection if creating its index fails: Milvus creates the two in separate steps."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            client.drop_collection(name)
        raise


def _literal(text: str) -> str:
    """Return a string as an expression of Milvus writes it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _layout_of(name: str, described: dict[str, Any]) -> tuple[int, type]:
    """Return n_bits, by the description or in a collection of another program by the bytes, and id type."""
    kinds = extra("pymilvus", "milvus").DataType
    fields = {field["name"]: field for field in described["fields"]}
    types = {field: entry["type"] for field, entry in fields.items()}
    id_type = {kinds.INT64: int, kinds.VARCHAR: str}.get(types.get("id"))
    if id_type is None or types.get("code") != kinds.BINARY_VECTOR:
        shown = ", ".join(f"{field} {kind.name}" for field, kind in types.items())
        raise StoreError(
            f"collection {name} has the fields {shown}: expected id INT64 or VARCHAR, and code "
            "BINARY_VECTOR. Name another one with ?table=NAME"
        )
    recorded = re.search(r"manihash n_bits=(\d+)", described.get("description", ""))
    return int(recorded[1]) if recorded else int(fields["code"]["params"]["dim"]), id_type


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise errors of pymilvus as errors of the store, without the traceback that pymilvus logs."""
    pymilvus = extra("pymilvus", "milvus")
    log = logging.getLogger("pymilvus")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except pymilvus.MilvusException as error:
        if error.code == _CONNECT_FAILED:
            raise StoreConnectionError(f"Milvus does not respond: {error.message}") from error
        raise StoreError(f"Milvus reports an error: {error.message}") from error
    except RuntimeError as error:
        raise StoreError(f"milvus-lite reports an error: {error}") from error
    finally:
        log.setLevel(level)
