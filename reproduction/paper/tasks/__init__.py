"""The tasks: what a trial can measure."""

from collections.abc import Callable

from reproduction.paper.run.cache import TrialCache
from reproduction.paper.run.trial import Outcome, Trial
from reproduction.paper.tasks import answers, classify, prototypes, retrieval, timing

TASKS: dict[str, Callable[[Trial, TrialCache], Outcome]] = {
    "retrieval": retrieval.retrieval,
    "scan": retrieval.scan,
    "asymmetric": retrieval.asymmetric,
    "accuracy": classify.accuracy,
    "answers": answers.answers,
    "sample": answers.sample,
    "prototypes": prototypes.prototypes,
    "times": timing.times,
    "growth": timing.growth,
}
_cache = TrialCache()  # one per process


def measure(trial: Trial) -> Outcome:
    """The outcome of a trial."""
    return TASKS[trial.task](trial, _cache)
