"""A trial, its result, and the folder of results, where a file's path is a function of its trial."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from manihash.files.atomic import atomic_write

_log = logging.getLogger(__name__)

TIMED = {"times", "growth"}  # tasks that measure time

Figures = dict[str, Any]  # numbers, and lists of numbers, by name


@dataclass(frozen=True)
class Trial:
    """One measurement: a task (see ``paper.tasks``) for a method on a set, with a length and a seed.

    ``options`` are set on the method's recipe. ``rows`` and ``queries`` limit the set; None keeps all of it.
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
        """Whether it measures time, so that no other trial may run at the same time."""
        return self.task in TIMED

    def document(self) -> dict[str, Any]:
        """The fields that differ from their defaults: a field added later does not change old trials."""
        changed = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return changed | ({"options": dict(self.options)} if self.options else {})

    def __str__(self) -> str:
        parts = [self.task, self.data, self.method, f"{self.bits} bits" if self.bits else ""]
        parts += [f"{name}={value}" for name, value in self.options]
        return ", ".join([*filter(None, parts), f"seed {self.seed}"])


def trial(task: str, data: str, method: str = "", bits: int = 0, seed: int = 0, **more: Any) -> Trial:
    """A trial; keyword arguments other than ``rows`` and ``queries`` are options of the method."""
    limits = {name: more.pop(name, None) for name in ("rows", "queries")}
    return Trial(task, data, method, bits, seed, tuple(sorted(more.items())), **limits)


@dataclass(frozen=True)
class Outcome:
    """What a task returns: the numbers measured, and the seconds that its steps took."""

    figures: Figures
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """A trial with its outcome; ``about`` has versions, commit, cores and date."""

    trial: Trial
    figures: Figures
    seconds: dict[str, float]
    about: dict[str, str]


Results = Mapping[Trial, Result]  # of the trials that are finished


class ResultFolder:
    """A folder of results, one file per trial. Files are written atomically."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, trial: Trial) -> Path:
        """The file of a trial: a readable name, with a hash of all fields of the trial."""
        text = json.dumps(trial.document(), sort_keys=True, allow_nan=False)
        name = [trial.method, str(trial.bits) if trial.bits else "", f"s{trial.seed}", _hash(text)[:10]]
        return self.folder / trial.task / trial.data / ("-".join(filter(None, name)) + ".json")

    def put(self, result: Result) -> None:
        """Write the result of a trial."""
        document = asdict(result) | {"trial": result.trial.document()}
        text = json.dumps(document, sort_keys=True, allow_nan=False)
        path = self.path(result.trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as part:
            part.write_text(json.dumps({"sha256": _hash(text), **document}, allow_nan=False) + "\n", "utf-8")

    def get(self, trial: Trial) -> Result | None:
        """The result of a trial; None if there is none, or if its file is damaged, with a warning."""
        path = self.path(trial)
        try:
            document = json.loads(path.read_text("utf-8"))
            expected = document.pop("sha256")
            intact = _hash(json.dumps(document, sort_keys=True)) == expected
            if intact and document["trial"] == json.loads(json.dumps(trial.document())):
                return Result(trial, document["figures"], document["seconds"], document["about"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        _log.warning("%s is damaged: its trial will be run again", path)
        return None

    def of(self, trials: Iterable[Trial]) -> dict[Trial, Result]:
        """The results of the trials that are finished."""
        found = {trial: self.get(trial) for trial in dict.fromkeys(trials)}
        return {trial: result for trial, result in found.items() if result is not None}

    def ready(self) -> Self:
        """Create the folder if needed and return self, so that an error shows before any work is done."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(
                error.errno,
                f"cannot create the folder {self.folder}: {error.strerror}. Choose another folder",
            ) from error
        return self


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
