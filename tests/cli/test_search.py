"""The commands index, search, dedup and stats: results of brute force, and errors."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import SCRIPT, run, stderr_line
from numpy.typing import NDArray

from manihash import HammingIndex, load
from manihash.codes import hamming, pack, unpack

BITS = 12


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """X.npy (200, 8), Q.npy, ids.npy; a model of 12 bits, its codes.npy and codes.mhx; narrow.mhx."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("MANIHASH_DEBUG", raising=False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(205, 8)).astype(np.float32)
    X[50:100] = X[:50]  # duplicate rows
    np.save("X.npy", X[:200])
    np.save("Q.npy", X[200:])
    np.save("ids.npy", rng.permutation(1000)[:200] - 100)
    run("fit", "X.npy", "--recipe=lsh", f"--bits={BITS}", "-o", "model.mhash")
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy")
    run("index", "codes.npy", f"--bits={BITS}", "-o", "codes.mhx")
    HammingIndex(np.load("codes.npy")[:, :1], 8).save("narrow.mhx")
    return tmp_path


def document(*args: str) -> Any:
    return json.loads(run(*args, "--json").stdout)


def found(*args: str) -> list[tuple[list[int], list[float]]]:
    """Return ids and distances of each query."""
    answers = document("search", "model.mhash", *args)["answers"]
    return [(answer["ids"], answer["distances"]) for answer in answers]


def distances() -> NDArray[Any]:
    """Return the Hamming distances of queries and rows."""
    return hamming(load("model.mhash").encode(np.load("Q.npy")), np.load("codes.npy"))


def nearest(
    distance: NDArray[Any], ids: NDArray[Any], k: int | None = None, radius: int = BITS
) -> list[tuple[list[int], list[float]]]:
    """Return the k nearest, or all within the radius, of each query by brute force, ties by id."""
    answers = []
    for row in distance:
        order = np.lexsort((ids, row))[:k]
        order = order[row[order] <= radius]
        answers.append((ids[order].tolist(), row[order].tolist()))
    return answers


def test_index_reports_the_file() -> None:
    wrote = document("index", "codes.npy", "--bits=12", "-o", "new.mhx")
    distinct = len(np.unique(np.load("codes.npy"), axis=0))
    assert (wrote["rows"], wrote["bits"], wrote["distinct_codes"]) == (200, BITS, distinct)
    assert wrote["file_bytes"] == Path("new.mhx").stat().st_size
    assert f"{distinct:,}" in run("index", "codes.npy", "--bits=12", "-o", "new.mhx").stdout


def test_an_index_rejects_another_model_than_that_of_its_codes() -> None:
    run("fit", "X.npy", "--recipe=lsh", f"--bits={BITS}", "--seed=1", "-o", "other.mhash")
    made = document("index", "codes.npy", "--model=model.mhash", "-o", "known.mhx")
    assert made["bits"] == BITS
    assert made["model_sha256"] == hashlib.sha256(Path("model.mhash").read_bytes()).hexdigest()
    assert document("index", "known.mhx", "--verify")["model_sha256"] == made["model_sha256"]
    assert found("known.mhx", "Q.npy") == found("codes.mhx", "Q.npy")
    message = stderr_line(run("search", "other.mhash", "known.mhx", "Q.npy", code=2))
    assert (
        "known.mhx holds codes of another model than other.mhash: use the model that made the codes"
        in message
    )
    assert "build the index again with --model other.mhash" in message
    run("index", "codes.npy", "--model=other.mhash", "-o", "known.mhx")
    run("search", "other.mhash", "known.mhx", "Q.npy")


def test_a_changed_index_still_records_its_model() -> None:
    run("index", "codes.npy", "--model=model.mhash", "-o", "known.mhx")
    index = HammingIndex.load("known.mhx")
    index.remove([3])
    index.save("less.mhx")
    assert HammingIndex.load("less.mhx").made_by == index.made_by is not None
    assert HammingIndex.load("codes.mhx").made_by is None


def test_index_uses_all_bits_of_the_bytes_without_a_length() -> None:
    run("index", "codes.npy", "-o", "new.mhx")
    assert HammingIndex.load("new.mhx").n_bits == 16


def test_verify_finds_damage_that_opening_does_not() -> None:
    assert document("index", "codes.mhx", "--verify")["verified"]
    assert "verified: no damage" in run("index", "codes.mhx", "--verify").stdout
    _flip_last("codes.mhx")
    assert len(HammingIndex.load("codes.mhx")) == 200
    assert "is damaged" in stderr_line(run("index", "codes.mhx", "--verify", code=2))


@pytest.mark.parametrize("codes", ["codes.npy", "codes.mhx"])
def test_searches_in_codes_and_in_an_index_agree_with_brute_force(codes: str) -> None:
    truth, rows = distances(), np.arange(200)
    assert found(codes, "Q.npy", "-k", "7") == nearest(truth, rows, 7)
    assert found(codes, "Q.npy", "--radius", "3") == nearest(truth, rows, radius=3)


def test_an_index_returns_its_own_ids() -> None:
    for name in ("ids.npy", "ids.csv"):
        np.savetxt("ids.csv", np.load("ids.npy"), fmt="%d")
        run("index", "codes.npy", "--bits=12", "--ids", name, "-o", "named.mhx")
        assert found("named.mhx", "Q.npy", "-k", "7") == nearest(distances(), np.load("ids.npy"), 7)


@pytest.mark.parametrize("as_mask", [False, True])
def test_a_filter_selects_rows(as_mask: bool) -> None:
    kept = np.arange(0, 200, 3)
    np.save("kept.npy", np.isin(np.arange(200), kept) if as_mask else kept)
    few = ["codes.mhx", "Q.npy", "--filter=kept.npy"]
    assert found(*few, "-k", "5") == nearest(distances()[:, kept], kept, 5)
    assert found(*few, "--radius=4") == nearest(distances()[:, kept], kept, radius=4)


def test_rerank_sorts_by_euclidean_distance() -> None:
    X, Q = np.load("X.npy").astype(np.float64), np.load("Q.npy").astype(np.float64)
    result = document("search", "model.mhash", "codes.mhx", "Q.npy", "-k", "20", "--rerank", "X.npy")
    assert result["ranked_by"] == "euclidean"
    for answer, q in zip(result["answers"], Q, strict=True):  # all 200 rows are candidates
        far = np.linalg.norm(X - q, axis=1)
        assert answer["ids"] == np.argsort(far, kind="stable")[:20].tolist()
        assert answer["distances"] == pytest.approx(np.sort(far)[:20])
    assert "euclidean distance" in run("search", "model.mhash", "codes.mhx", "Q.npy", "--rerank=X.npy").stdout


def test_asymmetric_ranks_by_the_real_values_of_the_queries() -> None:
    bits = unpack(np.load("codes.npy"), BITS)
    Y = load("model.mhash").embed(np.load("Q.npy"))
    result = document("search", "model.mhash", "codes.mhx", "Q.npy", "-k", "6", "--asymmetric")
    assert result["ranked_by"] == "asymmetric"
    for answer, y in zip(result["answers"], Y, strict=True):
        far = (np.abs(y) * (bits != (y > 0))).sum(axis=1)
        assert answer["distances"] == pytest.approx(np.sort(far)[:6], rel=1e-5)
        assert far[answer["ids"]] == pytest.approx(answer["distances"], rel=1e-5)


def test_a_store_returns_the_same_results_as_an_index() -> None:
    run("export", "codes.npy", "--bits=12", "--to=codes.faiss")
    for options in (["-k", "7"], ["--radius", "3"], ["-k", "7", "--rerank", "X.npy"]):
        assert found("Q.npy", "--store", "codes.faiss", *options) == found("codes.mhx", "Q.npy", *options)


def test_a_k_above_the_number_of_rows_returns_all_rows_with_a_warning() -> None:
    run("export", "codes.npy", "--bits=12", "--to=codes.faiss")
    for source in (["codes.mhx", "Q.npy"], ["Q.npy", "--store=codes.faiss"]):
        result = run("search", "model.mhash", *source, "-k", "400", "--json")
        assert "warning: k=400 exceeds" in result.stderr
        assert len(json.loads(result.stdout)["answers"][0]["ids"]) == 200


def groups_by_brute_force(codes: NDArray[Any], radius: int, ids: NDArray[Any]) -> list[list[int]]:
    """Return the connected components of at least two rows, in the order of their lowest ids."""
    near, left, groups = hamming(codes, codes) <= radius, set(range(len(codes))), []
    while left:
        group, ends = set(), {left.pop()}
        while ends:
            group |= ends
            ends = set(np.flatnonzero(near[list(ends)].any(axis=0)).tolist()) - group
        left -= group
        groups.append(sorted(ids[list(group)].tolist()))
    return sorted(group for group in groups if len(group) > 1)


@pytest.mark.parametrize("radius", [0, 1])
def test_dedup_agrees_with_brute_force(radius: int) -> None:
    codes, ids = np.load("codes.npy"), np.load("ids.npy")
    options = ["codes.npy", "--bits=12", f"--radius={radius}", "--ids=ids.npy", "-o", "groups.npz"]
    result = document("dedup", *options)
    assert result["groups"] == groups_by_brute_force(codes, radius, ids)
    assert result["extra"] == sum(len(group) - 1 for group in result["groups"])
    with np.load("groups.npz") as arrays:
        split = np.split(arrays["ids"], arrays["lims"][1:-1])
        assert [group.tolist() for group in split] == result["groups"]
        assert set(arrays["extra"]) == {i for group in result["groups"] for i in group[1:]}
        assert len(np.unique(arrays["first"])) == 200 - result["extra"]


def test_dedup_warns_if_most_rows_are_duplicates() -> None:
    np.save("alike.npy", np.zeros((10, 1), np.uint8))
    assert "90% of the rows are reported as duplicates" in stderr_line(run("dedup", "alike.npy"))
    np.save("apart.npy", np.arange(10, dtype=np.uint8)[:, None])
    assert "reported as" not in stderr_line(run("dedup", "apart.npy"))


def test_dedup_uses_the_ids_of_an_index() -> None:
    codes, ids = np.load("codes.npy"), np.load("ids.npy")
    run("index", "codes.npy", "--bits=12", "--ids=ids.npy", "-o", "named.mhx")
    result = document("dedup", "named.mhx", "--radius=1")
    assert (result["rows"], result["bits"]) == (200, 12)
    assert result["groups"] == groups_by_brute_force(codes, 1, ids)
    assert "contains its ids" in stderr_line(run("dedup", "named.mhx", "--ids=ids.npy", code=2))


def test_dedup_accepts_perceptual_hashes_and_shows_the_first_groups() -> None:
    rng = np.random.default_rng(1)
    hashes = pack(rng.random((40, 64)) < 0.5)
    near = hashes ^ pack(np.eye(40, 64) > 0)  # one bit differs
    np.save("phash.npy", np.concatenate([hashes, near]))
    output = run("dedup", "phash.npy", "--radius=1").stdout
    assert "30 more groups" in output
    assert "40, not counting the first" in output
    assert document("dedup", "phash.npy")["groups"] == []


def test_stats_of_codes_and_of_their_index_agree() -> None:
    statistics = document("stats", "codes.mhx")
    assert statistics["rows"] == 200
    assert statistics["distinct_codes"] == len(np.unique(np.load("codes.npy"), axis=0))
    assert statistics["warnings"] == []
    as_codes = document("stats", "codes.npy", "--bits=12")
    assert {**statistics, "codes": "", "bytes": 0} == {**as_codes, "codes": "", "bytes": 0}
    assert f"200 codes of {BITS} bits" in run("stats", "codes.mhx").stdout


def test_stats_warn_about_collapsed_codes() -> None:
    np.save("same.npy", np.zeros((50, 2), np.uint8))
    result = run("stats", "same.npy")
    assert "warning: the codes have collapsed" in result.stderr
    assert "Fit with more base points" in stderr_line(result)
    assert "0, 1, 2" in result.stdout


def _flip_last(path: str) -> None:
    content = bytearray(Path(path).read_bytes())
    content[-9] ^= 1
    Path(path).write_bytes(content)


def _cut(path: str) -> None:
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) * 2 // 3])


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (_cut, "not a complete index file"),
        (lambda path: Path(path).write_bytes(b""), "not a complete index file"),
        (lambda path: Path(path).write_bytes(b"\xff" * 4096), "not a complete index file"),
        (lambda path: Path(path).write_bytes(Path("X.npy").read_bytes()), "not a complete index file"),
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
        (["index", "codes.npy", "-o", "no/new.mhx"], "in an existing, writable folder"),
        (["index", "codes.npy"], "with -o"),
        (["index", "codes.npy", "--verify"], "expected an index file, named *.mhx"),
        (["index", "codes.mhx", "--verify", "-o", "new.mhx"], "writes nothing"),
        (["index", "codes.mhx", "--verify", "--model", "model.mhash"], "omit -o, --ids and --model"),
        (
            [*INDEX, "--model", "model.mhash", "--bits=16"],
            "got --bits 16, but model.mhash makes codes of 12 bits",
        ),
        ([*INDEX, "--model", "codes.npy"], "is an npy file, not a model file"),
        (["index", "codes.mhx", "-o", "new.mhx"], "unknown format of codes.mhx"),
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
        ([*SEARCH, "--radius=1", "--rerank=X.npy"], "--radius is a Hamming distance"),
        ([*SEARCH, "--radius=1", "--asymmetric"], "--radius is a Hamming distance"),
        ([*SEARCH, "--filter=unknown.npy"], "2 ids that are not in the index of 200 rows, such as 200"),
        ([*SEARCH, "--filter=beyond.npy"], "1 ids that are not in the index of 200 rows"),
        ([*SEARCH, "--filter=mask.npy"], "a boolean filter of shape (7,)"),
        ([*SEARCH, "--filter=X.npy"], "a set of ids or one boolean per row"),
        ([*SEARCH, "--filter=none.npy"], "no file at"),
        ([*SEARCH, "--rerank=few.npy"], "one vector per row"),
        ([*SEARCH, "--rerank=codes.npy"], "the same number of columns in both"),
        ([*SEARCH, "--rerank=Q.npy"], "row i must be the vector of id i"),
        (["search", "model.mhash", "narrow.mhx", "Q.npy"], "holds codes of 8 bits, but the model makes"),
        (["search", "model.mhash", "set.npy", "Q.npy"], "bits set beyond the first 12"),
        (["search", "model.mhash", "Q.npy"], "got 1 files after the model"),
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
        ("none.db", "no milvus-lite file"),
    ],
)
def test_a_store_that_is_down_or_missing_gives_one_message(store: str, expected: str) -> None:
    before = set(os.listdir())
    message = stderr_line(run("search", "model.mhash", "Q.npy", "--store", store, code=2))
    assert expected in message
    assert "secret" not in message
    assert set(os.listdir()) == before


def test_the_script_searches_an_index_and_prints_only_the_result_to_stdout() -> None:
    command = [SCRIPT, "search", "model.mhash", "codes.mhx", "Q.npy", "--radius=2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["codes"] == 200


def test_the_script_rejects_a_damaged_index_without_a_traceback() -> None:
    _flip_last("codes.mhx")
    command = [SCRIPT, "index", "codes.mhx", "--verify"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["index", "search", "dedup", "stats", "export"])
def test_every_help_has_an_example_and_does_not_import_numpy(command: str) -> None:
    probe = (
        "import sys\n"
        "from manihash.cli import main\n"
        f"sys.argv = ['manihash', {command!r}, '--help']\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "heavy = {'numpy', 'scipy', 'faiss', 'lancedb', 'psycopg', 'pymilvus'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"  manihash {command}" in done.stdout
