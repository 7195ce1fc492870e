"""The table of tasks: what a trial can measure."""

from collections.abc import Callable

from manihash.experiments.classify import accuracy
from manihash.experiments.measures import asymmetric, retrieval, scan
from manihash.experiments.neighbours import answers, sample
from manihash.experiments.prototypes import prototypes
from manihash.experiments.shelf import Shelf
from manihash.experiments.timing import growth, times
from manihash.experiments.trial import Found, Trial

TASKS: dict[str, Callable[[Trial, Shelf], Found]] = {
    "retrieval": retrieval,
    "scan": scan,
    "asymmetric": asymmetric,
    "accuracy": accuracy,
    "answers": answers,
    "sample": sample,
    "prototypes": prototypes,
    "times": times,
    "growth": growth,
}
_shelf = Shelf()  # of this process


def measure(trial: Trial) -> Found:
    """What a trial finds."""
    return TASKS[trial.task](trial, _shelf)
