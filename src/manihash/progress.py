"""Progress of long work, as log records: the library logs, the command draws the bar.

Each record of the logger ``manihash.progress`` carries ``stage``, ``done`` and ``total``; nothing is shown
unless somebody listens (``logging.getLogger("manihash").setLevel("DEBUG")``, or the command's bar).
``manihash.note`` has what a user should know of, though nothing is wrong.
"""

import logging

_log = logging.getLogger("manihash.progress")
_notes = logging.getLogger("manihash.note")


def advance(stage: str, done: int, total: int) -> None:
    """Say that ``done`` of ``total`` steps of a stage are behind us."""
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s: %d of %d", stage, done, total, extra={"stage": stage, "done": done, "total": total})


def note(text: str) -> None:
    """Say what was done that the user may want otherwise."""
    _notes.info("%s", text)
