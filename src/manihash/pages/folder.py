"""A folder of files that are replaced together: after an error the old files are all still there.

``files.json`` lists the files that were written last, so that those of an earlier report are removed and the
user's files are kept. The page is removed first and added last: if it exists, its files are complete.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree

LIST = "files.json"


def check_folder(folder: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Raise if ``replace_files`` could not write these files; called before the work that makes them."""
    target = Path(folder)
    with _explained(target):
        if target.exists():
            _refuse_others(target, set(names) - _listed(target))
        nearest = next(path for path in (target, *target.absolute().parents) if path.exists())
        with tempfile.TemporaryDirectory(prefix=".report.", suffix=".part", dir=nearest):
            pass


def replace_files(folder: str | os.PathLike[str], contents: Mapping[str, bytes], page: str) -> None:
    """Write these files (by relative path) to the folder, and remove those of an earlier call.

    All files are written and flushed to a temporary folder first. Then they are only renamed, and renamed
    back if that is interrupted. A file that an earlier call did not write is not overwritten: an error is
    raised.
    """
    target = Path(folder)
    with _explained(target):
        new = not target.exists()
        old = set() if new else _listed(target)
        _refuse_others(target, set(contents) - old)
        if new:
            target.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(
            tempfile.mkdtemp(prefix=".report.", suffix=".part", dir=target.parent if new else target)
        )
        try:
            _write(stage / "new", contents)
            if new:
                _write(stage / "new", {LIST: _list(contents)})
                (stage / "new").rename(target)
            else:
                _swap(target, stage, old, contents, page)
        except BaseException:
            if not any(path.is_file() for path in (stage / "old").rglob("*")):  # all files were moved back
                rmtree(stage, ignore_errors=True)
            raise
        rmtree(stage, ignore_errors=True)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Add the folder, and what to do, to an error of the disk."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise type(error)(
            error.errno,
            f"cannot write the report to {target}: {error.strerror}. The old files are unchanged: make room "
            "or choose another folder",
        ) from error


def _listed(target: Path) -> set[str]:
    """The files that an earlier report wrote."""
    try:
        names = json.loads((target / LIST).read_text("utf-8"))["files"]
    except FileNotFoundError:
        return set()
    except (ValueError, KeyError, TypeError) as error:
        raise FileExistsError(
            f"{target / LIST} is not the list of a report's files: choose another folder, or remove it"
        ) from error
    inside = [name for name in names if not Path(name).is_absolute() and ".." not in Path(name).parts]
    return set(inside)


def _refuse_others(target: Path, names: set[str]) -> None:
    taken = sorted(name for name in names if os.path.lexists(target / name))
    if taken:
        raise FileExistsError(
            f"{target / taken[0]} was not written by a report of manihash, and is not overwritten: choose "
            "another folder, or move it away"
        )


def _list(names: Iterable[str]) -> bytes:
    return (json.dumps({"written by": "manihash", "files": sorted(names)}, indent=1) + "\n").encode()


def _write(stage: Path, contents: Mapping[str, bytes]) -> None:
    for name, content in contents.items():
        path = stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _swap(target: Path, stage: Path, old: set[str], contents: Mapping[str, bytes], page: str) -> None:
    """Move the old files out and the new ones in, and undo it after an error.

    Meanwhile the list has old and new files, so that even after a power failure the next report knows which
    files are its own.
    """
    outs = sorted(old, key=lambda name: (name != page, name))
    ins = sorted(contents, key=lambda name: (name == page, name))
    moves = [(target / name, stage / "old" / name) for name in outs if os.path.lexists(target / name)]
    moves += [(stage / "new" / name, target / name) for name in ins]
    lists = {"before": _list(old), "meanwhile": _list(old | set(contents)), "after": _list(contents)}
    _write(stage, lists)
    begun: list[tuple[Path, Path]] = []
    try:
        (stage / "meanwhile").replace(target / LIST)
        for source, goal in moves:
            goal.parent.mkdir(parents=True, exist_ok=True)
            begun.append((source, goal))
            source.rename(goal)
        (stage / "after").replace(target / LIST)
    except BaseException:
        for source, goal in reversed(begun):
            with suppress(FileNotFoundError):  # the last may not have moved
                goal.rename(source)
        if old:
            (stage / "before").replace(target / LIST)
        else:
            (target / LIST).unlink(missing_ok=True)
        _tidy(target, contents)
        raise
    _tidy(target, old)


def _tidy(target: Path, names: Iterable[str]) -> None:
    """Remove the folders of these files that are empty now."""
    for parent in {(target / name).parent for name in names} - {target}:
        with suppress(OSError):
            parent.rmdir()
