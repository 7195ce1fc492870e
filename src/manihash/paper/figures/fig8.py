"""Figure 8: F1 and recall at radius 2 on SIFT1M, or on the set that stands in for it."""

from dataclasses import replace

from manihash.paper.experiment import Experiment
from manihash.paper.figures import large
from manihash.paper.lines import by_method, claim, ranked, told
from manihash.paper.printed import paper
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope
from manihash.report.section import Claim, Section

SETS = ("sift1m", "photo-sift1m")
NEAR_ZERO = 2.0  # per cent of F1
CLOSE = 5.0  # per cent of F1: our set is not the paper's


def trials(scope: Scope) -> list[Trial]:
    """Nine methods at every length."""
    return large.trials(scope, scope.first_at_hand(SETS))


def section(held: Held, scope: Scope) -> Section:
    """The two plots, and the claims about ITQ and IMH-tSNE besides those of figure 9."""
    data = scope.first_at_hand(SETS)
    shared = large.section("fig8", EXPERIMENT.title, held, scope, data, SETS[0])
    return replace(shared, claims=(*shared.claims, *_claims(held, scope, data)))


def _claims(held: Held, scope: Scope, data: str) -> list[Claim]:
    lines = large.lines_of(held, scope, data, "f1")
    line = by_method(lines)
    printed = 100 * paper()["fig8"]["f1"]["imh-tsne"]
    itq, tsne = line["itq"], line["imh-tsne"]
    return [
        claim(
            "fig8-itq-16",
            told(lines, digits=2),
            lambda: ranked(lines, 16)[-1] == "itq",
            scope,
        ),
        claim("fig8-itq-64", told([itq], digits=2), lambda: itq[64] <= NEAR_ZERO, scope),
        claim("fig8-tsne-64", told([tsne], digits=2), lambda: tsne[64] >= printed - CLOSE, scope),
    ]


EXPERIMENT = Experiment("fig8", "Figure 8: look-up on SIFT1M", SETS, trials, section)
