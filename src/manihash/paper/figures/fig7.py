"""Figure 7: MAP and F1 of nine methods on MNIST, from 16 to 128 bits, and the precision-recall curves."""

from itertools import pairwise
from statistics import median

from manihash.paper.experiment import Experiment
from manihash.paper.figures import nine
from manihash.paper.figures.fig5 import along_ranks
from manihash.paper.lines import (
    FAR,
    Line,
    above,
    by_method,
    claim,
    everywhere_above,
    falls,
    means,
    plot,
    told,
)
from manihash.paper.notes import data_note
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope
from manihash.report.section import Claim, Plot, Section

DATA = "mnist"


def trials(scope: Scope) -> list[Trial]:
    """Nine methods at every length."""
    return nine.trials(scope, DATA)


def section(held: Held, scope: Scope) -> Section:
    """The two plots, the curves of the supplement, and the claims."""
    by_map, by_f1 = (nine.lines_of(held, scope, DATA, figure) for figure in ("map", "f1"))
    parts = (
        nine.map_plot("fig7", by_map),
        nine.lookup_plot("fig7", "F1", by_f1),
        *(_precision_recall(held, scope, bits) for bits in scope.bits),
    )
    claims = (*_of_map(by_method(by_map), scope), *_of_f1(by_method(by_f1), scope))
    lead = "Nine methods by code length, and precision against recall along the ranking."
    return Section("fig7", EXPERIMENT.title, lead, data_note(DATA, scope), parts, claims)


def _precision_recall(held: Held, scope: Scope, bits: int) -> Plot:
    lines = along_ranks(held, scope, DATA, bits, "precision_at_recall", "levels")
    return plot(
        f"fig7-precision-recall-{bits}",
        f"Precision where recall reaches a level, {bits} bits.",
        "precision, %",
        lines,
        x_label="recall",
    )


def _of_map(line: dict[str, Line], scope: Scope) -> list[Claim]:
    lines = list(line.values())
    tsne, le, agh = line["imh-tsne"], line["imh-le"], line["agh"]
    rest = [each for each in lines if each is not tsne]

    def margin_grows() -> bool:
        margins = [tsne[x] - le[x] for x in tsne.xs]
        grows = all(a < b for a, b in pairwise(margins))
        return above(tsne, le, FAR) and grows

    def far_above_both() -> bool:
        pairs = [(a, b) for a in (le, agh) for b in (line["sth"], line["sh"])]
        return all(above(a, b, FAR) for a, b in pairs)

    def high_when_long() -> bool:
        longest = tsne.xs[-1]
        middle = median(each[longest] for each in lines)
        two = (line["itq"], line["bre"])
        return all(not falls(each) and each[longest] > middle for each in two)

    def worst() -> bool:
        found = means(lines)
        return min(found, key=lambda m: found[m]) == "pcah"

    return [
        claim("fig7-best", told(lines), lambda: all(everywhere_above(tsne, each) for each in rest), scope),
        claim("fig7-margin", told([tsne, le]), margin_grows, scope),
        claim("fig7-le-agh", told([le, agh]), lambda: above(le, agh), scope),
        claim("fig7-le-sth-sh", told([le, agh, line["sth"], line["sh"]]), far_above_both, scope),
        claim("fig7-itq-bre", told(lines), high_when_long, scope),
        claim("fig7-pcah", told(lines), worst, scope),
    ]


def _of_f1(line: dict[str, Line], scope: Scope) -> list[Claim]:
    lines = list(line.values())
    ours = told(lines, digits=2)

    def ranked() -> list[str]:
        found = means(lines)
        return sorted(found, key=lambda m: found[m])

    def low() -> bool:
        found = means(lines)
        return max(found["itq"], found["bre"]) < min(found["imh-tsne"], found["imh-le"])

    return [
        claim("fig7-f1-best", ours, lambda: ranked()[-1] == "imh-tsne", scope),
        claim("fig7-f1-itq-bre", ours, low, scope),
        claim("fig7-f1-pcah", ours, lambda: ranked()[0] == "pcah", scope),
    ]


EXPERIMENT = Experiment("fig7", "Figure 7: nine methods on MNIST", (DATA,), trials, section)
