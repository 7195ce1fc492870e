"""Figure 4: MAP and F1 of nine methods on CIFAR-10, from 16 to 128 bits."""

from manihash.paper.experiment import Experiment
from manihash.paper.figures import nine
from manihash.paper.lines import FAR, Line, above, by_method, claim, falls, means, ranked, told
from manihash.paper.notes import data_note
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope
from manihash.report.section import Claim, Section

DATA = "cifar10-gist"


def trials(scope: Scope) -> list[Trial]:
    """Nine methods at every length; figure 5 draws its curves from the same."""
    return nine.trials(scope, DATA)


def section(held: Held, scope: Scope) -> Section:
    """The two plots and their claims."""
    by_map, by_f1 = (nine.lines_of(held, scope, DATA, figure) for figure in ("map", "f1"))
    parts = (
        nine.map_plot("fig4", by_map),
        nine.lookup_plot("fig4", "F1", by_f1),
    )
    claims = (*_of_map(by_method(by_map), scope), *_of_f1(by_method(by_f1), scope))
    lead = "Nine methods by code length: the ranking of the whole database, and the look-up within radius 2."
    return Section("fig4", EXPERIMENT.title, lead, data_note(DATA, scope), parts, claims)


def _of_map(line: dict[str, Line], scope: Scope) -> list[Claim]:
    def pair(name: str, a: str, b: str, by: float = 1.0) -> Claim:
        return claim(name, told([line[a], line[b]]), lambda: above(line[a], line[b], by), scope)

    def best() -> bool:
        two = {"imh-le", "imh-tsne"}
        lengths = line["imh-tsne"].xs
        return all(set(ranked(line.values(), x)[-2:]) == two for x in lengths)

    def worst() -> bool:
        found = means(line.values())
        return set(sorted(found, key=lambda m: found[m])[:2]) == {"sh", "pcah"}

    return [
        claim("fig4-best", told(list(line.values())), best, scope),
        pair("fig4-tsne-le", "imh-tsne", "imh-le"),
        pair("fig4-le-agh", "imh-le", "agh", FAR),
        pair("fig4-le-sth", "imh-le", "sth", FAR),
        pair("fig4-itq-sph", "itq", "sph"),
        pair("fig4-itq-bre", "itq", "bre"),
        claim("fig4-worst", told(list(line.values())), worst, scope),
    ]


def _of_f1(line: dict[str, Line], scope: Scope) -> list[Claim]:
    lines = list(line.values())
    ours = told(lines, digits=2)

    def best() -> bool:
        found = means(lines)
        least = min(found.pop("imh-tsne"), found.pop("imh-le"))
        return least > FAR * max(found.values())

    def next_best() -> bool:
        found = means(lines)
        rest = sorted(found, key=lambda m: found[m])[:-2]
        return set(rest[-2:]) == {"bre", "agh"}

    return [
        claim("fig4-f1-best", ours, best, scope),
        claim("fig4-f1-next", ours, next_best, scope),
        claim("fig4-f1-falls", ours, lambda: all(falls(each) for each in lines), scope),
    ]


EXPERIMENT = Experiment("fig4", "Figure 4: nine methods on CIFAR-10", (DATA,), trials, section)
