"""Invalid input gives one message and exit code 2, and leaves no files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import SMALL, invoke, run, stderr_line
from numpy.typing import NDArray

from manihash import InductiveEmbedding
from manihash.base import RandomBase

pytestmark = pytest.mark.usefixtures("folder")


def files() -> set[str]:
    return set(os.listdir())


Maker = Callable[[NDArray[Any]], NDArray[Any]]


def _with(value: float) -> Maker:
    def make(X: NDArray[Any]) -> NDArray[Any]:
        X[7, 3] = value
        return X

    return make


BAD_VECTORS: dict[str, tuple[Maker, str]] = {
    "NaN": (_with(np.nan), "NaN: the first such row is 7"),
    "infinity": (_with(np.inf), "inf"),
    "no rows": (lambda X: X[:0], "(0, 16)"),
    "no columns": (lambda X: X[:, :0], "(300, 0)"),
    "one row": (lambda X: X[:1], "at least two rows"),
    "one vector": (lambda X: X[0], "(16,)"),
    "complex": (lambda X: X + 1j, "complex"),
    "text": (lambda X: X.astype(str), "expected real numbers"),
    "fewer rows than base points": (lambda X: X[:20], "a base set of 30 points"),
    "all rows equal": (lambda X: np.ones_like(X), "all equal"),
}


@pytest.mark.parametrize("case", BAD_VECTORS)
def test_fit_rejects_invalid_vectors_and_keeps_the_old_model(case: str) -> None:
    make, expected = BAD_VECTORS[case]
    np.save("bad.npy", make(np.load("X.npy")))
    Path("m.mhash").write_bytes(b"old")
    before = files()
    assert expected in run("fit", "bad.npy", *SMALL, "-o", "m.mhash", code=2).stderr
    assert files() == before
    assert Path("m.mhash").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--bits=0"], "whole number of at least 1"),
        (["--seed=-1"], "whole number of at least 0"),
        (["--recipe=imh-tsn"], "did you mean 'imh-tsne'"),
        (["--set=n_neighbors=31"], "n_neighbors=31 exceeds the 30 neighbors"),
        (["--set=n_neighbors=few"], "whole number"),
        (
            ["--set=color=1"],
            "not a parameter of imh-tsne-random: imh-tsne-random has bandwidth, base, embedding",
        ),
        (["--set=n_neighbor=3"], "(did you mean n_neighbors?)"),
        (["--set=embeding__perplexity=3"], "(did you mean embedding__perplexity?): imh-tsne-random has"),
        (["--set=base__sise=3"], "(did you mean base__size?): base has base__random_state, base__size"),
        (["--set=base__size__x=3"], "base__size of imh-tsne-random is 400 and has no parameters"),
        (["--set=n_neighbors"], "expected name=value"),
        (["--set=n_bits=8"], "use --bits"),
        (["--set=rotation__n_iter=5"], "rotation of imh-tsne-random is None"),
        (["-o", "no/such/folder/m.mhash"], "Choose a target in a folder you can write to"),
        (["-o", "."], "it is a folder"),
        (["-o", "X.npy"], "also an input file"),
        (["--data=digits"], "one of the two"),
        (["--frob"], "No such option"),
    ],
)
def test_fit_rejects_invalid_options(options: list[str], expected: str) -> None:
    before = files()
    assert expected in stderr_line(run("fit", "X.npy", *SMALL, "-o", "m.mhash", *options, code=2))
    assert files() == before


def _cut(path: str) -> None:
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) * 2 // 3])


def _flip(path: str) -> None:
    content = bytearray(Path(path).read_bytes())
    content[-9] ^= 1
    Path(path).write_bytes(content)


def _newer(path: str) -> None:
    content = Path(path).read_bytes()
    assert content.count(b'"version\\": 1') == 1
    Path(path).write_bytes(content.replace(b'"version\\": 1', b'"version\\": 9'))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (_cut, "is not a manihash model file, or it is damaged"),
        (_flip, "is damaged"),
        (_newer, "upgrade manihash"),
        (lambda path: Path(path).write_bytes(Path("X.npy").read_bytes()), "is an npy file, not a model file"),
        (lambda path: Path(path).unlink(), "no model file"),
        (lambda path: _save_embedding(path), "makes no codes"),
    ],
    ids=["cut short", "a bit flipped", "newer", "foreign", "missing", "no hasher"],
)
def test_an_invalid_model_file_is_rejected(
    model: str, damage: Callable[[str], object], expected: str
) -> None:
    damage(model)
    before = files()
    assert expected in run("encode", model, "X.npy", "-o", "new.npy", code=2).stderr
    assert expected in run("search", model, "codes.npy", "Q.npy", code=2).stderr
    assert files() == before


def _save_embedding(path: str) -> None:
    InductiveEmbedding(base=RandomBase(30), random_state=0).fit(np.load("X.npy")).save(path)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["encode", "model.mhash", "narrow.npy", "-o", "new.npy"], "the model was fitted on"),
        (["encode", "model.mhash", "cut.npy", "-o", "new.npy"], "truncated"),
        (["encode", "model.mhash", "none.npy", "-o", "new.npy"], "no file at"),
        (["encode", "model.mhash", "X.npy", "-o", "new.txt"], "selects no format"),
        (
            ["encode", "model.mhash", "X.npy", "-o", "no/new.npy"],
            "Choose a target in a folder you can write to",
        ),
        (
            ["encode", "model.mhash", "X.npy", "-o", "model.mhash.npz/x.npy"],
            "Choose a target in a folder you can write to",
        ),
        (["search", "model.mhash", "narrow.npy", "Q.npy"], "bytes"),
        (["search", "model.mhash", "codes.npy", "narrow.npy"], "the model was fitted on"),
        (["search", "model.mhash", "codes.npy", "Q.npy", "-k", "0"], "whole number of at least 1"),
        (["search", "model.mhash", "codes.npy", "Q.npy", "-k", "1", "--radius", "1"], "one of the two"),
        (["search", "model.mhash", "codes.npy", "Q.npy", "-o", "a.npy"], ".npz"),
        (["fit", "--data=digits", "--recipe=imh-pca", "--bits=65", "-o", "new.mhash"], "at most 64"),
        (["evaluate", "--data", "imagenet"], "choose among digits"),
        (["evaluate", "--data", "digits", "--bits", "many"], "integers separated by commas"),
        (["evaluate", "--data", "digits", "--seeds", "0"], "whole number of at least 1"),
        (["evaluate", "--recipe", "imh-tsne"], "--data NAME"),
        (["evaluate", "--vectors", "X.npy", "--labels", "yq.npy"], "one label for each of 300 rows"),
        (["evaluate", "--vectors", "X.npy", "--queries", "300"], "Change --queries"),
        (["evaluate", "--train", "X.npy", "--test", "Q.npy", "--labels", "y.npy"], "--test-labels"),
        (["data", "get", "imagenet"], "choose among digits"),
        (["data", "get", "bigann10k"], "Put a copy at"),
        (["data", "gist", "X.npy", "-o", "g.npy"], "(n, h, w)"),
    ],
)
def test_invalid_input_gives_one_message_and_exit_code_2(
    model: str, empty_home: Path, args: list[str], expected: str
) -> None:
    np.save("narrow.npy", np.load("X.npy")[:, :5])
    np.save("cut.npy", np.load("X.npy"))
    _cut("cut.npy")
    before = files()
    assert expected in stderr_line(run(*args, code=2))
    assert files() == before


def other_names(path: str) -> list[str]:
    """Other names of a file: another path, a symbolic link and a hard link."""
    suffix = Path(path).suffix
    Path("folder").mkdir()
    Path(f"symbolic{suffix}").symlink_to(path)
    Path(f"hard{suffix}").hardlink_to(path)
    return [path, f"folder/../{path}", str(Path(path).absolute()), f"symbolic{suffix}", f"hard{suffix}"]


@pytest.mark.parametrize("command", ["fit", "fit --labels", "encode", "dedup", "search", "index", "gist"])
def test_an_output_that_is_an_input_is_refused_under_any_name(command: str, model: str) -> None:
    codes, X = np.load("codes.npy"), np.load("X.npy")
    np.savez("x.npz", X=X, y=np.load("y.npy"), codes=codes, images=X.reshape(300, 4, 4))
    Path("x.mhx").write_bytes(b"ids")
    arguments = {
        "fit": ["fit", "x.npz:X", *SMALL],
        "fit --labels": ["fit", "X.npy", "--labels=x.npz:y", *SMALL],
        "encode": ["encode", model, "x.npz:X"],
        "dedup": ["dedup", "x.npz:codes"],
        "search": ["search", model, "codes.npy", "x.npz:X"],
        "index": ["index", "codes.npy", "--ids=x.mhx"],
        "gist": ["data", "gist", "x.npz:images"],
    }[command]
    source = "x.mhx" if command == "index" else "x.npz"
    before = Path(source).read_bytes()
    for out in other_names(source):
        assert "also an input file" in stderr_line(run(*arguments, "-o", out, code=2))
    assert Path(source).read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        ["info", "postgres://me:secret@host/db"],
        ["index", "postgres://me:secret@host/db", "-o", "codes.mhx"],
        ["export", "X.npy", "--to", "milvus://me:a/secret@host"],
        ["export", "X.npy", "--to", "host=here password=secret"],
    ],
)
def test_no_message_contains_the_password_of_an_address(command: list[str], monkeypatch: Any) -> None:
    np.save("X.npy", np.zeros((3, 1), np.uint8))
    assert "secret" not in run(*command, code=2).output
    monkeypatch.setenv("MANIHASH_DEBUG", "1")
    assert "secret" not in invoke(command).output


def test_a_missing_store_has_the_hint_how_to_create_it() -> None:
    run("fit", "X.npy", *SMALL, "-o", "m.mhash")
    shown = stderr_line(run("search", "m.mhash", "Q.npy", "--store", "none.faiss", code=2))
    assert "no FAISS index file at none.faiss" in shown
    assert "hint: manihash export creates a store" in shown
