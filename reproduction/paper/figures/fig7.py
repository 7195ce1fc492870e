"""Figure 7: MAP and F1 of nine methods on MNIST, from 16 to 128 bits, and the precision-recall curves."""

from itertools import pairwise
from statistics import median

from manihash.pages.curves import Plot
from reproduction.paper.claims import FAR, above, claim, everywhere_above, falls, means
from reproduction.paper.experiment import Experiment
from reproduction.paper.figures import nine_methods
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Claim, Section
from reproduction.paper.series import Series, by_method, describe, plot
from reproduction.paper.settings import RunSettings

DATA = "mnist"


def trials(settings: RunSettings) -> list[Trial]:
    """Nine methods at every length."""
    return nine_methods.trials(settings, DATA)


def section(results: Results, settings: RunSettings) -> Section:
    """The two plots, the curves of the supplement, and the claims."""
    lead = "Nine methods by code length, and precision against recall along the ranking."
    curves = (_precision_recall(results, settings, bits) for bits in settings.bits)

    def claims(by_map: list[Series], by_f1: list[Series]) -> list[Claim]:
        return [*_of_map(by_map, settings), *_of_f1(by_f1, settings)]

    return nine_methods.map_and_f1_section(
        "fig7", EXPERIMENT.title, lead, results, settings, DATA, claims, curves
    )


def _precision_recall(results: Results, settings: RunSettings, bits: int) -> Plot:
    series = nine_methods.along_curve(results, settings, DATA, bits, "precision_at_recall", "levels")
    return plot(
        f"fig7-precision-recall-{bits}",
        f"Precision where recall reaches a level, {bits} bits.",
        "precision, %",
        series,
        x_label="recall",
    )


def _of_map(series: list[Series], settings: RunSettings) -> list[Claim]:
    methods = by_method(series)
    tsne, le, agh = methods["imh-tsne"], methods["imh-le"], methods["agh"]
    rest = [each for each in series if each is not tsne]

    def best() -> bool:
        return all(everywhere_above(tsne, each) for each in rest)

    def margin_grows() -> bool:
        margins = [tsne[x] - le[x] for x in tsne.xs]
        grows = all(a < b for a, b in pairwise(margins))
        return above(tsne, le, FAR) and grows

    def far_above_both() -> bool:
        pairs = [(a, b) for a in (le, agh) for b in (methods["sth"], methods["sh"])]
        return all(above(a, b, FAR) for a, b in pairs)

    def high_when_long() -> bool:
        longest = tsne.xs[-1]
        middle = median(each[longest] for each in series)
        two = (methods["itq"], methods["bre"])
        return all(not falls(each) and each[longest] > middle for each in two)

    def worst() -> bool:
        found = means(series)
        return min(found, key=lambda m: found[m]) == "pcah"

    return [
        claim("fig7-best", describe(series), best, settings),
        claim("fig7-margin", describe([tsne, le]), margin_grows, settings),
        claim("fig7-le-agh", describe([le, agh]), lambda: above(le, agh), settings),
        claim("fig7-le-sth-sh", describe([le, agh, methods["sth"], methods["sh"]]), far_above_both, settings),
        claim("fig7-itq-bre", describe(series), high_when_long, settings),
        claim("fig7-pcah", describe(series), worst, settings),
    ]


def _of_f1(series: list[Series], settings: RunSettings) -> list[Claim]:
    ours = describe(series, digits=2)

    def ranked() -> list[str]:
        found = means(series)
        return sorted(found, key=lambda m: found[m])

    def low() -> bool:
        found = means(series)
        return max(found["itq"], found["bre"]) < min(found["imh-tsne"], found["imh-le"])

    return [
        claim("fig7-f1-best", ours, lambda: ranked()[-1] == "imh-tsne", settings),
        claim("fig7-f1-itq-bre", ours, low, settings),
        claim("fig7-f1-pcah", ours, lambda: ranked()[0] == "pcah", settings),
    ]


EXPERIMENT = Experiment("fig7", "Figure 7: nine methods on MNIST", (DATA,), trials, section)
