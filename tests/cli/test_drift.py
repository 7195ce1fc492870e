"""manihash drift: exit codes, output, and models without statistics."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import invoke, run, stderr_line

from manihash import load
from manihash.files import model_format


@pytest.fixture
def vectors(indexed_folder: Path) -> None:
    rng = np.random.default_rng(1)
    np.save("train.npy", rng.normal(size=(1000, 8)).astype(np.float32))
    np.save("fresh.npy", rng.normal(size=(200, 8)).astype(np.float32))
    np.save("moved.npy", rng.normal(1, 1, size=(200, 8)).astype(np.float32))
    small = ["--recipe=imh-pca", "--bits=4", "--set=base__size=30"]
    run("fit", "train.npy", *small, "-o", "model.mhash")


def outcome(*args: str) -> tuple[int, str]:

    result = invoke(["drift", *args])
    return result.exit_code, result.stdout


@pytest.mark.usefixtures("vectors")
def test_the_exit_code_and_the_text_say_whether_there_is_drift() -> None:
    code, text = outcome("model.mhash", "fresh.npy")
    assert code == 0
    assert "no: p =" in text
    assert "nothing: the new rows look like the training rows" in text
    code, text = outcome("model.mhash", "moved.npy")
    assert code == 3
    assert "yes: p =" in text
    assert "base point gained" in text


@pytest.mark.usefixtures("vectors")
def test_the_advice_nothing_with_drift_says_what_is_not_recognized() -> None:
    rng = np.random.default_rng(0)
    centers = 10 * rng.normal(size=(3, 8))
    np.save(
        "three.npy", (centers[rng.integers(3, size=1000)] + rng.normal(size=(1000, 8))).astype(np.float32)
    )
    np.save("one.npy", (centers[0] + rng.normal(size=(300, 8))).astype(np.float32))
    run("fit", "three.npy", "--recipe=itq", "--bits=4", "-o", "itq.mhash")
    result = invoke(["drift", "itq.mhash", "one.npy"])
    assert result.exit_code == 3
    assert "nothing: the model covers the new rows" in result.stdout
    assert "new classes that lie among known rows are not recognized" in " ".join(result.stderr.split())


@pytest.mark.usefixtures("vectors")
def test_json_and_the_folder_hold_the_result() -> None:
    pytest.importorskip("matplotlib")
    code, text = outcome("model.mhash", "moved.npy", "--json", "--out", "report")
    found = json.loads(text)
    expected = load("model.mhash").drift(np.load("moved.npy"))
    assert (code, found["drifted"], found["p_value"]) == (3, True, expected.p_value)
    assert found["gained"][0] == list(expected.gained[0])
    assert json.loads(Path("report/drift.json").read_text()) == found
    assert Path("report/drift.svg").read_bytes().startswith(b"<?xml")
    assert {path.name for path in Path("report").iterdir()} == {
        "drift.json",
        "drift.svg",
        "drift.png",
        "files.json",
    }


@pytest.mark.usefixtures("vectors")
def test_an_old_model_gets_statistics_by_record() -> None:
    document, arrays = model_format.read_document("model.mhash")
    del document["fitted"]["dict"]["statistics_"]
    arrays = {name: array for name, array in arrays.items() if "statistics_" not in name}
    model_format.write_document("old.mhash", document, arrays)
    message = stderr_line(run("drift", "old.mhash", "fresh.npy", code=2))
    assert "no training statistics" in message
    assert "manihash drift MODEL TRAINING_VECTORS --record adds them" in message
    run("drift", "old.mhash", "train.npy", "--record")
    assert Path("old.mhash").read_bytes() == Path("model.mhash").read_bytes()


@pytest.mark.usefixtures("vectors")
def test_errors_are_one_line() -> None:
    np.save("few.npy", np.zeros((5, 8)))
    np.save("wide.npy", np.zeros((50, 9)))
    assert "at least 30 rows, got 5" in stderr_line(run("drift", "model.mhash", "few.npy", code=2))
    assert "9 features" in stderr_line(run("drift", "model.mhash", "wide.npy", code=2))
    assert "no file at gone.npy" in stderr_line(run("drift", "model.mhash", "gone.npy", code=2))
