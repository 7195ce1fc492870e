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
