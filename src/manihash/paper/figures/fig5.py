"""Figure 5: precision and recall of nine methods on CIFAR-10 against the number of points retrieved."""

from manihash.paper.experiment import Experiment
from manihash.paper.figures import fig4
from manihash.paper.lines import Line, by_method, claim, plot, title, told
from manihash.paper.notes import data_note
from manihash.paper.scope import NINE, Held, Scope, mean_curve
from manihash.report.section import Claim, Plot, Section

DATA = fig4.DATA
SHOWN_BITS = 64
FEW, MANY = 100, 10_000  # points retrieved


def section(held: Held, scope: Scope) -> Section:
    """Both curves at every length, as the supplement has them; the claims are about 64 bits."""
    shown = scope.lengths((SHOWN_BITS,))[0]
    lengths = [shown, *(bits for bits in scope.bits if bits != shown)]
    parts: list[Plot] = []
    for bits in lengths:
        parts += retrieved_plots("fig5", held, scope, DATA, bits)
    lines = along_ranks(held, scope, DATA, shown, "precision_at")
    lead = f"Precision and recall of the first N points of a ranking; {shown} bits as in the paper, then all."
    return Section(
        "fig5", EXPERIMENT.title, lead, data_note(DATA, scope), tuple(parts), tuple(_claims(lines, scope))
    )


def along_ranks(held: Held, scope: Scope, data: str, bits: int, figure: str, x: str = "ranks") -> list[Line]:
    """A curve of each of the nine methods, in percent."""
    return [
        Line(title(m), m, mean_curve(held, scope.seeded("retrieval", data, m, bits), x, figure)) for m in NINE
    ]


def retrieved_plots(name: str, held: Held, scope: Scope, data: str, bits: int) -> list[Plot]:
    """Precision and recall against the number of points retrieved, at one length."""
    found = []
    for measure in ("precision", "recall"):
        lines = along_ranks(held, scope, data, bits, f"{measure}_at")
        caption = f"{measure.capitalize()} of the first N points, {bits} bits."
        axis = {"x_label": "points retrieved", "log_x": True}
        found.append(plot(f"{name}-{measure}-{bits}", caption, f"{measure}, %", lines, **axis))
    return found


def _claims(lines: list[Line], scope: Scope) -> list[Claim]:
    line = by_method(lines)
    many = MANY if scope.rows is None else scope.rows // 5
    early, late, both = ("agh", "sth"), ("imh-tsne", "imh-le", "itq"), (float(FEW), float(_rank(lines, many)))
    seen = [Line(each.title, each.method, {x: each.at.get(x) for x in both}) for each in lines]
    ours = told(seen, "points retrieved")

    def few() -> bool:
        ordered = sorted(NINE, key=lambda m: line[m][FEW])
        return all(ordered.index(m) >= len(NINE) // 2 for m in early)

    def kept(method: str) -> float:
        return line[method][both[1]] / line[method][both[0]]

    return [
        claim("fig5-few", ours, few, scope),
        claim("fig5-drop", ours, lambda: max(map(kept, early)) < min(map(kept, late)), scope),
        claim(
            "fig5-many",
            ours,
            lambda: min(line[m][both[1]] for m in late) > max(line[m][both[1]] for m in early),
            scope,
        ),
    ]


def _rank(lines: list[Line], wanted: int) -> float:
    """The largest rank on the curves that is no larger than the one wanted."""
    return max((x for line in lines for x in line.at if x <= wanted), default=float(wanted))


EXPERIMENT = Experiment("fig5", "Figure 5: precision and recall on CIFAR-10", (DATA,), fig4.trials, section)
