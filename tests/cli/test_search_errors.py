"""Invalid input of the commands index, search, dedup and stats."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command import SCRIPT, flip_bit, run, stderr_line

pytestmark = pytest.mark.usefixtures("indexed_folder")


def _cut(path: str) -> None:
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) * 2 // 3])


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (_cut, "not a complete index file"),
        (lambda path: Path(path).write_bytes(b""), "not a complete index file"),
        (lambda path: Path(path).write_bytes(b"\xff" * 4096), "not a complete index file"),
        (
            lambda path: Path(path).write_bytes(Path("X.npy").read_bytes()),
            "is an npy file, not an",
        ),
        (lambda path: Path(path).unlink(), "no index file at"),
    ],
    ids=["cut short", "empty", "noise", "foreign", "missing"],
)
def test_an_invalid_index_file_is_rejected(damage: Callable[[str], object], expected: str) -> None:
    damage("codes.mhx")
    before = set(os.listdir())
    assert expected in stderr_line(
        run("search", "model.mhash", "codes.mhx", "Q.npy", "-o", "new.npz", code=2)
    )
    assert expected in stderr_line(run("stats", "codes.mhx", code=2))
    assert expected in stderr_line(run("index", "codes.mhx", "--verify", code=2))
    assert set(os.listdir()) == before


SEARCH = ["search", "model.mhash", "codes.mhx", "Q.npy", "-o", "new.npz"]
STORE = ["search", "model.mhash", "Q.npy", "-o", "new.npz", "--store"]
INDEX = ["index", "codes.npy", "-o", "new.mhx"]
DEDUP = ["dedup", "codes.npy", "-o", "new.npz"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([*INDEX, "--bits=17"], "2 bytes per row"),
        ([*INDEX, "--bits=0"], "--bits must be a whole number of at least 1"),
        ([*INDEX, "--bits=9"], "bits set beyond the first 9"),
        ([*INDEX, "--ids=few.npy"], "ids must be 200 integers"),
        ([*INDEX, "--ids=twice.npy"], "ids must be distinct"),
        ([*INDEX, "--ids=X.npy"], "ids must be 200 integers"),
        (["index", "X.npy", "-o", "new.mhx"], "array of bytes (uint8)"),
        (["index", "no_rows.npy", "-o", "new.mhx"], "codes are empty"),
        (["index", "no_bytes.npy", "-o", "new.mhx"], "0 bytes per row"),
        (["index", "one.npy", "-o", "new.mhx"], "got 1-D"),
        (["index", "codes.npy", "-o", "new.npy"], "ends in .mhx"),
        (["index", "codes.npy", "-o", "no/new.mhx"], "Choose a target in a folder you can write to"),
        (["index", "codes.npy"], "with -o"),
        (["index", "codes.npy", "--verify"], "expected an index file, named *.mhx"),
        (["index", "codes.mhx", "--verify", "-o", "new.mhx"], "writes nothing"),
        (["index", "codes.mhx", "--verify", "--model", "model.mhash"], "omit -o, --ids and --model"),
        (
            [*INDEX, "--model", "model.mhash", "--bits=16"],
            "got --bits 16, but model.mhash makes codes of 12 bits",
        ),
        ([*INDEX, "--model", "codes.npy"], "is an npy file, not a model file"),
        (
            ["index", "codes.mhx", "-o", "new.mhx"],
            "codes.mhx is an index file, not a file of vectors or codes",
        ),
        (["stats", "codes.mhx", "--bits=8"], "holds codes of 12 bits"),
        (["stats", "codes.npy", "--bits=9"], "bits set beyond the first 9"),
        ([*DEDUP, "--radius=-1"], "--radius must be a whole number of at least 0"),
        ([*DEDUP, "--bits=20"], "2 bytes per row"),
        ([*DEDUP, "--bits=9"], "bits set beyond the first 9"),
        ([*DEDUP, "--ids=twice.npy"], "ids must be distinct"),
        (["dedup", "no_rows.npy"], "codes are empty"),
        (["dedup", "codes.npy", "-o", "new.npy"], "ends in .npz"),
        ([*SEARCH, "-k", "0"], "-k must be a whole number of at least 1"),
        ([*SEARCH, "--radius=-1"], "--radius must be a whole number of at least 0"),
        ([*SEARCH, "-k", "1", "--radius", "1"], "one of the two"),
        (
            [*SEARCH, "--radius=1", "--rerank=X.npy"],
            "--radius is a Hamming distance: omit --rerank, or use -k",
        ),
        ([*SEARCH, "--radius=1", "--asymmetric"], "--radius is a Hamming distance"),
        ([*SEARCH, "--filter=unknown.npy"], "2 ids that are not in the index of 200 rows, such as 200"),
        ([*SEARCH, "--filter=beyond.npy"], "1 ids that are not in the index of 200 rows"),
        ([*SEARCH, "--filter=mask.npy"], "a boolean filter of shape (7,)"),
        ([*SEARCH, "--filter=X.npy"], "a set of ids or one boolean per row"),
        ([*SEARCH, "--filter=none.npy"], "no file at"),
        ([*SEARCH, "--shortlist=9"], "--candidates sets how many rows --rerank ranks"),
        ([*SEARCH, "--rerank=X.npy", "--shortlist=0"], "--candidates must be a whole number of at least 1"),
        ([*SEARCH, "--rerank=few.npy"], "one vector per row"),
        ([*SEARCH, "--rerank=codes.npy"], "the same number of columns in both"),
        ([*SEARCH, "--rerank=Q.npy"], "row 0 of Q.npy is not the vector of id 0: its code differs"),
        (["search", "model.mhash", "narrow.mhx", "Q.npy"], "holds codes of 8 bits, but the model makes"),
        (["search", "model.mhash", "set.npy", "Q.npy"], "bits set beyond the first 12"),
        (["search", "model.mhash", "Q.npy"], "got 1 file after model.mhash, which is not an index file"),
        (
            ["search", "model.mhash", "codes.mhx", "Q.npy", "--store=codes.faiss"],
            "expected only QUERIES with --store",
        ),
        ([*STORE, "none.faiss"], "no FAISS index file at none.faiss"),
        ([*STORE, "nonsense"], "not the address of a store"),
        ([*STORE, "damaged.faiss"], "not a binary index file"),
        ([*STORE, "narrow.faiss"], "holds codes of 8 bits, but the model makes codes of 12 bits"),
        ([*STORE, "narrow.faiss", "--asymmetric"], "use an index file"),
        ([*STORE, "narrow.faiss", "--filter=few.npy"], "use an index file"),
    ],
)
def test_invalid_input_gives_one_message_and_writes_nothing(args: list[str], expected: str) -> None:
    codes = np.load("codes.npy")
    np.save("few.npy", np.arange(7))
    np.save("twice.npy", np.zeros(200, np.int64))
    np.save("no_rows.npy", codes[:0])
    np.save("no_bytes.npy", codes[:, :0])
    np.save("one.npy", codes[0])
    np.save("set.npy", codes | np.array([0, 1], np.uint8))
    np.save("narrow.npy", codes[:, :1])
    np.save("unknown.npy", np.array([0, 200, -1]))
    np.save("beyond.npy", np.array([0, 2**64 - 200], np.uint64))
    np.save("mask.npy", np.ones(7, np.bool_))
    Path("damaged.faiss").write_bytes(b"IB")
    run("export", "narrow.npy", "--to=narrow.faiss")
    before = set(os.listdir())
    assert expected in stderr_line(run(*args, code=2))
    assert set(os.listdir()) == before


def test_a_failed_index_keeps_the_old_file() -> None:
    old = Path("codes.mhx").read_bytes()
    run("index", "codes.npy", "--bits=9", "-o", "codes.mhx", code=2)
    assert Path("codes.mhx").read_bytes() == old


@pytest.mark.extra
@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("postgres://me:secret@127.0.0.1:9/db?connect_timeout=5", "does not respond"),
        ("milvus://127.0.0.1:9?timeout=1", "does not respond"),
        ("none.lance", "no "),
        ("none.db", "no SQLite file"),
        ("milvus:none.db", "no milvus-lite file"),
        ("none.duckdb", "no DuckDB file"),
        ("none.parquet", "no Parquet file"),
        ("none.usearch", "no usearch index file"),
        ("qdrant:none", "no Qdrant folder"),
        ("clickhouse://me:secret@127.0.0.1:9?timeout=1", "does not respond"),
        ("qdrant://:secret@127.0.0.1:9?timeout=1", "does not respond"),
    ],
)
def test_a_store_that_is_down_or_missing_gives_one_message(store: str, expected: str) -> None:
    before = set(os.listdir())
    message = stderr_line(run("search", "model.mhash", "Q.npy", "--store", store, code=2))
    assert expected in message
    assert "secret" not in message
    assert set(os.listdir()) == before


@pytest.mark.slow
def test_the_script_searches_an_index_and_prints_only_the_result_to_stdout() -> None:
    command = [SCRIPT, "search", "model.mhash", "codes.mhx", "Q.npy", "--radius=2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert done.stderr.startswith("note: codes.mhx does not say which model made its codes")
    assert json.loads(done.stdout)["codes"] == 200


def test_the_script_rejects_a_damaged_index_without_a_traceback() -> None:
    flip_bit("codes.mhx")
    command = [SCRIPT, "index", "codes.mhx", "--verify"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
