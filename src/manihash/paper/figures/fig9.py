"""Figure 9: F1 and recall at radius 2 on GIST1M, or on the set that stands in for it."""

from manihash.paper.experiment import Experiment
from manihash.paper.figures import large
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope
from manihash.report.section import Section

SETS = ("gist1m", "tiny-gist960")


def trials(scope: Scope) -> list[Trial]:
    """Nine methods at every length."""
    return large.trials(scope, scope.first_at_hand(SETS))


def section(held: Held, scope: Scope) -> Section:
    """The two plots and their claims."""
    return large.section("fig9", EXPERIMENT.title, held, scope, scope.first_at_hand(SETS), SETS[0])


EXPERIMENT = Experiment("fig9", "Figure 9: look-up on GIST1M", SETS, trials, section)
