"""Resumable files: rows are appended to a part file, which survives an interrupt or a crash.

``codes.npy`` is written as ``codes.npy.part``. The checkpoint ``codes.npy.part.json`` records what the rows
are made from and how many of them are safely on the disk. The part file gets its final name when it is
complete.
"""

import io
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.errors import BadRowsError, ResumeError
from manihash.files.atomic import NO_LINK, is_stream, mode_of_part, publish, resolved_target

_CHECKPOINT_SECONDS = 1.0  # time between two checkpoints


class ResumableFile:
    """An npy file of bytes (n, width) to which blocks of rows are appended, starting at row ``done``.

    ``made_from`` maps the name of each thing that determines the rows to its fingerprint. A part file that
    was made from something else raises a ResumeError, unless ``restart`` is true: then it is discarded.
    ``write(target, rows)`` converts the complete rows if the target is not an npy file. The part file is
    beside its target; a symbolic link to the target is followed.
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
        self.target = target = resolved_target(target)
        self.part = target.with_name(f"{target.name}.part")
        self.checkpoint = target.with_name(f"{target.name}.part.json")
        self._new_checkpoint = target.with_name(f"{target.name}.part.json.new")
        self.shape = shape
        self.made_from = dict(made_from)
        self.restart = restart
        self.done = 0
        self._saved = 0  # rows in the last checkpoint
        self._disk_failed = False  # the system reports lost rows once: no checkpoint may follow
        self._write_target = write
        self._header = _npy_header(shape)
        self._file: Any = None
        self._saved_at = 0.0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Open the part file for ``append``; when all rows are written, make the target and clean up.

        If the block is interrupted or fails, the rows of the last checkpoint are kept, except after a
        BadRowsError: the input must change then.
        """
        with self._write_errors():
            self._file = _open_locked(self.part, mode_of_part(self.target))
        with self._file:
            self.done = self._saved = 0 if self.restart else self._rows_of_checkpoint()
            try:
                self._start()
                yield
                with self._write_errors():
                    self._save()
                if self.done == self.shape[0]:
                    self._finish()
            except BaseException as error:
                self._stop(error)
                if isinstance(error, KeyboardInterrupt):
                    raise KeyboardInterrupt(self._state()) from None
                raise

    def _start(self) -> None:
        """Cut the part file to its saved rows and move to their end."""
        self._saved_at = monotonic()
        with self._write_errors():
            self._file.truncate(self._offset(self.done) if self.done else 0)
            if self.restart:  # after the cut: a part file with rows has a checkpoint
                self.checkpoint.unlink(missing_ok=True)
            self._file.seek(0)
            self._write(self._header)
            self._file.seek(self._offset(self.done))

    def append(self, rows: NDArray[np.uint8]) -> None:
        """Append the next rows (b, width)."""
        with self._write_errors():
            self._write(np.ascontiguousarray(rows, np.uint8).data.cast("B"))
            self.done += len(rows)
            if monotonic() - self._saved_at > _CHECKPOINT_SECONDS:
                self._save()

    def _finish(self) -> None:
        """Rename the part file, or write the target from it."""
        if self._write_target is None and not is_stream(self.target):
            # The rename comes last: then another process may start a new part file under the same name.
            self.checkpoint.unlink(missing_ok=True)
            publish(self.part, self.target)
            return
        if self._write_target is None:
            publish(self.part, self.target)
        else:
            self._write_target(self.target, np.load(self.part, mmap_mode="r"))
        self._remove()

    def _remove(self) -> None:
        """Remove the checkpoint and then the part file, whose lock keeps other processes out until then."""
        for path in (self._new_checkpoint, self.checkpoint, self.part):
            path.unlink(missing_ok=True)

    def _stop(self, error: BaseException) -> None:
        """Keep the rows that can be resumed and say so in a note; remove the part file if there are none."""
        if not _is_at(self._file, self.part):  # it has its final name, and a new part file is not ours
            return
        if not self._disk_failed:
            with suppress(OSError):
                self._file.truncate(self._offset(self.done))  # frees space for the checkpoint on a full disk
                self._save()
        if isinstance(error, BadRowsError) or not self._saved:
            self._saved = 0
            self._remove()
        else:
            error.add_note(self._state())

    def _rows_of_checkpoint(self) -> int:
        """The number of rows that an earlier run saved, if it used the same inputs."""
        size = self.part.stat().st_size
        if not self.checkpoint.is_file():
            self._check_own(size)
            return 0
        try:
            checkpoint = json.loads(self.checkpoint.read_text(encoding="utf-8"))
            made_from, done = dict(checkpoint["made_from"]), int(checkpoint["done"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._resume_error(f"{self.checkpoint} is damaged ({error})") from error
        if not size:
            return 0
        for name, value in self.made_from.items():
            if made_from.get(name) != value:
                raise self._resume_error(f"{self.part} holds {done:,} rows made with another {name}")
        if not 0 <= done <= self.shape[0] or size < self._offset(done):
            raise self._resume_error(f"{self.part} is shorter than {self.checkpoint.name} says")
        return done

    def _check_own(self, size: int) -> None:
        """Raise unless a part file without a checkpoint is empty or starts with the header of the target."""
        if size and self._file.read(len(self._header)) != self._header[:size]:
            raise self._resume_error(f"{self.part} exists and holds something else")

    def _resume_error(self, text: str) -> ResumeError:
        """The error for a part file that cannot be resumed."""
        return ResumeError(f"{text}: discard it with restart=True, or choose another target")

    def _offset(self, row: int) -> int:
        """The position of a row in the part file."""
        return len(self._header) + row * self.shape[1]

    def _write(self, content: bytes | memoryview) -> None:
        """Write all bytes to the unbuffered file."""
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) :]

    def _save(self) -> None:
        """Write a checkpoint, after the rows are on the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError:
            self._disk_failed = True
            raise
        self._new_checkpoint.unlink(missing_ok=True)
        with open(self._new_checkpoint, "x", encoding="utf-8") as checkpoint:
            json.dump({"made_from": self.made_from, "done": self.done}, checkpoint)
            checkpoint.flush()
            os.fsync(checkpoint.fileno())
        os.replace(self._new_checkpoint, self.checkpoint)
        self._saved, self._saved_at = self.done, monotonic()

    def _state(self) -> str:
        """A sentence that says how many rows are kept."""
        if not self._saved:
            return "nothing was written"
        kept = f"{self._saved:,} of {self.shape[0]:,} rows are kept in {self.part}"
        return f"{kept}: run again to resume"

    @contextmanager
    def _write_errors(self) -> Iterator[None]:
        """Name the file in an error of the system, such as a full disk."""
        try:
            yield
        except OSError as error:
            text = f"cannot write {self.part}: {error.strerror}. Free disk space"
            raise type(error)(error.errno, text) from error


def _npy_header(shape: tuple[int, int]) -> bytes:
    """The header of an npy file of bytes (n, width)."""
    header = io.BytesIO()
    description: Any = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()


def _open_locked(path: Path, mode: int) -> Any:
    """The file at a path, locked for this process; the lock ends with the process."""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, mode)
        except OSError as error:
            if path.is_symlink():
                raise _not_ours(path) from error
            raise
        file = os.fdopen(handle, "r+b", buffering=0)
        _lock(file, path)
        info = os.fstat(file.fileno())
        if not _is_at(file, path):
            file.close()  # another process has finished in the meantime and renamed this file
        elif stat.S_ISREG(info.st_mode) and info.st_nlink == 1:
            return file
        else:
            file.close()
            raise _not_ours(path)


def _not_ours(path: Path) -> ResumeError:
    """The error for a part file that is a link, a pipe or a device."""
    return ResumeError(f"{path} is a link or not a plain file: remove it, or choose another target")


def _is_at(file: Any, path: Path) -> bool:
    """Whether an open file still has a path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False))
    return False


def _lock(file: Any, path: Path) -> None:
    """Lock a file for this process, or raise if another process has locked it."""
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise ValueError(
                f"{path} is being written by another process: wait for it, or stop it"
            ) from error
