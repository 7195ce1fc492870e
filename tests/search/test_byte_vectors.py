"""Vectors with one byte per value: how far they are from the vectors, their files, and re-ranking by them."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from command import invoke, run, stderr_line

import manihash as mh
from manihash.errors import DataFileError
from manihash.search import ByteVectors, Rerank

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(600, 12)) * np.logspace(-3, 3, 12) + np.arange(12)).astype(np.float32)
X[:, 5] = 7.5


@pytest.fixture(scope="module")
def index():
    return mh.recipe("itq", n_bits=12, random_state=0).fit(X).index(X)


def test_values_are_within_half_a_step_of_the_column():
    vectors = ByteVectors.of(X)
    step = np.ptp(X.astype(np.float64), axis=0) / 254
    assert (np.abs(vectors[:] - X) <= step / 2 * 1.001 + 1e-6 * np.abs(X)).all()
    assert (vectors[:][:, 5] == 7.5).all()
    assert (vectors.shape, vectors.dtype) == (X.shape, np.float32)
    np.testing.assert_array_equal(vectors[np.array([7, 3])], vectors[:][[7, 3]])


def test_a_file_holds_the_same_vectors_and_is_a_safetensors_file(tmp_path, monkeypatch):
    monkeypatch.setattr("manihash.search.byte_vectors._VALUES", 1000)  # several blocks
    written = ByteVectors.write(tmp_path / "v.mhv", X)
    np.testing.assert_array_equal(written[:], ByteVectors.of(X)[:])
    np.testing.assert_array_equal(ByteVectors.load(tmp_path / "v.mhv")[:], written[:])
    from safetensors.numpy import load_file

    arrays = load_file(tmp_path / "v.mhv")
    again = arrays["values"].astype(np.float32) * arrays["scales"] + arrays["centers"]
    np.testing.assert_array_equal(again, written[:])


def test_reranking_by_bytes_is_reranking_by_the_vectors_that_they_stand_for(index, tmp_path):
    vectors = ByteVectors.write(tmp_path / "v.mhv", X)
    Q = X[:9] + 0.01
    for own, expected in zip(
        index.search(Q, 5, rerank=vectors, candidates=80),
        index.search(Q, 5, rerank=vectors[:], candidates=80),
        strict=True,
    ):
        np.testing.assert_array_equal(own, expected)


def test_both_names_of_the_option_give_the_same_answers(index):
    Q = X[:4]
    bare = mh.HammingIndex(index.hasher.encode(X), 12)
    codes = index.hasher.encode(Q)
    again = Rerank(Q, X, 50)
    expected = bare.search(codes, 3, rescore=again)
    for found in (bare.search(codes, 3, rerank=again), index.search(Q, 3, rerank=again, symmetric=True)):
        np.testing.assert_array_equal(found[1], expected[1])
    with pytest.raises(ValueError, match="two names of one option"):
        bare.search(codes, 3, rerank=again, rescore=again)
    with pytest.raises(ValueError, match=r"rerank must be Rerank\(queries, vectors\)"):
        bare.search(codes, 3, rerank=X)
    with pytest.raises(ValueError, match="give rerank, too"):
        index.search(Q, 3, candidates=50)


def test_the_command_builds_and_reranks_with_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("Q.npy", X[:5])
    made = invoke(
        ["build", "X.npy", "--recipe", "itq", "--bits", "12", "--byte-vectors", "v.mhv", "-o", "i.mhx", "-q"]
    )
    assert made.exit_code == 0, made.output
    found = invoke(
        ["search", "i.mhx", "Q.npy", "-k", "3", "--rerank", "v.mhv", "--candidates", "40", "--json"]
    )
    answers = json.loads(found.stdout)
    index = mh.load("i.mhx")
    expected = index.search(X[:5], 3, rerank=ByteVectors.load("v.mhv"), candidates=40, symmetric=True)
    assert answers["ranked_by"] == "euclidean"
    assert [answer["ids"] for answer in answers["answers"]] == expected[1].tolist()


@pytest.mark.parametrize(("dtype", "noted"), [(np.uint8, True), (np.float16, False)])
def test_a_note_says_that_vectors_of_bytes_are_bytes_already(tmp_path, monkeypatch, dtype, noted):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", np.random.default_rng(0).integers(0, 256, size=(50, 16)).astype(dtype))
    made = run("build", "X.npy", "--recipe=sign", "--bits=8", "--byte-vectors=v.mhv", "-o", "i.mhx")
    assert ("--rerank X.npy reads no more, and is exact" in " ".join(made.stderr.split())) == noted
    assert len(ByteVectors.load("v.mhv")) == 50


@pytest.mark.parametrize("again", ["i.mhx", "./i.mhx"])
def test_one_file_is_not_written_for_two_outputs(tmp_path, monkeypatch, again):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    build = ["build", "X.npy", "--recipe", "itq", "--bits", "12", "-o", "i.mhx", "-q", "--byte-vectors"]
    message = stderr_line(run(*build, again, code=2))
    assert "is given for two outputs: give each a file of its own" in message
    assert [path.name for path in tmp_path.iterdir()] == ["X.npy"]


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros(5), "expected one vector per row"),
        (np.array([["a"]]), "the vectors hold"),
        (np.array([[0.0, np.nan]]), "the vectors contains NaN"),
        (np.array([[1e300]]), "exceed the range of float32"),
    ],
)
def test_vectors_that_cannot_be_stored_are_refused(vectors, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ByteVectors.write(tmp_path / "v.mhv", vectors)
    assert not list(tmp_path.iterdir())


def test_cut_and_changed_files_are_refused(tmp_path):
    ByteVectors.write(tmp_path / "v.mhv", X[:9])
    whole = (tmp_path / "v.mhv").read_bytes()
    changed = [whole[:size] for size in (0, 5, 40, 200, len(whole) - 1)]
    changed += [whole + b"0", whole.replace(b'"I8"', b'"U8"'), whole.replace(b"[9, 12]", b"[-9,12]")]
    first = len(whole) - 9 * 12 - 8 * 12  # of the centers, which the scales follow
    for place, number in ((first, np.nan), (first + 12 * 4, np.inf), (first + 12 * 4, -1)):
        changed.append(whole[:place] + np.float32(number).tobytes() + whole[place + 4 :])
    for content in changed:
        (tmp_path / "cut.mhv").write_bytes(content)
        with pytest.raises(DataFileError, match="write it again"):
            ByteVectors.load(tmp_path / "cut.mhv")


@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_matrix, pd.DataFrame])
def test_sparse_matrices_and_tables_are_stored_as_arrays_are(kind):
    X = np.random.default_rng(0).normal(size=(30, 4)) * (np.arange(30)[:, None] % 3 > 0)
    assert np.array_equal(ByteVectors.of(kind(X))[:], ByteVectors.of(X)[:])
