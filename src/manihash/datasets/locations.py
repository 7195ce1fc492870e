"""Where the files of the data sets lie: in the folder MANIHASH_DATA names, in the cache, at their home."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manihash.datasets.download import extract, fetch
from manihash.files.atomic import sha256_of
from manihash.files.errors import DataFileError, MissingDataError


@dataclass(frozen=True)
class File:
    """One published file: its path below MANIHASH_DATA or the cache, its checksum, and its public homes."""

    path: str
    sha256: str
    urls: tuple[str, ...] = ()


def data_folder() -> Path | None:
    """The folder that MANIHASH_DATA names, which is looked at first."""
    name = os.environ.get("MANIHASH_DATA")
    return Path(name).expanduser() if name else None


def cache_folder() -> Path:
    """Where downloads are kept: MANIHASH_CACHE, or manihash in the user's cache."""
    if name := os.environ.get("MANIHASH_CACHE"):
        return Path(name).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manihash"


def find(path: str) -> Path | None:
    """The file at a path below MANIHASH_DATA or the cache, if it is there."""
    folders = [data_folder(), cache_folder()]
    return next((folder / path for folder in folders if folder and (folder / path).is_file()), None)


def locate(file: File) -> Path:
    """The path of a published file, verified; downloaded into the cache if it has a home and is not here."""
    found = find(file.path)
    if found is not None:
        _verify(found, file)
        return found
    target = cache_folder() / file.path
    failures = []
    for url in file.urls:
        try:
            fetch(url, target, file.sha256)
            return target
        except (MissingDataError, DataFileError) as error:
            failures.append(str(error))
    raise MissingDataError(_what_to_put_where(file, failures))


def locate_all(files: Sequence[File]) -> list[Path]:
    """The paths of the files of one set; where one is missing, the error names all that the set needs."""
    try:
        return [locate(file) for file in files]
    except MissingDataError as error:
        raise MissingDataError(f"{error}. The set needs {', '.join(file.path for file in files)}") from error


def unpacked(archive: File, members: Sequence[str]) -> list[Path]:
    """The paths of the members of an archive: unpacked already, or unpacked now into the cache.

    ``tar xf`` inside MANIHASH_DATA puts them where they are looked for.
    """
    found = [find(member) for member in members]
    if None in found:
        source = locate(archive)
        extract(source, members, cache_folder())
        if source == cache_folder() / archive.path:
            source.unlink()
        found = [find(member) for member in members]
    return [path for path in found if path is not None]


def _verify(path: Path, file: File) -> None:
    digest = sha256_of(path)
    if digest != file.sha256:
        remedy = "copy it again" if not file.urls else "copy it again, or remove it and it is downloaded"
        raise DataFileError(
            f"{path} is not the published file: its {path.stat().st_size} bytes have sha256 {digest}, "
            f"and {file.sha256} was wanted. It is cut short or changed: {remedy}"
        )


def _what_to_put_where(file: File, failures: Sequence[str]) -> str:
    folder = data_folder()
    place = (
        f"{folder / file.path} (MANIHASH_DATA)"
        if folder
        else f"{file.path} in a folder named by MANIHASH_DATA"
    )
    if not file.urls:
        return (
            f"{Path(file.path).name} is not here, and it has no public home. Put a copy at {place}; "
            f"its sha256 is {file.sha256}"
        )
    return (
        f"{Path(file.path).name} is not here, and could not be downloaded ({'; '.join(failures)}). "
        f"Fetch {file.urls[0]} on a machine with a network and put it at {place}, or at "
        f"{cache_folder() / file.path}"
    )
