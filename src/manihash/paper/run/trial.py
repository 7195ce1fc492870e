"""A trial, its result, and the folder of results: a file for each trial, its path a function of the trial."""

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from manihash.files.atomic import atomic_write

_log = logging.getLogger(__name__)

TIMED = {"times", "growth"}  # tasks that measure time

Figures = dict[str, Any]  # numbers, and lists of numbers, by name


@dataclass(frozen=True)
class Trial:
    """One thing measured: a task (see ``tasks.py``) for a method on a set, at a length, with a seed.

    ``options`` are set on the method's recipe. ``rows`` and ``queries`` limit the set; None is all of it.
    """

    task: str
    data: str
    method: str = ""
    bits: int = 0
    seed: int = 0
    options: tuple[tuple[str, Any], ...] = ()
    rows: int | None = None
    queries: int | None = None

    @property
    def is_timed(self) -> bool:
        """Whether it measures time, so that nothing may run beside it."""
        return self.task in TIMED

    def document(self) -> dict[str, Any]:
        """What differs from the defaults: a field that is added later leaves old trials what they were."""
        held = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return held | ({"options": dict(self.options)} if self.options else {})

    def __str__(self) -> str:
        parts = [self.task, self.data, self.method, f"{self.bits} bits" if self.bits else ""]
        parts += [f"{name}={value}" for name, value in self.options]
        return ", ".join([*filter(None, parts), f"seed {self.seed}"])


def trial(task: str, data: str, method: str = "", bits: int = 0, seed: int = 0, **more: Any) -> Trial:
    """A trial; what is neither ``rows`` nor ``queries`` is an option of the method."""
    limits = {name: more.pop(name, None) for name in ("rows", "queries")}
    return Trial(task, data, method, bits, seed, tuple(sorted(more.items())), **limits)


@dataclass(frozen=True)
class Found:
    """What a task measured: figures, and the seconds that its parts took."""

    figures: Figures
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """A trial with what it found; ``about`` says where and when: versions, commit, cores, date."""

    trial: Trial
    figures: Figures
    seconds: dict[str, float]
    about: dict[str, str]


class Results:
    """The results in a folder. A result is written whole or not at all."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, trial: Trial) -> Path:
        """Where the result of a trial is: readable, and told apart by a hash of all that defines it."""
        text = json.dumps(trial.document(), sort_keys=True, allow_nan=False)
        name = [trial.method, str(trial.bits) if trial.bits else "", f"s{trial.seed}", _hash(text)[:10]]
        return self.folder / trial.task / trial.data / ("-".join(filter(None, name)) + ".json")

    def put(self, result: Result) -> None:
        """Write the result of a trial."""
        held = asdict(result) | {"trial": result.trial.document()}
        text = json.dumps(held, sort_keys=True, allow_nan=False)
        path = self.path(result.trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as part:
            part.write_text(json.dumps({"sha256": _hash(text), **held}, allow_nan=False) + "\n", "utf-8")

    def get(self, trial: Trial) -> Result | None:
        """The result of a trial; None if there is none, or a damaged one, which is named in a warning."""
        path = self.path(trial)
        try:
            held = json.loads(path.read_text("utf-8"))
            expected = held.pop("sha256")
            whole = _hash(json.dumps(held, sort_keys=True)) == expected
            if whole and held["trial"] == json.loads(json.dumps(trial.document())):
                return Result(trial, held["figures"], held["seconds"], held["about"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        _log.warning("%s is damaged: its trial is run again", path)
        return None

    def of(self, trials: Iterable[Trial]) -> dict[Trial, Result]:
        """The results of those of the trials that have one."""
        found = {trial: self.get(trial) for trial in dict.fromkeys(trials)}
        return {trial: result for trial, result in found.items() if result is not None}

    def ready(self) -> Self:
        """Self, with the folder made; an error here names it before any work is done."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(
                error.errno, f"cannot make the folder {self.folder}: {error.strerror}. Give another one"
            ) from error
        return self


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
