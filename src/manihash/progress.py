"""Progress of long work, as log records: the library logs, the command draws the progress bar.

Each record of the logger ``manihash.progress`` carries ``stage``, ``done``, ``total`` and ``detail``. They
are shown if the level of the logger is DEBUG, or by the progress bar of the command. The logger
``manihash.note`` reports choices that users may want to know about, although nothing is wrong.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_log = logging.getLogger("manihash.progress")
_notes = logging.getLogger("manihash.note")
_without_notes: ContextVar[bool] = ContextVar("without notes", default=False)


def advance(stage: str, done: int, total: int, detail: str = "") -> None:
    """Report that ``done`` of ``total`` steps of a stage are complete; ``detail`` names the current one."""
    if _log.isEnabledFor(logging.DEBUG):
        facts = {"stage": stage, "done": done, "total": total, "detail": detail}
        _log.debug("%s: %d of %d", stage, done, total, extra=facts)


def note(text: str) -> None:
    """Report a choice that the user may want to change."""
    if not _without_notes.get():
        _notes.info("%s", text)


@contextmanager
def without_notes() -> Iterator[None]:
    """Report no choices inside the block: those of trials are not the user's."""
    before = _without_notes.set(True)
    try:
        yield
    finally:
        _without_notes.reset(before)
