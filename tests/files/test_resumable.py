"""Encoding that is broken off goes on where it stopped: the same bytes, and nothing only looks finished."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command import full_disk, run, stderr_line

import manihash
from manihash import LSH
from manihash.checks import BadRowsError
from manihash.cli import _inputs
from manihash.files import formats, resumable
from manihash.files.resumable import ResumableFile

SHAPE = (10, 3)
CODES = np.arange(30, dtype=np.uint8).reshape(SHAPE)
FROM = {"model": "a", "input": "b"}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "codes.npy"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with vectors, a model of them, and its codes as they should be."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).integers(0, 256, (200_000, 32), np.uint8)
    np.save("X.npy", X)
    hasher = LSH(n_bits=320, random_state=0).fit(X[:500])
    hasher.save("model.mhash")
    np.save("wanted.npy", hasher.encode(X))
    return tmp_path


def encode(prelude: str = "", *more: str) -> subprocess.Popen[str]:
    """The command in a process of its own, which makes what it has safe every hundredth of a second."""
    often = (
        "import manihash.files.resumable as f, manihash.rows.local as r\n"
        "f._CHECKPOINT_SECONDS = r._STREAM_SECONDS = 0.01"
    )
    code = f"{often}\n{prelude}\nfrom manihash.cli import main; main()"
    arguments = ["encode", "model.mhash", "X.npy", "-o", "codes.npy", "--json", *more]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def rows_noted() -> int:
    try:
        return int(json.loads(Path("codes.npy.part.json").read_text())["done"])
    except FileNotFoundError:
        return 0


def write(file: ResumableFile, rows: np.ndarray, error: BaseException) -> None:
    with file.writing():
        file.append(rows)
        raise error


def broken_off(target: Path, rows: int) -> None:
    file = ResumableFile(target, SHAPE, FROM)
    with pytest.raises(KeyboardInterrupt, match=rf"{rows} of 10 rows are kept in .*codes\.npy\.part"):
        write(file, CODES[:rows], KeyboardInterrupt())


def test_a_file_takes_its_name_when_it_is_whole_and_not_before(target: Path) -> None:
    file = ResumableFile(target, SHAPE, FROM)
    with file.writing():
        for start in range(0, 10, 4):
            file.append(CODES[start : start + 4])
            assert not target.exists()
    assert np.array_equal(np.load(target), CODES)
    assert [path.name for path in target.parent.iterdir()] == ["codes.npy"]


@pytest.mark.parametrize("torn", [0, 2, 100])
def test_it_goes_on_after_the_rows_that_are_safe(target: Path, torn: int) -> None:
    broken_off(target, 4)
    with open(f"{target}.part", "ab") as file:
        file.write(bytes(torn))  # of a block that was being written when the process died
    again = ResumableFile(target, SHAPE, FROM)
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
    file = ResumableFile(target, SHAPE, FROM)
    with file.writing():
        assert file.done == 4
        file.append(CODES[4:])
    assert target.read_bytes() == content


@pytest.mark.parametrize("name", FROM)
def test_what_was_made_from_something_else_is_refused_and_kept(target: Path, name: str) -> None:
    broken_off(target, 4)
    before = Path(f"{target}.part").read_bytes()
    with pytest.raises(ValueError, match=f"4 rows made with another {name}: discard it with restart=True"):  # noqa: SIM117
        with ResumableFile(target, SHAPE, {**FROM, name: "other"}).writing():
            pytest.fail("it was opened")
    assert Path(f"{target}.part").read_bytes() == before
    anew = ResumableFile(target, SHAPE, {**FROM, name: "other"}, restart=True)
    with anew.writing():
        assert anew.done == 0
        anew.append(CODES)
    assert np.array_equal(np.load(target), CODES)


@pytest.mark.parametrize(
    "notes", ["", "[]", "{}", '{"made_from": {"model": "a", "input": "b"}, "done": "x"}']
)
def test_damaged_notes_are_refused(target: Path, notes: str) -> None:
    broken_off(target, 4)
    Path(f"{target}.part.json").write_text(notes)
    with (
        pytest.raises(ValueError, match=r"damaged.*restart=True"),
        ResumableFile(target, SHAPE, FROM).writing(),
    ):
        pytest.fail("it was opened")


def test_a_part_that_lost_rows_is_refused(target: Path) -> None:
    broken_off(target, 4)
    os.truncate(f"{target}.part", Path(f"{target}.part").stat().st_size - 1)
    with pytest.raises(ValueError, match="shorter than"), ResumableFile(target, SHAPE, FROM).writing():
        pytest.fail("it was opened")


def test_notes_without_a_part_are_of_a_run_that_ended(target: Path) -> None:
    broken_off(target, 4)
    Path(f"{target}.part").unlink()
    file = ResumableFile(target, SHAPE, FROM)
    with file.writing():
        assert file.done == 0
        file.append(CODES)


@pytest.mark.parametrize("rows_before", [0, 4])
def test_bad_rows_leave_nothing_behind(target: Path, rows_before: int) -> None:
    if rows_before:
        broken_off(target, rows_before)
    with pytest.raises(BadRowsError, match="NaN"):
        write(ResumableFile(target, SHAPE, FROM), CODES[rows_before:6], BadRowsError("NaN"))
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    "error", [ValueError("a wrong width"), OSError(5, "cannot read X.hdf5"), MemoryError()]
)
def test_any_other_error_keeps_the_rows_and_says_so(target: Path, error: Exception) -> None:
    broken_off(target, 4)
    with pytest.raises(type(error)) as raised:
        write(ResumableFile(target, SHAPE, FROM), CODES[4:6], error)
    assert raised.value.__notes__ == [f"6 of 10 rows are kept in {target}.part: run again to resume"]
    again = ResumableFile(target, SHAPE, FROM)
    with again.writing():
        assert again.done == 6
        again.append(CODES[6:])
    assert np.array_equal(np.load(target), CODES)


def test_a_part_without_rows_is_not_left(target: Path) -> None:
    with pytest.raises(ValueError, match="a wrong width"), ResumableFile(target, SHAPE, FROM).writing():
        raise ValueError("a wrong width")
    assert list(target.parent.iterdir()) == []


def test_rows_that_the_disk_refused_are_never_noted_as_safe(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "_CHECKPOINT_SECONDS", 0)
    fsync, calls = os.fsync, []

    def refused_once(handle: int) -> None:  # as Linux does: a write that failed is told once
        calls.append(handle)
        if len(calls) == 5:  # the rows and the notes of two saves went well
            raise OSError(errno.EIO, "Input/output error")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refused_once)
    with pytest.raises(OSError, match=r"cannot write .*Input/output error") as raised:
        append_each(ResumableFile(target, SHAPE, FROM))
    assert raised.value.__notes__ == [f"2 of 10 rows are kept in {target}.part: run again to resume"]
    assert json.loads(Path(f"{target}.part.json").read_text())["done"] == 2


def append_each(file: ResumableFile) -> None:
    with file.writing():
        for row in CODES:
            file.append(row[None])


def test_a_file_begun_anew_has_no_notes_of_the_old_one(target: Path) -> None:
    broken_off(target, 4)
    with ResumableFile(target, SHAPE, FROM, restart=True).writing():
        assert [path.name for path in target.parent.iterdir()] == ["codes.npy.part"]


def test_the_lock_is_held_until_the_target_is_written(tmp_path: Path) -> None:
    target = tmp_path / "codes.csv"

    def write_csv(path: Path, rows: np.ndarray) -> None:
        with pytest.raises(ValueError, match="being written by another process"):  # noqa: SIM117
            with ResumableFile(target, SHAPE, FROM, restart=True).writing():
                pytest.fail("it was opened")
        np.savetxt(path, rows, "%d", ",")

    with (file := ResumableFile(target, SHAPE, FROM, write=write_csv)).writing():
        file.append(CODES)
    assert np.array_equal(np.loadtxt(target, delimiter=","), CODES)
    assert [path.name for path in tmp_path.iterdir()] == ["codes.csv"]


def test_a_file_that_took_its_name_while_another_process_waited_is_not_touched(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = resumable._lock

    def late(file: object, path: Path) -> None:
        monkeypatch.undo()
        with (first := ResumableFile(target, SHAPE, FROM)).writing():  # opened later, and ended earlier
            first.append(CODES)
        lock(file, path)

    monkeypatch.setattr(resumable, "_lock", late)
    with pytest.raises(KeyboardInterrupt), ResumableFile(target, SHAPE, FROM).writing():
        raise KeyboardInterrupt
    assert np.array_equal(np.load(target), CODES)


def test_two_processes_do_not_write_one_file(target: Path) -> None:
    with ResumableFile(target, SHAPE, FROM).writing():  # noqa: SIM117
        with pytest.raises(ValueError, match="being written by another process"):
            with ResumableFile(target, SHAPE, FROM).writing():
                pytest.fail("it was opened")


def test_killed_again_and_again_the_command_writes_the_same_bytes(folder: Path) -> None:
    draw = random.Random(0)
    for _ in range(3):
        before, process = rows_noted(), encode()
        while rows_noted() == before and process.poll() is None:
            time.sleep(0.002)
        time.sleep(draw.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if Path("codes.npy").exists():  # whole, or not there
            assert Path("codes.npy").read_bytes() == Path("wanted.npy").read_bytes()
            break
        assert rows_noted() >= before
    last = encode()
    _, errors = last.communicate()
    assert last.returncode == 0, errors
    assert Path("codes.npy").read_bytes() == Path("wanted.npy").read_bytes()
    assert {path.name for path in folder.iterdir()} == {"X.npy", "model.mhash", "codes.npy", "wanted.npy"}


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_a_signal_leaves_what_was_done_for_the_next_run(
    folder: Path, number: int, code: int, word: str
) -> None:
    hear = "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    slow = (
        "append = f.ResumableFile.append; f.ResumableFile.append = lambda *a: (append(*a), time.sleep(0.1))"
    )
    process = encode(hear + slow)
    while not rows_noted() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(number)
    out, errors = process.communicate()
    assert process.returncode == code, errors
    assert out == ""
    done = rows_noted()
    assert 0 < done < 200_000
    kept = f"{done:,} of 200,000 rows are kept in codes.npy.part: run again to resume"
    assert errors == f"error: {word}; {kept}\n"
    assert not Path("codes.npy").exists()
    out, _ = encode().communicate()
    assert json.loads(out)["first_row"] == done
    assert Path("codes.npy").read_bytes() == Path("wanted.npy").read_bytes()


def test_a_disk_that_fills_leaves_what_was_done_for_the_next_run(folder: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))"
    full = encode(limit)
    out, errors = full.communicate()
    assert full.returncode == 2
    assert out == ""
    assert "Free disk space;" in errors
    assert "rows are kept in codes.npy.part: run again to resume" in errors
    done = rows_noted()
    assert 0 < done < 200_000
    assert not Path("codes.npy").exists()
    out, _ = encode().communicate()
    assert json.loads(out)["first_row"] == done
    assert Path("codes.npy").read_bytes() == Path("wanted.npy").read_bytes()


def broken_off_command(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, *more: str) -> str:
    """What an encoding says that ends so after its first block."""
    append = ResumableFile.append

    def and_break_off(self: ResumableFile, rows: np.ndarray) -> None:
        append(self, rows)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(resumable.ResumableFile, "append", and_break_off)
        return stderr_line(run("encode", "model.mhash", "X.npy", "-o", "codes.npy", *more, code=code))


@pytest.mark.parametrize("more", [(), ("--restart",)])
def test_a_wrong_option_or_input_does_not_touch_the_rows_that_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    broken_off_command(monkeypatch, KeyboardInterrupt(), 130)
    before = Path("codes.npy.part").read_bytes(), Path("codes.npy.part.json").read_text()
    np.save("narrow.npy", np.load("X.npy")[:, :5])
    for wrong in (["X.npy", "--precision", "fp16"], ["narrow.npy"]):
        run("encode", "model.mhash", *wrong, "-o", "codes.npy", *more, code=2)
        assert (Path("codes.npy.part").read_bytes(), Path("codes.npy.part.json").read_text()) == before


def test_a_part_of_another_model_or_input_is_refused_by_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = broken_off_command(monkeypatch, KeyboardInterrupt(), 130)
    assert "rows are kept in codes.npy.part" in said
    X = np.load("X.npy")
    other = LSH(n_bits=320, random_state=1).fit(X[:500])
    other.save("other.mhash")
    np.save("other.npy", X[::-1])
    for arguments_of in (["other.mhash", "X.npy"], ["model.mhash", "other.npy"]):
        result = run("encode", *arguments_of, "-o", "codes.npy", code=2)
        assert "hint: --restart starts over, -o names another output file" in stderr_line(result)
    run("encode", "other.mhash", "X.npy", "-o", "codes.npy", "--restart")
    assert np.array_equal(np.load("codes.npy"), other.encode(X))


def test_what_goes_wrong_beside_the_rows_keeps_what_was_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = broken_off_command(monkeypatch, ConnectionError("the cluster went away"), 2)
    done = rows_noted()
    assert done > 0
    assert f"the cluster went away; {done:,} of 200,000 rows are kept in codes.npy.part: run again" in said
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy", "--precision=none", code=2)
    assert rows_noted() == done
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy")
    assert Path("codes.npy").read_bytes() == Path("wanted.npy").read_bytes()


def test_a_disk_that_is_full_from_the_start_leaves_nothing(target: Path) -> None:
    with full_disk(50), pytest.raises(OSError, match=r"cannot write .*: File too large\. Free disk space"):
        write(ResumableFile(target, SHAPE, FROM), CODES, AssertionError("it was written"))
    assert not list(target.parent.iterdir())


def test_a_disk_too_full_for_another_format_keeps_the_codes(folder: Path) -> None:
    np.save("few.npy", np.load("X.npy")[:3000])
    with full_disk(200_000):  # the codes take 120,000 bytes, and thrice as many as text
        said = stderr_line(run("encode", "model.mhash", "few.npy", "-o", "codes.csv", code=2))
    assert "cannot write codes.csv: File too large. Free disk space" in said
    assert "3,000 of 3,000 rows are kept in codes.csv.part: run again to resume" in said
    assert not Path("codes.csv").exists()
    assert (
        json.loads(run("encode", "model.mhash", "few.npy", "-o", "codes.csv", "--json").stdout)["first_row"]
        == 3000
    )
    assert not list(folder.glob("*.part*"))


@pytest.mark.parametrize("name", ["k.hdf5", "k.npz", "k.parquet"])
def test_two_arrays_of_one_file_are_two_inputs(tmp_path: Path, name: str) -> None:
    A = np.zeros((10_000, 8), np.float32)
    formats.write(tmp_path / name, {"a": A, "b": A})
    one, other, again = (_inputs.fingerprint(f"{tmp_path / name}:{key}") for key in "aba")
    assert one != other
    assert one == again


def test_the_fingerprint_of_a_file_decodes_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    formats.write(tmp_path / "x.parquet", np.zeros((10, 8), np.float32))
    monkeypatch.setattr(formats, "open_vectors", lambda path: pytest.fail("it was opened"))
    assert _inputs.fingerprint(str(tmp_path / "x.parquet"))


@pytest.mark.parametrize("place", [0, 200_128, 1_000_000, 2_000_127])
def test_an_input_that_was_changed_in_place_is_another(tmp_path: Path, place: int) -> None:
    path = tmp_path / "X.npy"
    np.save(path, np.zeros((500_000, 4), np.uint8))
    before, time_before = _inputs.fingerprint(str(path)), path.stat().st_mtime_ns
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(bytes(range(1, 255)) * (200 if 0 < place < 2_000_000 else 1))
    os.truncate(path, 2_000_128)
    os.utime(path, ns=(time_before, time_before))
    assert _inputs.fingerprint(str(path)) != before


@pytest.mark.extra
def test_a_part_of_another_device_precision_or_version_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_torch = ["model.mhash", "X.npy", "--device", "cpu"]
    broken_off_command(monkeypatch, KeyboardInterrupt(), 130, "--device", "cpu")
    for other in (["model.mhash", "X.npy"], [*on_torch, "--precision", "tf32"]):
        said = stderr_line(run("encode", *other, "-o", "codes.npy", code=2))
        assert "made with another arithmetic (--device, --precision)" in said
    with monkeypatch.context() as patch:
        patch.setattr(manihash, "__version__", "0.0.1")
        said = stderr_line(run("encode", *on_torch, "-o", "codes.npy", code=2))
        assert "made with another version of manihash" in said
    run("encode", *on_torch, "-o", "codes.npy")


@pytest.mark.parametrize(
    "name", ["codes.bvecs", "codes.idx", "codes.npz", "codes.hdf5", "codes.parquet", "codes.csv"]
)
def test_every_format_is_written_from_the_same_part(folder: Path, name: str) -> None:
    np.save("few.npy", np.load("X.npy")[:3000])
    run("encode", "model.mhash", "few.npy", "-o", name)
    assert np.array_equal(formats.read(name), np.load("wanted.npy")[:3000])
    assert not Path(f"{name}.part").exists()


def test_nan_is_named_by_its_row_and_nothing_is_left(folder: Path) -> None:
    X = np.zeros((400 * 2048, 2), np.float32)
    X[17 * 2048 + 5] = np.nan
    np.save("bad.npy", X)
    LSH(n_bits=8, random_state=0).fit(X[:10] + np.arange(10)[:, None]).save("narrow.mhash")
    before = set(folder.iterdir())
    said = stderr_line(run("encode", "narrow.mhash", "bad.npy", "-o", "codes.npy", code=2))
    assert f"contains NaN: the first such row is {17 * 2048 + 5}." in said
    assert set(folder.iterdir()) == before
