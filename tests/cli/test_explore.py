"""manihash explore and manihash report: files, invalid input, and the port."""

import re
import socket
from pathlib import Path

import numpy as np
import pytest
from command import run, stderr_line

from manihash import HammingIndex

pytest.importorskip("starlette")

LSH = ["--recipe=lsh", "--bits=12", "--quiet"]


@pytest.fixture(autouse=True)
def _in_folder(folder):
    """Work in the folder of vectors X.npy (300, 16) and labels y.npy."""


def test_a_file_is_written_with_a_model_that_is_fitted_first():
    result = run("explore", "X.npy", "--labels=y.npy", "--export=page.html", *LSH)
    assert result.stdout.startswith("page page.html (")
    assert "lsh" in Path("page.html").read_text("utf-8")


def test_a_base_set_that_is_larger_than_the_rows_is_made_smaller():
    np.save("few.npy", np.load("X.npy")[:100])
    run("explore", "few.npy", "--export=page.html", "--bits=12", "--quiet")
    assert Path("page.html").exists()


@pytest.mark.parametrize("command", ["explore", "report"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either a file of vectors or --data NAME"),
        (["X.npy", "--data=digits"], "either a file of vectors or --data NAME"),
        (["X.npy", "--images=a.npy", "--texts=b.txt"], "got --images and --texts: give one of them"),
        (["--data=digits", "--labels=y.npy"], "--labels cannot be used with --data"),
        (["no.npy"], "no file at no.npy"),
        (["X.npy", "--model=no.mhash"], "no model file at no.mhash"),
        (["X.npy", "--texts=no.txt"], "no file at no.txt"),
        (["X.npy", "--image-dir=no"], "no folder at no"),
        (["X.npy", "--image-dir=empty"], "empty holds no image"),
        (["X.npy", "--images=Q.npy"], "expected (n, height, width)"),
        (["X.npy", "--images=images.npy"], "got 20 images for the 300 rows of X.npy"),
        (["X.npy", "--texts=texts.txt"], "got 2 texts for the 300 rows of X.npy"),
        (["X.npy", "--labels=yq.npy"], "expected one label for each of 300 rows"),
        (["X.npy", "--texts=latin.txt"], "latin.txt is not UTF-8 text"),
        (["nan.npy"], "contains NaN: the first such row is 7"),
        (["X.npy", "--model=wide.mhash"], "wide.mhash was fitted to vectors of 4 columns, but X.npy holds"),
        (["three.npy"], "three.npy has 3 rows: give at least 10"),
    ],
)
def test_invalid_input_is_explained(command, arguments, message):
    X = np.load("X.npy")
    Path("empty").mkdir()
    Path("texts.txt").write_text("a\nb\n")
    Path("latin.txt").write_bytes(b"caf\xe9\n")
    np.save("images.npy", np.zeros((20, 4, 4), np.uint8))
    np.save("three.npy", X[:3])
    X[7, 3] = np.nan
    np.save("nan.npy", X)
    np.save("wide.npy", X[10:, :4])
    run("fit", "wide.npy", "--recipe=lsh", "--bits=8", "-o", "wide.mhash")
    target = ["--export=page.html"] if command == "explore" else ["-o", "out"]
    result = run(command, *arguments, *target, *LSH, code=2)
    assert message in stderr_line(result)
    assert not Path("page.html").exists()
    assert not Path("out").exists()


def test_a_file_that_is_an_input_is_not_overwritten():
    result = run("explore", "X.npy", "--export=X.npy", *LSH, code=2)
    assert "X.npy is also an input file" in stderr_line(result)


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("explore", "X.npy", f"--port={port}", "--no-open", *LSH, code=2)
    assert f"port {port} of 127.0.0.1 is in use" in stderr_line(result)


def test_the_report_is_a_folder_with_two_pages():
    result = run("report", "X.npy", "--labels=y.npy", "-o", "out", *LSH)
    assert result.stdout.startswith("report out/index.html (")
    page = Path("out/index.html").read_text("utf-8")
    assert "300 vectors of 16 columns have codes of 2 bytes" in page
    assert re.findall(r'(?:src|href)="(?!data:|#)([^"]*)"', page) == ["explore.html"]
    assert "answers to 30 held-out queries" in page
    run("report", "X.npy", "-o", "out", *LSH)  # an earlier report is replaced
    assert "there are no labels" in Path("out/index.html").read_text("utf-8")


def test_a_report_does_not_overwrite_files_of_the_user():
    Path("out").mkdir()
    Path("out/index.html").write_text("mine")
    result = run("report", "X.npy", "-o", "out", *LSH, code=2)
    assert "index.html" in stderr_line(result)
    assert Path("out/index.html").read_text() == "mine"


@pytest.fixture
def built():
    """The index file items.mhx of X.npy, with its model, and named.mhx with strings as ids."""
    run("build", "X.npy", "-o", "items.mhx", *LSH)
    names = [f"item {i:03d}" for i in range(300)][::-1]
    Path("names.txt").write_text("".join(f"{name}\n" for name in names))
    run("build", "X.npy", "--ids=names.txt", "-o", "named.mhx", *LSH)


def test_an_index_file_needs_its_vectors_and_nothing_else(built):
    result = run("explore", "items.mhx", "--vectors=X.npy", "--export=page.html", "--quiet")
    assert result.stdout.startswith("page page.html (")
    content = Path("page.html").read_text("utf-8")
    assert '"name":"items.mhx"' in content
    assert '"title":"X.npy"' in content
    run("explore", "named.mhx", "--vectors=X.npy", "--ids=names.txt", "--export=named.html", "--quiet")
    run("report", "items.mhx", "--vectors=X.npy", "-o", "out", "--quiet")
    assert "items.mhx" in Path("out/index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["items.mhx"],
            "items.mhx holds codes and their model, not the vectors: give their file with --vectors",
        ),
        (["X.npy", "--vectors=X.npy"], "--vectors belongs to an index file (*.mhx), got X.npy"),
        (["X.npy", "--ids=names.txt"], "--ids has the ids of the rows of an index file"),
        (["items.mhx", "--vectors=X.npy", "--model=m.mhash"], "items.mhx holds its model"),
        (["items.mhx", "--vectors=other.npy"], "vectors of other.npy have other codes than items.mhx stores"),
        (
            ["items.mhx", "--vectors=few.npy"],
            "items.mhx has 300 rows (ids 0 to 299), but few.npy has 100 rows",
        ),
        (
            ["items.mhx", "--vectors=narrow.npy"],
            "items.mhx was fitted to vectors of 16 columns, but narrow.npy",
        ),
        (["named.mhx", "--vectors=X.npy"], "the ids of named.mhx are strings: give --ids"),
        (
            ["named.mhx", "--vectors=few.npy", "--ids=names.txt"],
            "got 300 ids in names.txt for the 100 vectors",
        ),
        (
            ["named.mhx", "--vectors=X.npy", "--ids=sorted.txt"],
            "X.npy have other codes than named.mhx stores",
        ),
        (["bare.mhx", "--vectors=X.npy"], "bare.mhx holds a HammingIndex, which makes no codes"),
    ],
)
def test_vectors_that_do_not_belong_to_the_index_are_refused(built, arguments, message):
    X = np.load("X.npy")
    np.save("other.npy", np.random.default_rng(5).normal(size=X.shape))
    np.save("few.npy", X[:100])
    np.save("narrow.npy", X[:, :5])
    Path("sorted.txt").write_text("".join(sorted(Path("names.txt").read_text().splitlines(keepends=True))))
    HammingIndex(np.zeros((300, 2), np.uint8), 12).save("bare.mhx")
    result = run("explore", *arguments, "--export=page.html", "--quiet", code=2)
    assert message in stderr_line(result)
    assert not Path("page.html").exists()


def test_rows_that_changed_since_the_index_was_built_are_named(built):
    X = np.load("X.npy")
    X[:3] = -X[:3]
    np.save("X.npy", X)
    result = run("explore", "items.mhx", "--vectors=X.npy", "--export=page.html", "--quiet")
    assert "3 of 300 rows of items.mhx have other codes than their vectors" in result.stderr
