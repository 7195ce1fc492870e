"""Errors as a user sees them: one short message on stderr and an exit code, never a traceback."""

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from manihash.cli._output import messages, say

FAULT, WRONG_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143


@contextmanager
def reported() -> Iterator[None]:
    """Run a command: what its input did wrong is said in a line, and so is what libraries warn of."""
    terminations: list[int] = []
    try:
        with _as_interrupts(terminations), warnings.catch_warnings():
            warnings.showwarning = _say_warning
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_the_rest()
        raise typer.Exit from None
    except KeyboardInterrupt as error:
        what, code = ("terminated", TERMINATED) if terminations else ("interrupted", INTERRUPTED)
        _fail(f"{what}; {str(error) or 'nothing was written'}", code, error)
    except MemoryError as error:
        _fail(
            f"not enough memory ({str(error) or 'no details'}): give fewer rows, or vectors of float32",
            WRONG_INPUT,
            error,
        )
    except OSError as error:
        _fail(_told(error), WRONG_INPUT, error)
    except (ValueError, ImportError) as error:
        _fail(str(error), WRONG_INPUT, error)


@contextmanager
def _as_interrupts(terminations: list[int]) -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, and note that it came."""

    def interrupt(number: int, frame: Any) -> None:
        terminations.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only the main one hears of signals
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def unexpected_reported() -> Iterator[None]:
    """What no command expects is a fault of ours: say so, and how to see more."""
    try:
        yield
    except Exception as error:
        what = f"{type(error).__name__}: {error}".strip()
        _show_traceback_if_asked(error)
        say("error", f"{what}. This is a fault in manihash; with MANIHASH_DEBUG=1 it shows where")
        sys.exit(FAULT)


def _fail(text: str, code: int, error: BaseException) -> None:
    _show_traceback_if_asked(error)
    say("error", "; ".join([text, *getattr(error, "__notes__", ())]))
    raise typer.Exit(code) from None


def _show_traceback_if_asked(error: BaseException) -> None:
    if os.environ.get("MANIHASH_DEBUG") == "1":
        messages.print("".join(traceback.format_exception(error)), markup=False, soft_wrap=True)


def _told(error: OSError) -> str:
    """An OSError in words: our own messages as they are, the system's with the file they are about."""
    text = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {text}" if error.filename else text


def _say_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    say("warning", str(message), "yellow")


def _drop_the_rest() -> None:
    """Whoever read our output has gone: what is still buffered goes nowhere, and quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
