"""Downloads with pooch: atomic, verified and with progress; and archives, unpacked safely."""

import hashlib
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from manihash.errors import DataFileError, MissingDataError
from manihash.files.atomic import atomic_write
from manihash.progress import advance

CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 30


def fetch(url: str, target: Path, sha256: str) -> None:
    """Download a file to ``target`` and verify its checksum.

    Progress is logged in bytes. After an interrupt, a lost connection or a wrong checksum there is no file.
    """
    import ftplib

    make_folder(target.parent)
    with atomic_write(target) as part, open(part, "wb") as file:
        received = _Received(file, f"download {target.name}")
        try:
            _download(url, received)
        except ftplib.all_errors as error:  # those of requests are OSErrors
            if isinstance(error.__context__, KeyboardInterrupt):  # pooch failed to log out from the server
                raise error.__context__ from None
            raise MissingDataError(f"cannot download {url}: {_root_cause(error)}") from error
        if received.digest.hexdigest() != sha256:
            raise DataFileError(
                f"{url} sent {received.done} bytes with sha256 {received.digest.hexdigest()}, expected "
                f"{sha256}: the file has changed on the server or on the way. Nothing was kept"
            )


def _download(url: str, received: "_Received") -> None:
    """Receive the file at an HTTP or FTP address with pooch."""
    import pooch

    if urlsplit(url).scheme == "ftp":
        received.total = _ftp_size(url)
        ftp = pooch.FTPDownloader(timeout=TIMEOUT_SECONDS, chunk_size=CHUNK_BYTES)
        ftp(url, received, None)
        return
    http = pooch.HTTPDownloader(
        progressbar=received,
        chunk_size=CHUNK_BYTES,
        timeout=TIMEOUT_SECONDS,
        headers={"Accept-Encoding": "identity"},  # the bytes as published: some of the files are gzipped
    )
    http(url, received, None)


def _ftp_size(url: str) -> int:
    """The size in bytes of a file on an FTP server, which pooch does not report."""
    import ftplib

    address = urlsplit(url)
    with ftplib.FTP(timeout=TIMEOUT_SECONDS) as ftp:
        ftp.connect(address.netloc)
        ftp.login()
        ftp.voidcmd("TYPE I")
        return ftp.size(address.path) or 0


class _Received:
    """The file that pooch writes to: computes the checksum and logs the progress.

    It is also the progress bar that pooch expects, only to learn the size of the file.
    """

    def __init__(self, file: BinaryIO, stage: str) -> None:
        self.digest = hashlib.sha256()
        self.done = self.total = 0
        self._file, self._stage = file, stage

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self.digest.update(chunk)
        self.done += len(chunk)
        advance(self._stage, self.done, max(self.total, self.done))

    def flush(self) -> None:
        self._file.flush()

    def update(self, n_bytes: int) -> None: ...

    def reset(self) -> None: ...

    def close(self) -> None: ...


def _root_cause(error: BaseException) -> str:
    """The text of the first error in a chain: what the system or the server said."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(error) or type(error).__name__


def extract(archive: Path, members: Sequence[str], folder: Path) -> None:
    """Copy members of a tar archive to the same paths in ``folder``, each atomically.

    Only regular files with the given names are copied, and only their content: a path, link or mode in the
    archive has no effect.
    """
    missing = set(members)
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                if member.isreg() and member.name in missing:
                    _copy_member(tar, member, folder / member.name)
                    missing.discard(member.name)
                    advance(f"unpack {archive.name}", len(members) - len(missing), len(members))
                if not missing:
                    return
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataFileError(
            f"{archive} is not a complete archive ({error}): copy or download it again"
        ) from error
    raise DataFileError(
        f"{archive} does not contain {', '.join(sorted(missing))}: it is another archive, or truncated"
    )


def _copy_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Copy the content of a member to a file, atomically."""
    make_folder(target.parent)
    source = tar.extractfile(member)
    with atomic_write(target) as part, open(part, "wb") as file:
        while source is not None and (chunk := source.read(CHUNK_BYTES)):
            file.write(chunk)


def make_folder(folder: Path) -> None:
    """Create a folder of the cache; an error says how to choose another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"cannot create the folder {folder}: {error.strerror}. "
            "Choose another with the environment variable MANIHASH_CACHE",
        ) from error
