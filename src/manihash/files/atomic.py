"""Atomic writes and checksums: a file is complete under its name, or the old file stays as it was."""

import hashlib
import os
import platform
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

_NAME_CHARACTERS = 40  # of the target, in the name of its temporary file, which must not become too long
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows does not have it


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block succeeds and is removed otherwise.

    The temporary file is in the folder of its target, so the last step is one rename. After an error, an
    interrupt or a full disk the old file is unchanged. A symbolic link is followed, and the new file has the
    mode of the old one. The content is copied into a target that is a pipe or a device. Temporary files of
    processes that were killed are removed.
    """
    target = resolved_target(path)
    try:
        part = _new_part(target)
    except OSError as error:
        raise _write_error(target, error, "Choose a target in a folder you can write to") from error
    try:
        yield part
        publish(part, target)
    except OSError as error:
        if type(error) is not OSError:  # an error of another file, or of the network
            raise
        raise _write_error(target, error, "Free disk space, or choose another target") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _new_part(target: Path) -> Path:
    """A new temporary file for a target, whose name holds the process; abandoned ones are removed first."""
    folder = Path(tempfile.gettempdir()) if is_stream(target) else target.parent
    start = f".{target.name[:_NAME_CHARACTERS]}.{_host()}-"
    for old in folder.glob(f"{escape(start)}*-*.part"):
        if _has_ended(old.name.removeprefix(start).partition("-")[0]):
            with suppress(OSError):
                old.unlink()
    part = folder / f"{start}{os.getpid()}-{secrets.token_hex(6)}.part"
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, mode_of_part(target)))
    return part


def _host() -> str:
    """A short name of this machine: process numbers of another one mean nothing here."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:6]


def _has_ended(process: str) -> bool:
    """Whether the process of this number has ended; False if that is unknown."""
    if os.name == "nt" or not process.isdigit():  # on Windows, os.kill would end the process
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def resolved_target(path: str | os.PathLike[str]) -> Path:
    """The file that a write to ``path`` changes, symbolic links followed; raise if it cannot be written."""
    target = Path(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except OSError as error:
        raise _write_error(target, error, "Choose a target in a folder you can write to") from error
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"cannot write {target}: it is a folder. Give a file name")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise OSError(f"cannot write {target}: it is a disk or a socket. Give a file name")
    return Path(os.path.realpath(target)) if stat.S_ISREG(mode) and target.is_symlink() else target


def is_stream(target: Path) -> bool:
    """Whether a target is a pipe or a character device, into which content is copied."""
    with suppress(FileNotFoundError):
        mode = os.stat(target).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
    return False


def mode_of_part(target: Path) -> int:
    """The mode to create a temporary file with, from which the system subtracts the process's umask."""
    mode = _mode_of(target)
    return 0o666 if mode is None else mode & 0o666 | 0o600


def publish(part: Path, target: Path) -> None:
    """Give a complete temporary file the name and the mode of its target, or copy it into a stream."""
    if is_stream(target):
        with open(part, "rb") as source, open(target, "wb") as stream:
            shutil.copyfileobj(source, stream)
        part.unlink()
        return
    mode = _mode_of(target)
    with open(part, "rb+") as file:
        if mode is not None:
            os.chmod(part, mode)
        os.fsync(file.fileno())
    os.replace(part, target)


def sync_folder(folder: Path) -> None:
    """Make the names of a folder's files durable, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def identity_of(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    """What changes if a file is replaced; None if there is no file."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


def _mode_of(target: Path) -> int | None:
    """The permissions of an existing file, None if there is no file."""
    try:
        info = os.stat(target)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(info.st_mode) & 0o777 if stat.S_ISREG(info.st_mode) else 0o600


def _write_error(target: Path, error: OSError, remedy: str) -> OSError:
    """The error to raise for a file that cannot be written."""
    if error.errno is None:  # numpy's error, whose text says how many bytes were written
        return OSError(f"cannot write {target}: {error}. {remedy}")
    return type(error)(error.errno, f"cannot write {target}: {os.strerror(error.errno)}. {remedy}")


def sha256_of(path: Path) -> str:
    """The SHA-256 checksum of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
