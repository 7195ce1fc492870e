"""Resumable files: writing resumes after the saved rows, and an incomplete file never has the final name."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from command import full_disk

from manihash.errors import BadRowsError, ResumeError
from manihash.files import resumable
from manihash.files.resumable import ResumableFile

SHAPE = (10, 3)
CODES = np.arange(30, dtype=np.uint8).reshape(SHAPE)
MADE_FROM = {"model": "a", "input": "b"}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "codes.npy"


def write_and_fail(file: ResumableFile, rows: np.ndarray, error: BaseException) -> None:
    with file.writing():
        file.append(rows)
        raise error


def interrupted(target: Path, rows: int) -> None:
    file = ResumableFile(target, SHAPE, MADE_FROM)
    with pytest.raises(KeyboardInterrupt, match=rf"{rows} of 10 rows are kept in .*codes\.npy\.part"):
        write_and_fail(file, CODES[:rows], KeyboardInterrupt())


def test_a_file_gets_its_name_when_it_is_complete(target: Path) -> None:
    file = ResumableFile(target, SHAPE, MADE_FROM)
    with file.writing():
        for start in range(0, 10, 4):
            file.append(CODES[start : start + 4])
            assert not target.exists()
    assert np.array_equal(np.load(target), CODES)
    assert [path.name for path in target.parent.iterdir()] == ["codes.npy"]


@pytest.mark.parametrize("torn", [0, 2, 100])
def test_writing_resumes_after_the_saved_rows(target: Path, torn: int) -> None:
    interrupted(target, 4)
    with open(f"{target}.part", "ab") as file:
        file.write(bytes(torn))  # part of a block, written when the process died
    again = ResumableFile(target, SHAPE, MADE_FROM)
    with again.writing():
        assert again.done == 4
        again.append(CODES[4:])
    assert np.array_equal(np.load(target), CODES)


def test_a_part_file_of_version_0_1_0_is_resumed(target: Path) -> None:
    np.save(target, CODES)
    content = target.read_bytes()
    target.unlink()
    Path(f"{target}.part").write_bytes(content[:-18])
    Path(f"{target}.part.json").write_text('{"made_from": {"model": "a", "input": "b"}, "done": 4}')
    file = ResumableFile(target, SHAPE, MADE_FROM)
    with file.writing():
        assert file.done == 4
        file.append(CODES[4:])
    assert target.read_bytes() == content


@pytest.mark.parametrize("name", MADE_FROM)
def test_a_part_file_made_from_something_else_is_refused_and_kept(target: Path, name: str) -> None:
    interrupted(target, 4)
    before = Path(f"{target}.part").read_bytes()
    other = {**MADE_FROM, name: "other"}
    message = f"4 rows made with another {name}: discard it with restart=True"
    with pytest.raises(ResumeError, match=message), ResumableFile(target, SHAPE, other).writing():
        pytest.fail("the file was opened")
    assert Path(f"{target}.part").read_bytes() == before
    restarted = ResumableFile(target, SHAPE, other, restart=True)
    with restarted.writing():
        assert restarted.done == 0
        restarted.append(CODES)
    assert np.array_equal(np.load(target), CODES)


@pytest.mark.parametrize(
    "checkpoint", ["", "[]", "{}", '{"made_from": {"model": "a", "input": "b"}, "done": "x"}']
)
def test_a_damaged_checkpoint_is_refused(target: Path, checkpoint: str) -> None:
    interrupted(target, 4)
    Path(f"{target}.part.json").write_text(checkpoint)
    file = ResumableFile(target, SHAPE, MADE_FROM)
    with pytest.raises(ResumeError, match=r"damaged.*restart=True"), file.writing():
        pytest.fail("the file was opened")


def test_a_part_file_that_lost_rows_is_refused(target: Path) -> None:
    interrupted(target, 4)
    os.truncate(f"{target}.part", Path(f"{target}.part").stat().st_size - 1)
    with pytest.raises(ResumeError, match="shorter than"), ResumableFile(target, SHAPE, MADE_FROM).writing():
        pytest.fail("the file was opened")


def test_a_checkpoint_without_a_part_file_is_ignored(target: Path) -> None:
    interrupted(target, 4)
    Path(f"{target}.part").unlink()
    file = ResumableFile(target, SHAPE, MADE_FROM)
    with file.writing():
        assert file.done == 0
        file.append(CODES)


@pytest.mark.parametrize("rows_before", [0, 4])
def test_bad_rows_leave_nothing_behind(target: Path, rows_before: int) -> None:
    if rows_before:
        interrupted(target, rows_before)
    with pytest.raises(BadRowsError, match="NaN"):
        write_and_fail(ResumableFile(target, SHAPE, MADE_FROM), CODES[rows_before:6], BadRowsError("NaN"))
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    "error", [ValueError("a wrong width"), OSError(5, "cannot read X.hdf5"), MemoryError()]
)
def test_any_other_error_keeps_the_rows_and_has_a_note(target: Path, error: Exception) -> None:
    interrupted(target, 4)
    with pytest.raises(type(error)) as raised:
        write_and_fail(ResumableFile(target, SHAPE, MADE_FROM), CODES[4:6], error)
    assert raised.value.__notes__ == [f"6 of 10 rows are kept in {target}.part: run again to resume"]
    again = ResumableFile(target, SHAPE, MADE_FROM)
    with again.writing():
        assert again.done == 6
        again.append(CODES[6:])
    assert np.array_equal(np.load(target), CODES)


def test_a_part_file_without_rows_is_removed(target: Path) -> None:
    with pytest.raises(ValueError, match="a wrong width"), ResumableFile(target, SHAPE, MADE_FROM).writing():
        raise ValueError("a wrong width")
    assert list(target.parent.iterdir()) == []


def test_rows_that_the_disk_lost_are_never_in_a_checkpoint(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "_CHECKPOINT_SECONDS", 0)
    fsync, calls = os.fsync, []

    def refused_once(handle: int) -> None:  # Linux reports a failed write only once
        calls.append(handle)
        if len(calls) == 5:  # after two checkpoints, of two fsyncs each
            raise OSError(errno.EIO, "Input/output error")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refused_once)
    with pytest.raises(OSError, match=r"cannot write .*Input/output error") as raised:
        append_each(ResumableFile(target, SHAPE, MADE_FROM))
    assert raised.value.__notes__ == [f"2 of 10 rows are kept in {target}.part: run again to resume"]
    assert json.loads(Path(f"{target}.part.json").read_text())["done"] == 2


def append_each(file: ResumableFile) -> None:
    with file.writing():
        for row in CODES:
            file.append(row[None])


def test_a_restarted_file_has_no_old_checkpoint(target: Path) -> None:
    interrupted(target, 4)
    with ResumableFile(target, SHAPE, MADE_FROM, restart=True).writing():
        assert [path.name for path in target.parent.iterdir()] == ["codes.npy.part"]


def test_the_lock_is_held_until_the_target_is_written(tmp_path: Path) -> None:
    target = tmp_path / "codes.csv"

    def write_csv(path: Path, rows: np.ndarray) -> None:
        with pytest.raises(ValueError, match="being written by another process"):  # noqa: SIM117
            with ResumableFile(target, SHAPE, MADE_FROM, restart=True).writing():
                pytest.fail("the file was opened")
        np.savetxt(path, rows, "%d", ",")

    with (file := ResumableFile(target, SHAPE, MADE_FROM, write=write_csv)).writing():
        file.append(CODES)
    assert np.array_equal(np.loadtxt(target, delimiter=","), CODES)
    assert [path.name for path in tmp_path.iterdir()] == ["codes.csv"]


def test_a_file_that_was_finished_while_another_process_waited_is_unchanged(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = resumable._lock

    def late(file: object, path: Path) -> None:
        monkeypatch.undo()
        with (first := ResumableFile(target, SHAPE, MADE_FROM)).writing():  # opened later, finished earlier
            first.append(CODES)
        lock(file, path)

    monkeypatch.setattr(resumable, "_lock", late)
    with pytest.raises(KeyboardInterrupt), ResumableFile(target, SHAPE, MADE_FROM).writing():
        raise KeyboardInterrupt
    assert np.array_equal(np.load(target), CODES)


def test_two_processes_do_not_write_one_file(target: Path) -> None:
    with ResumableFile(target, SHAPE, MADE_FROM).writing():  # noqa: SIM117
        with pytest.raises(ValueError, match="being written by another process"):
            with ResumableFile(target, SHAPE, MADE_FROM).writing():
                pytest.fail("the file was opened")


def test_a_disk_that_is_full_from_the_start_leaves_nothing(target: Path) -> None:
    with full_disk(50), pytest.raises(OSError, match=r"cannot write .*: File too large\. Free disk space"):
        write_and_fail(ResumableFile(target, SHAPE, MADE_FROM), CODES, AssertionError("the file was written"))
    assert not list(target.parent.iterdir())


@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "another file", "pipe"])
def test_a_part_file_that_is_not_ours_is_never_changed(target: Path, kind: str) -> None:
    precious, part = target.parent / "precious", Path(f"{target}.part")
    precious.write_bytes(b"not codes")
    make = {
        "symbolic link": lambda: part.symlink_to(precious),
        "hard link": lambda: part.hardlink_to(precious),
        "another file": lambda: part.write_bytes(b"not codes"),
        "pipe": lambda: os.mkfifo(part),
    }
    make[kind]()
    with (
        pytest.raises(ResumeError, match=r"codes\.npy\.part (is a link|exists).*choose another target"),
        ResumableFile(target, SHAPE, MADE_FROM).writing(),
    ):
        pytest.fail("the file was opened")
    assert precious.read_bytes() == b"not codes"
    assert part.is_fifo() or part.read_bytes() == b"not codes"


def test_a_new_checkpoint_does_not_follow_a_link(target: Path) -> None:
    precious = target.parent / "precious"
    precious.write_bytes(b"not codes")
    Path(f"{target}.part.json.new").symlink_to(precious)
    with (file := ResumableFile(target, SHAPE, MADE_FROM)).writing():
        file.append(CODES)
    assert precious.read_bytes() == b"not codes"


def test_a_checkpoint_that_is_not_ours_is_kept(target: Path) -> None:
    Path(f"{target}.part.json").write_text("notes")
    with (
        pytest.raises(ResumeError, match=r"part\.json is damaged"),
        ResumableFile(target, SHAPE, MADE_FROM).writing(),
    ):
        pytest.fail("the file was opened")
    assert Path(f"{target}.part.json").read_text() == "notes"


def test_a_process_killed_before_its_first_checkpoint_can_be_run_again(target: Path) -> None:
    np.save(target, CODES)
    content = target.read_bytes()
    target.unlink()
    for length in (0, 7, len(content) - 12, len(content)):
        Path(f"{target}.part").write_bytes(content[:length])
        with (file := ResumableFile(target, SHAPE, MADE_FROM)).writing():
            assert file.done == 0
            file.append(CODES)
        assert target.read_bytes() == content


@pytest.mark.parametrize("interrupt", [False, True])
def test_a_new_part_file_of_another_process_is_not_removed(
    target: Path, monkeypatch: pytest.MonkeyPatch, interrupt: bool
) -> None:
    replace = os.replace

    def replace_and_start_again(source: Path, destination: Path) -> None:
        replace(source, destination)
        if Path(destination) == target:
            Path(f"{target}.part").write_bytes(b"new rows")
            Path(f"{target}.part.json").write_bytes(b"their checkpoint")
            if interrupt:
                raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace_and_start_again)
    file = ResumableFile(target, SHAPE, MADE_FROM)
    try:
        with file.writing():
            file.append(CODES)
    except KeyboardInterrupt:
        assert interrupt
    assert Path(f"{target}.part").read_bytes() == b"new rows"
    assert Path(f"{target}.part.json").read_bytes() == b"their checkpoint"
    assert np.array_equal(np.load(target), CODES)


def test_a_link_to_the_target_is_followed_and_the_mode_is_kept(target: Path) -> None:
    real = target.with_name("real.npy")
    real.touch(0o600)
    target.symlink_to(real)
    with (file := ResumableFile(target, SHAPE, MADE_FROM)).writing():
        assert Path(f"{real}.part").stat().st_mode & 0o777 == 0o600
        file.append(CODES)
    assert target.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert np.array_equal(np.load(real), CODES)
