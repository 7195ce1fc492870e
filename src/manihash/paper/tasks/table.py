"""The table of tasks: what a trial can measure."""

from collections.abc import Callable

from manihash.paper.run.shelf import Shelf
from manihash.paper.run.trial import Found, Trial
from manihash.paper.tasks.classify import accuracy
from manihash.paper.tasks.measures import asymmetric, retrieval, scan
from manihash.paper.tasks.neighbors import answers, sample
from manihash.paper.tasks.prototypes import prototypes
from manihash.paper.tasks.timing import growth, times

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
