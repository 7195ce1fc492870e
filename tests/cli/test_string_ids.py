"""String ids in the commands: index, search, dedup, export and update take and return file names."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import run, stderr_line

from manihash import HammingIndex, open_store, recipe

NAMES = [f"photos/{i:03d} [é].jpg" for i in range(200)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model, vectors, codes and names in the current folder."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(200, 12)).astype(np.float32)
    X[150:] = X[:50] + 0.001
    hasher = recipe("itq", 8, 0).fit(X)
    hasher.save("model.mhash")
    np.save("X.npy", X)
    np.save("codes.npy", hasher.encode(X))
    Path("names.txt").write_text("\n".join(NAMES) + "\n", encoding="utf-8")
    np.save("names.npy", np.array(NAMES))


def found(*arguments: str) -> list[list[str]]:
    document = json.loads(run("search", "model.mhash", *arguments, "--json", "--quiet").stdout)
    return [answer["ids"] for answer in document["answers"]]


@pytest.mark.parametrize("options", [["-k", "5"], ["--radius", "1"], ["-k", "3", "--rerank", "X.npy"]])
def test_a_search_returns_the_names_of_the_rows(options: list[str]) -> None:
    run("index", "codes.npy", "--model=model.mhash", "--ids=names.txt", "-o", "codes.mhx")
    run("export", "codes.npy", "--to=codes.faiss", "--ids=names.npy")
    options = [*options, "--symmetric"]  # as the store ranks
    expected = [[NAMES[i] for i in row] for row in found("codes.npy", "X.npy", *options)]
    names = ["--ids=names.txt"]
    strings = found("codes.npy", "X.npy", *options, *names)
    assert found("codes.mhx", "X.npy", *options, *(names if "--rerank" in options else [])) == strings
    store = [*options, "--store=codes.faiss"]
    assert found("X.npy", *store, *(names if "--rerank" in options else [])) == strings
    assert strings == expected
    shown = run("search", "model.mhash", "codes.mhx", "X.npy").stdout
    assert "[é].jpg" in shown


def test_rows_come_and_go_by_name(tmp_path: Path) -> None:
    run("index", "codes.npy", "--model=model.mhash", "--ids=names.txt", "-o", "codes.mhx")
    Path("gone.txt").write_text("\r\n".join(NAMES[:3]), encoding="utf-8-sig")
    run("index", "codes.mhx", "--remove=gone.txt")
    np.save("new.npy", np.load("codes.npy")[:2])
    Path("new.txt").write_text("new one.jpg\nnew two.jpg\n")
    run("index", "codes.mhx", "--add=new.npy", "--ids=new.txt", "--model=model.mhash")
    assert set(HammingIndex.load("codes.mhx").ids) == {*NAMES[3:], "new one.jpg", "new two.jpg"}
    message = stderr_line(run("index", "codes.mhx", "--add=new.npy", code=2))
    assert "the ids of this index are strings: pass one id per code" in message
    message = stderr_line(run("index", "codes.mhx", "--remove=gone.txt", code=2))
    assert "is not in the index. Nothing was changed" in message


def test_a_filter_of_names_selects_rows() -> None:
    run("index", "codes.npy", "--ids=names.txt", "-o", "codes.mhx")
    Path("kept.txt").write_text("\n".join(NAMES[5:9]), encoding="utf-8")
    rows = found("codes.mhx", "X.npy", "-k", "9", "--filter=kept.txt")
    assert all(sorted(row) == sorted(NAMES[5:9]) for row in rows)
    Path("kept.txt").write_text("unknown")
    message = stderr_line(run("search", "model.mhash", "codes.mhx", "X.npy", "--filter=kept.txt", code=2))
    assert "such as 'unknown'" in message


def test_dedup_returns_names() -> None:
    run("index", "codes.npy", "--ids=names.txt", "-o", "codes.mhx")
    options = ["--vectors=X.npy", "--cosine=0.999", "--ids=names.txt", "-o"]
    run("dedup", "codes.npy", *options, "a.npz")
    run("dedup", "codes.mhx", *options, "b.npz")
    with np.load("a.npz") as one, np.load("b.npz") as two:
        expected = {frozenset((NAMES[i], NAMES[150 + i])) for i in range(50)}
        assert {frozenset(pair) for pair in one["pairs"].tolist()} == expected
        for key in ("ids", "lims", "pairs", "extra"):
            np.testing.assert_array_equal(one[key], two[key])
    message = stderr_line(run("dedup", "codes.mhx", "--vectors=X.npy", "--cosine=0.99", code=2))
    assert "give the ids of the vectors with --ids" in message


def test_an_update_replaces_codes_by_name() -> None:
    X = np.load("X.npy")
    hasher = recipe("imh-tsne-random", 8, 0).set_params(base__size=30, embedding__n_iter=50).fit(X)
    hasher.save("m.mhash")
    np.save("old.npy", hasher.encode(X))
    np.save("new.npy", X[:40] + 6)
    run("index", "old.npy", "--model=m.mhash", "--ids=names.txt", "-o", "old.mhx")
    run("export", "old.npy", "--to=old.faiss", "--ids=names.txt")
    options = ["--codes=old.mhx", "--store=old.faiss", "--ids=names.txt", "--max-changed=0.9"]
    run("update", "m.mhash", "new.npy", "-o", "m2.mhash", "--vectors=X.npy", *options)
    run("encode", "m2.mhash", "X.npy", "-o", "expected.npy")
    expected = dict(zip(NAMES, np.load("expected.npy").tolist(), strict=True))
    index = HammingIndex.load("old.mhx")
    assert dict(zip(index.ids, index.codes.tolist(), strict=True)) == expected
    with open_store("old.faiss") as store:
        assert store.get(NAMES).tolist() == list(expected.values())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n\nb\n" + b"c\n" * 197, "id 1 is an empty string"),
        (b"a\n" * 200, "ids must be distinct, but 'a' occurs 200 times"),
        (b"a\n\xff\n", "line 2 is not valid UTF-8"),
        (b"a\nb\n", "200 integers or strings, one per code, got an array of shape (2,) and type str"),
    ],
)
def test_bad_files_of_names_are_refused(content: bytes, message: str) -> None:
    Path("bad.txt").write_bytes(content)
    assert message in stderr_line(run("index", "codes.npy", "--ids=bad.txt", "-o", "a.mhx", code=2))
    assert not Path("a.mhx").exists()


@pytest.mark.extra
def test_names_of_a_parquet_column_are_ids() -> None:
    import pyarrow as pa
    import pyarrow.parquet

    pa.parquet.write_table(pa.table({"file": NAMES, "n": list(range(200))}), "names.parquet")
    run("index", "codes.npy", "--ids=names.parquet:file", "-o", "a.mhx")
    assert set(HammingIndex.load("a.mhx").ids) == set(NAMES)
    run("index", "codes.npy", "--ids=names.parquet:n", "-o", "b.mhx")
    assert HammingIndex.load("b.mhx").id_type is int
