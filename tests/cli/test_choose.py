"""manihash choose prints a table, writes a page, and refuses invalid options."""

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from command import run

from manihash import load, recipe
from manihash.advice import candidates
from manihash.cli._output import ProgressLines


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ("imh-graph",))
    monkeypatch.setattr(candidates, "OTHER", ("itq", "sign"))
    monkeypatch.setattr(candidates, "LABELED", ("ldahash",))
    monkeypatch.setattr(candidates, "LOOK_UP", ())
    monkeypatch.setattr(candidates, "RANKED", ())
    monkeypatch.setattr("manihash.advice.choose._SPLITS", ((2_500, 1),))


@pytest.mark.parametrize("labels", [[], ["--labels=y.npy"]])
def test_the_last_lines_are_the_commands_that_build_and_search_the_recommendation(folder, labels):
    arguments = ["choose", "X.npy", *labels, "--bytes=1"]
    document = json.loads(run(*arguments, "--json").stdout)
    recipe, n_bits = document["recipe"], document["n_bits"]
    assert n_bits <= 8
    assert recipe in ("imh-graph", "itq", "sign", "ldahash")
    assert document["uses_labels"] == (recipe == "ldahash")
    assert {row["n_bits"] for row in document["table"]} >= {8, 16}
    build, search = _commands(run(*arguments).stdout)
    given = ["--labels", "y.npy"] if document["uses_labels"] else []
    assert build == ["build", "X.npy", *given, "--recipe", recipe, "--bits", str(n_bits), "-o", "items.mhx"]
    assert search == ["search", "items.mhx", "queries.npy", "-k", "10"]
    run(*build)
    index = load("items.mhx")
    assert (len(index), index.n_bits) == (300, n_bits)


def _commands(output):
    """The words of each command at the end of the output, after the name of the program."""
    return [words.split() for words in output.split("\n\n")[-1].split("manihash ")[1:]]


@pytest.mark.parametrize("goal", ["group", "duplicates", "neighbors"])
def test_the_search_that_is_printed_is_the_one_that_was_scored(folder, goal):
    arguments = ["choose", "X.npy", "--bits=16", f"--goal={goal}"]
    radius = str(json.loads(run(*arguments, "--json").stdout)["radius"])
    build, search = _commands(run(*arguments).stdout)
    options = ["-k", "10", "--rerank", "X.npy"] if goal == "neighbors" else ["--radius", radius]
    assert search == ["search", "items.mhx", "queries.npy", *options]
    np.save("queries.npy", np.load("Q.npy"))
    run(*build)
    run(*search)


def test_a_line_of_the_table_says_which_scores_are_those_of_a_few_rows(folder, monkeypatch):
    assert "rows only" not in run("choose", "X.npy", "--bits=8").stdout  # all were fitted to all rows
    monkeypatch.setattr("manihash.advice.choose._SPLITS", ((200, 1),))
    monkeypatch.setattr("manihash.advice.choose._FEW", 150)
    monkeypatch.setattr("manihash.advice.choose._FINALISTS", 1)
    document = json.loads(run("choose", "X.npy", "--bits=8", "--json").stdout)
    few = next(row for row in document["table"] if not row["final"])
    lines = run("choose", "X.npy", "--bits=8").stdout.splitlines()
    at = lines.index(next(line for line in lines if line.strip() == f"on {few['rows']:,} rows only:"))
    assert lines[at + 1].split()[:2] == [few["recipe"], str(few["n_bits"])]


def test_the_table_the_advice_and_the_page_name_the_recommendation(folder):
    pytest.importorskip("matplotlib")
    result = run("choose", "X.npy", "--bits=8", "--out=choice")
    assert "→" in result.stdout
    assert "score: for the goal, as said above" in result.stdout
    assert "use --json or --out" not in result.stdout  # the page has been written
    assert "Use " in result.stdout
    page = Path("choice/index.html").read_text()
    assert "All candidates" in page
    assert page.count("bits ←") == 2  # in both tables
    assert '<p class="lead">Use ' in page
    assert re.search(r"<h1>[a-z-]+, \d+ bits, for X.npy", page)  # the headline names the winner
    first = result.stdout.split("\n\n")[0]
    assert first.startswith("Use ")
    assert "Bytes against quality of" in page
    run("choose", "X.npy", "--bits=8", "--out=choice")  # replaced


@pytest.mark.parametrize("goal", ["group", "ranking", "neighbors"])
def test_the_page_ends_its_code_with_the_search_or_look_up_and_has_one_word_on_bytes(folder, goal):
    pytest.importorskip("matplotlib")
    document = json.loads(
        run("choose", "X.npy", "--bits=16", f"--goal={goal}", "--out=choice", "--json").stdout
    )
    page = html.unescape(Path("choice/index.html").read_text())
    code = re.search("<code>(.*?)</code>", page, re.S)[1]
    calls = {
        "group": f"index.within(Q, radius={document['radius']})",
        "ranking": "index.search(Q, k=10)",
        "neighbors": "index.search(Q, k=10, rerank=X)",
    }
    assert calls[goal] in code.splitlines()[-1]
    answers = {"recipe": recipe, "X": np.load("X.npy"), "y": np.load("y.npy"), "Q": np.load("Q.npy")}
    exec(code, answers)
    assert len(answers["distances"])
    size = document["n_bits"] // 8
    words = f"{size} byte is recommended" if size == 1 else f"{size} bytes are recommended"
    assert words in page
    assert "gain little" not in page
    assert any(
        text.startswith(f"{size} byte") and "recommended: with" in text for text in document["reasons"]
    )


@pytest.mark.parametrize(
    ("goal", "parts", "others"),
    [
        ("auto", ["MAP", "near MAP", "P@10", "near P@10"], ["copies"]),
        ("ranking", ["MAP", "near MAP"], ["P@10"]),
        ("first", ["P@10", "near P@10"], ["MAP"]),
        ("group", ["F1", "near F1", "empty"], ["MAP"]),
        ("lookup", ["F1", "near F1", "empty"], ["MAP"]),
        ("neighbors", ["re-ranked"], ["MAP"]),
        ("duplicates", ["copies"], ["MAP"]),
    ],
)
def test_the_table_shows_what_the_score_is_made_of(folder, goal, parts, others):
    lines = run("choose", "X.npy", "--bits=8", f"--goal={goal}").stdout.splitlines()
    head = next(line for line in lines if "recipe" in line and "score" in line)
    columns = re.split(r"  +", head.strip())
    assert set(parts) <= set(columns)
    assert not set(others) & set(columns)


def test_a_long_measurement_is_announced(folder, monkeypatch):
    assert "takes a minute" not in run("choose", "X.npy", "--bits=8").stderr
    monkeypatch.setattr("manihash.cli.choose._LONG", 1000)
    text = " ".join(run("choose", "X.npy", "--bits=8").stderr.split())
    assert "up to 300 rows of 16 columns takes a minute or more" in text
    assert "--sample" not in text  # nothing to gain for so few rows
    assert "takes a minute" not in run("choose", "X.npy", "--bits=8", "--quiet").stderr


def test_progress_lines_name_the_candidate(folder, monkeypatch):
    monkeypatch.setattr(ProgressLines, "interval", 0.0)
    assert re.search(
        r"^imh-graph, 8 bits, 270 rows \(step \d+ of \d+ at most\): \w+",
        run("choose", "X.npy", "--bits=8").stderr,
        re.M,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["X.npy", "--bits=8", "--bytes=1"], "got both --bits and --bytes"),
        (["X.npy", "--goal=best"], "unknown goal 'best'"),
        (["missing.npy"], "no file at missing.npy"),
        (["X.npy", "--labels=yq.npy"], "one label for each of 300 rows"),
        (["Q.npy"], "got 20 rows: choose needs at least 200"),
    ],
)
def test_invalid_options_are_refused_and_nothing_is_written(folder, arguments, message):
    result = run("choose", *arguments, "--out=choice", code=2)
    assert message in " ".join(result.stderr.split())
    assert not Path("choice").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [("--goal=nearest", "unknown goal 'nearest'"), ("--max-fit-seconds=-1", "above zero")],
)
def test_an_invalid_option_is_refused_before_a_long_measurement_is_announced(
    folder, monkeypatch, option, message
):
    monkeypatch.setattr("manihash.cli.choose._LONG", 1000)
    text = " ".join(run("choose", "X.npy", "--bits=8", option, code=2).stderr.split())
    assert message in text
    assert "takes a minute" not in text


def test_an_interruption_leaves_nothing_behind(folder, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("manihash.advice.choose.measure", interrupted)
    result = run("choose", "X.npy", "--bits=8", "--out=choice", code=130)
    assert "stopped at: sign-zero, 16 bits, 270 rows (step 1 of" in " ".join(result.stderr.split())
    assert not Path("choice").exists()
    assert np.load("X.npy").shape == (300, 16)
