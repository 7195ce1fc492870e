"""Figures 8 and 9: F1 and recall within radius 2 on SIFT1M and GIST1M, or on the sets that replace them."""

from dataclasses import replace
from functools import partial
from typing import Any

from reproduction.paper.claims import claim, falls, means, paper, ranked
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.figures import nine_methods
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Claim, Section
from reproduction.paper.series import Series, by_method, describe
from reproduction.paper.settings import RunSettings, base_options

SIFT_SETS, GIST_SETS = ("sift1m", "photo-sift1m"), ("gist1m", "tiny-gist960")
BASE_SIZE, NEIGHBORS = 1000, 2
NEAR_ZERO = 2.0  # percent of F1
CLOSE = 5.0  # percent of F1: our set is not the paper's


def options(method: str) -> dict[str, Any]:
    """A thousand base points and two neighbors, as the paper sets them for IMH and AGH here."""
    return base_options(method, base__size=BASE_SIZE, n_neighbors=NEIGHBORS)


def trials(settings: RunSettings, sets: tuple[str, ...]) -> list[Trial]:
    """Nine methods at every length."""
    return nine_methods.trials(settings, settings.first_available(sets), options)


def section(
    results: Results, settings: RunSettings, name: str, heading: str, sets: tuple[str, ...]
) -> Section:
    """F1 and recall within radius 2, and the claims that both figures have."""
    data = settings.first_available(sets)
    by_f1, by_recall = (_series(results, settings, data, figure) for figure in ("f1", "recall"))
    items = (
        nine_methods.lookup_plot(name, "F1", by_f1),
        nine_methods.lookup_plot(name, "recall", by_recall),
    )
    lead = f"Look-up within Hamming radius 2; m = {BASE_SIZE:,} and k = {NEIGHBORS} for IMH and AGH."
    missing: tuple[str, ...] = ()
    if data != sets[0]:
        missing = (f"{sets[0]} is not on this machine: {data} replaces it (manihash data get {sets[0]}).",)
    claims = tuple(_claims(name, by_f1, by_recall, settings))
    return Section(name, heading, lead, data_note(data, settings), items, claims, missing)


def sift_section(results: Results, settings: RunSettings) -> Section:
    """Figure 8 with its additional claims about ITQ and IMH-tSNE."""
    shared = section(results, settings, FIG8.id, FIG8.title, SIFT_SETS)
    by_f1 = _series(results, settings, settings.first_available(SIFT_SETS), "f1")
    return replace(shared, claims=(*shared.claims, *_sift_claims(by_f1, settings)))


def _series(results: Results, settings: RunSettings, data: str, figure: str) -> list[Series]:
    return nine_methods.series_of(results, settings, data, figure, options)


def _claims(name: str, by_f1: list[Series], by_recall: list[Series], settings: RunSettings) -> list[Claim]:
    def imh_best(series: list[Series]) -> bool:
        found = means(series)
        return max(found, key=lambda m: found[m]).startswith("imh-")

    def most_fall() -> bool:
        return sum(map(falls, by_f1)) > len(by_f1) / 2

    f1, recall = describe(by_f1, digits=2), describe(by_recall, digits=2)
    return [
        claim(f"{name}-f1", f1, lambda: imh_best(by_f1), settings),
        claim(f"{name}-recall", recall, lambda: imh_best(by_recall), settings),
        claim(f"{name}-falls", f1, most_fall, settings),
    ]


def _sift_claims(series: list[Series], settings: RunSettings) -> list[Claim]:
    methods = by_method(series)
    printed = 100 * paper()["fig8"]["f1"]["imh-tsne"]
    itq, tsne = methods["itq"], methods["imh-tsne"]
    f1 = describe(series, digits=2)
    return [
        claim("fig8-itq-16", f1, lambda: ranked(series, 16)[-1] == "itq", settings),
        claim("fig8-itq-64", describe([itq], digits=2), lambda: itq[64] <= NEAR_ZERO, settings),
        claim("fig8-tsne-64", describe([tsne], digits=2), lambda: tsne[64] >= printed - CLOSE, settings),
    ]


FIG8 = Experiment(
    "fig8", "Figure 8: look-up on SIFT1M", SIFT_SETS, partial(trials, sets=SIFT_SETS), sift_section
)
FIG9 = Experiment(
    "fig9",
    "Figure 9: look-up on GIST1M",
    GIST_SETS,
    partial(trials, sets=GIST_SETS),
    partial(section, name="fig9", heading="Figure 9: look-up on GIST1M", sets=GIST_SETS),
)
