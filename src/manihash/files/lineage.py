"""The lineage of a fitted model: its id, the model it came from, and whose codes it accepts.

The id is a hash of the class and of the fitted values that determine codes. Two fits that give the same
numbers therefore have the same id, a model keeps its id when it is saved again, and a file that was written
before lineages existed gets the same id each time it is loaded.
"""

import hashlib
import re
from typing import Any, TypedDict

import numpy as np

from manihash import __version__
from manihash.files.registry import name_in_files

# Fitted values that do not determine codes, or follow from the others.
_NOT_CONTENT = {"lineage_", "statistics_", "n_bits_", "quality_"}
_ID_CHARACTERS = 32
# Functions are shown with their place in memory, which differs between equal models.
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


class Lineage(TypedDict):
    """Where a fitted model comes from: plain values, stored in the model file."""

    id: str
    parent: str | None  # id of the model that was updated or refitted
    version: str | None  # of manihash, None for a file that does not record it
    compatible: list[str]  # ids of the models whose codes have the same bits, oldest first


def new_lineage(model: Any, parent: Lineage | None = None, *, keeps_codes: bool = False) -> Lineage:
    """Return the lineage of a model that was just fitted, updated or refitted.

    After an update (``keeps_codes``) the codes of the parent, and of the models that the parent accepts, stay
    in use. After a fit or a refit they do not.
    """
    accepted = [*parent["compatible"], parent["id"]] if parent is not None and keeps_codes else []
    return {
        "id": content_id(model),
        "parent": None if parent is None else parent["id"],
        "version": __version__,
        "compatible": accepted,
    }


def old_lineage(model: Any) -> Lineage:
    """Return the lineage of a model from a file that has none."""
    return {"id": content_id(model), "parent": None, "version": None, "compatible": []}


def checked_lineage(lineage: Any) -> Lineage:
    """Return a lineage that was read from a file; raise if it is not one."""
    texts = (str, str | None, str | None)
    values = (
        [lineage.get(name, 0) for name in ("id", "parent", "version")] if isinstance(lineage, dict) else []
    )
    accepted = lineage.get("compatible") if values else None
    if (
        not values
        or not all(map(isinstance, values, texts))
        or not isinstance(accepted, list)
        or not all(isinstance(item, str) for item in accepted)
    ):
        raise ValueError(f"lineage_ is {lineage!r}: expected id, parent, version and compatible")
    return lineage


def accepts_codes_of(lineage: Lineage, made_by: str) -> bool:
    """Return whether codes of the model with the id ``made_by`` can be searched with codes of this model.

    A model accepts its own codes and those of the models that it was updated from: an update keeps the codes
    of nearly all rows. It does not accept codes of a model that was updated later, fitted again or refitted.
    """
    return made_by == lineage["id"] or made_by in lineage["compatible"]


def model_id(model: Any) -> str | None:
    """Return the id of the model that the codes of a fitted model belong to: its own, or that of its old one.

    The codes of a bridged model belong to the old model. An id and None are returned as they are.
    """
    if model is None or isinstance(model, str):
        return model
    if not hasattr(model, "lineage_"):
        raise ValueError(
            f"made_by must be a fitted hasher or its id, got {type(model).__name__}: call fit() before, or "
            'pass hasher.lineage_["id"]'
        )
    old = getattr(model, "_codes_owner", None)
    return checked_lineage(model.lineage_)["id"] if old is None else model_id(old)


def content_id(model: Any) -> str:
    """Return a hash of the class and the fitted values of a model, in hexadecimal."""
    digest = hashlib.sha256()
    _add(digest, model, with_params=False)
    return digest.hexdigest()[:_ID_CHARACTERS]


def _add(digest: Any, value: Any, *, with_params: bool = True) -> None:
    """Add a fitted value to a digest; of a part such as a neighbor finder also its parameters."""
    match value:
        case np.generic():
            _add(digest, value.item())
        case np.random.Generator() | np.random.RandomState():
            _add(digest, None)  # as in a model file
        case np.ndarray() if value.dtype != object:
            digest.update(f"array {value.dtype.newbyteorder('=').str} {value.shape} ".encode())
            digest.update(np.ascontiguousarray(value, value.dtype.newbyteorder("=")).tobytes())
        case list() | tuple() | np.ndarray():
            digest.update(f"list {len(value)} ".encode())
            for item in value:
                _add(digest, item)
        case dict():
            digest.update(f"dict {len(value)} ".encode())
            for name in sorted(value):
                digest.update(f"{name} ".encode())
                _add(digest, value[name])
        case _ if hasattr(value, "get_params"):
            fitted = {name: item for name, item in vars(value).items() if _is_content(name)}
            params = value.get_params(deep=False) if with_params else {}
            digest.update(f"{name_in_files(type(value)) or type(value).__name__} ".encode())
            _add(digest, params | fitted)
        case _:
            digest.update(f"{_ADDRESS.sub('', repr(value))} ".encode())


def _is_content(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and name not in _NOT_CONTENT
