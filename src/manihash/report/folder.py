"""A folder of files that belong together, replaced as one: all new, or all as it was.

``files.json`` lists the files that were written last, so that those of an earlier report are taken away and
a user's own are left alone. The page goes first and comes last: where it is, all beside it is its own.
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
    """Raise where ``replace_files`` could not write these files, before the work that makes them."""
    target = Path(folder)
    with _told(target):
        if target.exists():
            _refuse_others(target, set(names) - _listed(target))
        nearest = next(path for path in (target, *target.absolute().parents) if path.exists())
        with tempfile.TemporaryDirectory(prefix=".report.", suffix=".part", dir=nearest):
            pass


def replace_files(folder: str | os.PathLike[str], contents: Mapping[str, bytes], page: str) -> None:
    """Let the folder hold these files (by relative path), and none that an earlier call wrote.

    All is written and flushed beside its place first; then files are only renamed, and renamed back if that
    is interrupted. A file of such a name that is not ours is not overwritten: that is an error.
    """
    target = Path(folder)
    with _told(target):
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
            if not any(path.is_file() for path in (stage / "old").rglob("*")):  # all could be moved back
                rmtree(stage, ignore_errors=True)
            raise
        rmtree(stage, ignore_errors=True)


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """An error of the disk names the folder, and what to do."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise type(error)(
            error.errno,
            f"cannot write the report to {target}: {error.strerror}. What was there is as it was: make room "
            "or give another folder",
        ) from error


def _listed(target: Path) -> set[str]:
    """The files that an earlier report wrote."""
    try:
        names = json.loads((target / LIST).read_text("utf-8"))["files"]
    except FileNotFoundError:
        return set()
    except (ValueError, KeyError, TypeError) as error:
        raise FileExistsError(
            f"{target / LIST} is not the list of a report's files: give another folder, or remove it"
        ) from error
    inside = [name for name in names if not Path(name).is_absolute() and ".." not in Path(name).parts]
    return set(inside)


def _refuse_others(target: Path, names: set[str]) -> None:
    taken = sorted(name for name in names if os.path.lexists(target / name))
    if taken:
        raise FileExistsError(
            f"{target / taken[0]} was not written by a report of manihash, and is not overwritten: give "
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
    """Move the old files out and the new ones in; undo it if anything stops us.

    Meanwhile the list names old and new files, so that even after a power cut the next report knows which
    are ours.
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
