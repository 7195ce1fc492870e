"""Downloads: complete and verified, or not kept; errors say what to do."""

import ftplib
import hashlib
import http.server
import io
import logging
import socket
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manihash.datasets import CATALOG, load_dataset, write
from manihash.datasets.download import extract, fetch
from manihash.datasets.locations import PublishedFile, cache_folder, locate
from manihash.errors import DataFileError, MissingDataError


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves ``content``; /half promises all of it, sends half and closes the connection."""

    content = bytes(range(256)) * 9000

    def do_GET(self) -> None:
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content[: len(self.content) // 2] if self.path == "/half" else self.content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """The address of an HTTP server on this machine."""
    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http_server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http_server.server_port}"
    http_server.shutdown()
    http_server.server_close()
    thread.join()


SHA256 = hashlib.sha256(Handler.content).hexdigest()


def test_a_download_is_complete_and_logs_its_progress(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "new folder" / "file.bin"
    with caplog.at_level(logging.DEBUG, "manihash.progress"):
        fetch(f"{server}/file.bin", target, SHA256)
    assert target.read_bytes() == Handler.content
    records = [vars(record) for record in caplog.records]
    assert [r["done"] for r in records] == sorted(r["done"] for r in records)
    assert records[-1]["done"] == records[-1]["total"] == len(Handler.content)
    assert records[-1]["stage"] == "download file.bin"


def test_a_file_with_a_wrong_checksum_is_not_kept(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=f"sha256 {SHA256}, expected {'0' * 64}"):
        fetch(f"{server}/file.bin", tmp_path / "file.bin", "0" * 64)
    assert not list(tmp_path.iterdir())


def test_a_lost_connection_leaves_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(
        MissingDataError,
        match=f"{len(Handler.content) // 2} bytes read, {len(Handler.content) // 2} more expected",
    ):
        fetch(f"{server}/half", tmp_path / "file.bin", SHA256)
    assert not list(tmp_path.iterdir())


def test_an_interrupt_during_a_download_leaves_nothing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("manihash.datasets.download.advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(f"{server}/file.bin", tmp_path / "file.bin", SHA256)
    assert not list(tmp_path.iterdir())


class FTPServer(threading.Thread):
    """Serves Handler.content over FTP to one client after another, enough of the protocol for ftplib."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self) -> None:
        with suppress(OSError):  # the listener is closed at the end of the test
            while True:
                self.serve(self.listener.accept()[0])

    def serve(self, client: socket.socket) -> None:
        with client, client.makefile("rwb", 0) as control, socket.create_server(("127.0.0.1", 0)) as data:
            control.write(b"220 ready\r\n")
            high, low = divmod(data.getsockname()[1], 256)
            replies = {
                b"USER": b"230 welcome",
                b"TYPE": b"200 binary",
                b"SIZE": b"213 %d" % len(Handler.content),
                b"PASV": b"227 entering passive mode (127,0,0,1,%d,%d)" % (high, low),
                b"RETR": b"150 here it is",
                b"QUIT": b"221 goodbye",
            }
            while command := control.readline()[:4]:
                control.write(replies[command] + b"\r\n")
                if command == b"RETR":
                    with suppress(OSError), data.accept()[0] as connection:  # the client may hang up
                        connection.sendall(Handler.content)
                    control.write(b"226 done\r\n")


@pytest.fixture
def ftp(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a file on an FTP server on this machine, at the usual port as ftplib sees it."""
    server, connect = FTPServer(), ftplib.FTP.connect
    server.start()
    monkeypatch.setattr(ftplib.FTP, "connect", lambda self, host, port=21: connect(self, host, server.port))
    yield "ftp://127.0.0.1/file.bin"
    server.listener.close()


def test_a_file_on_an_ftp_server_is_downloaded_with_progress(
    ftp: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "manihash.progress"):
        fetch(ftp, tmp_path / "file.bin", SHA256)
    assert (tmp_path / "file.bin").read_bytes() == Handler.content
    assert {vars(record)["total"] for record in caplog.records} == {len(Handler.content)}


def test_an_interrupt_during_an_ftp_download_is_an_interrupt(
    ftp: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    def no_reply(self: ftplib.FTP) -> None:
        raise ftplib.error_temp("426 connection closed")

    monkeypatch.setattr("manihash.datasets.download.advance", interrupted)
    monkeypatch.setattr(ftplib.FTP, "quit", no_reply)
    monkeypatch.setattr(ftplib.FTP, "__exit__", lambda self, *error: None)
    with pytest.raises(KeyboardInterrupt):
        fetch(ftp, tmp_path / "file.bin", SHA256)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="the folder depends on the system")
def test_the_cache_is_where_earlier_versions_had_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MANIHASH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() == Path.home() / ".cache" / "manihash"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/manihash")
    monkeypatch.setenv("MANIHASH_CACHE", "~/own")
    assert cache_folder() == Path.home() / "own"


def test_a_downloaded_file_has_the_permissions_of_any_new_file(server: str, tmp_path: Path) -> None:
    fetch(f"{server}/file.bin", tmp_path / "file.bin", SHA256)
    (tmp_path / "other").touch()
    assert (tmp_path / "file.bin").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_the_next_address_is_tried_and_the_cache_is_used_afterwards(server: str, empty_home: Path) -> None:
    file = PublishedFile(
        "some/file.bin", SHA256, (f"{server}/missing", f"{server}/half", f"{server}/file.bin")
    )
    assert locate(file) == cache_folder() / "some/file.bin"
    offline = replace(file, urls=("http://127.0.0.1:9/file.bin",))
    assert locate(offline) == cache_folder() / "some/file.bin"


def test_the_error_without_a_network_names_the_address_and_both_folders(empty_home: Path) -> None:
    file = PublishedFile("some/file.bin", SHA256, ("http://127.0.0.1:9/file.bin",))
    with pytest.raises(MissingDataError) as caught:
        locate(file)
    for part in ("http://127.0.0.1:9/file.bin", str(empty_home / file.path), str(cache_folder() / file.path)):
        assert part in str(caught.value)


def test_the_data_folder_is_searched_before_the_cache(empty_home: Path) -> None:
    for folder in (empty_home, cache_folder()):
        folder.mkdir(exist_ok=True)
        (folder / "file.bin").write_bytes(Handler.content)
    assert locate(PublishedFile("file.bin", SHA256)) == empty_home / "file.bin"


def test_a_truncated_file_in_the_data_folder_is_refused(empty_home: Path) -> None:
    (empty_home / "file.bin").write_bytes(Handler.content[:1000])
    with pytest.raises(DataFileError, match=r"1000 bytes .* expected.*copy it again"):
        locate(PublishedFile("file.bin", SHA256))


def test_the_error_of_an_unwritable_cache_names_the_variable(
    server: str, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_home / "a file").touch()
    monkeypatch.setenv("MANIHASH_CACHE", str(empty_home / "a file" / "cache"))
    with pytest.raises(OSError, match="MANIHASH_CACHE"):
        locate(PublishedFile("file.bin", SHA256, (f"{server}/file.bin",)))


def _tar(path: Path, files: dict[str, bytes], *, link: str | None = None) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(info)


def test_only_the_named_members_are_extracted_from_an_archive(tmp_path: Path) -> None:
    _tar(tmp_path / "a.tar.gz", {"a/x": b"1", "../evil": b"2", "a/y": b"3"})
    extract(tmp_path / "a.tar.gz", ["a/x"], tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").rglob("*") if p.is_file()] == ["x"]
    assert not (tmp_path / "evil").exists()


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    _tar(tmp_path / "a.tar.gz", {}, link="a/x")
    with pytest.raises(DataFileError, match="does not contain a/x"):
        extract(tmp_path / "a.tar.gz", ["a/x"], tmp_path / "out")


def test_a_truncated_archive_leaves_no_member(tmp_path: Path) -> None:
    _tar(tmp_path / "a.tar.gz", {"a/x": np.random.default_rng(0).bytes(50000)})
    whole = (tmp_path / "a.tar.gz").read_bytes()
    for size in (0, 1, 300, len(whole) // 2, len(whole) - 9000):
        (tmp_path / "a.tar.gz").write_bytes(whole[:size])
        with pytest.raises(DataFileError, match=r"a\.tar\.gz"):
            extract(tmp_path / "a.tar.gz", ["a/x"], tmp_path / "out")
        assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file()]


def test_an_archive_of_corpus_texmex_is_downloaded_unpacked_and_removed(
    server: str, empty_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rows in (("base.fvecs", 50), ("query.fvecs", 7), ("groundtruth.ivecs", 7)):
        write(tmp_path / f"sift_{name}", np.zeros((rows, 8), np.int32))
    made = {f"sift/{path.name}": path.read_bytes() for path in tmp_path.glob("sift_*")}
    _tar(tmp_path / "sift.tar.gz", {**made, "sift/sift_learn.fvecs": b"not needed"})
    content = (tmp_path / "sift.tar.gz").read_bytes()
    monkeypatch.setattr(Handler, "content", content)
    file = PublishedFile("sift.tar.gz", hashlib.sha256(content).hexdigest(), (f"{server}/sift.tar.gz",))
    monkeypatch.setitem(CATALOG, "sift1m", replace(CATALOG["sift1m"], files=(file,)))
    assert load_dataset("sift1m").X_train.shape == (50, 8)
    assert sorted(p.name for p in cache_folder().rglob("*")) == ["sift", *sorted(Path(n).name for n in made)]
    assert load_dataset("sift1m").X_train.shape == (50, 8)
