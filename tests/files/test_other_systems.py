"""Windows as far as it can be tested elsewhere: paths, line endings, no fcntl, no fork, files in use."""

import os
import subprocess
import sys
from pathlib import PureWindowsPath

import numpy as np
import pytest

from manihash.cli._inputs import read_labels
from manihash.files.atomic import atomic_write
from manihash.stores import locations

BARE_SYSTEM = """
import os, signal, sys
sys.modules["fcntl"] = None
for name in ("fork", "register_at_fork", "sched_getaffinity", "getuid", "mkfifo", "getloadavg"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGALRM"):
    delattr(signal, name)
from manihash.cli import main
for line in sys.argv[1:]:
    sys.argv = ["manihash", *line.split(), "--quiet"]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise SystemExit(f"{line}: exit code {end.code}")
"""
LINES = (
    "fit vectors.npy --labels labels.txt --recipe ldahash --bits 8 -o model.mhash",
    "encode model.mhash vectors.npy -o codes.npy",
    "index codes.npy --model model.mhash -o codes.mhx",
    "search model.mhash codes.mhx vectors.npy -k 3 -o answers.npz",
    "export codes.npy --to codes.faiss --bits 8",
)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(10, 8))[rng.integers(10, size=300)] + rng.normal(size=(300, 8))
    np.save(tmp_path / "vectors.npy", X.astype(np.float32))
    return tmp_path


def test_commands_need_nothing_that_only_posix_systems_have(folder):
    (folder / "labels.txt").write_bytes(b"\r\n".join(b"%d" % (row % 3) for row in range(300)))
    command = [sys.executable, "-c", BARE_SYSTEM, *LINES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(np.load(folder / "answers.npz")["ids"]) == 3 * 300


@pytest.mark.parametrize(
    ("url", "opened", "path"),
    [
        (r"C:\data\codes.faiss", "FaissFile", r"C:\data\codes.faiss"),
        ("C:/data/codes.faiss", "FaissFile", r"C:\data\codes.faiss"),
        (r"D:\my data\codes.lance", "LanceTable", r"D:\my data\codes.lance"),
        (r"lance:D:\data", "LanceTable", r"D:\data\codes.lance"),
        (r"C:\data\codes.db", "SQLiteTable", r"C:\data\codes.db"),
        (r"duckdb:C:\data\codes", "DuckDBTable", r"C:\data\codes"),
        (r"\\server\share\codes.faiss", "FaissFile", r"\\server\share\codes.faiss"),
    ],
)
def test_a_path_with_a_drive_is_the_address_of_a_file(url, opened, path, monkeypatch):
    asked = []
    monkeypatch.setattr(locations, "Path", PureWindowsPath)
    monkeypatch.setattr(getattr(locations, opened), "open", lambda where, *more: asked.append(where))
    locations.location_of(url).open()
    assert asked == [PureWindowsPath(path)]


@pytest.mark.parametrize("name", ["labels.txt", "labels.csv"])
def test_labels_with_line_endings_of_windows_are_those_with_line_endings_of_unix(tmp_path, name):
    path = tmp_path / name
    path.write_bytes("\ufeffcat\r\ndog\r\n\r\n".encode())
    assert read_labels(str(path), 2).tolist() == ["cat", "dog"]


def test_keys_of_a_file_that_was_written_on_windows_are_read(tmp_path):
    pytest.importorskip("starlette")
    from manihash.web.api.keys import read_keys

    path, key = tmp_path / "keys.txt", "0123456789abcdef0123456789abcdef"
    path.write_bytes(f"\ufeff# keys\r\n{key}\r\n".encode())
    assert read_keys(path).accepts([(b"x-api-key", key.encode())])


def test_a_target_that_another_program_has_open_stays_whole(tmp_path, monkeypatch):
    """On Windows os.replace raises a PermissionError then."""
    target = tmp_path / "codes.npy"
    target.write_bytes(b"old")

    def refused(source, target):
        raise PermissionError(13, "The process cannot access the file", str(target))

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(PermissionError, match=r"codes\.npy"), atomic_write(target) as part:
        part.write_bytes(b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["codes.npy"]
