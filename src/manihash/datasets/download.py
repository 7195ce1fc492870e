"""Files from the network, checked and whole, and what to say when there is no network."""

import hashlib
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from manihash.files.atomic import atomic_write
from manihash.files.errors import DataFileError, MissingDataError
from manihash.progress import advance

CHUNK = 1 << 20
TIMEOUT_S = 30


def fetch(url: str, target: Path, sha256: str) -> None:
    """Download a file to ``target``, whole and with the published checksum, or leave nothing there.

    Progress is logged in bytes. Ctrl-C, a lost connection or a wrong checksum leave no file behind.
    """
    import http.client
    import urllib.request

    make_folder(target.parent)
    digest = hashlib.sha256()
    done = 0
    with atomic_write(target) as part:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, open(part, "wb") as file:
                total = int(answer.headers.get("Content-Length") or 0)
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    advance(f"download {target.name}", done, max(total, done))
        except (OSError, http.client.HTTPException) as error:
            raise MissingDataError(f"{url} could not be fetched: {error}") from error
        if done < total:
            raise MissingDataError(f"{url}: the connection ended after {done} of {total} bytes. Try again")
        if digest.hexdigest() != sha256:
            raise DataFileError(
                f"{url} gave {done} bytes with sha256 {digest.hexdigest()}, and {sha256} was wanted: its "
                "home serves another file, or something on the way changed it. Nothing was kept"
            )


def extract(archive: Path, members: Sequence[str], folder: Path) -> None:
    """Copy the named members of a tar archive to the same paths under ``folder``, each whole or not at all.

    Only their bytes are taken: a path, link or mode that the archive brings is never followed.
    """
    wanted = set(members)
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                if member.isreg() and member.name in wanted:
                    _copy_member(tar, member, folder / member.name)
                    wanted.discard(member.name)
                    advance(f"unpack {archive.name}", len(members) - len(wanted), len(members))
                if not wanted:
                    return
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataFileError(
            f"{archive} is not a whole archive ({error}): copy or download it again"
        ) from error
    raise DataFileError(f"{archive} lacks {', '.join(sorted(wanted))}: it is another archive, or cut short")


def _copy_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    make_folder(target.parent)
    source = tar.extractfile(member)
    with atomic_write(target) as part, open(part, "wb") as file:
        while source is not None and (chunk := source.read(CHUNK)):
            file.write(chunk)


def make_folder(folder: Path) -> None:
    """Make a folder of the cache, or say how to name another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"cannot make the folder {folder}: {error.strerror}. Name another with MANIHASH_CACHE",
        ) from error
