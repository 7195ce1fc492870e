"""API keys: read from a file, compared in constant time."""

import hmac
import os
import stat
from hashlib import sha256
from pathlib import Path

from manihash.files.csv import read_lines

_SHORTEST = 16


class ApiKeys:
    """The keys that a request may have; a key is known only by its hash.

    Parameters
    ----------
    keys : list of str
        The keys, of at least 16 characters each.
    """

    def __init__(self, keys: list[str]) -> None:
        self._hashes = [sha256(key.encode()).digest() for key in keys]

    def accepts(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Whether the headers of a request have one of the keys; takes the same time for every wrong key."""
        given = sha256(_key_in(headers)).digest()
        return any([hmac.compare_digest(given, known) for known in self._hashes])  # noqa: C419 (constant time)


def _key_in(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The key in ``Authorization: Bearer KEY`` or ``X-API-Key: KEY``; empty without one."""
    for name, value in headers:
        if name == b"x-api-key":
            return value.strip()
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return value[7:].strip()
    return b""


def read_keys(path: Path) -> ApiKeys:
    """The keys of a file, one per line; empty lines and lines that start with # are skipped."""
    lines = [line.strip() for line in read_lines(path)]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys or any(len(key) < _SHORTEST or not key.isascii() for key in keys):
        raise ValueError(
            f"{path} must hold keys of at least {_SHORTEST} ASCII characters, one per line: "
            "make one with python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return ApiKeys(keys)


def others_can_read(path: Path) -> bool:
    """Whether other users of this machine can read a file."""
    return os.name == "posix" and bool(os.stat(path).st_mode & (stat.S_IRGRP | stat.S_IROTH))
