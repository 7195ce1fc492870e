"""Atomic writes and checksums: a file is complete under its name, or the old file stays as it was."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block succeeds and is removed otherwise.

    The temporary file is in the folder of its target, so the last step is one rename. After an error, an
    interrupt or a full disk the old file is unchanged.
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise _write_error(target, error, "Choose a target in a folder you can write to") from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        os.chmod(part, 0o666 & ~_umask())
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        if type(error) is not OSError:  # an error of another file, or of the network
            raise
        raise _write_error(target, error, "Free disk space, or choose another target") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _write_error(target: Path, error: OSError, remedy: str) -> OSError:
    """The error to raise for a file that cannot be written."""
    if error.errno is None:  # numpy's error, whose text says how many bytes were written
        return OSError(f"cannot write {target}: {error}. {remedy}")
    return type(error)(error.errno, f"cannot write {target}: {os.strerror(error.errno)}. {remedy}")


def _umask() -> int:
    """The file mode bits that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sha256_of(path: Path) -> str:
    """The SHA-256 checksum of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
