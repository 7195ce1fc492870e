"""Figure 10: accuracy of a linear SVM on the codes of nine methods on MNIST, and on the pixels."""

from manihash.pages.curves import Value
from reproduction.paper.claims import above, claim, means, paper
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Cell, Claim, Row, Section, Table
from reproduction.paper.series import Series, along_bits, by_method, describe, mean, plot
from reproduction.paper.settings import PAPER_METHODS, RunSettings, base_options
from reproduction.paper.tasks.classify import PIXELS

DATA = "mnist"
BITS = (16, 32, 64, 128, 256, 512)
BASE_SIZE = 1000
HIGH, CLOSE = 90.0, 1.0  # percent: "high accuracies"; points: "the same"
LONG = 128


def trials(settings: RunSettings) -> list[Trial]:
    """The pixels, and nine methods at every length."""
    lengths = settings.lengths(BITS)
    found = [t for bits in lengths for method in PAPER_METHODS for t in _trials(settings, method, bits)]
    return settings.seeded("accuracy", DATA, PIXELS)[:1] + found


def _trials(settings: RunSettings, method: str, bits: int) -> list[Trial]:
    return settings.seeded("accuracy", DATA, method, bits, **base_options(method, base__size=BASE_SIZE))


def section(results: Results, settings: RunSettings) -> Section:
    """Accuracy by length, the pixels as a level, and our numbers at 128 bits with the paper's."""
    series = [
        along_bits(
            results,
            settings,
            DATA,
            method,
            "accuracy",
            "accuracy",
            lengths=settings.lengths(BITS),
            **base_options(method, base__size=BASE_SIZE),
        )
        for method in PAPER_METHODS
    ]
    pixels = mean(results, settings.seeded("accuracy", DATA, PIXELS)[:1], "accuracy", 100)
    levels = () if pixels is None else (("784-D pixels", pixels.mean),)
    caption = f"Linear SVM, C chosen on results-out training rows; m = {BASE_SIZE:,} for IMH and AGH."
    items = (
        plot("fig10-accuracy", caption, "accuracy, %", series, levels=levels, log_x=True),
        _table(series, pixels),
    )
    lead = "How well a linear SVM classifies digits from codes instead of pixels."
    claims = tuple(_claims(by_method(series), pixels, settings))
    return Section("fig10", EXPERIMENT.title, lead, data_note(DATA, settings), items, claims)


def _table(series: list[Series], pixels: Value | None) -> Table:
    printed = paper()["fig10"]
    rows = [
        Row(
            each.title,
            (Cell(each.at.get(float(LONG)), printed["imh"] if each.method == "imh-tsne" else None),),
            each.method,
        )
        for each in series
    ]
    rows.append(Row("784-D pixels", (Cell(pixels, printed["pixels"]),)))
    caption = "The paper prints one number for IMH, without saying for which variant, and one for the pixels."
    return Table("fig10", caption, (f"{LONG} bits",), tuple(rows), "accuracy, %")


def _claims(methods: dict[str, Series], pixels: Value | None, settings: RunSettings) -> list[Claim]:
    series = list(methods.values())
    three = [methods[m] for m in ("imh-tsne", "imh-le", "agh")]
    rest = [each for each in series if each not in three]

    def best_imh(x: float) -> float:
        return max(methods["imh-tsne"][x], methods["imh-le"][x])

    def long_codes() -> bool:
        return all(best_imh(x) > methods["agh"][x] for x in methods["agh"].xs if x >= LONG)

    def itq_leads() -> bool:
        found = means(rest)
        return max(found, key=lambda m: found[m]) == "itq"

    def as_pixels() -> bool:
        if pixels is None:
            return above(methods["imh-tsne"], Series("", "", {}))
        return best_imh(LONG) >= max(paper()["fig10"]["imh"], pixels.mean) - CLOSE

    shown = "not measured" if pixels is None else f"{pixels.mean:.1f}"
    return [
        claim("fig10-high", describe(three), lambda: all(each[LONG] >= HIGH for each in three), settings),
        claim("fig10-long", describe(three), long_codes, settings),
        claim("fig10-itq", describe(rest), itq_leads, settings),
        claim(
            "fig10-itq-imh",
            describe([methods["imh-tsne"], methods["imh-le"], methods["itq"]]),
            lambda: all(best_imh(x) > methods["itq"][x] for x in methods["itq"].xs),
            settings,
        ),
        claim("fig10-pixels", f"{describe(three[:2])}; 784-D pixels {shown}", as_pixels, settings),
    ]


EXPERIMENT = Experiment("fig10", "Figure 10: classification by codes", (DATA,), trials, section)
