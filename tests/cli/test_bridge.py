"""manihash bridge: what it shows, writes and refuses, and how its model works with the old index."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import invoke, run, stderr_line

from manihash import HammingIndex, load

PAIRS = ["--new", "new.npy", "--old", "X.npy"]
BRIDGE = ["bridge", "model.mhash", *PAIRS, "-o", "bridged.mhash"]


@pytest.fixture
def bridgeable(model: str) -> str:
    """new.npy, X.npy of another embedding model (300, 24), its queries new_Q.npy, and codes.mhx."""
    R = np.random.default_rng(1).normal(size=(16, 24))
    for source, target in (("X", "new"), ("Q", "new_Q")):
        np.save(f"{target}.npy", np.tanh(np.load(f"{source}.npy") @ R / 20).astype(np.float32))
    run("index", "codes.npy", "--model=model.mhash", "-o", "codes.mhx")
    return model


@pytest.mark.usefixtures("bridgeable")
def test_the_choice_and_its_expected_loss_are_shown_and_the_model_is_written() -> None:
    text = run(*BRIDGE).stdout
    for words in (
        "share kept",
        "95 % interval",
        "held-out pairs",
        "bits as before",
        "verdict",
        "bridged.mhash",
    ):
        assert words in text
    made = json.loads(run(*BRIDGE, "--json").stdout)
    assert made["bridged"] == "bridged.mhash"
    assert made["parent"] == load("model.mhash").lineage_["id"]
    assert made["id"] == load("bridged.mhash").lineage_["id"]
    assert made["interval"][0] <= made["share"] <= made["interval"][1]
    assert set(made["shares"]) == {"orthogonal", "low-rank", "ridge", "residual"}
    assert (made["width"], made["old_width"]) == (24, 16)


@pytest.mark.usefixtures("bridgeable")
def test_info_describes_a_bridge_of_codes_with_two_parts() -> None:
    run("fit", "X.npy", "--recipe=imh-hybrid-hamming", "--bits=16", "-o", "hybrid.mhash")
    run("bridge", "hybrid.mhash", *PAIRS, "--min-share=0", "-o", "bridged.mhash")
    assert "second part with weight" in run("info", "bridged.mhash").stdout


@pytest.mark.usefixtures("bridgeable")
def test_without_an_output_file_only_the_expected_loss_is_shown() -> None:
    before = sorted(Path().iterdir())
    assert "share kept" in run("bridge", "model.mhash", *PAIRS).stdout
    assert json.loads(run("bridge", "model.mhash", *PAIRS, "--json").stdout)["bridged"] is None
    assert sorted(Path().iterdir()) == before


@pytest.mark.usefixtures("bridgeable")
def test_a_poor_bridge_is_not_written() -> None:
    np.save("new.npy", np.random.default_rng(0).normal(size=(300, 5)))
    refused = invoke(BRIDGE)
    assert refused.exit_code == 3
    assert "not written, because the share is below 80%" in refused.stdout
    assert "give more pairs, or a lower" not in refused.stdout
    assert "unrelated" in refused.stdout
    assert not Path("bridged.mhash").exists()
    run(*BRIDGE, "--min-share=0")
    assert Path("bridged.mhash").exists()


@pytest.mark.usefixtures("bridgeable")
def test_old_and_new_rows_live_in_one_index_that_both_models_search() -> None:
    run(*BRIDGE, "--min-share=0")
    run("encode", "bridged.mhash", "new_Q.npy", "-o", "new_codes.npy")
    added = run("index", "codes.mhx", "--add", "new_codes.npy", "--model=bridged.mhash", "--json")
    assert json.loads(added.stdout)["added"] == 20
    assert HammingIndex.load("codes.mhx").made_by == load("model.mhash").lineage_["id"]
    for name, queries in (("model", "Q"), ("bridged", "new_Q")):
        result = run("search", f"{name}.mhash", "codes.mhx", f"{queries}.npy", "-k", "5", "--json")
        assert len(json.loads(result.stdout)["answers"]) == 20
        assert "updated from" not in result.stderr
    reranked = run(
        "search", "bridged.mhash", "codes.npy", "new_Q.npy", "-k", "3", "--rerank", "X.npy", "--json"
    )
    assert json.loads(reranked.stdout)["ranked_by"] == "euclidean"
    run("index", "new_codes.npy", "--model=bridged.mhash", "-o", "new.mhx")
    run("search", "model.mhash", "new.mhx", "Q.npy")


@pytest.mark.usefixtures("bridgeable")
def test_other_commands_take_a_bridged_model() -> None:
    run(*BRIDGE, "--min-share=0")
    text = run("info", "bridged.mhash").stdout
    assert "BridgedHasher" in text
    assert load("model.mhash").lineage_["id"] in text
    run("drift", "bridged.mhash", "new.npy", code=0)
    run("fit", "X.npy", "--recipe=lsh", "--bits=12", "-o", "other.mhash")
    assert "another model" in stderr_line(run("search", "other.mhash", "codes.mhx", "Q.npy", code=2))


@pytest.mark.usefixtures("bridgeable")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--new", "new.npy", "--old", "Q.npy"], "300 new rows and 20 old rows"),
        (["--new", "none.npy", "--old", "X.npy"], "no file at none.npy"),
        (["--new", "X.npy", "--old", "new.npy"], "are --old and --new swapped?"),
        (["--new", "new.npy", "--old", "Q24.npy"], "--old has vectors of 24 columns, --new has 24"),
        ([*PAIRS, "--rows", "new.npy"], "--rows has vectors of 24 columns"),
        (["--new", "new.npy", "--old", "nan.npy"], "the old rows: "),
        (["--new", "new_nan.npy", "--old", "X.npy"], "the new rows: "),
    ],
)
def test_bad_pairs_are_errors_and_write_nothing(arguments: list[str], message: str) -> None:
    for name, target in (("X", "nan"), ("new", "new_nan")):
        rows = np.load(f"{name}.npy")
        rows[7, 2] = np.nan
        np.save(f"{target}.npy", rows)
    np.save("Q24.npy", np.load("new.npy"))
    result = run("bridge", "model.mhash", *arguments, "-o", "bridged.mhash", code=2)
    assert message in stderr_line(result)
    assert not Path("bridged.mhash").exists()


@pytest.mark.usefixtures("bridgeable")
def test_bad_options_are_errors() -> None:
    assert "expected one of auto" in invoke([*BRIDGE, "--kind=linear"]).stderr
    assert "from 0 to 1" in invoke([*BRIDGE, "--min-share=2"]).stderr
    assert "also an input file" in stderr_line(run(*BRIDGE[:-1], "new.npy", code=2))


@pytest.mark.usefixtures("bridgeable")
def test_a_bridge_of_few_pairs_is_written_only_if_its_share_is_certain() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 32)).astype(np.float32)
    np.save("all_old.npy", X)
    np.save("few_old.npy", X[:40])
    np.save("few_new.npy", np.tanh(X[:40] @ rng.normal(size=(32, 48)) / 6))
    run("fit", "all_old.npy", "--recipe=lsh", "--bits=32", "-o", "wide.mhash")
    few = ["bridge", "wide.mhash", "--new=few_new.npy", "--old=few_old.npy", "-o", "few.mhash"]
    alone = invoke([*few, "--json"])
    assert alone.exit_code == 3
    assert json.loads(alone.stdout)["verdict"] == "uncertain"
    assert "not written, because the share is uncertain" in invoke(few).stdout
    assert not Path("few.mhash").exists()
    among = json.loads(invoke([*few, "--rows=all_old.npy", "--json"]).stdout)
    assert among["n_ranked"] == 2000  # the rows of the pairs are not counted twice
    assert among["share"] < json.loads(alone.stdout)["share"] - 0.2
    run(*few, "--min-share=0")
    assert Path("few.mhash").exists()


@pytest.mark.usefixtures("bridgeable")
def test_old_vectors_given_to_a_bridged_model_belong_to_the_old_model() -> None:
    run(*BRIDGE, "--min-share=0")
    message = stderr_line(run("search", "bridged.mhash", "codes.mhx", "Q.npy", code=2))
    assert "with the old model" in message
    assert "fit a new model" not in message
