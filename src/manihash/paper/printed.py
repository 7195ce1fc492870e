"""What the paper prints: its numbers and its claims, from one file; and why we think a claim fails here."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def paper() -> dict[str, Any]:
    """The paper's numbers by table or figure, and its claims with their places."""
    return _read("paper.json")


@cache
def reasons() -> dict[str, str]:
    """What we found, and why we think so, of claims that did not hold in our full run."""
    return _read("why.json")


def number(table: str, kind: str, method: str, bits: int) -> float | None:
    """A number of a table of the paper, if it prints one."""
    held = paper()[table]
    if method not in held[kind] or bits not in held["bits"]:
        return None
    return float(held[kind][method][held["bits"].index(bits)])


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files(__package__) / name).read_text("utf-8"))
    return found
