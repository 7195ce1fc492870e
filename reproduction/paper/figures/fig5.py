"""Figure 5: precision and recall of nine methods on CIFAR-10 against the number of points retrieved."""

from manihash.pages.curves import Plot
from reproduction.paper.claims import claim
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.figures import fig4, nine_methods
from reproduction.paper.run.trial import Results
from reproduction.paper.section import Claim, Section
from reproduction.paper.series import Series, by_method, describe, plot
from reproduction.paper.settings import PAPER_METHODS, RunSettings

DATA = fig4.DATA
SHOWN_BITS = 64
FEW, MANY = 100, 10_000  # points retrieved


def section(results: Results, settings: RunSettings) -> Section:
    """Both curves at every length, as the supplement has them; the claims are about 64 bits."""
    shown = settings.lengths((SHOWN_BITS,))[0]
    lengths = [shown, *(bits for bits in settings.bits if bits != shown)]
    items: list[Plot] = []
    for bits in lengths:
        items += retrieved_plots("fig5", results, settings, DATA, bits)
    series = nine_methods.along_curve(results, settings, DATA, shown, "precision_at")
    lead = f"Precision and recall of the first N points of a ranking; {shown} bits as in the paper, then all."
    return Section(
        "fig5",
        EXPERIMENT.title,
        lead,
        data_note(DATA, settings),
        tuple(items),
        tuple(_claims(series, settings)),
    )


def retrieved_plots(name: str, results: Results, settings: RunSettings, data: str, bits: int) -> list[Plot]:
    """Precision and recall against the number of points retrieved, at one length."""
    found = []
    for measure in ("precision", "recall"):
        series = nine_methods.along_curve(results, settings, data, bits, f"{measure}_at")
        caption = f"{measure.capitalize()} of the first N points, {bits} bits."
        axis = {"x_label": "points retrieved", "log_x": True}
        found.append(plot(f"{name}-{measure}-{bits}", caption, f"{measure}, %", series, **axis))
    return found


def _claims(series: list[Series], settings: RunSettings) -> list[Claim]:
    methods = by_method(series)
    many = MANY if settings.rows is None else settings.rows // 5
    early, late, both = (
        ("agh", "sth"),
        ("imh-tsne", "imh-le", "itq"),
        (float(FEW), float(_rank(series, many))),
    )
    seen = [Series(each.title, each.method, {x: each.at.get(x) for x in both}) for each in series]
    ours = describe(seen, "points retrieved")

    def few() -> bool:
        ordered = sorted(PAPER_METHODS, key=lambda m: methods[m][FEW])
        return all(ordered.index(m) >= len(PAPER_METHODS) // 2 for m in early)

    def kept(method: str) -> float:
        return methods[method][both[1]] / methods[method][both[0]]

    return [
        claim("fig5-few", ours, few, settings),
        claim("fig5-drop", ours, lambda: max(map(kept, early)) < min(map(kept, late)), settings),
        claim(
            "fig5-many",
            ours,
            lambda: min(methods[m][both[1]] for m in late) > max(methods[m][both[1]] for m in early),
            settings,
        ),
    ]


def _rank(series: list[Series], limit: int) -> float:
    """The largest rank of the curves that is at most the limit."""
    return max((x for each in series for x in each.at if x <= limit), default=float(limit))


EXPERIMENT = Experiment("fig5", "Figure 5: precision and recall on CIFAR-10", (DATA,), fig4.trials, section)
