"""Figure 3: MAP against the size m of the base set and the number k of neighbors, CIFAR-10, 64 bits."""

from collections.abc import Callable
from typing import Any

from reproduction.paper.claims import above, claim
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Claim, Section
from reproduction.paper.series import NotMeasured, Series, by_method, describe, mean, plot, title
from reproduction.paper.settings import RunSettings

DATA = "cifar10-gist"
METHODS = ("imh-tsne", "imh-le", "imh-le-b", "agh")
USUAL_M, USUAL_K = 400, 5
SIZES, QUICK_SIZES = (100, 200, 400, 600, 800, 1000), (200, 400)
NEIGHBORS, QUICK_NEIGHBORS = (2, 3, 5, 8, 10, 15, 20), (3, 5)
LITTLE = 2.0  # points of MAP between the least and the largest: "does not change significantly"


def trials(settings: RunSettings) -> list[Trial]:
    """Every method at every size, and at every number of neighbors."""
    sizes, neighbors = _ranges(settings)
    ways = [*map(_of_size, sizes), *map(_of_neighbors, neighbors)]
    return [t for options in ways for m in METHODS for t in _trials(settings, m, options)]


def section(results: Results, settings: RunSettings) -> Section:
    """The two plots and their claims."""
    sizes, neighbors = _ranges(settings)

    def along(places: tuple[int, ...], options: Callable[[int], dict[str, Any]]) -> list[Series]:
        return [
            Series(
                title(m),
                m,
                {float(x): mean(results, _trials(settings, m, options(x)), "map", 100) for x in places},
            )
            for m in METHODS
        ]

    by_m, by_k = along(sizes, _of_size), along(neighbors, _of_neighbors)
    items = (
        plot("fig3-m", f"k = {USUAL_K}.", "MAP, %", by_m, x_label="base points m"),
        plot("fig3-k", f"m = {USUAL_M}.", "MAP, %", by_k, x_label="nearest base points k"),
    )
    lead = f"How much the base set's size and the number of neighbors matter, at {_bits(settings)} bits."
    claims = tuple(_claims(by_m, by_k, settings))
    return Section("fig3", EXPERIMENT.title, lead, data_note(DATA, settings), items, claims)


def _claims(by_m: list[Series], by_k: list[Series], settings: RunSettings) -> list[Claim]:
    def steady(series: list[Series]) -> bool:
        return all(_range(each) <= LITTLE for each in series)

    def both(name: str, a: str, b: str) -> Claim:
        pairs = [(by_method(series)[a], by_method(series)[b]) for series in (by_m, by_k)]
        ours = f"{describe(list(pairs[0]), 'base points')}; {describe(list(pairs[1]), 'neighbors')}"
        return claim(name, ours, lambda: all(above(*pair) for pair in pairs), settings)

    return [
        claim("fig3-m", describe(by_m, "base points"), lambda: steady(by_m), settings),
        claim("fig3-k", describe(by_k, "neighbors"), lambda: steady(by_k), settings),
        both("fig3-le-b-le", "imh-le", "imh-le-b"),
        both("fig3-le-b-agh", "imh-le-b", "agh"),
    ]


def _range(one: Series) -> float:
    if len(one.xs) < 2:
        raise NotMeasured(f"{one.title} at two places")
    values = [one[x] for x in one.xs]
    return max(values) - min(values)


def _bits(settings: RunSettings) -> int:
    return settings.lengths((64,))[0]


def _ranges(settings: RunSettings) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (QUICK_SIZES, QUICK_NEIGHBORS) if settings.quick else (SIZES, NEIGHBORS)


def _of_size(m: int) -> dict[str, Any]:
    """Options of a size; none for the usual one, so that other experiments share its trials."""
    return {} if m == USUAL_M else {"base__size": m}


def _of_neighbors(k: int) -> dict[str, Any]:
    return {} if k == USUAL_K else {"n_neighbors": k}


def _trials(settings: RunSettings, method: str, options: dict[str, Any]) -> list[Trial]:
    return settings.seeded("retrieval", DATA, method, _bits(settings), **options)


EXPERIMENT = Experiment("fig3", "Figure 3: the size of the base set, and k", (DATA,), trials, section)
