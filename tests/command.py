"""Helpers for the tests of the command: run it and read its messages."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from manihash.cli._app import app

# Options of a fit that takes well under a second.
SMALL = [
    "--recipe=imh-tsne-random",
    "--bits=12",
    "--set=base__size=30",
    "--set=embedding__perplexity=5",
    "--set=embedding__n_iter=50",
]
SCRIPT = str(Path(sys.executable).with_name("manihash"))
# click before 8.2 mixes stdout and stderr unless it is told not to.
_APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}


def invoke(args: list[str]) -> Any:
    """Run the command in this process; its stdout and stderr are kept apart."""
    return CliRunner(**_APART).invoke(app, args)


def run(*args: str, code: int = 0) -> Any:
    """Run the command in this process; check the exit code, and that an error leaves stdout empty."""
    result = invoke(list(args))
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert code == 0 or not result.stdout
    return result


def stderr_line(result: Any) -> str:
    """Return the text on stderr as one line, without the frame that typer draws."""
    return " ".join(result.stderr.replace("│", " ").split())


@contextmanager
def full_disk(n_bytes: int) -> Iterator[None]:
    """Limit the size of files of this process, as if the disk were full."""
    resource = pytest.importorskip("resource", reason="Windows has no limit of file sizes")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def flip_bit(path: str) -> None:
    """Flip one bit near the end of a file."""
    content = bytearray(Path(path).read_bytes())
    content[-9] ^= 1
    Path(path).write_bytes(content)
