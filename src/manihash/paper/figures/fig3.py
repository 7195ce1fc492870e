"""Figure 3: MAP against the size m of the base set and the number k of neighbors, CIFAR-10, 64 bits."""

from typing import Any

from manihash.paper.experiment import Experiment
from manihash.paper.lines import Line, NotMeasured, above, by_method, claim, plot, title, told
from manihash.paper.notes import data_note
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope, mean
from manihash.report.section import Claim, Section

DATA = "cifar10-gist"
METHODS = ("imh-tsne", "imh-le", "imh-le-b", "agh")
USUAL_M, USUAL_K = 400, 5
SIZES, QUICK_SIZES = (100, 200, 400, 600, 800, 1000), (200, 400)
NEIGHBORS, QUICK_NEIGHBORS = (2, 3, 5, 8, 10, 15, 20), (3, 5)
LITTLE = 2.0  # points of MAP between the least and the largest: "does not change significantly"


def trials(scope: Scope) -> list[Trial]:
    """Every method at every size, and at every number of neighbors."""
    sizes, neighbors = _ranges(scope)
    ways = [*map(_of_size, sizes), *map(_of_neighbors, neighbors)]
    return [t for options in ways for m in METHODS for t in _trials(scope, m, options)]


def section(held: Held, scope: Scope) -> Section:
    """The two plots and their claims."""
    sizes, neighbors = _ranges(scope)
    by_m = [
        Line(title(m), m, {float(s): mean(held, _trials(scope, m, _of_size(s)), "map", 100) for s in sizes})
        for m in METHODS
    ]
    by_k = [
        Line(
            title(m),
            m,
            {float(k): mean(held, _trials(scope, m, _of_neighbors(k)), "map", 100) for k in neighbors},
        )
        for m in METHODS
    ]
    parts = (
        plot("fig3-m", f"k = {USUAL_K}.", "MAP, %", by_m, x_label="base points m"),
        plot("fig3-k", f"m = {USUAL_M}.", "MAP, %", by_k, x_label="nearest base points k"),
    )
    lead = f"How much the base set's size and the number of neighbors matter, at {_bits(scope)} bits."
    claims = tuple(_claims(by_m, by_k, scope))
    return Section("fig3", EXPERIMENT.title, lead, data_note(DATA, scope), parts, claims)


def _claims(by_m: list[Line], by_k: list[Line], scope: Scope) -> list[Claim]:
    def steady(lines: list[Line]) -> bool:
        return all(_range(line) <= LITTLE for line in lines)

    def both(name: str, a: str, b: str) -> Claim:
        pairs = [(by_method(lines)[a], by_method(lines)[b]) for lines in (by_m, by_k)]
        ours = f"{told(list(pairs[0]), 'base points')}; {told(list(pairs[1]), 'neighbors')}"
        return claim(name, ours, lambda: all(above(*pair) for pair in pairs), scope)

    return [
        claim("fig3-m", told(by_m, "base points"), lambda: steady(by_m), scope),
        claim("fig3-k", told(by_k, "neighbors"), lambda: steady(by_k), scope),
        both("fig3-le-b-le", "imh-le", "imh-le-b"),
        both("fig3-le-b-agh", "imh-le-b", "agh"),
    ]


def _range(line: Line) -> float:
    if len(line.xs) < 2:
        raise NotMeasured(f"{line.title} at two places")
    values = [line[x] for x in line.xs]
    return max(values) - min(values)


def _bits(scope: Scope) -> int:
    return scope.lengths((64,))[0]


def _ranges(scope: Scope) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (QUICK_SIZES, QUICK_NEIGHBORS) if scope.quick else (SIZES, NEIGHBORS)


def _of_size(m: int) -> dict[str, Any]:
    """Options of a size; none for the usual one, so that other experiments share its trials."""
    return {} if m == USUAL_M else {"base__size": m}


def _of_neighbors(k: int) -> dict[str, Any]:
    return {} if k == USUAL_K else {"n_neighbors": k}


def _trials(scope: Scope, method: str, options: dict[str, Any]) -> list[Trial]:
    return scope.seeded("retrieval", DATA, method, _bits(scope), **options)


EXPERIMENT = Experiment("fig3", "Figure 3: the size of the base set, and k", (DATA,), trials, section)
