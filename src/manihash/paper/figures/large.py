"""What figures 8 and 9 share: look-up on a large set whose truth is the nearest 2 %."""

from typing import Any

from manihash.paper.figures import nine
from manihash.paper.lines import Line, claim, falls, means, told
from manihash.paper.notes import data_note
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope, on_base
from manihash.report.section import Claim, Section

BASE_SIZE, NEIGHBORS = 1000, 2


def options(method: str) -> dict[str, Any]:
    """A thousand base points and two neighbors, as the paper sets them for IMH and AGH here."""
    return on_base(method, base__size=BASE_SIZE, n_neighbors=NEIGHBORS)


def trials(scope: Scope, data: str) -> list[Trial]:
    """Nine methods at every length."""
    return nine.trials(scope, data, options)


def lines_of(held: Held, scope: Scope, data: str, figure: str) -> list[Line]:
    """A figure of the nine methods at every length."""
    return nine.lines_of(held, scope, data, figure, options)


def section(name: str, title: str, held: Held, scope: Scope, data: str, wanted: str) -> Section:
    """F1 and recall within radius 2, and the claims that both figures carry."""
    by_f1, by_recall = (lines_of(held, scope, data, figure) for figure in ("f1", "recall"))
    parts = (
        nine.lookup_plot(name, "F1", by_f1),
        nine.lookup_plot(name, "recall", by_recall),
    )
    lead = f"Look-up within Hamming radius 2; m = {BASE_SIZE:,} and k = {NEIGHBORS} for IMH and AGH."
    missing: tuple[str, ...] = ()
    if data != wanted:
        missing = (f"{wanted} is not on this machine: {data} stands in for it (manihash data get {wanted}).",)
    claims = _claims(name, by_f1, by_recall, scope)
    return Section(name, title, lead, data_note(data, scope), parts, tuple(claims), missing)


def _claims(name: str, by_f1: list[Line], by_recall: list[Line], scope: Scope) -> list[Claim]:
    def imh_best(lines: list[Line]) -> bool:
        found = means(lines)
        return max(found, key=lambda m: found[m]).startswith("imh-")

    def most_fall() -> bool:
        return sum(map(falls, by_f1)) > len(by_f1) / 2

    return [
        claim(f"{name}-f1", told(by_f1, digits=2), lambda: imh_best(by_f1), scope),
        claim(f"{name}-recall", told(by_recall, digits=2), lambda: imh_best(by_recall), scope),
        claim(f"{name}-falls", told(by_f1, digits=2), most_fall, scope),
    ]
