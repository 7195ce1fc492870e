"""The command as a process: stdout and stderr, exit codes, pipes and signals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import SCRIPT, SMALL, run

pytestmark = pytest.mark.usefixtures("folder")


def run_script(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *args], capture_output=True, text=True, timeout=120, check=False)


def files() -> set[str]:
    return set(os.listdir())


def test_warnings_of_the_library_are_printed_to_stderr(model: str) -> None:
    result = run("search", model, "codes.npy", "Q.npy", "-k", "400", "--json")
    assert "warning: k=400 exceeds the 300 rows of the index" in result.stderr
    assert len(json.loads(result.stdout)["answers"][0]["ids"]) == 300


def test_the_script_prints_only_the_result_to_stdout(folder: Path) -> None:
    done = run_script("fit", "X.npy", *SMALL, "-o", "m.mhash", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["bits"] == 12
    assert done.stderr == ""


def test_the_script_exits_2_without_a_traceback(folder: Path) -> None:
    done = run_script("encode", "X.npy", "X.npy", "-o", "codes.npy")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_the_traceback_is_shown_with_manihash_debug(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANIHASH_DEBUG", "1")
    done = run_script("info", "X.npy")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error(model: str) -> None:
    command = [SCRIPT, "search", model, "codes.npy", "X.npy", "--radius", "12", "--json"]
    searching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert searching.stdout is not None
    searching.stdout.read(10)
    searching.stdout.close()
    assert searching.stderr is not None
    assert searching.stderr.read() == b""
    searching.stderr.close()
    assert searching.wait(60) == 0


def test_an_internal_error_is_one_line_and_exit_code_1(folder: Path) -> None:
    fault = (
        "import manihash.cli.fit as fit, manihash.cli as cli, sys\n"
        "def broken(*_): raise KeyError('lost')\n"
        "fit._training_rows = broken\n"
        "sys.argv = ['manihash', 'fit', 'X.npy', '-o', 'm.mhash']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", fault], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "internal error: KeyError" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_interrupted_fit_leaves_no_file(folder: Path) -> None:
    before = files()
    screen, terminal = pytest.importorskip("pty", reason="Windows has no such terminals").openpty()
    command = [SCRIPT, "fit", "X.npy", *SMALL, "--set=embedding__n_iter=10000000", "-o", "m.mhash"]
    fitting = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=terminal,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(terminal)
    seen = b""
    while b"t-SNE" not in seen:  # the progress bar shows that the fit has started
        seen += os.read(screen, 4096)
    fitting.send_signal(signal.SIGINT)
    seen += _rest(screen)
    assert fitting.stdout is not None
    assert fitting.stdout.read() == b""
    fitting.stdout.close()
    assert fitting.wait(60) == 130
    assert b"interrupted; nothing was written" in seen
    assert b"Traceback" not in seen
    assert files() == before


def _rest(screen: int) -> bytes:
    """Return the output of a terminal until its last writer closes it."""
    seen = b""
    try:
        while more := os.read(screen, 4096):
            seen += more
    except OSError:
        pass
    os.close(screen)
    return seen
