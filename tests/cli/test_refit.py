"""manihash refit: a model trained anew on all vectors that keeps most bits."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import run, stderr_line

from manihash import load

SETTINGS = ["--set=base__size=40", "--set=embedding__perplexity=5", "--set=embedding__n_iter=200"]
REFIT = ["refit", "model.mhash", "all.npy", "-o", "model2.mhash"]


@pytest.fixture
def fitted(folder: Path) -> Path:
    """old.npy, all.npy, and a model of old.npy."""
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.normal(size=(4, 10))
    X = (centers[rng.integers(4, size=500)] + rng.normal(size=(500, 10))).astype(np.float32)
    np.save("old.npy", X[:400])
    np.save("all.npy", X)
    run("fit", "old.npy", "--recipe=imh-tsne", "--bits=16", *SETTINGS, "-o", "model.mhash")
    return folder


@pytest.mark.usefixtures("fitted")
def test_most_bits_stay_and_the_lineage_names_the_parent() -> None:
    made = json.loads(run(*REFIT, "--json").stdout)
    old, new, X = load("model.mhash"), load("model2.mhash"), np.load("all.npy")
    different = old.transform(X) != new.transform(X)
    assert made["changed_bits"] == pytest.approx(different.mean())
    assert made["changed_codes"] == pytest.approx(different.any(axis=1).mean())
    fresh = load("model.mhash").set_params(random_state=1).fit(X)
    assert made["changed_bits"] < 0.5 * (old.transform(X) != fresh.transform(X)).mean()
    assert made["parent"] == old.lineage_["id"] == new.lineage_["parent"]
    assert made["id"] == new.lineage_["id"]
    assert made["rows"] == 500
    expected = load("model.mhash")
    expected.refit(X)
    np.testing.assert_array_equal(new.encode(X), expected.encode(X))


@pytest.mark.usefixtures("fitted")
def test_the_text_says_what_changed_and_what_to_do_next() -> None:
    text = run(*REFIT).stdout
    assert "bits that change" in text
    assert "replaces an earlier file" not in text
    assert "manihash encode model2.mhash all.npy -o codes.npy" in text
    assert "replaces an earlier file" in run(*REFIT).stdout


@pytest.mark.usefixtures("fitted")
def test_the_warning_of_new_rows_names_the_command() -> None:
    np.save("all.npy", np.vstack([np.load("old.npy"), np.load("old.npy")[:200] + 10]))
    text = " ".join(run(*REFIT).stderr.split())
    assert "but manihash update with the new rows alone, or a new fit, usually ranks new kinds" in text
    assert "X_new" not in text


@pytest.mark.usefixtures("fitted")
def test_codes_of_the_old_model_are_refused() -> None:
    run("encode", "model.mhash", "old.npy", "-o", "codes.npy")
    run("index", "codes.npy", "--model=model.mhash", "-o", "codes.mhx")
    run(*REFIT)
    assert "another model" in stderr_line(run("search", "model2.mhash", "codes.mhx", "all.npy", code=2))


@pytest.mark.usefixtures("fitted")
def test_codes_are_replaced_and_those_of_new_rows_added() -> None:
    X = np.load("all.npy")
    run("encode", "model.mhash", "old.npy", "-o", "codes.npy")
    made = json.loads(run(*REFIT, "--codes=codes.npy", "--json").stdout)
    assert made["replaced"] == {"codes.npy": {"replaced": 400, "added": 100}}
    np.testing.assert_array_equal(np.load("codes.npy"), load("model2.mhash").encode(X))
    again = json.loads(run(*REFIT, "--codes=codes.npy", "--json").stdout)
    assert again["replaced"] == {"codes.npy": {"replaced": 500, "added": 0}}
    np.testing.assert_array_equal(np.load("codes.npy"), load("model2.mhash").encode(X))


@pytest.mark.usefixtures("fitted")
@pytest.mark.parametrize("recipe", ["imh-tsne", "imh-hybrid", "imh-hybrid-hamming"])
@pytest.mark.parametrize("named", [False, True])
def test_an_index_that_holds_its_model_gets_the_refitted_one(recipe: str, named: bool) -> None:
    X, order = np.load("all.npy"), np.random.default_rng(1).permutation(500)
    Path("names.txt").write_text("\n".join(f"n{i:03d}" for i in order[:400]))
    Path("every.txt").write_text("\n".join(f"n{i:03d}" for i in order))
    old_ids, ids = (["--ids=names.txt"], ["--ids=every.txt"]) if named else ([], [])
    run("build", "old.npy", f"--recipe={recipe}", "--bits=32", *old_ids, "-o", "items.mhx")
    before = load("items.mhx")
    text = run("refit", "items.mhx", "all.npy", "-o", "model2.mhash", "--codes=items.mhx", *ids).stdout
    assert "400 replaced in items.mhx, 100 added" in text
    index, new = load("items.mhx"), load("model2.mhash")
    assert index.hasher.lineage_ == new.lineage_
    assert index.made_by == new.lineage_["id"]
    assert index.layout == new.layout_
    names = [f"n{i:03d}" for i in order] if named else list(range(500))
    assert index.ids.tolist() == sorted(names)
    expected = new.index(X, ids=names).search(X[:20], 5)
    found = index.search(X[:20], 5)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])
    assert len(before) == 400


@pytest.mark.usefixtures("fitted")
def test_an_index_with_gaps_in_its_ids_needs_the_ids_of_the_vectors() -> None:
    X, sold = np.load("old.npy"), np.arange(5)
    run("build", "old.npy", "--recipe=itq", "--bits=8", "-o", "items.mhx")
    np.save("sold.npy", sold)
    run("index", "items.mhx", "--remove", "sold.npy")
    np.save("left.npy", X[5:])
    np.save("ids.npy", np.arange(5, len(X)))
    asked = ["refit", "items.mhx", "left.npy", "-o", "model2.mhash", "--codes=items.mhx"]
    message = stderr_line(run(*asked, code=2))
    assert "5 ids have no vector, such as 395" in message
    assert "give the ids of the vectors with --ids FILE" in message
    assert "395 replaced in items.mhx, 0 added" in run(*asked, "--ids=ids.npy").stdout


@pytest.mark.usefixtures("fitted")
def test_codes_without_vectors_or_of_another_model_are_refused() -> None:
    run("encode", "model.mhash", "all.npy", "-o", "codes.npy")
    run("index", "codes.npy", "--model=model.mhash", "-o", "codes.mhx")
    for codes in ("codes.npy", "codes.mhx"):
        content = Path(codes).read_bytes()
        asked = ["refit", "model.mhash", "old.npy", "-o", "model2.mhash", f"--codes={codes}"]
        message = stderr_line(run(*asked, code=2))
        assert "500 codes, but there are 400 vectors" in message or "100 ids have no vector" in message
        assert not Path("model2.mhash").exists(), "refused before the work"
        assert Path(codes).read_bytes() == content
    run("fit", "old.npy", "--recipe=imh-tsne", "--bits=16", *SETTINGS, "--seed=1", "-o", "other.mhash")
    other = ["refit", "other.mhash", "all.npy", "-o", "model3.mhash"]
    assert "another model" in stderr_line(run(*other, "--codes=codes.mhx", code=2))
    assert "is not that of the model" in stderr_line(run(*other, "--codes=codes.npy", code=2))
    assert "--ids are the ids of VECTORS in an index file" in " ".join(
        run(*REFIT, "--ids=codes.npy", code=2).stderr.replace("│", " ").split()
    )


@pytest.mark.usefixtures("fitted")
def test_another_seed_gives_another_model() -> None:
    run(*REFIT)
    run(*REFIT[:-1], "other.mhash", "--seed=1")
    assert load("model2.mhash").lineage_["id"] != load("other.mhash").lineage_["id"]


@pytest.mark.usefixtures("fitted")
def test_what_cannot_be_refitted_is_refused_and_nothing_is_written() -> None:
    np.save("narrow.npy", np.load("all.npy")[:, :9])
    message = stderr_line(run("refit", "model.mhash", "narrow.npy", "-o", "model2.mhash", code=2))
    assert "9" in message
    assert "10" in message
    np.save("few.npy", np.load("all.npy")[:20])
    run("refit", "model.mhash", "few.npy", "-o", "model2.mhash", code=2)
    run("fit", "old.npy", "--recipe=agh", "--bits=8", "--set=base__size=40", "-o", "agh.mhash")
    message = stderr_line(run("refit", "agh.mhash", "all.npy", "-o", "model2.mhash", code=2))
    assert "cannot be refitted" in message
    assert "also an input file" in stderr_line(run(*REFIT[:-1], "model.mhash", code=2))
    assert not Path("model2.mhash").exists()
