"""Every help text, and the hints that the command adds to errors of the library."""

import subprocess
import sys

import pytest
from command import run, stderr_line
from typer.main import get_command

from manihash.cli._app import app
from manihash.cli._command import hints

GROUP = get_command(app)
COMMANDS = [[name] for name in GROUP.commands if name != "data"]
COMMANDS += [["data", name] for name in GROUP.commands["data"].commands]


def command_of(path):
    return GROUP.commands[path[0]] if len(path) == 1 else GROUP.commands["data"].commands[path[1]]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_has_a_summary_and_an_example(path):
    text = run(*path, "--help").stdout
    assert f"  manihash {' '.join(path)}" in text
    summary = command_of(path).help.splitlines()[0]
    assert summary.endswith(".")
    assert summary[0].isupper()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_line_of_a_help_text_breaks_in_a_terminal_of_80_columns(path):
    _, *lines = command_of(path).help.splitlines()
    text = [line for line in lines if not line.startswith("  ")]  # examples may be longer
    assert [line for line in text if len(line) > 78] == []


def test_help_does_not_import_numpy():
    probe = (
        "import sys\n"
        "from manihash.cli import main\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'matplotlib', 'faiss', 'h5py', 'lancedb', 'psycopg'}\n"
        f"for path in {[[], ['data'], *COMMANDS]!r}:\n"
        "    sys.argv = ['manihash', *path, '--help']\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n        assert not end.code, path\n"
        "    assert not heavy & set(sys.modules), (path, heavy & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: manihash") == len(COMMANDS) + 2


def test_the_version_is_printed():
    assert run("--version").stdout.startswith("manihash ")


def test_the_help_documents_the_exit_codes():
    text = " ".join(run("--help").stdout.split())
    assert "0 success, 1 internal error, 2 invalid input, 3 drift was found" in text
    assert "130 interrupted" in text
    assert "143 terminated" in text


def test_hints_name_only_options_of_the_command():
    message = "n_neighbors=31 exceeds the 30 base points: lower n_neighbors or use a larger base"
    assert hints(message, {"--set"}) == [
        "--set n_neighbors=K sets n_neighbors",
        "--set base__size=M sets the number of base points (base__base__size for imh-large and imh-graph)",
    ]
    assert hints(message, {"--json"}) == []


def test_hints_of_ids_and_refits_say_what_to_type():
    assert hints("id 'a' is already in the index: use update()", {"--remove"}) == [
        "--remove FILE removes the rows with these ids first"
    ]
    assert hints("the ids of this index are strings: pass one id per code", {"--ids"}) == [
        "--ids FILE gives the ids"
    ]
    assert "manihash refit MODEL" in hints("Use hasher.refit(X) or fit a new model", set())[0]


def test_no_hint_repeats_an_option_that_the_message_names():
    assert hints("got --set n_bits: use --bits instead", {"--set", "--bits"}) == []


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["fit", "--data=digits", "--recipe=imh-tsne", "--set=base__size=2000"], "--set base__size=M"),
        (["fit", "--data=digits", "--recipe=imh-tsne", "--set=n_neighbors=401"], "--set n_neighbors=K"),
        (["fit", "--data=digits", "--recipe=imh-pca", "--bits=65"], "--bits sets n_bits"),
        (["fit", "X.npy", "--recipe=pq", "--bits=8"], "--set bits_per_field=4 sets the bits of a field"),
        (["fit", "X.npy", "--recipe=ksh"], "--labels FILE gives the labels"),
        (["fit", "X.npy", "--recipe=imh-tsn"], "manihash info lists the recipes"),
        (["encode", "none.mhash", "X.npy"], "manihash fit writes model files"),
    ],
)
def test_the_command_adds_a_hint_to_an_error_of_the_library(args, hint, tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    np.save("X.npy", np.random.default_rng(0).normal(size=(50, 4)))
    message = stderr_line(run(*args, "-o", "out.npy", code=2))
    error, _, given = message.partition("hint: ")
    assert hint in given
    assert error.startswith("error: ")
