"""The commands index, search, dedup and stats agree with brute force."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command import flip_bit, run, stderr_line
from numpy.typing import NDArray

from manihash import HammingIndex, load
from manihash.codes import hamming, pack, unpack
from manihash.files.lineage import new_lineage
from manihash.hashers import LSH
from manihash.search import Rerank
from manihash.search.durable import DurableIndex
from manihash.search.journal import ADD, Change, RowFields

BITS = 12
pytestmark = pytest.mark.usefixtures("indexed_folder")


def document(*args: str) -> Any:
    return json.loads(run(*args, "--json").stdout)


def found(*args: str) -> list[tuple[list[int], list[float]]]:
    """Return ids and distances of each query."""
    answers = document("search", "model.mhash", *args)["answers"]
    return [(answer["ids"], answer["distances"]) for answer in answers]


def distances() -> NDArray[Any]:
    """Return the Hamming distances of queries and rows."""
    return hamming(load("model.mhash").encode(np.load("Q.npy")), np.load("codes.npy"))


def nearest(
    distance: NDArray[Any], ids: NDArray[Any], k: int | None = None, radius: int = BITS
) -> list[tuple[list[int], list[float]]]:
    """Return the k nearest, or all within the radius, of each query by brute force, ties by id."""
    answers = []
    for row in distance:
        order = np.lexsort((ids, row))[:k]
        order = order[row[order] <= radius]
        answers.append((ids[order].tolist(), row[order].tolist()))
    return answers


def test_index_reports_the_file() -> None:
    wrote = document("index", "codes.npy", "--bits=12", "-o", "new.mhx")
    distinct = len(np.unique(np.load("codes.npy"), axis=0))
    assert (wrote["rows"], wrote["bits"], wrote["distinct_codes"]) == (200, BITS, distinct)
    assert wrote["file_bytes"] == Path("new.mhx").stat().st_size
    assert f"{distinct:,}" in run("index", "codes.npy", "--bits=12", "-o", "new.mhx").stdout


def test_an_index_rejects_another_model_than_that_of_its_codes() -> None:
    run("fit", "X.npy", "--recipe=lsh", f"--bits={BITS}", "--seed=1", "-o", "other.mhash")
    made = document("index", "codes.npy", "--model=model.mhash", "-o", "known.mhx")
    assert made["bits"] == BITS
    assert made["model"] == load("model.mhash").lineage_["id"]
    assert document("index", "known.mhx", "--verify")["model"] == made["model"]
    assert found("known.mhx", "Q.npy") == found("codes.mhx", "Q.npy")
    message = stderr_line(run("search", "other.mhash", "known.mhx", "Q.npy", code=2))
    assert f"known.mhx holds codes of another model (id {made['model']}) than other.mhash (id " in message
    assert "use the model that made the codes" in message
    assert "build the index again with --model other.mhash" in message
    run("index", "codes.npy", "--model=other.mhash", "-o", "known.mhx")
    run("search", "other.mhash", "known.mhx", "Q.npy")


def test_an_index_saved_from_python_rejects_another_model_if_it_records_its_own() -> None:
    hasher, codes = load("model.mhash"), np.load("codes.npy")
    HammingIndex(codes, 12, made_by=hasher).save("python.mhx")
    assert HammingIndex.load("python.mhx").made_by == hasher.lineage_["id"]
    run("fit", "X.npy", "--recipe=lsh", "--bits=12", "--seed=1", "-o", "other.mhash")
    assert run("search", "model.mhash", "python.mhx", "Q.npy").stderr == ""
    assert "another model" in stderr_line(run("search", "other.mhash", "python.mhx", "Q.npy", code=2))
    HammingIndex(codes, 12).save("unknown.mhx")
    assert "does not say which model" in stderr_line(run("search", "other.mhash", "unknown.mhx", "Q.npy"))
    for wrong in (LSH(), 5):
        with pytest.raises(ValueError, match="must be a fitted hasher or its id"):
            HammingIndex(codes, 12, made_by=wrong)


def test_an_index_that_records_the_checksum_of_the_model_file_is_accepted() -> None:
    index = HammingIndex.load("codes.mhx")
    index.made_by = hashlib.sha256(Path("model.mhash").read_bytes()).hexdigest()
    index.save("checksum.mhx")
    assert found("checksum.mhx", "Q.npy") == found("codes.mhx", "Q.npy")


def test_an_updated_model_accepts_codes_of_its_parent_but_not_the_other_way_round() -> None:
    run("index", "codes.npy", "--model=model.mhash", "-o", "known.mhx")
    child = load("model.mhash")
    child.projection_ = child.projection_.copy()
    child.projection_[0] *= 2
    child.lineage_ = new_lineage(child, child.lineage_, keeps_codes=True)
    child.save("child.mhash")
    process = run("search", "child.mhash", "known.mhx", "Q.npy")
    assert "note: known.mhx holds codes of a model that child.mhash was updated from" in process.stderr
    made = document("index", "codes.npy", "--model=child.mhash", "-o", "child.mhx")
    assert made["model"] != document("index", "known.mhx", "--verify")["model"]
    run("search", "model.mhash", "child.mhx", "Q.npy", code=2)


def test_a_changed_index_still_records_its_model() -> None:
    run("index", "codes.npy", "--model=model.mhash", "-o", "known.mhx")
    index = HammingIndex.load("known.mhx")
    index.remove([3])
    index.save("less.mhx")
    assert HammingIndex.load("less.mhx").made_by == index.made_by is not None
    assert HammingIndex.load("codes.mhx").made_by is None


def test_added_codes_of_an_unknown_model_are_noted() -> None:
    run("index", "codes.npy", "--model=model.mhash", "-o", "known.mhx")
    codes = np.load("codes.npy")
    np.save("more.npy", codes[:2])
    assert "give its model with --model" in stderr_line(run("index", "known.mhx", "--add=more.npy"))
    assert "--model" not in run("index", "known.mhx", "--add=more.npy", "--model=model.mhash").stderr


def test_verify_says_that_the_file_beside_an_index_is_missing_or_damaged() -> None:
    codes = np.load("codes.npy")
    durable = DurableIndex("codes.mhx")
    durable.commit([Change(ADD, None, codes[:1], RowFields(labels=["new"]))])
    durable.compact()
    durable.close()
    run("index", "codes.mhx", "--verify")
    file = Path("codes.mhx.rows")
    content = bytearray(file.read_bytes())
    file.unlink()
    message = stderr_line(run("index", "codes.mhx", "--verify", code=2))
    assert "labels, images or texts of its rows in codes.mhx.rows, which is missing" in message
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert "damaged" in stderr_line(run("index", "codes.mhx", "--verify", code=2))


def test_codes_added_to_an_index_with_its_model_are_those_of_this_model() -> None:
    run("build", "X.npy", "--recipe=sign", "--bits=12", "-o", "built.mhx")
    run("encode", "built.mhx", "X.npy", "-o", "more.npy")
    rows = len(HammingIndex.load("built.mhx"))
    added = run("index", "built.mhx", "--add=more.npy")
    assert "more.npy is taken as codes of the model in built.mhx" in stderr_line(added)
    assert "--model" not in added.stderr
    assert len(HammingIndex.load("built.mhx")) == 2 * rows


def test_vectors_instead_of_codes_are_answered_with_the_command_that_encodes_them() -> None:
    run("build", "X.npy", "--recipe=sign", "--bits=12", "-o", "built.mhx")
    refused = run("index", "built.mhx", "--add=X.npy", code=2)
    command = "manihash encode built.mhx X.npy -o codes.npy"
    assert command in stderr_line(refused)
    assert "taken as codes" not in refused.stderr
    run(*command.split()[1:])
    run("index", "built.mhx", "--add=codes.npy")


def test_index_uses_all_bits_of_the_bytes_without_a_length() -> None:
    run("index", "codes.npy", "-o", "new.mhx")
    assert HammingIndex.load("new.mhx").n_bits == 16


def test_verify_finds_damage_that_opening_does_not() -> None:
    assert document("index", "codes.mhx", "--verify")["verified"]
    assert "verified: no damage" in run("index", "codes.mhx", "--verify").stdout
    flip_bit("codes.mhx")
    assert len(HammingIndex.load("codes.mhx")) == 200
    assert "is damaged" in stderr_line(run("index", "codes.mhx", "--verify", code=2))


@pytest.mark.parametrize("codes", ["codes.npy", "codes.mhx"])
def test_searches_in_codes_and_in_an_index_agree_with_brute_force(codes: str) -> None:
    truth, rows = distances(), np.arange(200)
    assert found(codes, "Q.npy", "-k", "7", "--symmetric") == nearest(truth, rows, 7)
    assert found(codes, "Q.npy", "--radius", "3") == nearest(truth, rows, radius=3)


def test_an_index_returns_its_own_ids() -> None:
    for name in ("ids.npy", "ids.csv"):
        np.savetxt("ids.csv", np.load("ids.npy"), fmt="%d")
        run("index", "codes.npy", "--bits=12", "--ids", name, "-o", "named.mhx")
        answers = found("named.mhx", "Q.npy", "-k", "7", "--symmetric")
        assert answers == nearest(distances(), np.load("ids.npy"), 7)


@pytest.mark.parametrize("as_mask", [False, True])
def test_a_filter_selects_rows(as_mask: bool) -> None:
    kept = np.arange(0, 200, 3)
    np.save("kept.npy", np.isin(np.arange(200), kept) if as_mask else kept)
    few = ["codes.mhx", "Q.npy", "--filter=kept.npy"]
    assert found(*few, "-k", "5", "--symmetric") == nearest(distances()[:, kept], kept, 5)
    assert found(*few, "--radius=4") == nearest(distances()[:, kept], kept, radius=4)


def test_rerank_sorts_by_euclidean_distance() -> None:
    X, Q = np.load("X.npy").astype(np.float64), np.load("Q.npy").astype(np.float64)
    result = document("search", "model.mhash", "codes.mhx", "Q.npy", "-k", "20", "--rerank", "X.npy")
    assert result["ranked_by"] == "euclidean"
    for answer, q in zip(result["answers"], Q, strict=True):  # all 200 rows are candidates
        far = np.linalg.norm(X - q, axis=1)
        assert answer["ids"] == np.argsort(far, kind="stable")[:20].tolist()
        assert answer["distances"] == pytest.approx(np.sort(far)[:20])
    assert "euclidean distance" in run("search", "model.mhash", "codes.mhx", "Q.npy", "--rerank=X.npy").stdout


def test_vectors_in_another_order_than_the_rows_are_refused() -> None:
    np.save("turned.npy", np.load("X.npy")[::-1])
    run("export", "codes.npy", "--bits=12", "--to", "codes.db")
    for source in (["codes.mhx", "Q.npy"], ["Q.npy", "--store", "codes.db"]):
        args = ["search", "model.mhash", *source, "-k", "3", "--rerank"]
        refused = stderr_line(run(*args, "turned.npy", code=2))
        assert "row 0 of turned.npy is not the vector of id 0: its code differs" in refused
        assert run(*args, "X.npy").stdout
    np.save("turned_ids.npy", np.arange(200)[::-1])
    args = ["search", "model.mhash", "codes.mhx", "Q.npy", "--json", "--rerank"]
    given = run(*args, "turned.npy", "--ids", "turned_ids.npy").stdout
    assert json.loads(given)["answers"] == json.loads(run(*args, "X.npy").stdout)["answers"]


def test_shortlist_sets_how_many_rows_are_reranked() -> None:
    rerank = ["codes.mhx", "Q.npy", "-k", "3", "--rerank", "X.npy", "--symmetric", "--shortlist"]
    index, X, Q = HammingIndex.load("codes.mhx"), np.load("X.npy"), np.load("Q.npy")
    queries = load("model.mhash").encode(Q)
    for size in (3, 50):
        expected = index.search(queries, 3, rerank=Rerank(Q, X, shortlist=size))[1]
        assert [ids for ids, _ in found(*rerank, str(size))] == expected.tolist()


def test_the_real_values_of_the_queries_rank_by_default() -> None:
    bits = unpack(np.load("codes.npy"), BITS)
    Y = load("model.mhash").embed(np.load("Q.npy"))
    result = document("search", "model.mhash", "codes.mhx", "Q.npy", "-k", "6")
    assert result == document("search", "model.mhash", "codes.mhx", "Q.npy", "-k", "6", "--asymmetric")
    assert result["ranked_by"] == "asymmetric"
    for answer, y in zip(result["answers"], Y, strict=True):
        far = (np.abs(y) * (bits != (y > 0))).sum(axis=1)
        assert answer["distances"] == pytest.approx(np.sort(far)[:6], rel=1e-5)
        assert far[answer["ids"]] == pytest.approx(answer["distances"], rel=1e-5)


def test_a_store_returns_the_same_results_as_an_index() -> None:
    run("export", "codes.npy", "--bits=12", "--to=codes.faiss")
    for options in (["-k", "7"], ["--radius", "3"], ["-k", "7", "--rerank", "X.npy"]):
        answers = found("codes.mhx", "Q.npy", "--symmetric", *options)
        assert found("Q.npy", "--store", "codes.faiss", *options) == answers


def test_a_k_above_the_number_of_rows_returns_all_rows_with_a_warning() -> None:
    run("export", "codes.npy", "--bits=12", "--to=codes.faiss")
    for source in (["codes.mhx", "Q.npy"], ["Q.npy", "--store=codes.faiss"]):
        result = run("search", "model.mhash", *source, "-k", "400", "--json")
        assert "warning: k=400 exceeds" in result.stderr
        assert len(json.loads(result.stdout)["answers"][0]["ids"]) == 200


def groups_by_brute_force(codes: NDArray[Any], radius: int, ids: NDArray[Any]) -> list[list[int]]:
    """Return the connected components of at least two rows, in the order of their lowest ids."""
    near, left, groups = hamming(codes, codes) <= radius, set(range(len(codes))), []
    while left:
        group, ends = set(), {left.pop()}
        while ends:
            group |= ends
            ends = set(np.flatnonzero(near[list(ends)].any(axis=0)).tolist()) - group
        left -= group
        groups.append(sorted(ids[list(group)].tolist()))
    return sorted(group for group in groups if len(group) > 1)


@pytest.mark.parametrize("radius", [0, 1])
def test_dedup_agrees_with_brute_force(radius: int) -> None:
    codes, ids = np.load("codes.npy"), np.load("ids.npy")
    options = ["codes.npy", "--bits=12", f"--radius={radius}", "--ids=ids.npy", "-o", "groups.npz"]
    result = document("dedup", *options)
    assert result["groups"] == groups_by_brute_force(codes, radius, ids)
    assert result["extra"] == sum(len(group) - 1 for group in result["groups"])
    with np.load("groups.npz") as arrays:
        split = np.split(arrays["ids"], arrays["lims"][1:-1])
        assert [group.tolist() for group in split] == result["groups"]
        assert set(arrays["extra"]) == {i for group in result["groups"] for i in group[1:]}
        assert len(np.unique(arrays["first"])) == 200 - result["extra"]


def test_dedup_warns_if_most_rows_are_duplicates() -> None:
    np.save("alike.npy", np.zeros((10, 1), np.uint8))
    assert "90% of the rows have similar codes" in stderr_line(run("dedup", "alike.npy"))
    np.save("apart.npy", np.arange(10, dtype=np.uint8)[:, None])
    assert "similar codes." not in stderr_line(run("dedup", "apart.npy"))


def test_dedup_uses_the_ids_of_an_index() -> None:
    codes, ids = np.load("codes.npy"), np.load("ids.npy")
    run("index", "codes.npy", "--bits=12", "--ids=ids.npy", "-o", "named.mhx")
    result = document("dedup", "named.mhx", "--radius=1")
    assert (result["rows"], result["bits"]) == (200, 12)
    assert result["groups"] == groups_by_brute_force(codes, 1, ids)
    assert "contains its ids" in stderr_line(run("dedup", "named.mhx", "--ids=ids.npy", code=2))


def test_dedup_accepts_perceptual_hashes_and_shows_the_first_groups() -> None:
    rng = np.random.default_rng(1)
    hashes = pack(rng.random((40, 64)) < 0.5)
    near = hashes ^ pack(np.eye(40, 64) > 0)  # one bit differs
    np.save("phash.npy", np.concatenate([hashes, near]))
    output = run("dedup", "phash.npy", "--radius=1").stdout
    assert "30 more groups: use --json or -o" in output
    assert "30 more groups in all.npz" in run("dedup", "phash.npy", "--radius=1", "-o", "all.npz").stdout
    assert "40, not counting the first" in output
    assert document("dedup", "phash.npy")["groups"] == []


def test_stats_of_codes_and_of_their_index_agree() -> None:
    statistics = document("stats", "codes.mhx")
    assert statistics["rows"] == 200
    assert statistics["distinct_codes"] == len(np.unique(np.load("codes.npy"), axis=0))
    assert statistics["warnings"] == []
    as_codes = document("stats", "codes.npy", "--bits=12")
    assert {**statistics, "codes": "", "bytes": 0} == {**as_codes, "codes": "", "bytes": 0}
    assert f"200 codes of {BITS} bits" in run("stats", "codes.mhx").stdout


def test_stats_warn_about_collapsed_codes() -> None:
    np.save("same.npy", np.zeros((50, 2), np.uint8))
    result = run("stats", "same.npy")
    assert "warning: the codes have collapsed" in result.stderr
    assert "50 of 50 rows have the same code" in result.stderr
    assert "0, 1, 2" in result.stdout


def test_dedup_verifies_pairs_by_their_vectors() -> None:
    """X.npy has rows 50 to 99 equal to rows 0 to 49."""
    options = ["codes.npy", "--bits=12", "--vectors=X.npy", "--cosine=0.9999"]
    result = document("dedup", *options, "-o", "found.npz")
    assert result["groups"] == [[i, i + 50] for i in range(50)]
    assert (result["pairs"], result["extra"], result["largest_chain"]) == (50, 50, 2)
    assert result["candidates"] >= 50
    assert result["curve"][-1]["found"] == 1
    arrays = np.load("found.npz")
    assert arrays["pairs"].tolist() == result["groups"]
    assert (arrays["values"] >= 0.9999).all()
    assert result["sample_duplicates"] == 100  # all rows are in the sample
    text = " ".join(run("dedup", *options, "--report=verified.html").stdout.split())
    assert "50 verified of" in text
    assert "200 random rows have 100 duplicates" in text
    assert "found of 100 in the sample" in text
    page = Path("verified.html").read_text("utf-8")
    assert "cosine to the first" in page
    assert page.count(">kept<") == 25  # the first row of the 5 largest and 20 random groups
    assert "→" in text


def test_dedup_of_an_index_takes_the_vectors_by_id() -> None:
    ids = np.load("ids.npy") + 100
    np.save("shifted.npy", ids)
    run("index", "codes.npy", "--bits=12", "--ids=shifted.npy", "-o", "ids.mhx")
    vectors = np.zeros((1000, 8), np.float32)
    vectors[ids] = np.load("X.npy")
    np.save("by_id.npy", vectors)
    result = document("dedup", "ids.mhx", "--vectors=by_id.npy", "--distance=0")
    expected = sorted(sorted((ids[i], ids[i + 50])) for i in range(50))
    assert result["groups"] == expected
    message = stderr_line(run("dedup", "ids.mhx", "--vectors=X.npy", "--distance=0", code=2))
    assert "row i of the vectors must belong to id i" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cosine=0.9"], "give the vectors with --vectors"),
        (["--vectors=X.npy"], "--vectors needs one threshold"),
        (["--vectors=X.npy", "--cosine=0.9", "--distance=1"], "--vectors needs one threshold"),
        (["--vectors=Q.npy", "--cosine=0.9"], "expected one vector per code"),
        (["--vectors=X.npy", "--cosine=3"], "cosine must be above 0 and at most 1"),
    ],
)
def test_dedup_refuses_thresholds_that_do_not_fit(options: list[str], message: str) -> None:
    assert message in stderr_line(run("dedup", "codes.npy", "--bits=12", *options, code=2))


def test_dedup_writes_the_ids_to_keep_and_a_report() -> None:
    options = ["codes.npy", "--bits=12", "--radius=1", "--ids=ids.npy", "-o", "groups.npz"]
    first = document("dedup", *options, "--keep=first")
    assert first["keep"] == 200 - first["extra"]
    with np.load("groups.npz") as arrays:
        assert set(arrays["keep"]) == set(np.load("ids.npy")) - set(arrays["extra"])
    run("dedup", *options, "--keep=central", "--report=report.html")
    with np.load("groups.npz") as arrays:
        kept = set(arrays["keep"].tolist())
        assert [len(kept & set(group)) for group in first["groups"]] == [1] * len(first["groups"])
    page = Path("report.html").read_text("utf-8")
    assert "Sizes of the groups" in page
    assert f"{len(first['groups']):,} groups" in page
    run("dedup", *options, "--vectors=X.npy", "--cosine=0.99", "--keep=central", "--report=report.html")


def test_dedup_divides_the_work_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manihash.search.duplicates.self_join.LEAST_MEMORY", 1)
    whole = document("dedup", "codes.npy", "--bits=12", "--radius=1")
    parts = document("dedup", "codes.npy", "--bits=12", "--radius=1", "--memory=4K", "--work=parts")
    assert parts["groups"] == whole["groups"]
    assert not Path("parts").exists()
    result = run("dedup", "codes.npy", "--bits=12", "--radius=1", "--memory=4K", "--work=parts")
    assert "2 tables, 4 parts" in " ".join(result.stderr.split())


def test_dedup_names_its_own_option_to_discard_other_work() -> None:
    Path("other.work").mkdir()
    Path("other.work/state.json").write_text("{", "utf-8")
    message = stderr_line(run("dedup", "codes.npy", "--bits=12", "--work=other.work", code=2))
    assert "discard the folder with --restart" in message
    assert "restart=True" not in message


def test_dedup_compares_new_codes_with_an_index() -> None:
    np.save("new.npy", np.concatenate([np.load("codes.npy")[[3, 120]], [[255, 240]]]).astype(np.uint8))
    run("index", "codes.npy", "--bits=12", "--ids=ids.npy", "-o", "named.mhx")
    result = document("dedup", "new.npy", "--against=named.mhx", "-o", "known.npz")
    assert result["known"] == sum(np.load("known.npz")["known"])
    assert [each["row"] for each in result["duplicates"]][:2] == [0, 1]
    near = np.flatnonzero((np.load("codes.npy") == np.load("new.npy")[0]).all(axis=1))
    expected = {"row": 0, "id": int(np.load("ids.npy")[near].min()), "distance": 0, "count": len(near)}
    assert result["duplicates"][0] == expected
    assert (
        "of 3 new rows within radius 1" in run("dedup", "new.npy", "--against=named.mhx", "--radius=1").stdout
    )


def test_dedup_compares_new_vectors_with_an_index_that_holds_its_model() -> None:
    X = np.load("X.npy")
    run("build", "X.npy", "--recipe=sign", "--bits=12", "-o", "built.mhx")
    np.save("new_vectors.npy", np.concatenate([X[[3, 120]], -X[:1]]))
    found = run("dedup", "new_vectors.npy", "--against=built.mhx")
    assert "radius 0 finds rows with equal codes only" in stderr_line(found)
    result = document("dedup", "new_vectors.npy", "--against=built.mhx", "--radius=0")
    assert [each["id"] for each in result["duplicates"]][:2] == [3, 120]
    message = stderr_line(run("dedup", "new_vectors.npy", "--against=codes.mhx", code=2))
    assert "expected packed codes (uint8)" in message
    assert "manihash encode MODEL VECTORS" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep=last", "-o", "a.npz"], "expected first or central"),
        (["--keep=first"], "give the file with -o"),
        (["--report=page.txt"], "ends in .html"),
        (["--memory=much"], "memory must be a number of bytes"),
        (["--memory=100"], "100 bytes: did you mean 100M?"),
        (["--against=codes.mhx", "--vectors=X.npy", "--cosine=0.9"], "does not verify pairs by vectors"),
        (["--against=codes.npy"], "expected an index file"),
        (["--against=none.mhx"], "no index file"),
        (["--against=codes.mhx", "--keep=first", "-o", "a.npz"], "omit --keep"),
        (["--dask=2", "--vectors=X.npy", "--cosine=0.9"], "got --dask and --vectors"),
    ],
)
def test_dedup_refuses_options_that_do_not_fit(options: list[str], message: str) -> None:
    assert message in stderr_line(run("dedup", "codes.npy", "--bits=12", *options, code=2))


def test_a_radius_that_finds_too_few_duplicates_does_not_show_enough_of_them():
    from manihash.cli._dedup_verified import curve_table
    from manihash.search.duplicates.verified import RadiusStep

    curve = [RadiusStep(2, 10.0, 0.9896, 0.1), RadiusStep(3, 20.0, 0.99, 0.2)]
    table = curve_table(SimpleNamespace(curve=curve, radius=3, sample_duplicates=96))
    assert list(table.columns[3].cells) == ["98.9%", "99.0%"]
