"""The command: its output, its exit codes, and the files it leaves after an error."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import SCRIPT, run, stderr_line
from numpy.typing import NDArray
from typer.testing import CliRunner

from manihash import IMH, InductiveEmbedding, RandomBase, load
from manihash.cli._app import app
from manihash.codes import hamming

SMALL = [
    "--recipe=imh-tsne-random",
    "--bits=12",
    "--set=base__size=30",
    "--set=embedding__perplexity=5",
    "--set=embedding__n_iter=50",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a new folder with X.npy (300, 16) of six clusters, labels y.npy, and queries Q.npy, yq.npy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("MANIHASH_DEBUG", raising=False)
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=320)
    X = (4 * rng.normal(size=(6, 16))[y] + rng.normal(size=(320, 16))).astype(np.float32)
    for name, array in {"X": X[:300], "y": y[:300], "Q": X[300:], "yq": y[300:]}.items():
        np.save(f"{name}.npy", array)
    return tmp_path


@pytest.fixture
def model(folder: Path) -> str:
    """Write a model of X.npy, and the codes of X.npy to codes.npy."""
    run("fit", "X.npy", *SMALL, "-o", "model.mhash")
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy")
    return "model.mhash"


def run_script(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *args], capture_output=True, text=True, timeout=120, check=False)


def files() -> set[str]:
    return set(os.listdir())


def test_search_agrees_with_brute_force(model: str) -> None:
    document = json.loads(run("search", model, "codes.npy", "X.npy", "-k", "4", "--json").stdout)
    codes = np.load("codes.npy")
    assert codes.shape == (300, 2)
    assert codes.dtype == np.uint8
    assert document["k"] == 4
    truth = hamming(codes, codes)
    for answer, distance in zip(document["answers"], truth, strict=True):
        nearest = np.argsort(distance, kind="stable")[:4]
        assert answer["ids"] == nearest.tolist()
        assert answer["distances"] == distance[nearest].tolist()


def test_the_npz_file_and_the_json_document_of_a_search_agree(model: str) -> None:
    result = run("search", model, "codes.npy", "Q.npy", "--radius", "1", "-o", "found.npz", "--json")
    answers = json.loads(result.stdout)["answers"]
    with np.load("found.npz") as found:
        ids = np.split(found["ids"], found["lims"][1:-1])
        assert [a["ids"] for a in answers] == [i.tolist() for i in ids]
        assert found["distances"].max() <= 1


def test_search_shows_a_table_of_the_first_queries(model: str) -> None:
    lines = run("search", model, "codes.npy", "Q.npy").stdout.splitlines()
    assert len(lines) == 12  # a heading, ten queries, one line about the other ten
    assert "10 more queries" in lines[-1]


def test_codes_can_be_stored_in_every_file_format(model: str) -> None:
    answers = run("search", model, "codes.npy", "Q.npy", "--json").stdout
    for name in ("c.npz", "c.bvecs", "c.idx", "c.csv"):
        run("encode", model, "X.npy", "-o", name)
        assert run("search", model, name, "Q.npy", "--json").stdout == answers


def test_the_same_seed_gives_the_same_model(model: str) -> None:
    run("fit", "X.npy", *SMALL, "-o", "again.mhash")
    run("fit", "X.npy", *SMALL, "--seed", "1", "-o", "other.mhash")
    first, again, other = (load(name).base_embedding_ for name in (model, "again.mhash", "other.mhash"))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_fit_reports_the_model(folder: Path) -> None:
    learned = json.loads(run("fit", "X.npy", *SMALL, "-o", "m.mhash", "--json").stdout)
    assert (learned["rows"], learned["width"], learned["bits"]) == (300, 16, 12)
    assert learned["file_bytes"] == Path("m.mhash").stat().st_size
    assert learned["loss"] > 0


def test_info_describes_a_model(model: str) -> None:
    described = json.loads(run("info", model, "--json").stdout)
    assert (described["class"], described["bits"], described["width"], described["base_points"]) == (
        "IMH",
        12,
        16,
        30,
    )
    assert described["format_version"] == 1
    assert described["params"]["embedding"] == "TSNE(n_iter=50, perplexity=5)"
    assert "codes of 12 bits" in run("info", model).stdout


def test_info_names_the_recipe_of_a_model(model: str, folder: Path) -> None:
    described = json.loads(run("info", model, "--json").stdout)
    settings = {"base__size": 30, "embedding__perplexity": 5, "embedding__n_iter": 50}
    assert (described["recipe"], described["settings"]) == ("imh-tsne-random", settings)
    recipe_line = (
        "imh-tsne-random --set base__size=30 --set embedding__n_iter=50 --set embedding__perplexity=5"
    )
    assert recipe_line in run("info", model).stdout
    again = [f"--set={name}={value}" for name, value in described["settings"].items()]
    run("fit", "X.npy", "-r", described["recipe"], *again, "--bits=12", "-o", "again.mhash")
    assert Path("again.mhash").read_bytes() == Path(model).read_bytes()


def test_info_names_no_recipe_for_a_custom_model(folder: Path) -> None:
    points = np.load("X.npy")[:20]
    IMH(n_bits=4, base=points, random_state=0).fit(np.load("X.npy")).save("own.mhash")
    assert json.loads(run("info", "own.mhash", "--json").stdout)["recipe"] is None
    assert "recipe" not in run("info", "own.mhash").stdout


def test_info_lists_recipes_and_optional_libraries() -> None:
    from manihash import recipe_names

    document = json.loads(run("info", "--json").stdout)
    assert list(document["recipes"]) == recipe_names()
    databases = {"lancedb", "psycopg", "pymilvus"}
    assert (
        set(document["optional"]) == {"faiss", "matplotlib", "h5py", "pyarrow", "dask", "torch"} | databases
    )
    assert "imh-tsne" in run("info").stdout


def test_data_lists_the_catalog(empty_home: Path) -> None:
    from manihash.datasets import dataset_names

    sets = json.loads(run("data", "list", "--json").stdout)["sets"]
    assert [s["name"] for s in sets] == dataset_names()
    assert [s["name"] for s in sets if s["here"]] == ["digits"]
    assert "digits" in run("data", "list").stdout


def test_data_get_describes_a_dataset() -> None:
    described = json.loads(run("data", "get", "digits", "--json").stdout)
    assert (described["database"], described["queries"], described["labels"]) == ([1597, 64], [200, 64], True)


def test_data_gist_writes_descriptors() -> None:
    np.save("images.npy", np.random.default_rng(0).integers(256, size=(3, 40, 40), dtype=np.uint8))
    run("data", "gist", "images.npy", "-o", "gist.npy")
    assert np.load("gist.npy").shape == (3, 512)


def test_evaluate_compares_recipes_on_the_digits() -> None:
    options = ["--data=digits", "--recipe=imh-pca,imh-tsne", "--bits=8,16", "--set=n_neighbors=4"]
    document = json.loads(run("evaluate", *options, "--json").stdout)
    assert [(row["recipe"], row["bits"]) for row in document["rows"]] == [
        ("imh-pca", 8),
        ("imh-pca", 16),
        ("imh-tsne", 8),
        ("imh-tsne", 16),
    ]
    assert document["l2_scan"]["map"] == pytest.approx(0.667, abs=0.001)
    assert document["rows"][3]["map"] > document["l2_scan"]["map"]


def test_evaluate_prints_one_table_and_the_protocol() -> None:
    own = ["--vectors=X.npy", "--labels=y.npy", "--queries=20", *SMALL, "--bits=8,12", "--seeds=2"]
    output = run("evaluate", *own).stdout
    assert output.count("l2 scan") == 1
    assert output.count("imh-tsne-random") == 2
    assert "±" in output
    assert "20 random queries" in output


@pytest.mark.parametrize(
    "source",
    [
        ["--vectors=X.npy"],
        ["--train=X.npy", "--test=Q.npy"],
        ["--train=X.npy", "--labels=y.npy", "--test=Q.npy", "--test-labels=yq.npy"],
    ],
)
def test_evaluate_accepts_vectors_with_and_without_labels(source: list[str]) -> None:
    document = json.loads(run("evaluate", *source, *SMALL, "--json").stdout)
    without = "--labels=y.npy" not in source
    assert ("nearest 2%" in document["protocol"]) == without
    assert document["l2_scan"]["map"] == 1 or not without
    assert 0 < document["rows"][0]["map"] <= 1


def test_evaluate_reports_an_error_per_row_and_keeps_the_other_rows() -> None:
    options = ["--data=digits", "--recipe=imh-pca", "--bits=8,65", "--json"]
    result = CliRunner().invoke(app, ["evaluate", *options])
    good, bad = json.loads(result.stdout)["rows"]
    assert result.exit_code == 2
    assert good["map"] > 0
    assert "at most 64" in bad["error"]
    assert "imh-pca, 65 bits" in result.stderr


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
        (["-o", "no/such/folder/m.mhash"], "in an existing, writable folder"),
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
        (["encode", "model.mhash", "X.npy", "-o", "no/new.npy"], "in an existing, writable folder"),
        (
            ["encode", "model.mhash", "X.npy", "-o", "model.mhash.npz/x.npy"],
            "in an existing, writable folder",
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


def test_warnings_of_the_library_are_printed_to_stderr(model: str) -> None:
    result = run("search", model, "codes.npy", "Q.npy", "-k", "400", "--json")
    assert "warning: k=400 exceeds the 300 rows of the index" in result.stderr
    assert len(json.loads(result.stdout)["answers"][0]["ids"]) == 300


def test_the_script_prints_only_the_result_to_stdout(folder: Path) -> None:
    done = run_script("fit", "X.npy", *SMALL, "-o", "m.mhash", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["bits"] == 12
    assert done.stderr == ""


def test_the_script_exits_2_without_a_traceback(folder: Path) -> None:
    done = run_script("encode", "X.npy", "X.npy", "-o", "codes.npy")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_traceback_is_shown_with_manihash_debug(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANIHASH_DEBUG", "1")
    done = run_script("info", "X.npy")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_a_closed_pipe_is_not_an_error(model: str) -> None:
    command = [SCRIPT, "search", model, "codes.npy", "X.npy", "--radius", "12", "--json"]
    searching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert searching.stdout is not None
    searching.stdout.read(10)
    searching.stdout.close()
    assert searching.stderr is not None
    assert searching.stderr.read() == b""
    searching.stderr.close()
    assert searching.wait(60) == 0


def test_an_internal_error_is_one_line_and_exit_code_1(folder: Path) -> None:
    fault = (
        "import manihash.cli.fit as fit, manihash.cli as cli, sys\n"
        "def broken(*_): raise KeyError('lost')\n"
        "fit._training_rows = broken\n"
        "sys.argv = ['manihash', 'fit', 'X.npy', '-o', 'm.mhash']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", fault], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "internal error: KeyError" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_fit_leaves_no_file(folder: Path) -> None:
    before = files()
    screen, terminal = pty.openpty()
    command = [SCRIPT, "fit", "X.npy", *SMALL, "--set=embedding__n_iter=10000000", "-o", "m.mhash"]
    fitting = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=terminal,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(terminal)
    seen = b""
    while b"t-SNE" not in seen:  # the progress bar shows that the fit has started
        seen += os.read(screen, 4096)
    fitting.send_signal(signal.SIGINT)
    seen += _rest(screen)
    assert fitting.stdout is not None
    assert fitting.stdout.read() == b""
    fitting.stdout.close()
    assert fitting.wait(60) == 130
    assert b"interrupted; nothing was written" in seen
    assert b"Traceback" not in seen
    assert files() == before


def _rest(screen: int) -> bytes:
    """Return the output of a terminal until its last writer closes it."""
    seen = b""
    try:
        while more := os.read(screen, 4096):
            seen += more
    except OSError:
        pass
    os.close(screen)
    return seen


@pytest.mark.parametrize("args", [["--help"], ["fit", "--help"], ["evaluate", "--help"], ["--version"]])
def test_help_does_not_import_numpy(args: list[str]) -> None:
    probe = (
        "import sys\n"
        "from manihash.cli import main\n"
        f"sys.argv = ['manihash', *{args!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'matplotlib', 'faiss', 'h5py'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "manihash" in done.stdout


@pytest.mark.parametrize("command", ["demo", "fit", "encode", "search", "evaluate", "info"])
def test_every_help_has_an_example(command: str) -> None:
    assert f"  manihash {command}" in run(command, "--help").stdout


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_labels_can_be_strings(folder, kind):
    names = np.array(["cat", "dog"] * 150)
    path = folder / f"names.{kind}"
    np.save(path, names) if kind == "npy" else path.write_text("label\n" + "\n".join(names))
    run("fit", "X.npy", "--labels", str(path), "--recipe", "ldahash", "--bits", "8", "-o", "named.mhash")
