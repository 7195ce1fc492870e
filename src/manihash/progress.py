"""Progress of long work, as log records: the library logs, the command draws the bar.

Each record of the logger ``manihash.progress`` carries ``stage``, ``done`` and ``total``; nothing is shown
unless somebody listens (``logging.getLogger("manihash").setLevel("DEBUG")``, or the command's bar).
"""

import logging

_log = logging.getLogger("manihash.progress")


def advance(stage: str, done: int, total: int) -> None:
    """Say that ``done`` of ``total`` steps of a stage are behind us."""
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s: %d of %d", stage, done, total, extra={"stage": stage, "done": done, "total": total})
