"""Where the files of datasets are: in the folder MANIHASH_DATA, in the cache, or on a server."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manihash.datasets.download import extract, fetch
from manihash.errors import DataFileError, MissingDataError
from manihash.files.atomic import sha256_of


@dataclass(frozen=True)
class PublishedFile:
    """A file of a dataset: its path in MANIHASH_DATA or the cache, its checksum, its public addresses."""

    path: str
    sha256: str
    urls: tuple[str, ...] = ()


def data_folder() -> Path | None:
    """The folder that the environment variable MANIHASH_DATA names, which is searched first."""
    name = os.environ.get("MANIHASH_DATA")
    return Path(name).expanduser() if name else None


def cache_folder() -> Path:
    """The folder of downloads: MANIHASH_CACHE, or ``manihash`` in the user's cache folder."""
    from platformdirs import user_cache_path

    if name := os.environ.get("MANIHASH_CACHE"):
        return Path(name).expanduser()
    return user_cache_path("manihash", appauthor=False)


def find(path: str) -> Path | None:
    """The file at a path in MANIHASH_DATA or the cache; None if it is in neither."""
    folders = [data_folder(), cache_folder()]
    return next((folder / path for folder in folders if folder and (folder / path).is_file()), None)


def locate(file: PublishedFile) -> Path:
    """The path of a published file, verified; a file that is not on this machine is downloaded first."""
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
    raise MissingDataError(_instructions(file, failures))


def locate_all(files: Sequence[PublishedFile]) -> list[Path]:
    """The paths of all files of a dataset; if one is missing, the error names all of them."""
    try:
        return [locate(file) for file in files]
    except MissingDataError as error:
        names = ", ".join(file.path for file in files)
        raise MissingDataError(f"{error}. The dataset needs {names}") from error


def unpacked(archive: PublishedFile, members: Sequence[str]) -> list[Path]:
    """The paths of the members of an archive; they are unpacked into the cache if they are missing.

    ``tar xf`` inside MANIHASH_DATA also puts them where they are found. A downloaded archive is removed.
    """
    found = [find(member) for member in members]
    if None in found:
        source = locate(archive)
        extract(source, members, cache_folder())
        if source == cache_folder() / archive.path:
            source.unlink()
        found = [find(member) for member in members]
    return [path for path in found if path is not None]


def _verify(path: Path, file: PublishedFile) -> None:
    """Raise if a file does not have the published checksum."""
    digest = sha256_of(path)
    if digest != file.sha256:
        remedy = "copy it again, or remove it to download it" if file.urls else "copy it again"
        raise DataFileError(
            f"{path} is not the published file: its {path.stat().st_size} bytes have sha256 {digest}, "
            f"expected {file.sha256}. It is truncated or was changed: {remedy}"
        )


def _instructions(file: PublishedFile, failures: Sequence[str]) -> str:
    """Which file to put where."""
    name, folder = Path(file.path).name, data_folder()
    place = (
        f"{folder / file.path} (MANIHASH_DATA)"
        if folder
        else f"{file.path} in a folder that the environment variable MANIHASH_DATA names"
    )
    if not file.urls:
        return (
            f"{name} is not on this machine, and it has no public address. Put a copy at {place}; "
            f"its sha256 is {file.sha256}"
        )
    return (
        f"{name} is not on this machine and could not be downloaded ({'; '.join(failures)}). Download "
        f"{file.urls[0]} on a machine with a network and put it at {place}, or at "
        f"{cache_folder() / file.path}"
    )
