"""Errors that are found before any work, and output on unusual terminals."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from command import run, stderr_line

from manihash import recipe
from manihash.files.atomic import atomic_write
from manihash.hashers import LSH


@pytest.fixture(autouse=True)
def _in_folder(folder):
    """Work in the folder of vectors."""


def process(args: list[str], **options):
    """Run the command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "manihash", *args], capture_output=True, check=False, **options
    )


@pytest.mark.parametrize("value", ["False", "false", "FALSE"])
def test_false_is_not_a_string(value):
    run("fit", "X.npy", "--recipe=lsh", "--bits=8", "--set", f"center={value}", "-o", "a.mhash")
    assert json.loads(run("info", "a.mhash", "--json").stdout)["params"]["center"] is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--recipe=lsh", "--set=center=0"], "center of lsh must be true or false"),
        (["--recipe=imh-tsne", "--set=n_neighbors=abc"], "n_neighbors of imh-tsne must be a whole number"),
        (
            ["--recipe=imh-tsne", "--set=embedding__perplexity=many"],
            "perplexity of embedding must be a number",
        ),
        (["--recipe=imh-tsne", "--set=embedding=pca"], "is a part"),
        (["--recipe=ITQ"], "did you mean 'itq'"),
        (["--recipe=imh-tsne", "--bits=500"], "500 dimensions exceed"),
        (["--recipe=agh", "--bits=500"], "500 eigenvectors are needed"),
        (["--recipe=imh-tsne", "--set=n_neighbors=401"], "n_neighbors=401 exceeds"),
    ],
)
def test_values_are_checked_before_the_base_set_is_chosen(monkeypatch, options, message):
    monkeypatch.setattr("manihash.base.kmeans.KMeansBase._choose", None)
    assert message in stderr_line(run("fit", "X.npy", *options, "-o", "a.mhash", code=2))


def test_the_library_does_not_take_a_string_for_a_flag():
    with pytest.raises(ValueError, match="center must be true or false"):
        LSH(8, center="False").fit(np.load("X.npy"))
    with pytest.raises(ValueError, match="symmetric must be true or false"):
        recipe("imh-sne", 8, base__size=30, embedding__symmetric="False", embedding__perplexity=5).fit(
            np.load("X.npy")
        )


def test_queries_with_test_gets_a_hint():
    result = run("evaluate", "--train=X.npy", "--test=Q.npy", "--queries=3", code=2)
    assert "omit --queries" in stderr_line(result)


def test_info_describes_an_index_file():
    np.save("codes.npy", np.arange(20, dtype=np.uint8)[:, None])
    run("index", "codes.npy", "-o", "codes.mhx")
    assert "index file, codes without a model" in run("info", "codes.mhx").stdout
    assert json.loads(run("info", "codes.mhx", "--json").stdout)["rows"] == 20


def test_a_single_number_is_refused_as_codes():
    np.save("one.npy", np.uint8(3))
    assert "got 0-D" in stderr_line(run("export", "one.npy", "--to=codes.faiss", code=2))


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "X.npy", "-o", "x" * 251],
        ["encode", "m.mhash", "X.npy", "-o", "x" * 247 + ".npy"],  # its part file has a longer name
        ["index", "c.npy", "-o", "x" * 247 + ".mhx"],
    ],
)
def test_a_name_that_is_too_long_is_refused_before_the_work(command, monkeypatch):
    X = np.load("X.npy")
    LSH(8).fit(X).save("m.mhash")
    np.save("c.npy", LSH(8).fit(X).encode(X))
    for name in ("read_vectors", "load_hasher", "read_codes"):
        monkeypatch.setattr(f"manihash.cli._inputs.{name}", None)
    assert "too long. Give a shorter name" in stderr_line(run(*command, code=2))


@pytest.mark.parametrize("out", [".", "folder"])
def test_a_folder_is_refused_as_the_index_file_to_build(out):
    os.mkdir("folder")
    line = stderr_line(run("build", "X.npy", "-o", out, code=2))
    assert f"cannot write {out}: it is a folder" in line
    assert "suffix" not in line


@pytest.mark.parametrize(
    "command",
    [
        ["export", "X.npy", "postgres://me:hunter2@host/db", "--to=a.faiss"],
        ["postgres://me:hunter2@host/db"],
        ["data", "postgres://me:hunter2@host/db"],
        ["export", "X.npy", "--to=a.faiss", "--batch=postgres://me:hunter2@host/db"],
        ["export", "X.npy", "--too=postgres://me:hunter2@host/db"],
        ["stats", "X.npy", "host=a password=hunter2"],
    ],
)
def test_usage_errors_do_not_print_passwords(command):
    assert "hunter2" not in run(*command, code=2).output


NOT_UTF8 = os.fsdecode(b"\xff")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are Unicode")
def test_names_that_are_not_utf8_are_read_written_and_shown():
    os.rename("X.npy", f"{NOT_UTF8}.npy")
    fit = ["fit", f"{NOT_UTF8}.npy", "--recipe=lsh", "--bits=8", "-o", f"{NOT_UTF8}.mhash"]
    assert process(fit).returncode == 0
    done = process(["encode", f"{NOT_UTF8}.mhash", f"{NOT_UTF8}.npy", "-o", f"{NOT_UTF8}c.npy", "--json"])
    assert json.loads(done.stdout)["codes"] == f"{NOT_UTF8}c.npy"
    assert os.path.exists(f"{NOT_UTF8}c.npy")
    done = process(["info", f"{NOT_UTF8}missing.mhash"])
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"missing.mhash" in done.stderr


@pytest.mark.parametrize("moment", ["manihash.cli._app", "numpy", "sklearn.base"])
def test_ctrl_c_during_an_import_is_reported(moment):
    code = (
        "import builtins, sys\n"
        "from manihash.cli import main\n"
        "import_module = builtins.__import__\n"
        "def interrupted(name, *args, **options):\n"
        f"    if name == {moment!r}:\n"
        "        raise KeyboardInterrupt\n"
        "    return import_module(name, *args, **options)\n"
        "builtins.__import__ = interrupted\n"
        "sys.argv = ['manihash', 'fit', 'X.npy', '--recipe=itq', '--bits=4', '-o', 'a.mhash']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 130, done.stderr
    assert done.stderr == b"error: interrupted; nothing was written\n"


def test_ctrl_c_while_the_commands_are_put_together_is_reported():
    code = (
        "import sys, typer.main\nfrom manihash.cli import main\n"
        "def interrupted(*args, **options):\n    raise KeyboardInterrupt\n"
        "typer.main.get_command = interrupted\nsys.argv = ['manihash', 'info']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"error: interrupted; nothing was written\n")


def test_an_ascii_terminal_gets_the_whole_table():
    options = ["evaluate", "--vectors=X.npy", "--recipe=lsh", "--bits=8", "--seeds=2"]
    done = process(options, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0
    assert b"us/row" in done.stdout
    assert b"+-0." in done.stdout


def test_a_missing_file_is_reported_without_importing_scikit_learn():
    code = (
        "import sys\nfrom manihash.cli import main\n"
        "sys.argv = ['manihash', 'fit', 'none.npy', '-o', 'a.mhash']\n"
        "try:\n    main()\nfinally:\n    print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"no file at none.npy" in done.stderr
    assert done.stdout == b"False\n"


def test_a_closed_stdout_is_reported():
    command = f'"{sys.executable}" -m manihash info >&-'
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"stdout is closed" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows it is not known whether a process has ended")
def test_what_is_left_of_a_check_that_is_killed_is_removed_by_the_next_write():
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom manihash.cli._inputs import check_output\n"
        "kill = lambda event, args: event == 'os.remove' and os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(kill)\ncheck_output(Path('new.mhx'))"
    )
    before = set(os.listdir())
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode < 0
    assert len(set(os.listdir()) - before) == 1
    with atomic_write("new.mhx") as part:
        part.write_text("whole")
    assert set(os.listdir()) - before == {"new.mhx"}
