"""Atomic writes: links are followed, permissions are kept, and pipes and devices are not replaced."""

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from manihash.datasets import write
from manihash.files.atomic import atomic_write

CODES = np.arange(6, dtype=np.uint8).reshape(2, 3)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_is_followed(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "folder").mkdir()
    file, link = tmp_path / "folder" / "real.npy", tmp_path / "link.npy"
    if exists:
        file.write_bytes(b"old")
    link.symlink_to(Path("folder", "real.npy"))
    write(link, CODES)
    assert link.is_symlink()
    assert np.array_equal(np.load(file), CODES)
    assert sorted(os.listdir(tmp_path)) == ["folder", "link.npy"]
    assert os.listdir(tmp_path / "folder") == ["real.npy"]


def test_a_symbolic_link_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.npy").symlink_to("a.npy")
    with pytest.raises(OSError, match=r"cannot write .*a\.npy"):
        write(tmp_path / "a.npy", CODES)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_a_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "private.npy"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path, CODES)
    assert mode_of(path) == mode
    assert np.array_equal(np.load(path), CODES)


def test_nobody_else_can_read_the_new_content_of_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "private.npy"
    path.touch(0o600)
    with atomic_write(path) as part:
        assert mode_of(part) == 0o600


@pytest.mark.parametrize("umask", [0o077, 0o022, 0])
def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "new.npy", CODES)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new.npy") == 0o666 & ~umask


def test_the_umask_of_the_process_is_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("another thread may create a file now"))
    write(tmp_path / "new.npy", CODES)


def test_a_pipe_gets_the_content_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe.npy", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe, CODES)
    reader.join(timeout=10)
    np.save(tmp_path / "file.npy", CODES)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert read == [(tmp_path / "file.npy").read_bytes()]


def test_a_device_gets_the_content_and_stays_a_device(tmp_path: Path) -> None:
    (tmp_path / "null.npy").symlink_to("/dev/null")
    (tmp_path / "full.npy").symlink_to("/dev/full")
    write(tmp_path / "null.npy", CODES)
    with pytest.raises(OSError, match=r"cannot write .*full\.npy: No space left on device"):
        write(tmp_path / "full.npy", CODES)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["full.npy", "null.npy"]


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.npy")
        with pytest.raises(OSError, match="it is a disk or a socket"):
            write("s.npy", CODES)


def test_a_long_name_can_be_written(tmp_path: Path) -> None:
    write(tmp_path / f"{'é' * 125}.npy", CODES)
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows it is not known whether a process has ended")
def test_the_temporary_file_of_a_killed_process_is_removed_by_the_next_write(tmp_path):
    code = (
        "import os, signal, sys; from manihash.files.atomic import atomic_write\n"
        "with atomic_write(sys.argv[1]) as part:\n"
        "    part.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.npy")], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    with atomic_write(tmp_path / "x.npy") as part:
        part.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_the_temporary_file_of_a_living_writer_is_kept(tmp_path):
    with atomic_write(tmp_path / "x.npy") as first:
        first.write_text("first")
        with atomic_write(tmp_path / "x.npy") as second:
            second.write_text("second")
        assert first.read_text() == "first"
    assert (tmp_path / "x.npy").read_text() == "first"
