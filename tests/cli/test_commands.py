"""The commands and their results, as text and as JSON."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from command import SMALL, invoke, run, stderr_line
from typer.testing import CliRunner

from manihash import IMH, load
from manihash.cli._app import app
from manihash.codes import hamming

pytestmark = pytest.mark.usefixtures("folder")


def test_search_agrees_with_brute_force(model: str) -> None:
    document = json.loads(
        run("search", model, "codes.npy", "X.npy", "-k", "4", "--symmetric", "--json").stdout
    )
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


def test_info_names_the_recipe_of_an_index_with_its_model() -> None:
    run("build", "X.npy", "--recipe", "itq", "--bits", "8", "-o", "built.mhx")
    described = json.loads(run("info", "built.mhx", "--json").stdout)
    assert (described["recipe"], described["holds_model"], described["codes"]) == ("itq", True, "8 signs")
    text = run("info", "built.mhx").stdout
    assert "index file, model and codes" in text
    assert "recipe itq" in text


def test_info_lists_recipes_and_optional_libraries() -> None:
    from manihash import recipe_names

    document = json.loads(run("info", "--json").stdout)
    assert list(document["recipes"]) == recipe_names()
    databases = {"lancedb", "psycopg", "pymilvus", "duckdb", "sqlite_vec", "clickhouse_connect", "usearch"}
    databases |= {"qdrant_client"}
    others = {"faiss", "matplotlib", "h5py", "pyarrow", "dask", "torch", "onnx", "onnxruntime", "pandas"}
    others |= {"anywidget"}
    assert set(document["optional"]) == others | databases
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


def test_data_gist_describes_the_files_of_a_folder(tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "ba":
        image.fromarray(np.full((20, 30, 3), ord(name), np.uint8)).save(folder / f"{name}.png")
    run("data", "gist", str(folder), "-o", "gist.npy", "--names", "names.txt")
    assert np.load("gist.npy").shape == (2, 512)
    assert Path("names.txt").read_text("utf-8") == "a.png\nb.png\n"
    assert (
        "--names needs a folder"
        in run("data", "gist", "gist.npy", "-o", "g.npy", "--names", "n", code=2).stderr
    )


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
    assert all(0 < row["recall_at_10"] < row["precision_at_10"] < 1 for row in document["rows"])


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


@pytest.mark.parametrize("baseline", ["faiss-pq", "faiss-rabitq"])
def test_evaluate_compares_with_quantizers_of_faiss(baseline) -> None:
    pytest.importorskip("faiss")
    options = ["evaluate", "--data=digits", f"--recipe=itq,{baseline}", "--bits=32"]
    ours, theirs = (document := json.loads(run(*options, "--json").stdout))["rows"]
    assert theirs.keys() == ours.keys()
    assert all(0 < theirs[name] < 1 for name in ("map", "precision_at_10", "recall_at_10"))
    assert all(theirs[name] is None for name in ("map_ties", "precision", "recall", "f1"))
    assert (ours["bytes_per_row"], theirs["bytes_per_row"]) == (4, 12 if baseline == "faiss-rabitq" else 4)
    assert ("stores 12 bytes per row" in document["protocol"]) == (baseline == "faiss-rabitq")
    assert document["l2_scan"]["precision_at_10"] > 0.9
    assert document["l2_scan"]["recall_at_10"] == 1


def test_evaluate_prints_a_note_once_below_the_table() -> None:
    options = ["--bits=100", "--set=first__embedding__n_iter=20", "--seeds=2"]
    name = "imh-hybrid-hamming"
    output = CliRunner().invoke(app, ["evaluate", "--data=digits", f"--recipe={name}", *options]).output
    assert output.count("the first part has 36 bits instead of 24") == 1
    assert output.index("the first part has") > output.rindex(name)


def test_evaluate_says_what_installs_faiss(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    result = run("evaluate", "--data=digits", "--recipe=faiss-pq", code=2)
    assert "pip install 'manihash[faiss]'" in result.stderr


def test_evaluate_reports_an_error_per_row_and_keeps_the_other_rows() -> None:
    options = ["--data=digits", "--recipe=imh-pca", "--bits=8,65", "--json"]
    result = invoke(["evaluate", *options])
    good, bad = json.loads(result.stdout)["rows"]
    assert result.exit_code == 2
    assert good["map"] > 0
    assert "at most 64" in bad["error"]
    assert "imh-pca, 65 bits" in result.stderr


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_labels_can_be_strings(folder, kind):
    names = np.array(["cat", "dog"] * 150)
    path = folder / f"names.{kind}"
    np.save(path, names) if kind == "npy" else path.write_text("label\n" + "\n".join(names))
    run("fit", "X.npy", "--labels", str(path), "--recipe", "ldahash", "--bits", "8", "-o", "named.mhash")


def test_encode_and_info_show_how_many_rows_are_computed_again(model):
    made = json.loads(run("encode", model, "X.npy", "-o", "again.npy", "--json").stdout)
    assert 0 <= made["computed_again"] < 300
    assert "computed again" in run("encode", model, "X.npy", "-o", "again.npy").stdout
    np.save("zeros.npy", np.zeros_like(np.load("X.npy")))  # no direction: nothing is decided in float32
    shares = [
        json.loads(run("info", model, "--vectors", f"{name}.npy", "--json").stdout)["computed_again"]
        for name in ("X", "zeros")
    ]
    assert shares == [made["computed_again"] / 300, 1]
    assert "100.00% of the rows" in run("info", model, "--vectors", "zeros.npy").stdout
    assert "--vectors needs a model file" in stderr_line(run("info", "--vectors", "X.npy", code=2))
