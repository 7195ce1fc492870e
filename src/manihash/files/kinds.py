"""What a file is, by its first bytes: for the message if a call gets a file of another kind."""

import json
import os
from pathlib import Path

MODEL, INDEX, VECTORS = "model file", "index file", "file of vectors or codes"

# The first bytes of formats that users pass by mistake, and their names.
_FIRST_BYTES = {
    b"\x93NUMPY": "an npy file",
    b"PK\x03\x04": "a zip or npz file",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"PAR1": "a parquet file",
    b"IB": "a FAISS index of binary codes",
    b"Ix": "a FAISS index",
    b"\x80\x02": "a pickle file",
    b"\x80\x03": "a pickle file",
    b"\x80\x04": "a pickle file",
    b"\x80\x05": "a pickle file",
}
_MAX_HEADER = 100_000_000  # as in safetensors
_REMEDIES = {
    MODEL: "give a file that save() wrote",
    INDEX: "give a file that HammingIndex.save() wrote; HammingIndex(codes, n_bits) builds an index of codes",
}


def other_kind(path: str | os.PathLike[str], expected: str) -> str | None:
    """A message that says what the file is and what to do; None if it is of the expected kind or unknown."""
    found = _kind_of(Path(path))
    if found == MODEL != expected:
        return f"{path} is a model file, not {_with_article(expected)}: open it with manihash.load"
    if found == INDEX != expected:
        return f"{path} is an index file, not {_with_article(expected)}: open it with manihash.load"
    if found in (None, MODEL, INDEX) or expected == VECTORS:
        return None
    return f"{path} is {found}, not {_with_article(expected)}: {_REMEDIES[expected]}"


def is_index(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an index file, by its first bytes."""
    return _kind_of(Path(path)) == INDEX


def header_metadata(path: Path) -> dict[str, str]:
    """The metadata in the header of a safetensors file, whose arrays may be cut off."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_MAX_HEADER, path.stat().st_size - 8):
            raise ValueError("its first bytes are not the length of a header")
        header = json.loads(file.read(length))
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("its header does not describe arrays")
    return metadata


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind == INDEX else f"a {kind}"


def _kind_of(path: Path) -> str | None:
    """The kind of a file, None if it is not known."""
    with open(path, "rb") as file:
        start = file.read(8)
    for first, kind in _FIRST_BYTES.items():
        if start.startswith(first):
            return kind
    try:
        metadata = header_metadata(path)
    except (ValueError, RecursionError):
        return None
    if "manihash" in metadata:
        return MODEL
    return INDEX if metadata.get("format") == "manihash-index" else "a safetensors file"
