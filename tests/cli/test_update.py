"""manihash update and index --add/--remove: codes that change are replaced, and runs can be repeated."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import run, stderr_line

import manihash.maintenance.stored_codes as stored_codes
from manihash import HammingIndex, load
from manihash.errors import DamagedIndexError
from manihash.search.durable import DurableIndex
from manihash.search.journal import ADD, REMOVE, Change, journal_of


@pytest.fixture
def old_rows_and_codes(folder: Path) -> Path:
    """old.npy, new.npy, a model of old.npy with its codes.npy and codes.mhx."""
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.normal(size=(6, 10))
    y = rng.integers(4, size=400)
    np.save("old.npy", (centers[y] + rng.normal(size=(400, 10))).astype(np.float32))
    np.save(
        "new.npy", (centers[rng.integers(4, 6, size=150)] + rng.normal(size=(150, 10))).astype(np.float32)
    )
    settings = ["--set=base__size=40", "--set=embedding__perplexity=5", "--set=embedding__n_iter=100"]
    run("fit", "old.npy", "--recipe=imh-tsne", "--bits=16", *settings, "-o", "model.mhash")
    run("encode", "model.mhash", "old.npy", "-o", "codes.npy")
    run("index", "codes.npy", "--model=model.mhash", "-o", "codes.mhx")
    return folder


UPDATE = ["update", "model.mhash", "new.npy", "-o", "model2.mhash", "--vectors", "old.npy"]
LOOSE = ["--max-changed", "0.5"]  # so that some codes change


def expected() -> np.ndarray:
    return load("model2.mhash").encode(np.load("old.npy"))


@pytest.mark.usefixtures("old_rows_and_codes")
def test_the_codes_that_change_are_replaced_in_files_and_indexes() -> None:
    before = np.load("codes.npy")
    made = json.loads(run(*UPDATE, *LOOSE, "--codes", "codes.npy", "--json").stdout)
    changed = int((expected() != before).any(axis=1).sum())
    np.testing.assert_array_equal(np.load("codes.npy"), expected())
    assert made["replaced"] == {"codes.npy": changed}
    assert made["changed"] == pytest.approx(changed / 400)
    assert made["added"] > 0
    run(*UPDATE, *LOOSE, "--codes", "codes.mhx")
    index = HammingIndex.load("codes.mhx")
    np.testing.assert_array_equal(index.codes, expected())
    assert index.made_by == load("model2.mhash").lineage_["id"] == made["id"]
    run("search", "model2.mhash", "codes.mhx", "new.npy")
    assert "another model" in stderr_line(run("search", "model.mhash", "codes.mhx", "new.npy", code=2))


@pytest.mark.usefixtures("old_rows_and_codes")
def test_an_index_with_its_model_gets_the_updated_model() -> None:
    settings = ["--set=base__size=40", "--set=embedding__perplexity=5", "--set=embedding__n_iter=100"]
    run("build", "old.npy", "--recipe=imh-tsne", "--bits=16", *settings, "-o", "items.mhx")
    run(
        "update",
        "items.mhx",
        "new.npy",
        "-o",
        "model2.mhash",
        "--vectors=old.npy",
        *LOOSE,
        "--codes=items.mhx",
    )
    index = load("items.mhx")
    assert index.made_by == index.hasher.lineage_["id"] == load("model2.mhash").lineage_["id"]
    np.testing.assert_array_equal(index.codes, expected())
    np.testing.assert_array_equal(index.hasher.encode(np.load("old.npy")), expected())
    run("search", "items.mhx", "new.npy")


@pytest.mark.usefixtures("old_rows_and_codes")
def test_an_index_whose_model_did_not_make_its_codes_is_refused() -> None:
    index = load("model.mhash").index(np.load("old.npy"))
    index.made_by = "0" * 32
    index.save("other.mhx")
    with pytest.raises(DamagedIndexError, match="another model"):
        load("other.mhx")


@pytest.mark.usefixtures("old_rows_and_codes")
@pytest.mark.parametrize(
    "command", [["fit", "old.npy"], ["update", "model.mhash", "new.npy"], ["refit", "model.mhash", "new.npy"]]
)
def test_a_model_is_not_written_under_the_name_of_an_index_file(command: list[str]) -> None:
    assert "model.mhash" in stderr_line(run(*command, "-o", "model.mhx", code=2))
    assert not Path("model.mhx").exists()


@pytest.mark.usefixtures("old_rows_and_codes")
def test_the_codes_that_change_are_replaced_in_a_store() -> None:
    pytest.importorskip("faiss")
    from manihash import open_store

    run("export", "codes.npy", "--bits", "16", "--to", "codes.faiss")
    run(*UPDATE, *LOOSE, "--store", "codes.faiss")
    with open_store("codes.faiss") as store:
        np.testing.assert_array_equal(store.get(np.arange(400)), expected())


@pytest.mark.usefixtures("old_rows_and_codes")
@pytest.mark.parametrize("step", ["model", "codes", "store", "block"])
def test_an_interrupted_update_is_completed_by_the_same_command(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    from manihash import open_store

    run("export", "codes.npy", "--bits", "16", "--to", "codes.faiss")
    command = [*UPDATE, *LOOSE, "--codes", "codes.mhx", "--store", "codes.faiss"]
    with monkeypatch.context() as patch:
        stop = _stop_after if step in ("block", "model") else _stop_before
        place = {"model": (stored_codes, "check_origin"), "codes": (DurableIndex, "save")}
        target, name = place.get(step, (stored_codes, "put_codes"))
        patch.setattr(target, name, stop(getattr(target, name)))
        run(*command, code=130)
    run(*command)
    np.testing.assert_array_equal(HammingIndex.load("codes.mhx").codes, expected())
    with open_store("codes.faiss") as store:
        assert len(store) == 400
        np.testing.assert_array_equal(store.get(np.arange(400)), expected())


def _stop_before(function):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    return stopped


def _stop_after(function):
    def stopped(*args, **options):
        function(*args, **options)
        raise KeyboardInterrupt

    return stopped


@pytest.mark.usefixtures("old_rows_and_codes")
def test_codes_of_other_vectors_or_models_are_not_changed() -> None:
    np.save("codes.npy", np.load("codes.npy")[::-1])
    content = Path("codes.npy").read_bytes()
    message = stderr_line(run(*UPDATE, "--codes", "codes.npy", code=2))
    assert "is not that of the model" in message
    assert Path("codes.npy").read_bytes() == content
    np.save("short.npy", np.load("codes.npy")[:10])
    assert "holds 10 codes" in stderr_line(run(*UPDATE, "--codes", "short.npy", code=2))


@pytest.mark.usefixtures("old_rows_and_codes")
def test_a_store_of_other_codes_is_not_changed() -> None:
    pytest.importorskip("faiss")
    np.save("other.npy", np.load("codes.npy")[::-1])
    run("export", "other.npy", "--bits", "16", "--to", "codes.faiss")
    content = Path("codes.faiss").read_bytes()
    message = stderr_line(run(*UPDATE, *LOOSE, "--store", "codes.faiss", code=2))
    assert "is not that of the model" in message
    np.save("ids.npy", np.arange(5000, 5400))
    message = stderr_line(run(*UPDATE, *LOOSE, "--store", "codes.faiss", "--ids", "ids.npy", code=2))
    assert "none of the ids of the old vectors" in message
    assert Path("codes.faiss").read_bytes() == content


@pytest.mark.usefixtures("old_rows_and_codes")
def test_options_that_do_not_go_together_are_named() -> None:
    command = ["update", "model.mhash", "new.npy", "-o", "model2.mhash"]
    assert "give --vectors OLD" in stderr_line(run(*command, "--codes", "codes.npy", code=2))
    run("fit", "old.npy", "--recipe=itq", "--bits=8", "-o", "itq.mhash")
    assert "refit" in stderr_line(run("update", "itq.mhash", "new.npy", "-o", "model2.mhash", code=2))
    assert not Path("model2.mhash").exists()


@pytest.mark.usefixtures("old_rows_and_codes")
def test_rows_are_added_to_and_removed_from_an_index_file() -> None:
    codes = np.load("codes.npy")
    np.save("some.npy", codes[:5])
    np.save("ids.npy", np.arange(1000, 1005))
    np.save("gone.npy", np.array([0, 3]))
    made = json.loads(run("index", "codes.mhx", "--add", "some.npy", "--ids", "ids.npy", "--json").stdout)
    assert (made["rows"], made["added"], made["removed"]) == (405, 5, 0)
    text = run("index", "codes.mhx", "--remove", "gone.npy", "-o", "less.mhx").stdout
    assert "403 codes of 16 bits now: 0 added, 2 removed" in text
    assert len(HammingIndex.load("codes.mhx")) == 405
    index = HammingIndex.load("less.mhx")
    assert index.made_by == load("model.mhash").lineage_["id"]
    assert not set(index.ids) & {0, 3}
    np.testing.assert_array_equal(index.codes[-5:], codes[:5])
    run("index", "codes.mhx", "--add", "some.npy", "--model", "model.mhash")
    assert HammingIndex.load("codes.mhx").ids[-1] == 1009
    content = Path("codes.mhx").read_bytes()
    message = stderr_line(run("index", "codes.mhx", "--add", "some.npy", "--ids", "ids.npy", code=2))
    assert "id 1000 (and 4 others) is already in the index" in message
    assert "id 0 (and 1 others) is not in the index" in stderr_line(
        run("index", "less.mhx", "--remove", "gone.npy", code=2)
    )
    assert Path("codes.mhx").read_bytes() == content
    assert "change an index file" in stderr_line(run("index", "codes.npy", "--add", "some.npy", code=2))


def journal(path: str, *changes: Change) -> None:
    """Write changes to the journal of an index file, as a server that is killed then."""
    durable = DurableIndex(path)
    durable.commit(changes)
    durable.close()
    assert journal_of(path).exists()


@pytest.mark.usefixtures("old_rows_and_codes")
def test_commands_keep_the_changes_of_a_server_that_was_killed() -> None:
    codes = np.load("codes.npy")
    np.save("some.npy", codes[:5])
    np.save("old_ids.npy", np.arange(400))
    changes = [Change(ADD, None, codes[:2]), Change(REMOVE, np.array([401]))]
    journal("codes.mhx", *changes)
    run("index", "codes.mhx", "--add", "some.npy", "-o", "more.mhx")
    assert HammingIndex.load("more.mhx").ids.tolist() == [*range(401), *range(402, 407)]
    made = json.loads(run("index", "codes.mhx", "--add", "some.npy", "--json").stdout)
    assert (made["rows"], made["added"]) == (406, 5)
    assert not journal_of("codes.mhx").exists()
    journal("codes.mhx", Change(REMOVE, np.array([402])))
    run(*UPDATE, *LOOSE, "--codes", "codes.mhx")
    index = HammingIndex.load("codes.mhx")
    assert index.ids.tolist() == [*range(401), *range(403, 407)]
    np.testing.assert_array_equal(index.codes[:400], expected())
    run("search", "model2.mhash", "codes.mhx", "new.npy")


@pytest.mark.usefixtures("old_rows_and_codes")
def test_commands_do_not_write_to_an_index_that_a_server_changes() -> None:
    np.save("some.npy", np.load("codes.npy")[:5])
    durable = DurableIndex("codes.mhx")
    durable.commit([Change(ADD, None, np.load("codes.npy")[:1])])
    for command in (
        ["index", "codes.mhx", "--add", "some.npy"],
        ["index", "codes.npy", "--model", "model.mhash", "-o", "codes.mhx"],
        [*UPDATE, "--codes", "codes.mhx"],
    ):
        assert "another process writes to the index" in stderr_line(run(*command, code=2))
    durable.close()
    assert len(HammingIndex.load("codes.mhx")) == 401
    message = stderr_line(run("index", "codes.npy", "--bits=16", "-o", "codes.mhx", code=2))
    assert "1 changes of codes.mhx that are not in the index" in message
    assert len(HammingIndex.load("codes.mhx")) == 401
