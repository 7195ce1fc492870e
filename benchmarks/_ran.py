"""Which modules of manihash a measurement ran, in its process and in the processes that it started.

A module counts if one of its functions was called, or if a module that counts imports a constant of it.
Python 3.12 and later report the first call of each function at no cost (``sys.monitoring``). Python 3.11 has
only a profile function, which slows every call down: it is used if ``start(calls=True)`` asks for it, as
programs do that measure quality. Without either, nothing is known, and ``modules`` returns None.

A child process finds the folder of its parent in the environment and writes the names of its modules there,
one file per process. ``_child/sitecustomize.py`` starts the watch in processes of other programs, such as
the command ``manihash``.
"""

import ast
import atexit
import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

FOLDER = "MANIHASH_BENCH_RAN"  # environment variable: the folder in which processes note their modules
CALLS = "MANIHASH_BENCH_CALLS"  # set if Python 3.11 shall use a profile function
_TOOL = 4  # one of the six numbers of sys.monitoring
_NAMES = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}  # these run when a module is imported

_own: set[str] = set()
_seen: set[CodeType] = set()
_state: dict[str, Any] = {"watched": False, "file": None}


@cache
def source() -> Path:
    """The folder of the package that is imported."""
    spec = importlib.util.find_spec("manihash")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def start(*, calls: bool = False) -> None:
    """Note the modules whose functions are called from now on, here and in child processes."""
    if calls:
        os.environ[CALLS] = "1"
    if FOLDER not in os.environ:
        folder = tempfile.mkdtemp(prefix="manihash-ran-")
        os.environ[FOLDER] = folder
        child = str(Path(__file__).parent / "_child")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [child, os.environ.get("PYTHONPATH", "")]))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    elif _state["file"] is None and not _state["watched"]:
        _state["file"] = Path(os.environ[FOLDER]) / str(os.getpid())
    _watch()


def _watch() -> None:
    if _state["watched"]:
        return
    prefixes = {
        str(source()) + os.sep: "",
        str(Path(__file__).parents[1] / "reproduction") + os.sep: "reproduction/",
    }
    if sys.version_info >= (3, 12):
        events = sys.monitoring.events.PY_START
        sys.monitoring.use_tool_id(_TOOL, "modules that ran")

        def started(code: CodeType, offset: int) -> object:
            _note(code, prefixes)
            return sys.monitoring.DISABLE

        sys.monitoring.register_callback(_TOOL, events, started)
        sys.monitoring.set_events(_TOOL, events)
    elif CALLS in os.environ:

        def called(frame: Any, event: str, arg: object) -> None:
            if event == "call" and frame.f_code not in _seen:
                _seen.add(frame.f_code)
                _note(frame.f_code, prefixes)

        sys.setprofile(called)
        threading.setprofile(called)
        atexit.register(sys.setprofile, None)  # modules are taken apart at the end
    else:
        return
    _state["watched"] = True


def _note(code: CodeType, prefixes: dict[str, str]) -> None:
    if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name in _NAMES:
        return  # the body of a module or class
    prefix = next((prefix for prefix in prefixes if code.co_filename.startswith(prefix)), None)
    if prefix is None:
        return
    name = prefixes[prefix] + code.co_filename.removeprefix(prefix).replace(os.sep, "/")
    if name not in _own:
        _own.add(name)
        if _state["file"] is not None:  # written at once: processes are killed, too
            with _state["file"].open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")


def modules() -> set[str] | None:
    """The modules that ran since ``start`` or ``forget``, as paths; None if nothing is known."""
    if not _state["watched"]:
        return None
    found = set(_own)
    for file in Path(os.environ[FOLDER]).glob("*"):
        found.update(file.read_text("utf-8").split())
    return with_constants(found)


def add(names: Iterable[str]) -> None:
    """Note modules that ran before: those of the fit of a stored model."""
    _own.update(names)


def forget() -> None:
    """Forget what ran so far, so that the next measurement does not depend on it."""
    _own.clear()
    _seen.clear()
    for file in Path(os.environ[FOLDER]).glob("*"):
        file.unlink()
    if sys.version_info >= (3, 12) and _state["watched"]:
        sys.monitoring.restart_events()


def with_constants(ran: set[str], folder: Path | None = None) -> set[str]:
    """The modules, and those of which they import constants."""
    folder = source() if folder is None else folder
    found, new = set(ran), set(ran)
    while new:
        new = {
            other
            for name in new
            if not name.startswith("reproduction/") and (folder / name).exists()
            for module, imported in _imports(folder / name)
            for other in (f"{module}.py", f"{module}/__init__.py")
            if (folder / other).exists() and imported & _constants(folder / other)
        } - found
        found |= new
    return found


@cache
def _imports(file: Path) -> list[tuple[str, frozenset[str]]]:
    """The modules of the package that a file imports names from at its top, as paths, and the names."""
    return [
        (node.module.removeprefix("manihash.").replace(".", "/"), frozenset(a.name for a in node.names))
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("manihash.")
    ]


@cache
def _constants(file: Path) -> frozenset[str]:
    """The names that a file assigns: they are used without a call that is noted."""
    found = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return frozenset(found)
