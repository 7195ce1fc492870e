"""Open and check indexes, stores and files of codes; the commands that take codes share it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manihash.cli import _inputs
from manihash.cli._options import INDEX_SUFFIX
from manihash.cli._output import print_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import HammingIndex, Hasher
    from manihash.code_layout import CodeLayout
    from manihash.stores import Store


def is_index(path: str) -> bool:
    """Return whether a file is an index file, by its suffix."""
    return path.lower().endswith(INDEX_SUFFIX)


def holds_model(path: str) -> bool:
    """Return whether a file is an index file that holds its model, as manihash build writes it."""
    from manihash.search import files

    return is_index(path) and files.read(path, mmap=True).model is not None


def open_index(
    path: str, bits: int | None = None, *, model: Path | None = None, mmap: bool = True
) -> "HammingIndex":
    """Return the index of an index file, by default as a memory map, or a new index of a file of codes.

    The model that made the codes, if it is given, tells their parts.
    """
    if not is_index(path):
        return build_index(path, bits, None, model)
    from manihash import HammingIndex

    index = HammingIndex.load(path, mmap=mmap)
    if bits is not None and bits != index.n_bits:
        raise ValueError(f"got --bits {bits}, but {path} holds codes of {index.n_bits} bits: omit --bits")
    if model is not None:
        _use_model(path, index, _inputs.load_hasher(model), model)
    return index


def build_index(codes: str, bits: int | None, ids: str | None, model: Path | None = None) -> "HammingIndex":
    """Return a new index of a file of codes, with the parts of the model that made them, if it is given."""
    from manihash import HammingIndex

    rows = _inputs.read_codes(codes)
    names = None if ids is None else _inputs.read_ids(ids)
    if model is None:
        return HammingIndex(rows, code_bits(rows, bits), names)
    hasher = model_of_codes(codes, rows, bits, model)
    return HammingIndex(rows, hasher.n_bits_, names, layout=hasher.layout_, made_by=hasher)


def model_of_codes(path: str, codes: "NDArray[Any]", bits: int | None, model: Path) -> "Hasher":
    """Return the hasher of --model; raise if the codes of a file, or --bits, have another length."""
    from manihash.codes import check_codes, n_bytes

    hasher = _inputs.load_hasher(model)
    length = hasher.n_bits_
    if bits not in (None, length):
        raise ValueError(f"got --bits {bits}, but {model} makes codes of {length} bits: omit --bits")
    if codes.dtype == "uint8" and codes.shape[1] != n_bytes(length):
        raise ValueError(
            f"{path} has {codes.shape[1]} bytes per row, but {model} makes codes of {length} bits, that is "
            f"{n_bytes(length)} bytes: give the model that made the codes"
        )
    check_codes(codes, length)
    return hasher


@contextmanager
def rewritten_index(
    path: str, out: Path, bits: int | None = None, *, with_model: bool = False
) -> "Iterator[HammingIndex]":
    """Yield the index of a file, and write it to ``out`` at the end of the block.

    If both are one file, no other process can change it meanwhile. ``with_model`` opens an index that holds
    its model as an ``Index``, whose model can be replaced.
    """
    from manihash.opening import load_index
    from manihash.search.durable import DurableIndex

    if os.path.realpath(path) != os.path.realpath(out):
        index = open_index(path, bits)
        yield index
        index.save(out)
        return
    durable = DurableIndex(path, partial(load_index, path) if with_model else partial(open_index, path, bits))
    try:
        yield durable.index
        durable.save()
    finally:
        durable.close()


def change_rows(
    path: str, index: "HammingIndex", add: str | None, ids: str | None, remove: str | None, model: Path | None
) -> "dict[str, int]":
    """Remove rows of the index of a file, add codes to it, and return their numbers."""
    from manihash.files.lineage import model_id

    before = len(index)
    codes = None if add is None else _inputs.read_codes(add)
    if codes is not None and codes.dtype != "uint8" and holds_model(path):
        raise ValueError(
            f"{add} holds numbers of type {codes.dtype}, and --add takes codes, which are bytes: "
            f"manihash encode {path} {add} -o codes.npy makes codes of vectors"
        )
    if model is not None:
        hasher = _inputs.load_hasher(model)
        check_model(path, index, hasher, model)
        if add is not None and not holds_model(path):  # queries are encoded by the model inside
            index.made_by = model_id(hasher)
    elif add is not None and holds_model(path):
        print_message("note", f"{add} is taken as codes of the model in {path}: it does not say so", "yellow")
    elif add is not None and index.made_by is not None:
        text = f"{path} holds codes of the model {index.made_by}, and {add} does not say which model made it"
        print_message("note", f"{text}: give its model with --model to check that they match", "yellow")
    if remove is not None:
        index.remove(_inputs.read_ids(remove).reshape(-1))
    changes = {"removed": before - len(index)}
    if codes is not None:
        index.add(codes, None if ids is None else _inputs.read_ids(ids).reshape(-1))
    elif ids is not None:
        raise ValueError("got --ids without --add: --remove takes the file of ids itself")
    return {"added": len(index) - before + changes["removed"], **changes}


def code_bits(codes: "NDArray[Any]", bits: int | None) -> int:
    """Return the code length of ``--bits``, or all bits of the bytes of codes (n, bytes)."""
    from manihash.checks import positive_int

    if bits is not None:
        return positive_int(bits, "--bits")
    return 8 * codes.shape[-1] if codes.ndim == 2 and codes.shape[1] else 1


def use_layout(path: str, index: "HammingIndex", model: Any) -> None:
    """Rank an index by the parts of the codes of a model; raise if it was built for other parts."""
    own, expected = index.layout, model.layout_
    if own.is_hamming:
        index.set_layout(expected)
    elif own.with_weight(expected.weight) != expected:
        raise ValueError(
            f"{path} has codes of {own.described()}, but the model makes codes of {expected.described()}: "
            "build the index again with --model"
        )


def open_index_of(
    hasher: "Hasher", path: str, model: Path, *, mmap: bool = True, ids: str | None = None
) -> "HammingIndex":
    """Return the index of a file, ranked as a model's codes are; raise if another model made its codes.

    `ids` is a file of the ids of a file of codes; an index file has its own.
    """
    index = open_index(path, mmap=mmap) if is_index(path) else build_index(path, hasher.n_bits_, ids)
    _use_model(path, index, hasher, model)
    return index


def _use_model(path: str, index: "HammingIndex", hasher: "Hasher", model: Path) -> None:
    """Rank an index as a model's codes are; raise if another model made its codes."""
    _check_bits(path, index.n_bits, hasher.n_bits_)
    check_model(path, index, hasher, model)
    use_layout(path, index, hasher)


def check_replaced(codes: str) -> None:
    """Raise unless codes can be replaced in a file, by its suffix."""
    if not is_index(codes) and not codes.lower().endswith(".npy"):
        raise ValueError(f"cannot replace codes in {codes}: expected an npy file or *{INDEX_SUFFIX}")


def check_made_by(path: str, index: "HammingIndex", before: "Hasher", after: "Hasher") -> None:
    """Raise if the codes of an index are of another model than one before or after a change."""
    accepted = {None, before.lineage_["id"], after.lineage_["id"], *before.lineage_["compatible"]}
    if index.made_by not in accepted:
        raise ValueError(f"{path} holds codes of another model (id {index.made_by}): give its own model")


def row_ids(ids: str | None, n: int) -> "NDArray[Any]":
    """Return the id of each of n rows: those of a file, or the row numbers."""
    import numpy as np

    from manihash.search.ids import check_ids

    return np.arange(n) if ids is None else check_ids(_inputs.read_ids(ids).reshape(-1), n)


def rows_of_index(path: str, ids: str | None, n: int) -> "NDArray[Any]":
    """Return the row of the n vectors of each id of an index file; raise if an id has no vector."""
    from manihash.search.ids import rows_of_ids

    given = row_ids(ids, n)
    try:
        return rows_of_ids(open_index(path).ids, given, n)
    except ValueError as error:
        if ids is not None:
            raise
        raise ValueError(
            f"{path}: {error}. Without --ids, the vectors have the ids 0 to {n - 1}: if rows were removed, "
            "or the index has ids of its own, give the ids of the vectors with --ids FILE"
        ) from error


def check_store(store: "Store", hasher: "Hasher") -> None:
    """Raise if a store holds codes of another length than the model's; say what it loses of two parts."""
    _check_bits(store.url, store.n_bits, hasher.n_bits_)
    layout = hasher.layout_
    if store.layout is not None:
        if store.layout != layout.with_weight(store.layout.weight):
            raise ValueError(
                f"{store.url} has codes of {store.layout.described()}, but the model makes codes of "
                f"{layout.described()} with other centers: use the model that made the codes"
            )
        return
    look_up_bits = layout.look_up_bits if layout.has_two_parts else None
    if layout.has_fields and store.look_up_bits is None:
        raise ValueError(
            f"{store.url} compares codes by Hamming distance, and those of the model have fields of a "
            "product quantizer: use an index file, or export that one, which knows the parts of its codes, "
            "to a FAISS file, or to a store with a column for the first part of hybrid codes, such as DuckDB "
            "or PostgreSQL"
        )
    if store.look_up_bits not in (None, look_up_bits):
        raise ValueError(
            f"{store.url} has first parts of {store.look_up_bits} bits, but those of the model's codes have "
            f"{look_up_bits}: use the model that made the codes"
        )
    if look_up_bits is not None and not layout.has_fields:
        text = what_a_store_loses("a store", layout, has_first=store.look_up_bits is not None)
        print_message("note", text, "yellow")


def what_a_store_loses(kind: str, layout: "CodeLayout", *, has_first: bool) -> str:
    """Return what a kind of store cannot do with codes of two parts."""
    if layout.has_fields:
        return (
            f"{kind} looks up these codes by their first part (--radius), which has a column of its own, but "
            "cannot rank them: their second part is a product quantizer, which Hamming distance does not "
            "compare. Recipe imh-hybrid-hamming makes codes for databases, and a FAISS file ranks these"
        )
    text = f"{kind} ranks codes of two parts by all bits alike, without the weight of the second part"
    if has_first:
        return f"{text}; --radius looks up by the first part, which has a column of its own"
    return (
        f"{text}, and has no column for the first part, so that --radius counts all bits, too. An index file "
        "does both; DuckDB, SQLite, PostgreSQL, ClickHouse and Qdrant look up by the first part"
    )


def _check_bits(name: str, stored: int, n_bits: int) -> None:
    """Raise if codes in a file or database have another length than those of the model."""
    if stored != n_bits:
        raise ValueError(
            f"{name} holds codes of {stored} bits, but the model makes codes of {n_bits} bits: use the model "
            f"that made the codes or, if it is this one, store them again with --bits {n_bits}"
        )


def check_model(path: str, index: "HammingIndex", hasher: "Hasher", model: Path) -> None:
    """Raise if the index records that a model made its codes whose codes this model does not accept."""
    from manihash.files.atomic import sha256_of
    from manihash.files.lineage import accepts_codes_of, model_id

    made_by = index.made_by
    if made_by in (hasher.lineage_["id"], model_id(hasher)):
        return
    if made_by is None:
        if is_index(path):
            text = (
                f"{path} does not say which model made its codes, so that {model} cannot be checked: build it"
            )
            print_message("note", f"{text} with --model, or with HammingIndex(..., made_by=hasher)", "yellow")
        return
    if accepts_codes_of(hasher.lineage_, made_by):
        text = f"{path} holds codes of a model that {model} was updated from: the few rows that the update "
        print_message("note", text + "changes have their old codes. manihash update replaces them", "yellow")
        return
    if made_by != sha256_of(model):  # the first versions of index files recorded this checksum
        raise ValueError(
            f"{path} holds codes of another model (id {made_by}) than {model} (id {hasher.lineage_['id']}): "
            f"use the model that made the codes or, if it is {model}, build the index again with --model "
            f"{model}"
        )
