"""Figure 10: accuracy of a linear SVM on the codes of nine methods on MNIST, and on the pixels."""

from manihash.paper.experiment import Experiment
from manihash.paper.lines import Line, above, along_bits, by_method, claim, means, plot, told
from manihash.paper.notes import data_note
from manihash.paper.printed import paper
from manihash.paper.run.trial import Trial
from manihash.paper.scope import NINE, Held, Scope, mean, on_base
from manihash.paper.tasks.classify import PIXELS
from manihash.report.section import Cell, Claim, Row, Section, Table, Value

DATA = "mnist"
BITS = (16, 32, 64, 128, 256, 512)
BASE_SIZE = 1000
HIGH, CLOSE = 90.0, 1.0  # per cent: "high accuracies"; points: "the same"
LONG = 128


def trials(scope: Scope) -> list[Trial]:
    """The pixels, and nine methods at every length."""
    lengths = scope.lengths(BITS)
    found = [t for bits in lengths for method in NINE for t in _trials(scope, method, bits)]
    return scope.seeded("accuracy", DATA, PIXELS)[:1] + found


def _trials(scope: Scope, method: str, bits: int) -> list[Trial]:
    return scope.seeded("accuracy", DATA, method, bits, **on_base(method, base__size=BASE_SIZE))


def section(held: Held, scope: Scope) -> Section:
    """Accuracy by length, the pixels as a level, the figures at 128 bits beside the paper's."""
    lines = [
        along_bits(
            held,
            scope,
            DATA,
            method,
            "accuracy",
            "accuracy",
            lengths=scope.lengths(BITS),
            **on_base(method, base__size=BASE_SIZE),
        )
        for method in NINE
    ]
    pixels = mean(held, scope.seeded("accuracy", DATA, PIXELS)[:1], "accuracy", 100)
    levels = () if pixels is None else (("784-D pixels", pixels.mean),)
    caption = f"Linear SVM, C chosen on held-out training rows; m = {BASE_SIZE:,} for IMH and AGH."
    parts = (
        plot("fig10-accuracy", caption, "accuracy, %", lines, levels=levels, log_x=True),
        _table(lines, pixels),
    )
    lead = "How well a linear SVM tells digits apart that sees codes instead of pixels."
    claims = tuple(_claims(by_method(lines), pixels, scope))
    return Section("fig10", EXPERIMENT.title, lead, data_note(DATA, scope), parts, claims)


def _table(lines: list[Line], pixels: Value | None) -> Table:
    printed = paper()["fig10"]
    rows = [
        Row(
            line.title,
            (Cell(line.at.get(float(LONG)), printed["imh"] if line.method == "imh-tsne" else None),),
            line.method,
        )
        for line in lines
    ]
    rows.append(Row("784-D pixels", (Cell(pixels, printed["pixels"]),)))
    caption = "The paper prints one figure for IMH, without saying which, and one for the pixels."
    return Table("fig10", caption, (f"{LONG} bits",), tuple(rows), "accuracy, %")


def _claims(line: dict[str, Line], pixels: Value | None, scope: Scope) -> list[Claim]:
    lines = list(line.values())
    three = [line[m] for m in ("imh-tsne", "imh-le", "agh")]
    rest = [each for each in lines if each not in three]

    def best_imh(x: float) -> float:
        return max(line["imh-tsne"][x], line["imh-le"][x])

    def long_codes() -> bool:
        return all(best_imh(x) > line["agh"][x] for x in line["agh"].xs if x >= LONG)

    def itq_leads() -> bool:
        found = means(rest)
        return max(found, key=lambda m: found[m]) == "itq"

    def as_pixels() -> bool:
        if pixels is None:
            return above(line["imh-tsne"], Line("", "", {}))
        return best_imh(LONG) >= max(paper()["fig10"]["imh"], pixels.mean) - CLOSE

    shown = "not measured" if pixels is None else f"{pixels.mean:.1f}"
    return [
        claim("fig10-high", told(three), lambda: all(each[LONG] >= HIGH for each in three), scope),
        claim("fig10-long", told(three), long_codes, scope),
        claim("fig10-itq", told(rest), itq_leads, scope),
        claim(
            "fig10-itq-imh",
            told([line["imh-tsne"], line["imh-le"], line["itq"]]),
            lambda: all(best_imh(x) > line["itq"][x] for x in line["itq"].xs),
            scope,
        ),
        claim("fig10-pixels", f"{told(three[:2])}; 784-D pixels {shown}", as_pixels, scope),
    ]


EXPERIMENT = Experiment("fig10", "Figure 10: classification by codes", (DATA,), trials, section)
