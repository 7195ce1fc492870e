"""Arrays by name that the tasks of a join write and read: in memory, or in a folder that survives a crash."""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.errors import ResumeError
from manihash.files.atomic import atomic_write
from manihash.files.locks import lock_at_once
from manihash.files.npy import write_npy

_STATE = "state.json"
# Arrays of one stage, which are many and short-lived. They are not synced to the disk, which takes longer
# than the work, and are discarded if the system was started again since.
_OF_STAGE = "stage"
_OTHER = {
    "codes": "of other codes",
    "radius": "with another radius",
    "memory": "with another amount of memory",
    "vectors": "with other vectors",
    "threshold": "with another threshold of similarity",
}


def _boot() -> str:
    """An id of the running system that changes when it is started again; empty if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class MemoryStore:
    """Arrays in memory: nothing is left if the process ends."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether an array is complete."""
        return name in self.arrays

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Store an array."""
        self.arrays[name] = array

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Rows start to stop of an array."""
        return self.arrays[name][start:stop]

    def remove(self, prefix: str) -> None:
        """Remove all arrays whose names start with a prefix."""
        for name in [name for name in self.arrays if name.startswith(prefix)]:
            del self.arrays[name]

    def save_state(self, state: dict[str, Any]) -> None:
        """Nothing: there is no later process."""

    def scratch(self, n: int) -> NDArray[np.uint32]:
        """The numbers 0 … n - 1, which may be changed in place."""
        return np.arange(n, dtype=np.uint32)


@dataclass(frozen=True)
class FolderStore:
    """Arrays as npy files in a folder, which the workers of a cluster share. Each is complete or missing."""

    path: Path
    on_disk: bool = False  # keep also the union-find in a file

    def has(self, name: str) -> bool:
        """Whether an array is complete."""
        return self._file(name).exists()

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Write an array, atomically. Those of a stage need not survive a crash of the system."""
        if not name.startswith(_OF_STAGE) or not _boot():
            with atomic_write(self._file(name)) as part:
                write_npy(part, array)
            return
        part = self.path / f".{name}.{os.getpid()}-{secrets.token_hex(4)}.part"
        try:
            write_npy(part, array)
            os.replace(part, self._file(name))
        except OSError as error:
            part.unlink(missing_ok=True)
            raise OSError(
                error.errno, f"cannot write {self._file(name)}: {error}. Free disk space"
            ) from error

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Rows start to stop of an array, in memory."""
        file = self._file(name)
        changed = os.stat(file)
        offset, shape, dtype = _header(file, changed.st_mtime_ns, changed.st_ino)
        start, stop, _ = slice(start, stop).indices(shape[0])
        width = int(np.prod(shape[1:]))
        count = max(0, stop - start) * width
        found = np.fromfile(file, dtype, count, offset=offset + start * width * dtype.itemsize)
        if len(found) != count:
            raise ResumeError(f"{file} is shorter than its header says: discard the folder with restart=True")
        return found.reshape(-1, *shape[1:])

    def remove(self, prefix: str) -> None:
        """Remove all arrays whose names start with a prefix."""
        for file in self.path.iterdir():
            if file.name.startswith((prefix, f".{prefix}")):
                file.unlink(missing_ok=True)

    def save_state(self, state: dict[str, Any]) -> None:
        """Write what a later process needs to know to resume."""
        with atomic_write(self.path / _STATE) as part:
            part.write_text(json.dumps({**state, "boot": _boot()}), "utf-8")

    def state(self) -> dict[str, Any]:
        """What an earlier process has left; empty if there was none."""
        file = self.path / _STATE
        if not file.exists():
            return {}
        try:
            return dict(json.loads(file.read_text("utf-8")))
        except ValueError as error:
            raise ResumeError(
                f"{file} is damaged ({error}): discard the folder with restart=True, or choose another one"
            ) from error

    def scratch(self, n: int) -> NDArray[np.uint32]:
        """The numbers 0 … n - 1, which may be changed in place; in a file if memory is short."""
        if not self.on_disk:
            return np.arange(n, dtype=np.uint32)
        numbers = np.lib.format.open_memmap(self._file("union"), "w+", np.uint32, (n,))
        for start in range(0, n, 2**22):
            numbers[start : start + 2**22] = np.arange(start, min(n, start + 2**22))
        return numbers

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.npy"


@lru_cache(2**12)
def _header(file: Path, changed: int, number: int) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
    """Where the values of an npy file start, their shape and type; many small parts of a file are read."""
    with open(file, "rb") as opened:
        np.lib.format.read_magic(opened)
        shape, _, dtype = np.lib.format.read_array_header_1_0(opened)
        return opened.tell(), shape, dtype


Store = MemoryStore | FolderStore


def is_work(path: Path) -> bool:
    """Whether a folder holds the work of an earlier process."""
    return (path / _STATE).exists()


@contextmanager
def opened_folder(
    path: Path, made_from: dict[str, Any], *, restart: bool, on_disk: bool
) -> Iterator[FolderStore]:
    """The store of a folder that this process alone uses; the folder is removed when the block succeeds.

    Raise if it holds the work on something else, unless ``restart`` discards that. If the block fails, the
    folder stays, and the error says so.
    """
    path.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        store = FolderStore(path, on_disk)
        _check_folder(store, made_from, restart=restart)
        kept = f"the work is kept in {path}: run again to resume, or delete the folder"
        try:
            yield store
        except KeyboardInterrupt:
            raise KeyboardInterrupt(kept) from None
        except Exception as error:
            error.add_note(kept)
            raise
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock a folder for this process, or raise if another one has locked it."""
    if not find_spec("fcntl"):
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        if not lock_at_once(handle):
            raise ValueError(f"{path} is used by another process: wait for it, or choose another folder")
        yield
    finally:
        os.close(handle)


def _check_folder(store: FolderStore, made_from: dict[str, Any], *, restart: bool) -> None:
    """Raise if a folder holds other files or other work; write what the work is made from."""
    others = [file.name for file in store.path.iterdir() if not file.name.startswith(".")]
    if others and _STATE not in others:
        raise ResumeError(
            f"{store.path} holds other files, such as {others[0]}: give a new or empty folder for the work"
        )
    state = {} if restart else store.state()
    for name, value in made_from.items():
        if state and state["made_from"].get(name) != value:
            raise ResumeError(
                f"{store.path} holds the work of a search {_OTHER.get(name, f'with another {name}')}: repeat "
                "that search to resume it, discard its work with restart=True, or choose another folder"
            )
    if state.get("boot") != _boot():
        store.remove(_OF_STAGE)
    if not state:
        for file in store.path.iterdir():
            file.unlink()
        store.save_state({"made_from": made_from, "stage": 0})
