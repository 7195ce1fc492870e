"""``manihash encode`` is resumable: after an interrupt, a crash or a full disk the bytes are the same."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command import full_disk, run, stderr_line

import manihash
from manihash.cli import _inputs
from manihash.files import formats
from manihash.files.resumable import ResumableFile
from manihash.hashers import LSH


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with vectors, a model of them, and the expected codes."""
    path = tmp_path_factory.mktemp("made")
    X = np.random.default_rng(0).integers(0, 256, (200_000, 32), np.uint8)
    np.save(path / "X.npy", X)
    hasher = LSH(n_bits=320, random_state=0).fit(X[:500])
    hasher.save(path / "model.mhash")
    np.save(path / "expected.npy", hasher.encode(X))
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder, which a test can write to."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def encode(prelude: str = "", *more: str) -> subprocess.Popen[str]:
    """Start the command in a process, with a checkpoint every hundredth of a second."""
    checkpoints = (
        "import manihash.files.resumable as f, manihash.rows.local as r\n"
        "f._CHECKPOINT_SECONDS = r._STREAM_SECONDS = 0.01"
    )
    code = f"{checkpoints}\n{prelude}\nfrom manihash.cli import main; main()"
    arguments = ["encode", "model.mhash", "X.npy", "-o", "codes.npy", "--json", *more]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def rows_saved() -> int:
    try:
        return int(json.loads(Path("codes.npy.part.json").read_text())["done"])
    except FileNotFoundError:
        return 0


@pytest.mark.slow
def test_a_command_that_is_killed_repeatedly_writes_the_same_bytes(folder: Path) -> None:
    draw = random.Random(0)
    for _ in range(2):  # make torture kills it more often
        before, process = rows_saved(), encode()
        while rows_saved() == before and process.poll() is None:
            time.sleep(0.002)
        time.sleep(draw.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if Path("codes.npy").exists():  # complete, or not there
            assert Path("codes.npy").read_bytes() == Path("expected.npy").read_bytes()
            break
        assert rows_saved() >= before
    last = encode()
    _, errors = last.communicate()
    assert last.returncode == 0, errors
    assert Path("codes.npy").read_bytes() == Path("expected.npy").read_bytes()
    assert {path.name for path in folder.iterdir()} == {"X.npy", "model.mhash", "codes.npy", "expected.npy"}


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_the_next_run_resumes_after_a_signal(folder: Path, number: int, code: int, word: str) -> None:
    handler = "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    slow = (
        "append = f.ResumableFile.append; f.ResumableFile.append = lambda *a: (append(*a), time.sleep(0.1))"
    )
    process = encode(handler + slow)
    while not rows_saved() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(number)
    out, errors = process.communicate()
    assert process.returncode == code, errors
    assert out == ""
    done = rows_saved()
    assert 0 < done < 200_000
    kept = f"{done:,} of 200,000 rows are kept in codes.npy.part: run again to resume"
    assert errors == f"error: {word}; {kept}\n"
    assert not Path("codes.npy").exists()
    out, _ = encode().communicate()
    assert json.loads(out)["first_row"] == done
    assert Path("codes.npy").read_bytes() == Path("expected.npy").read_bytes()


@pytest.mark.slow
def test_the_next_run_resumes_after_a_full_disk(folder: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))"
    full = encode(limit)
    out, errors = full.communicate()
    assert full.returncode == 2
    assert out == ""
    assert "Free disk space;" in errors
    assert "rows are kept in codes.npy.part: run again to resume" in errors
    done = rows_saved()
    assert 0 < done < 200_000
    assert not Path("codes.npy").exists()
    out, _ = encode().communicate()
    assert json.loads(out)["first_row"] == done
    assert Path("codes.npy").read_bytes() == Path("expected.npy").read_bytes()


def interrupted_command(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, *more: str) -> str:
    """The message of an encoding that fails with this error after its first block."""
    append = ResumableFile.append

    def append_and_fail(self: ResumableFile, rows: np.ndarray) -> None:
        append(self, rows)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(ResumableFile, "append", append_and_fail)
        return stderr_line(run("encode", "model.mhash", "X.npy", "-o", "codes.npy", *more, code=code))


@pytest.mark.parametrize("more", [(), ("--restart",)])
def test_a_wrong_option_or_input_keeps_the_part_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    interrupted_command(monkeypatch, KeyboardInterrupt(), 130)
    before = Path("codes.npy.part").read_bytes(), Path("codes.npy.part.json").read_text()
    np.save("narrow.npy", np.load("X.npy")[:, :5])
    for wrong in (["X.npy", "--precision", "fp16"], ["narrow.npy"]):
        run("encode", "model.mhash", *wrong, "-o", "codes.npy", *more, code=2)
        assert (Path("codes.npy.part").read_bytes(), Path("codes.npy.part.json").read_text()) == before


def test_a_part_file_of_another_model_or_input_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = interrupted_command(monkeypatch, KeyboardInterrupt(), 130)
    assert "rows are kept in codes.npy.part" in message
    X = np.load("X.npy")
    other = LSH(n_bits=320, random_state=1).fit(X[:500])
    other.save("other.mhash")
    np.save("other.npy", X[::-1])
    for arguments in (["other.mhash", "X.npy"], ["model.mhash", "other.npy"]):
        result = run("encode", *arguments, "-o", "codes.npy", code=2)
        assert "hint: --restart starts over, -o names another output file" in stderr_line(result)
    run("encode", "other.mhash", "X.npy", "-o", "codes.npy", "--restart")
    assert np.array_equal(np.load("codes.npy"), other.encode(X))


def test_an_error_outside_the_rows_keeps_the_part_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = interrupted_command(monkeypatch, ConnectionError("the cluster is gone"), 2)
    done = rows_saved()
    assert done > 0
    assert f"the cluster is gone; {done:,} of 200,000 rows are kept in codes.npy.part: run again" in message
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy", "--precision=none", code=2)
    assert rows_saved() == done
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy")
    assert Path("codes.npy").read_bytes() == Path("expected.npy").read_bytes()


def test_a_disk_too_full_for_the_final_format_keeps_the_codes(folder: Path) -> None:
    np.save("few.npy", np.load("X.npy")[:3000])
    with full_disk(200_000):  # the codes take 120,000 bytes, and three times as many as text
        message = stderr_line(run("encode", "model.mhash", "few.npy", "-o", "codes.csv", code=2))
    assert "cannot write codes.csv: File too large. Free disk space" in message
    assert "3,000 of 3,000 rows are kept in codes.csv.part: run again to resume" in message
    assert not Path("codes.csv").exists()
    assert (
        json.loads(run("encode", "model.mhash", "few.npy", "-o", "codes.csv", "--json").stdout)["first_row"]
        == 3000
    )
    assert not list(folder.glob("*.part*"))


def _skip_without_library_of(name: str) -> None:
    library = {".hdf5": "h5py", ".parquet": "pyarrow"}.get(Path(name).suffix)
    if library:
        pytest.importorskip(library)


@pytest.mark.parametrize("name", ["k.hdf5", "k.npz", "k.parquet"])
def test_two_arrays_of_one_file_are_two_inputs(tmp_path: Path, name: str) -> None:
    _skip_without_library_of(name)
    A = np.zeros((10_000, 8), np.float32)
    formats.write(tmp_path / name, {"a": A, "b": A})
    one, other, again = (_inputs.fingerprint(f"{tmp_path / name}:{key}") for key in "aba")
    assert one != other
    assert one == again


def test_the_fingerprint_of_a_file_does_not_decode_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _skip_without_library_of("x.parquet")
    formats.write(tmp_path / "x.parquet", np.zeros((10, 8), np.float32))
    monkeypatch.setattr(formats, "open_vectors", lambda path: pytest.fail("the file was opened"))
    assert _inputs.fingerprint(str(tmp_path / "x.parquet"))


@pytest.mark.parametrize("place", [0, 200_128, 1_000_000, 2_000_127])
def test_an_input_that_was_changed_in_place_has_another_fingerprint(tmp_path: Path, place: int) -> None:
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
def test_a_part_file_of_another_device_precision_or_version_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_torch = ["model.mhash", "X.npy", "--device", "cpu"]
    interrupted_command(monkeypatch, KeyboardInterrupt(), 130, "--device", "cpu")
    for other in (["model.mhash", "X.npy"], [*on_torch, "--precision", "tf32"]):
        message = stderr_line(run("encode", *other, "-o", "codes.npy", code=2))
        assert "made with another arithmetic (--device, --precision)" in message
    with monkeypatch.context() as patch:
        patch.setattr(manihash, "__version__", "0.0.1")
        message = stderr_line(run("encode", *on_torch, "-o", "codes.npy", code=2))
        assert "made with another version of manihash" in message
    run("encode", *on_torch, "-o", "codes.npy")


@pytest.mark.parametrize(
    "name", ["codes.bvecs", "codes.idx", "codes.npz", "codes.hdf5", "codes.parquet", "codes.csv"]
)
def test_every_format_is_written_from_the_part_file(folder: Path, name: str) -> None:
    _skip_without_library_of(name)
    np.save("few.npy", np.load("X.npy")[:3000])
    run("encode", "model.mhash", "few.npy", "-o", name)
    assert np.array_equal(formats.read(name), np.load("expected.npy")[:3000])
    assert not Path(f"{name}.part").exists()


def test_nan_is_named_by_its_row_and_nothing_is_left(folder: Path) -> None:
    X = np.zeros((400 * 2048, 2), np.float32)
    X[17 * 2048 + 5] = np.nan
    np.save("bad.npy", X)
    LSH(n_bits=8, random_state=0).fit(X[:10] + np.arange(10)[:, None]).save("narrow.mhash")
    before = set(folder.iterdir())
    message = stderr_line(run("encode", "narrow.mhash", "bad.npy", "-o", "codes.npy", code=2))
    assert f"contains NaN: the first such row is {17 * 2048 + 5}." in message
    assert set(folder.iterdir()) == before
