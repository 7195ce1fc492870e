"""Milvus: a field BINARY_VECTOR under a flat index, on a cluster or, by milvus-lite, in a file.

Milvus keeps a second row under the same id without a word, and milvus-lite cuts codes that are too long:
``Store`` looks at both before anything is sent.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from manihash.checks import extra
from manihash.codes import from_milvus, n_bytes, to_milvus
from manihash.stores._store import (
    Answers,
    Ints,
    NoStore,
    StoreDown,
    StoreError,
    in_order,
    where_ids,
    with_whole_ties,
)
from manihash.types import Codes

_MOST = 16_384  # answers Milvus gives to one query
_MOST_BYTES = 2**25  # of one insert: half of what a message to Milvus may hold
_CONNECT_FAILED = 2  # its code in a MilvusException


class MilvusCollection:
    """A collection with the fields ``id`` (INT64) and ``code`` (BINARY_VECTOR); n_bits in its description."""

    writes_whole = False

    def __init__(self, client: Any, name: str, timeout: float) -> None:
        self._client, self._name, self._timeout = client, name, timeout
        self.n_bits = _bits_of(name, client.describe_collection(name, timeout=timeout))

    @classmethod
    def open(cls, address: dict[str, str], name: str, *, timeout: float) -> "MilvusCollection":
        """A collection that is there; ``address`` has what MilvusClient takes."""
        client = _connect(address, timeout)
        with _told():
            if not client.has_collection(name, timeout=timeout):
                raise NoStore(f"no collection {name} in this Milvus: create it, or give ?table=NAME of one")
            opened = cls(client, name, timeout)
            client.load_collection(name, timeout=timeout)
            return opened

    @classmethod
    def create(cls, address: dict[str, str], name: str, n_bits: int, *, timeout: float) -> "MilvusCollection":
        """A new collection of no rows, under a flat index, that answers with what was written last."""
        client = _connect(address, timeout)
        kinds = extra("pymilvus", "milvus").DataType
        with _told():
            if client.has_collection(name, timeout=timeout):
                raise StoreError(
                    f"collection {name} is there already: open it, or give ?table=NAME of another"
                )
            schema = client.create_schema(auto_id=False, description=f"manihash n_bits={n_bits}")
            schema.add_field("id", kinds.INT64, is_primary=True)
            schema.add_field("code", kinds.BINARY_VECTOR, dim=8 * n_bytes(n_bits))
            index = client.prepare_index_params()
            index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
            with _dropped_on_error(client, name):
                client.create_collection(
                    name, schema=schema, index_params=index, consistency_level="Strong", timeout=timeout
                )
            return cls(client, name, timeout)

    def add(self, codes: Codes, ids: Ints) -> None:
        """Insert rows, in one message."""
        if codes.nbytes + ids.nbytes > _MOST_BYTES:
            raise StoreError(f"{len(ids):,} rows are too many for one message to Milvus: add them in batches")
        fields = zip(ids.tolist(), to_milvus(codes, self.n_bits), strict=True)
        with _told():
            rows = [{"id": number, "code": code} for number, code in fields]
            self._client.insert(self._name, rows, timeout=self._timeout)

    def search(self, queries: Codes, k: int) -> list[Answers]:
        """The k nearest of each query, by the flat index."""
        if k > _MOST:
            raise StoreError(
                f"{k:,} nearest asked: Milvus gives at most {_MOST:,}. Ask for fewer, or by radius"
            )
        return [
            with_whole_ties(k, partial(self._asked, q), partial(self._within, q), most=_MOST)
            for q in to_milvus(queries, self.n_bits)
        ]

    def within(self, queries: Codes, radius: int) -> list[Answers]:
        """All within the radius of each query, by the flat index."""
        return [self._within(query, radius) for query in to_milvus(queries, self.n_bits)]

    def fetch(self, ids: Ints) -> tuple[Ints, Codes]:
        """Rows by id."""
        with _told():
            rows = self._client.query(
                self._name,
                filter=where_ids(ids, "id in [{}]"),
                output_fields=["id", "code"],
                timeout=self._timeout,
            )
        codes = [row["code"][0] if isinstance(row["code"], list) else row["code"] for row in rows]
        return np.array([row["id"] for row in rows], np.int64), from_milvus(codes, self.n_bits)

    def delete(self, ids: Ints) -> None:
        """Drop rows, in one message."""
        with _told():
            self._client.delete(self._name, ids=ids.tolist(), timeout=self._timeout)

    def count(self) -> int:
        """Rows of the collection."""
        with _told():
            rows = self._client.query(
                self._name, filter="", output_fields=["count(*)"], timeout=self._timeout
            )
        return int(rows[0]["count(*)"])

    def close(self) -> None:
        """Hang up. A file of milvus-lite stays with this process until it ends."""
        self._client.close()

    def _within(self, query: bytes, radius: int, among: str = "") -> Answers:
        """All within the radius; where Milvus would cut the answer, in two halves of the ids."""
        distance, ids = self._asked(query, _MOST, radius, among)
        if len(ids) < _MOST:
            return distance, ids
        middle = int(np.sort(ids)[_MOST // 2])
        also = f"{among} and " if among else ""
        halves = [self._within(query, radius, f"{also}id {side} {middle}") for side in ("<", ">=")]
        return in_order(*(np.concatenate(part) for part in zip(*halves, strict=True)))

    def _asked(self, query: bytes, limit: int, radius: int | None = None, among: str = "") -> Answers:
        nearer = {} if radius is None else {"radius": radius + 1}  # strictly nearer than that
        with _told():
            (hits,) = self._client.search(
                self._name,
                [query],
                anns_field="code",
                limit=limit,
                filter=among,
                search_params={"metric_type": "HAMMING", "params": nearer},
                timeout=self._timeout,
            )
        return in_order([hit["distance"] for hit in hits], [hit["id"] for hit in hits])


def _connect(address: dict[str, str], timeout: float) -> Any:
    if not address["uri"].startswith("http"):
        extra("milvus_lite", "milvus-lite")
    pymilvus = extra("pymilvus", "milvus")
    with _told():
        return pymilvus.MilvusClient(**address, timeout=timeout)


@contextmanager
def _dropped_on_error(client: Any, name: str) -> Iterator[None]:
    """Milvus makes the collection first and its index then: where that fails, half of it is there."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            client.drop_collection(name)
        raise


def _bits_of(name: str, described: dict[str, Any]) -> int:
    """n_bits as the description notes it; all bits of the bytes in a collection that somebody else made."""
    kinds = extra("pymilvus", "milvus").DataType
    fields = {field["name"]: field for field in described["fields"]}
    types = {field: entry["type"] for field, entry in fields.items()}
    if types.get("id") != kinds.INT64 or types.get("code") != kinds.BINARY_VECTOR:
        shown = ", ".join(f"{field} {kind.name}" for field, kind in types.items())
        raise StoreError(
            f"collection {name} has the fields {shown}: id INT64 and code BINARY_VECTOR were wanted. "
            "Give another with ?table=NAME"
        )
    noted = re.search(r"manihash n_bits=(\d+)", described.get("description", ""))
    return int(noted[1]) if noted else int(fields["code"]["params"]["dim"])


@contextmanager
def _told() -> Iterator[None]:
    """What pymilvus raises, as an error of ours, and without the traceback that it logs before."""
    pymilvus = extra("pymilvus", "milvus")
    log = logging.getLogger("pymilvus")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except pymilvus.MilvusException as error:
        if error.code == _CONNECT_FAILED:
            raise StoreDown(f"Milvus does not answer: {error.message}") from error
        raise StoreError(f"Milvus refused: {error.message}") from error
    except RuntimeError as error:
        raise StoreError(f"milvus-lite refused: {error}") from error
    finally:
        log.setLevel(level)
