"""Table 2: training and test times on MNIST, and how they grow with the training set."""

from manihash.experiments.experiment import Experiment
from manihash.experiments.lines import FAR, Line, NotMeasured, by_method, claim, plot, ranked, title, told
from manihash.experiments.notes import data_note
from manihash.experiments.printed import number, paper
from manihash.experiments.scope import NINE, Held, Scope, mean
from manihash.experiments.section import Cell, Claim, Row, Section, Table, Value
from manihash.experiments.trial import Trial

DATA = "mnist"
BITS = (64, 128)
GROWN, GROWN_BITS = "imh-tsne", 64
MUCH = 2.0  # times faster: "much faster"
LINEAR = 1.25  # times n: how much more than n the training may grow, and with n the query
_ON_BASE = ("imh-tsne", "imh-le", "agh")


def trials(scope: Scope) -> list[Trial]:
    """Nine methods at two lengths, and the growth with n; one seed, since it is the time that is measured."""
    lengths = scope.lengths(BITS)
    found = [t for bits in lengths for m in NINE for t in _trials(scope, "times", m, bits)]
    return found + _trials(scope, "growth", GROWN, GROWN_BITS)


def _trials(scope: Scope, task: str, method: str, bits: int) -> list[Trial]:
    return scope.seeded(task, DATA, method, bits)[:1]


def section(held: Held, scope: Scope) -> Section:
    """Seconds to train and to encode beside the paper's, ratios to the bare product, and growth with n."""
    lengths = scope.lengths(BITS)
    lines = {
        figure: [
            Line(
                title(m),
                m,
                {float(b): mean(held, _trials(scope, "times", m, b), figure) for b in lengths},
            )
            for m in NINE
        ]
        for figure in ("fit", "encode_query", "fit_products")
    }
    kmeans = Line(
        "k-means",
        "kmeans",
        {float(b): _kmeans(held, scope, b) for b in lengths},
    )
    growth = held.get(_trials(scope, "growth", GROWN, GROWN_BITS)[0])
    parts = [
        _table("train", "fit", lines, kmeans, lengths),
        _table("test", "encode_query", lines, None, lengths),
    ]
    grown = None
    if growth is not None:
        figures = growth.figures
        grown = tuple(
            Line(name, GROWN, dict(zip(map(float, figures["rows"]), map(Value, figures[key]), strict=True)))
            for name, key in (("training", "fit"), ("one query", "encode_query"))
        )
    claims = [*_claims({k: by_method(v) for k, v in lines.items()}, kmeans, scope), *_growth(grown, scope)]
    plots = (
        ()
        if grown is None
        else (
            plot(
                "tab2-training",
                f"Training IMH-tSNE, {GROWN_BITS} bits.",
                "seconds",
                grown[:1],
                x_label="training rows",
            ),
            plot(
                "tab2-query",
                f"Encoding a query with models of IMH-tSNE, {GROWN_BITS} bits.",
                "seconds",
                grown[1:],
                x_label="training rows",
            ),
        )
    )
    lead = (
        "Medians of repeats, nothing else running beside. A product is that of all rows with 400 vectors, "
        "in the same run: it compares machines. The paper's machine: a desktop PC, 4 cores at 3.07 GHz."
    )
    return Section("tab2", EXPERIMENT.title, lead, data_note(DATA, scope), (*parts, *plots), tuple(claims))


def _kmeans(held: Held, scope: Scope, bits: int) -> Value | None:
    return mean(held, _trials(scope, "times", "imh-tsne", bits), "kmeans")


def _table(
    kind: str, figure: str, lines: dict[str, list[Line]], kmeans: Line | None, lengths: tuple[int, ...]
) -> Table:
    """Seconds beside the paper's; of training also the ratio to the bare product."""
    products = by_method(lines["fit_products"])
    rows = []
    for line in lines[figure]:
        cells = [Cell(line.at[b], number("tab2", kind, line.method, b)) for b in lengths]
        if kmeans is not None:
            own = [kmeans.at[b] if line.method in _ON_BASE else None for b in lengths]
            printed = paper()["tab2"]["kmeans"] if line.method in _ON_BASE else None
            cells.append(Cell(own[0], printed))
            cells += [Cell(products[line.method].at[b]) for b in lengths]
        rows.append(Row(line.title, tuple(cells), line.method))
    columns = [f"{b} bits" for b in lengths]
    if kmeans is None:
        caption = "Encoding, seconds for one query; queries come in one batch."
        return Table("tab2-test", caption, tuple(columns), tuple(rows), "seconds", 7)
    columns += ["of that k-means", *(f"{b} bits, in products" for b in lengths)]
    return Table("tab2-train", "Training, seconds.", tuple(columns), tuple(rows), "seconds", 2)


def _claims(line: dict[str, dict[str, Line]], kmeans: Line, scope: Scope) -> list[Claim]:
    fit, encode = line["fit"], line["encode_query"]
    lengths = list(fit["pcah"].at)
    all_fit, all_encode = told(list(fit.values()), digits=2), told(list(encode.values()), digits=7)
    four, slow = ("imh-tsne", "imh-le", "agh", "sh"), ("sth", "bre")

    def fastest() -> bool:
        return all(ranked(t.values(), x)[0] == "pcah" for t in (fit, encode) for x in lengths)

    def tsne_slower() -> bool:
        return all(fit["imh-tsne"][x] > fit[m][x] for m in four[1:] for x in lengths)

    def much_faster() -> bool:
        return all(MUCH * fit[m][x] < fit[s][x] for m in four for s in slow for x in lengths)

    def sth_slowest() -> bool:
        return all(encode["sth"][x] > FAR * encode[m][x] for m in NINE if m != "sth" for x in lengths)

    def dominates() -> bool:
        return all(kmeans[x] > fit[m][x] / 2 for m in _ON_BASE for x in lengths)

    return [
        claim("tab2-pcah", f"train: {all_fit}; encode: {all_encode}", fastest, scope),
        claim("tab2-tsne", told([fit[m] for m in four], digits=2), tsne_slower, scope),
        claim("tab2-sth-bre", told([fit[m] for m in (*four, *slow)], digits=2), much_faster, scope),
        claim("tab2-sth", all_encode, sth_slowest, scope),
        claim("tab2-kmeans", told([kmeans, *(fit[m] for m in _ON_BASE)], digits=2), dominates, scope),
    ]


def _growth(grown: tuple[Line, ...] | None, scope: Scope) -> list[Claim]:
    def measured() -> tuple[Line, ...]:
        if grown is None:
            raise NotMeasured("growth")
        return grown

    def linear() -> bool:
        line = measured()[0]
        first, last = line.xs[0], line.xs[-1]
        return line[last] / line[first] <= LINEAR * last / first

    def constant() -> bool:
        values = [measured()[1][x] for x in measured()[1].xs]
        return max(values) <= LINEAR * min(values)

    fit = "not measured" if grown is None else told(grown[:1], "rows", 2)
    query = "not measured" if grown is None else told(grown[1:], "rows", 7)
    return [claim("text-linear", fit, linear, scope), claim("text-query", query, constant, scope)]


EXPERIMENT = Experiment("tab2", "Table 2: training and test times on MNIST", (DATA,), trials, section)
