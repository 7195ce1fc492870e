"""Figure 4: MAP and F1 of nine methods on CIFAR-10, from 16 to 128 bits."""

from reproduction.paper.claims import FAR, above, claim, falls, means, ranked
from reproduction.paper.experiment import Experiment
from reproduction.paper.figures import nine_methods
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Claim, Section
from reproduction.paper.series import Series, by_method, describe
from reproduction.paper.settings import RunSettings

DATA = "cifar10-gist"


def trials(settings: RunSettings) -> list[Trial]:
    """Nine methods at every length; figure 5 draws its curves from the same."""
    return nine_methods.trials(settings, DATA)


def section(results: Results, settings: RunSettings) -> Section:
    """The two plots and their claims."""
    lead = "Nine methods by code length: the ranking of the whole database, and the look-up within radius 2."

    def claims(by_map: list[Series], by_f1: list[Series]) -> list[Claim]:
        return [*_of_map(by_method(by_map), settings), *_of_f1(by_f1, settings)]

    return nine_methods.map_and_f1_section("fig4", EXPERIMENT.title, lead, results, settings, DATA, claims)


def _of_map(methods: dict[str, Series], settings: RunSettings) -> list[Claim]:
    def pair(name: str, a: str, b: str, by: float = 1.0) -> Claim:
        return claim(
            name, describe([methods[a], methods[b]]), lambda: above(methods[a], methods[b], by), settings
        )

    def best() -> bool:
        two = {"imh-le", "imh-tsne"}
        lengths = methods["imh-tsne"].xs
        return all(set(ranked(methods.values(), x)[-2:]) == two for x in lengths)

    def worst() -> bool:
        found = means(methods.values())
        return set(sorted(found, key=lambda m: found[m])[:2]) == {"sh", "pcah"}

    return [
        claim("fig4-best", describe(list(methods.values())), best, settings),
        pair("fig4-tsne-le", "imh-tsne", "imh-le"),
        pair("fig4-le-agh", "imh-le", "agh", FAR),
        pair("fig4-le-sth", "imh-le", "sth", FAR),
        pair("fig4-itq-sph", "itq", "sph"),
        pair("fig4-itq-bre", "itq", "bre"),
        claim("fig4-worst", describe(list(methods.values())), worst, settings),
    ]


def _of_f1(series: list[Series], settings: RunSettings) -> list[Claim]:
    ours = describe(series, digits=2)

    def best() -> bool:
        found = means(series)
        least = min(found.pop("imh-tsne"), found.pop("imh-le"))
        return least > FAR * max(found.values())

    def next_best() -> bool:
        found = means(series)
        rest = sorted(found, key=lambda m: found[m])[:-2]
        return set(rest[-2:]) == {"bre", "agh"}

    return [
        claim("fig4-f1-best", ours, best, settings),
        claim("fig4-f1-next", ours, next_best, settings),
        claim("fig4-f1-falls", ours, lambda: all(falls(each) for each in series), settings),
    ]


EXPERIMENT = Experiment("fig4", "Figure 4: nine methods on CIFAR-10", (DATA,), trials, section)
