"""A file of rows that grows under another name, and can be gone on with after an interrupt or a crash.

``codes.npy`` grows as ``codes.npy.part``; ``codes.npy.part.json`` says what it is made from and how many of
its rows are safe on the disk. It takes its own name when it is whole, and not before.
"""

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SECONDS = 1.0  # between two moments at which what is written is made safe
_REMEDY = "--restart throws it away and begins anew, -o names another target"


class GrowingRows:
    """An npy file of bytes (n, width) to which blocks of rows are appended, from row ``done`` on.

    ``made_from`` names what the rows are made from, a fingerprint for each thing: a part that was begun with
    another is an error, unless ``restart`` begins anew.
    """

    def __init__(
        self, target: Path, shape: tuple[int, int], made_from: Mapping[str, str], *, restart: bool = False
    ) -> None:
        self.part = target.with_name(f"{target.name}.part")
        self.notes = target.with_name(f"{target.name}.part.json")
        self._new_notes = target.with_name(f"{target.name}.part.json.new")
        self.shape = shape
        self.made_from = dict(made_from)
        self.restart = restart
        self.done = 0
        self._noted = 0
        self._header = _npy_header(shape)
        self._file: Any = None
        self._saved = 0.0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Append inside: what was written is kept if the block is broken off, and not if its rows are bad."""
        with self._told():
            self._file = os.fdopen(os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        with self._file:
            _lock(self._file, self.part)
            self.done = self._noted = 0 if self.restart else self._done_before()
            try:
                self._begin()
                yield
                with self._told():
                    self._save()
            except ValueError:
                self.remove()
                raise
            except BaseException as error:
                self._leave()
                if isinstance(error, KeyboardInterrupt):
                    raise KeyboardInterrupt(self._kept()) from None
                error.add_note(self._kept())
                raise

    def _begin(self) -> None:
        self._saved = monotonic()
        with self._told():
            self._file.truncate(self._place(self.done))
            self._write(self._header)
            self._file.seek(self._place(self.done))

    def _leave(self) -> None:
        """Keep the rows that are whole for the next run, if there are any."""
        with suppress(OSError):
            self._file.truncate(self._place(self.done))  # which makes room for the notes on a full disk
            self._save()
        if not self._noted:
            self.remove()

    def append(self, rows: NDArray[np.uint8]) -> None:
        """The next rows."""
        with self._told():
            self._write(np.ascontiguousarray(rows, np.uint8).data.cast("B"))
            self.done += len(rows)
            if monotonic() - self._saved > _SECONDS:
                self._save()

    def rename(self, target: Path) -> None:
        """Give the whole file its name."""
        os.replace(self.part, target)
        self.remove()

    def remove(self) -> None:
        """Leave nothing behind."""
        for path in (self.part, self.notes, self._new_notes):
            path.unlink(missing_ok=True)

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
        os.fsync(self._file.fileno())
        with open(self._new_notes, "w", encoding="utf-8") as notes:
            json.dump({"made_from": self.made_from, "done": self.done}, notes)
            notes.flush()
            os.fsync(notes.fileno())
        os.replace(self._new_notes, self.notes)
        self._saved, self._noted = monotonic(), self.done

    def _kept(self) -> str:
        if not self._noted:
            return "nothing was written"
        rows = f"{self._noted:,} of {self.shape[0]:,} rows"
        return f"{rows} are kept in {self.part}: the same command goes on there"

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


def _lock(file: Any, path: Path) -> None:
    """Raise if another process is writing the same file; a process that dies lets go of it."""
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(
                f"{path} is being written by another process: wait for it, or stop it"
            ) from error
