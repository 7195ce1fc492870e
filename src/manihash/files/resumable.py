"""A file of rows that grows under another name, and can be gone on with after an interrupt or a crash.

``codes.npy`` grows as ``codes.npy.part``; ``codes.npy.part.json`` says what it is made from and how many of
its rows are safe on the disk. It takes its own name when it is whole, and not before.
"""

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import BadRowsError

_SECONDS = 1.0  # between two moments at which what is written is made safe
_REMEDY = "--restart throws it away and begins anew, -o names another target"


class GrowingRows:
    """An npy file of bytes (n, width) to which blocks of rows are appended, from row ``done`` on.

    ``made_from`` names what the rows are made from and with, a fingerprint for each thing: a part that was
    begun with another is an error, unless ``restart`` begins anew. ``write(target, rows)`` makes a target
    that is no npy file from all of the rows.
    """

    def __init__(
        self,
        target: Path,
        shape: tuple[int, int],
        made_from: Mapping[str, str],
        *,
        restart: bool = False,
        write: Callable[[Path, NDArray[np.uint8]], None] | None = None,
    ) -> None:
        self.target = target
        self.part = target.with_name(f"{target.name}.part")
        self.notes = target.with_name(f"{target.name}.part.json")
        self._new_notes = target.with_name(f"{target.name}.part.json.new")
        self.shape = shape
        self.made_from = dict(made_from)
        self.restart = restart
        self.done = 0
        self._safe = 0  # rows that are on the disk, and noted
        self._lost = False  # whether rows did not reach the disk: the system says so once, and never again
        self._write_target = write
        self._header = _npy_header(shape)
        self._file: Any = None
        self._saved = 0.0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Append inside. When all rows are there, the target is made of them, and nothing else is left.

        What was made safe is kept if the block is broken off, and not if the rows it was made from are bad.
        """
        with self._told():
            self._file = _locked(self.part)
        with self._file:
            self.done = self._safe = 0 if self.restart else self._done_before()
            try:
                self._begin()
                yield
                with self._told():
                    self._save()
                if self.done == self.shape[0]:
                    self._finish()
            except BaseException as error:
                self._break_off(error)
                if isinstance(error, KeyboardInterrupt):
                    raise KeyboardInterrupt(self._kept()) from None
                raise

    def _begin(self) -> None:
        if self.restart:
            self.notes.unlink(missing_ok=True)
        self._saved = monotonic()
        with self._told():
            self._file.truncate(self._place(self.done))
            self._write(self._header)
            self._file.seek(self._place(self.done))

    def append(self, rows: NDArray[np.uint8]) -> None:
        """The next rows."""
        with self._told():
            self._write(np.ascontiguousarray(rows, np.uint8).data.cast("B"))
            self.done += len(rows)
            if monotonic() - self._saved > _SECONDS:
                self._save()

    def _finish(self) -> None:
        if self._write_target is None:
            os.replace(self.part, self.target)
        else:
            self._write_target(self.target, np.load(self.part, mmap_mode="r"))
        self._remove()

    def _remove(self) -> None:
        for path in (self.part, self.notes, self._new_notes):
            path.unlink(missing_ok=True)

    def _break_off(self, error: BaseException) -> None:
        """Keep what can be gone on with, and say so; a file whose rows are bad will be another one."""
        if not self._lost:
            with suppress(OSError):
                self._file.truncate(self._place(self.done))  # which makes room for the notes on a full disk
                self._save()
        if isinstance(error, BadRowsError) or not self._safe:
            self._safe = 0
            self._remove()
        else:
            error.add_note(self._kept())

    def _done_before(self) -> int:
        """How many rows an earlier run left, made from the same things."""
        size = self.part.stat().st_size
        if not size or not self.notes.is_file():
            return 0
        try:
            notes = json.loads(self.notes.read_text(encoding="utf-8"))
            made_from, done = dict(notes["made_from"]), int(notes["done"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.notes} is damaged ({error}): {_REMEDY}") from error
        for name, value in self.made_from.items():
            if made_from.get(name) != value:
                raise ValueError(f"{self.part} holds {done:,} rows made with another {name}: {_REMEDY}")
        if not 0 <= done <= self.shape[0] or size < self._place(done):
            raise ValueError(f"{self.part} is shorter than {self.notes.name} says: {_REMEDY}")
        return done

    def _place(self, row: int) -> int:
        return len(self._header) + row * self.shape[1]

    def _write(self, content: bytes | memoryview) -> None:
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) :]

    def _save(self) -> None:
        """Put what is written on the disk, then note it."""
        try:
            os.fsync(self._file.fileno())
        except OSError:
            self._lost = True
            raise
        with open(self._new_notes, "w", encoding="utf-8") as notes:
            json.dump({"made_from": self.made_from, "done": self.done}, notes)
            notes.flush()
            os.fsync(notes.fileno())
        os.replace(self._new_notes, self.notes)
        self._safe, self._saved = self.done, monotonic()

    def _kept(self) -> str:
        if not self._safe:
            return "nothing was written"
        kept = f"{self._safe:,} of {self.shape[0]:,} rows are kept in {self.part}"
        return f"{kept}: the same command goes on there"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A disk that is full, or the like."""
        try:
            yield
        except OSError as error:
            text = f"cannot write {self.part}: {error.strerror}. Make room"
            raise type(error)(error.errno, text) from error


def _npy_header(shape: tuple[int, int]) -> bytes:
    header = io.BytesIO()
    description: Any = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()


def _locked(path: Path) -> Any:
    """The file at a path, opened for this process alone; a process that dies lets go of it."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        _lock(file, path)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()  # another process ended between the two, and gave the file its name


def _lock(file: Any, path: Path) -> None:
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise ValueError(
                f"{path} is being written by another process: wait for it, or stop it"
            ) from error
