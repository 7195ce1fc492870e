"""The classes of all commands: how they show their help, run, and report errors."""

import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from manihash.cli._output import messages, print_message, without_passwords

_UsageError: Any = typer.BadParameter.__base__  # of click, or of the copy of it in newer versions of typer


@contextmanager
def _parsing() -> Iterator[None]:
    """Report an interrupt, and hide passwords in errors about the command line, which repeat it."""
    try:
        with reported():
            yield
    except _UsageError as error:
        error.message = without_passwords(error.message)
        raise


def _without_flag_types(params: list[Any]) -> list[Any]:
    """Return the parameters, with flags shown as ``--json``: typer would show ``--json <bool>``."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose errors are reported in one line, with hints about its own options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as the help shows them."""
        return _without_flag_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, with required arguments as ``MODEL``, not ``{MODEL}``."""
        return [re.sub(r"^\{(.*)\}(\.\.\.)?$", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line."""
        with _parsing():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        options = {name for param in self.params for name in param.opts}
        with reported(options):
            return super().invoke(ctx)


class Group(TyperGroup):
    """A group of commands, listed in the order in which they were added."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as the help shows them."""
        return _without_flag_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line up to the name of a command."""
        with _parsing():
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the command line names."""
        with _parsing():
            return super().resolve_command(ctx, args)


INTERNAL_ERROR, INVALID_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143

_SIZE = "--set base__size=M sets the number of base points (base__base__size for imh-large and imh-graph)"
# A pattern in a message of the library, the option it is about (None: any command), and the hint to add.
_HINTS = (
    (r"\bn_bits\b", "--bits", "--bits sets n_bits"),
    (r"^(?!the first part).*\bn_neighbors\b", "--set", "--set n_neighbors=K sets n_neighbors"),
    (r"^the first part.*\bn_neighbors\b", "--set", "--set first__n_neighbors=K sets n_neighbors"),
    (r"^(?!the (first|second) part).*(\bbase (set|points)\b|Base\()", "--set", _SIZE),
    (r"\bbits_per_field=4\b", "--set", "--set bits_per_field=4 sets the bits of a field"),
    (r"\bperplexity\b", "--set", "--set embedding__perplexity=P sets the perplexity"),
    (r"\by is None\b", "--labels", "--labels FILE gives the labels of the vectors"),
    (r"\brestart=True\b", "--restart", "--restart starts over, -o names another output file"),
    (r"expected packed codes|array of bytes", None, "manihash encode MODEL VECTORS makes codes of vectors"),
    (
        r"no (FAISS|LanceDB|milvus-lite|DuckDB|Parquet|SQLite|usearch|Qdrant|collection|table)\b",
        None,
        "manihash export creates a store",
    ),
    (r"special character in the user, the password", None, "quote the address in the shell: 'postgres://…'"),
    (r"\brecord_statistics\b", "--record", "manihash drift MODEL TRAINING_VECTORS --record adds them"),
    (r"hasher\.refit\b", None, "manihash refit MODEL VECTORS -o MODEL2 trains anew"),
    (r"already in the index\b", "--remove", "--remove FILE removes the rows with these ids first"),
    (r"one id per code|ids of the vectors", "--ids", "--ids FILE gives the ids"),
    (r"\b(no|not a)( manihash)? model file", None, "manihash fit writes model files"),
    (r"is an index file, not", None, "manihash search MODEL INDEX QUERIES searches an index file"),
    (r"is a model file, not", None, "manihash encode MODEL VECTORS uses a model file"),
    (r"\b(no|unknown) recipe\b", None, "manihash info lists the recipes"),
)


@contextmanager
def reported(options: Collection[str] = ()) -> Iterator[None]:
    """Run a command with these options: report invalid input and warnings as one message each."""
    terminations: list[int] = []
    try:
        with _sigterm_as_interrupt(terminations), warnings.catch_warnings():
            warnings.showwarning = _print_warning
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        raise typer.Exit from None
    except KeyboardInterrupt as error:
        what, code = ("terminated", TERMINATED) if terminations else ("interrupted", INTERRUPTED)
        _fail(f"{what}; {str(error) or 'nothing was written'}", code, error)
    except MemoryError as error:
        details = str(error) or "no details"
        text = f"not enough memory ({details}): use fewer rows, or float32 vectors"
        _fail(text, INVALID_INPUT, error)
    except OSError as error:
        _fail(_os_error_text(error), INVALID_INPUT, error, options)
    except (ValueError, ImportError) as error:
        _fail(str(error), INVALID_INPUT, error, options)


def hints(message: str, options: Collection[str]) -> list[str]:
    """Return the hints about a command's options that belong to a message of the library."""
    return [
        hint
        for pattern, option, hint in _HINTS
        if re.search(pattern, message) and (option is None or (option in options and option not in message))
    ]


@contextmanager
def _sigterm_as_interrupt(terminations: list[int]) -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, and append it to `terminations`."""

    def interrupt(number: int, frame: Any) -> None:
        terminations.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def internal_errors_reported() -> Iterator[None]:
    """Report any other exception as an internal error."""
    try:
        yield
    except Exception as error:
        _print_traceback_if_debugging(error)
        what = f"{type(error).__name__}: {error}".strip()
        print_message(
            "internal error", f"{what}. Please report it; set MANIHASH_DEBUG=1 to see the traceback"
        )
        sys.exit(INTERNAL_ERROR)


def _fail(text: str, code: int, error: BaseException, options: Collection[str] = ()) -> None:
    _print_traceback_if_debugging(error)
    text = "; ".join([text, *getattr(error, "__notes__", ())])
    shown = text.replace("restart=True", "--restart") if "--restart" in options else text
    print_message("error", shown)
    for hint in hints(text, options):
        print_message("hint", hint, "yellow")
    raise typer.Exit(code) from None


def _print_traceback_if_debugging(error: BaseException) -> None:
    if os.environ.get("MANIHASH_DEBUG") == "1":
        text = without_passwords("".join(traceback.format_exception(error)))
        messages.print(text, markup=False, soft_wrap=True)


def _os_error_text(error: OSError) -> str:
    """Return the message of an OSError, with the file name if the operating system raised it."""
    text = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {text}" if error.filename else text


def _print_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    print_message("warning", str(message), "yellow")


def _discard_stdout() -> None:
    """Discard buffered output after the reader of stdout has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
