"""Hybrid codes on the command line: search says by which distance it ranks."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import run, stderr_line

from manihash import IMH, Hybrid, LabelTruth, evaluate, load, load_dataset, recipe
from manihash.base import KMeansBase
from manihash.hashers import ITQ


@pytest.fixture
def codes(tmp_path, monkeypatch):
    """Hybrid codes of 8 + 8 bits in the current folder, as c.npy, beside their model and vectors."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(300, 16))
    np.save("x.npy", X)
    hasher = Hybrid(IMH(8, KMeansBase(20)), ITQ(8), random_state=0).fit(X)
    hasher.save("m.mhash")
    codes = hasher.encode(X)
    np.save("c.npy", codes)
    return codes


@pytest.mark.parametrize(
    ("options", "ranked_by"),
    [
        (["-k", "3"], "asymmetric"),
        (["-k", "3", "--symmetric"], "weighted hamming"),
        (["--radius", "2"], "asymmetric"),
        (["--radius", "2", "--symmetric"], "weighted hamming"),
    ],
)
def test_search_names_the_distance_of_hybrid_codes(options, ranked_by, codes):
    result = json.loads(run("search", "m.mhash", "c.npy", "x.npy", *options, "--json").stdout)
    assert result["ranked_by"] == ranked_by
    assert 0 in result["answers"][0]["ids"]


def test_a_table_of_a_radius_says_what_the_radius_counts_and_what_orders_the_rows(codes):
    table = " ".join(run("search", "m.mhash", "c.npy", "x.npy", "--radius", "2").stdout.split())
    # A narrow terminal has other headings between the lines of this one.
    assert "(asymmetric distance of both parts), nearest first, of the" in table
    assert "rows within 2 bits of the first part" in table
    assert "first part" not in run("search", "m.mhash", "c.npy", "x.npy", "-k", "2").stdout


def test_search_in_a_store_says_that_it_counts_all_bits_alike(codes):
    run("export", "c.npy", "--to", "c.faiss")
    found = run("search", "m.mhash", "x.npy", "--store", "c.faiss", "--radius", "2", "--json")
    assert json.loads(found.stdout)["ranked_by"] == "hamming"
    assert "a store ranks codes of two parts by all bits alike" in " ".join(found.stderr.split())
    assert "a store ranks" not in run("search", "m.mhash", "c.npy", "x.npy", "--radius", "2").stderr


def test_a_store_of_bare_codes_of_a_quantizer_is_refused_with_the_file_to_export(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(300, 40)))
    run("build", "x.npy", "-o", "i.mhx")
    run("encode", "i.mhx", "x.npy", "-o", "c.npy")
    run("export", "c.npy", "--to", "c.faiss")
    line = stderr_line(run("search", "i.mhx", "x.npy", "--store", "c.faiss", code=2))
    assert "use an index file, or export that one, which knows the parts of its codes" in line
    run("export", "i.mhx", "--to", "i.faiss")
    answers = run("search", "i.mhx", "x.npy", "--store", "i.faiss", "--json").stdout
    run("export", "c.npy", "--model", "i.mhx", "--to", "m.faiss")
    assert run("search", "i.mhx", "x.npy", "--store", "m.faiss", "--json").stdout == answers
    result = run("export", "c.npy", "--model", "i.mhx", "--to", "c.usearch", code=2)
    assert "the other part of these codes is a product quantizer" in stderr_line(result)


def test_fit_without_a_recipe_gives_hybrid_codes_that_can_be_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(300, 40))
    np.save("x.npy", X)
    run("fit", "x.npy", "-o", "m.mhash")
    run("encode", "m.mhash", "x.npy", "-o", "c.npy")
    model = load("m.mhash")
    assert isinstance(model, Hybrid)
    assert np.load("c.npy").shape == (300, 8)
    result = json.loads(run("search", "m.mhash", "c.npy", "x.npy", "-k", "3", "--json").stdout)
    assert [answer["ids"][0] for answer in result["answers"]] == list(range(300))


def test_options_of_the_parts_are_set_by_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(300, 40)))
    settings = ["--set=first__n_neighbors=3", "--set=first__base__base__size=20", "--set=second__n_iter=2"]
    run(
        "fit",
        "x.npy",
        "--recipe=imh-hybrid-hamming",
        "--bits=24",
        *settings,
        "--set=weight=1",
        "-o",
        "m.mhash",
    )
    model = load("m.mhash")
    assert (model.first_.n_neighbors_, len(model.first_.base_points_), model.weight_) == (3, 20, 1)
    assert (model.layout_.look_up_bits, model.n_bits_, model.second_.n_iter) == (12, 24, 2)


@pytest.mark.parametrize("part", ["first", "second"])
def test_the_length_of_a_part_is_refused_because_that_of_the_code_is_divided(tmp_path, monkeypatch, part):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(300, 40)))
    result = run("build", "x.npy", "--bits=64", f"--set={part}__n_bits=20", "-o", "i.mhx", code=2)
    assert f"got --set {part}__n_bits: --bits is divided among both parts" in stderr_line(result)
    own = recipe("imh-hybrid", n_bits=None, first__n_bits=16, second__n_bits=48, random_state=0)
    assert own.fit(np.load("x.npy")).layout_.look_up_bits == 16  # what the message names


def test_the_hint_names_the_option_of_the_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(60, 40)))
    result = run("fit", "x.npy", "--bits=8", "--set=first__n_neighbors=70", "-o", "m.mhash", code=2)
    assert "--set first__n_neighbors=K" in result.stderr
    assert "--set n_neighbors=K" not in result.stderr


def test_evaluate_shows_hybrid_codes_by_plain_hamming_distance_too():
    data = load_dataset("digits")
    arguments = ("evaluate", "--data=digits", "--recipe=imh-hybrid-hamming,pcah", "--bits=32", "--symmetric")
    hybrid, pcah = json.loads(run(*arguments, "--json").stdout)["rows"]
    hasher = recipe("imh-hybrid-hamming", 32, 0).fit(data.X_train)
    codes, queries = hasher.encode(data.X_train), hasher.encode(data.X_test)
    expected = evaluate(queries, codes, LabelTruth(data.y_test, data.y_train), 32)
    assert hybrid["plain"]["map"] == expected.map
    assert hybrid["plain"]["f1"] == expected.f1
    assert hybrid["map"] != expected.map
    assert "plain" not in pcah
    text = run(*arguments, "--seeds=2").stdout
    (line,) = (line.split() for line in text.splitlines() if line.startswith("  plain "))
    assert len(line) == 8
    assert "plain: the same codes by the Hamming distance of all bits" in " ".join(text.split())


@pytest.mark.parametrize("symmetric", [False, True])
def test_evaluate_ranks_as_the_search_of_an_index(symmetric):
    data = load_dataset("digits")
    arguments = ["evaluate", "--data=digits", "--recipe=itq,imh-hybrid-hamming", "--bits=32", "--json"]
    document = json.loads(run(*arguments, *(["--symmetric"] if symmetric else [])).stdout)
    assert document["symmetric"] == symmetric
    for row in document["rows"]:
        hasher = recipe(row["recipe"], 32, 0).fit(data.X_train)
        truth = LabelTruth(data.y_test, data.y_train)
        expected = evaluate(hasher, data.X_train, data.X_test, truth, symmetric=symmetric)
        assert (row["map"], row["f1"]) == (expected.map, expected.f1)
        ids = hasher.index(data.X_train).search(data.X_test, k=10, symmetric=symmetric)[1]
        right = (data.y_train[ids] == data.y_test[:, None]).mean()
        assert row["precision_at_10"] == pytest.approx(right, abs=0.005)  # ties in random order


def test_stats_describes_the_first_part_of_an_index_of_hybrid_codes(codes):
    run("index", "c.npy", "--model", "m.mhash", "-o", "c.mhx")
    first = json.loads(run("stats", "c.mhx", "--json").stdout)
    assert first["distinct_codes"] == len(np.unique(codes[:, 0]))
    assert (first["n_bits"], first["code_bits"]) == (8, 16)
    text = " ".join(run("stats", "c.mhx").stdout.split())
    assert f"distinct first parts {first['distinct_codes']}" in text
    whole = json.loads(run("stats", "c.npy", "--json").stdout)
    assert (whole["n_bits"], whole["code_bits"]) == (16, 16)


@pytest.mark.parametrize(
    "command",
    [
        ["stats"],
        ["dedup"],
        ["dedup", "--radius=1"],
        ["dedup", "--radius=1", "--vectors=x.npy", "--distance=4"],
        ["dedup", "--vectors=x.npy", "--distance=4"],
        ["export", "--to=codes.db"],
    ],
)
def test_a_file_of_codes_with_its_model_is_treated_as_their_index(command, codes):
    run("index", "c.npy", "--model", "m.mhash", "-o", "c.mhx")
    run("index", "c.npy", "-o", "without_model.mhx")

    def results(*args):
        """The result without times and sizes, and the notes on stderr."""
        Path("codes.db").unlink(missing_ok=True)
        result = run(*command, *args, "--json", "--quiet")
        document = json.loads(result.stdout)
        for step in [document, *document.get("curve", [])]:
            for name in ("codes", "seconds", "bytes", "table_bytes", "reason"):
                step.pop(name, None)
        return document, stderr_line(result)

    expected = results("c.mhx")
    assert results("c.npy", "--model=m.mhash") == expected
    document, notes = results("without_model.mhx", "--model=m.mhash")
    assert document == expected[0]
    assert "does not say which model made its codes" in notes
    if command[0] == "export":
        found = run("search", "m.mhash", "x.npy", "--store", "codes.db", "--radius", "2", "--json")
        assert json.loads(found.stdout)["ranked_by"] == "first-part hamming"


def test_new_codes_are_compared_by_the_first_part_with_an_index_whose_model_is_given(codes):
    run("index", "c.npy", "-o", "c.mhx")
    np.save("new.npy", codes ^ np.array([0, 255], np.uint8))  # other second parts
    command = ["dedup", "new.npy", "--against=c.mhx", "--json"]
    whole, first = (json.loads(run(*command, *model).stdout) for model in ([], ["--model=m.mhash"]))
    assert (whole["bits"], whole["first_part"]) == (16, False)
    assert (first["bits"], first["first_part"], first["known"]) == (8, True, 300)


def test_a_radius_of_a_file_of_codes_of_a_quantizer_is_refused_if_its_model_is_given(codes):
    run("fit", "x.npy", "--recipe=pq", "--bits=16", "-o", "pq.mhash")
    run("encode", "pq.mhash", "x.npy", "-o", "pq.npy")
    result = run("dedup", "pq.npy", "--model=pq.mhash", "--radius=1", code=2)
    assert "fields of a product quantizer, which have no Hamming radius" in stderr_line(result)
    assert json.loads(run("dedup", "pq.npy", "--model=pq.mhash", "--json").stdout)["bits"] == 16


@pytest.mark.parametrize(
    "command", [["stats"], ["dedup"], ["index", "-o=c.mhx"], ["export", "--to=c.faiss"]], ids=lambda c: c[0]
)
@pytest.mark.parametrize(
    ("codes_and_options", "expected"),
    [
        (["wide.npy"], "wide.npy has 3 bytes per row, but m.mhash makes codes of 16 bits, that is 2 bytes"),
        (["x.npy"], "codes must be a 2-D array of bytes (uint8)"),
        (["c.npy", "--bits=12"], "got --bits 12, but m.mhash makes codes of 16 bits: omit --bits"),
    ],
)
def test_codes_that_do_not_fit_their_model_are_refused(command, codes_and_options, expected, codes):
    np.save("wide.npy", np.zeros((300, 3), np.uint8))
    result = run(*command, *codes_and_options, "--model=m.mhash", code=2)
    assert expected in stderr_line(result)
    assert not Path("c.mhx").exists()
    assert not Path("c.faiss").exists()


def test_export_refuses_a_first_part_that_is_not_the_one_of_the_model(codes):
    options = ["c.npy", "--model=m.mhash", "--to=c.db"]
    message = stderr_line(run("export", *options, "--look-up-bits=4", code=2))
    assert "got --look-up-bits 4, but m.mhash has codes of 8 + 8 signs" in message
    run("export", *options, "--look-up-bits=8")
