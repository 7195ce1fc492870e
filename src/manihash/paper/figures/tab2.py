"""Table 2: training and test times on MNIST, and how they grow with the training set."""

from dataclasses import replace

from manihash.paper.experiment import Experiment
from manihash.paper.lines import FAR, Line, by_method, claim, plot, ranked, title, told
from manihash.paper.notes import data_note
from manihash.paper.printed import number, paper
from manihash.paper.run.trial import Trial
from manihash.paper.scope import NINE, Held, Scope, mean
from manihash.report.section import Cell, Claim, Part, Plot, Row, Section, Table, Value

DATA = "mnist"
MICRO = 1e6
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
    """Times to train and to encode beside the paper's, ratios to the bare product, and growth with n."""
    lengths = scope.lengths(BITS)

    def along(method: str, figure: str, factor: float = 1.0) -> Line:
        at = {float(b): mean(held, _trials(scope, "times", method, b), figure, factor) for b in lengths}
        return Line(title(method), method, at)

    fit, encode, products = (
        by_method(along(method, *figure) for method in NINE)
        for figure in (("fit",), ("encode_query", MICRO), ("fit_products",))
    )
    kmeans = replace(along("imh-tsne", "kmeans"), title="k-means", method="kmeans")
    grown = _grown(held, scope)
    claims = (*_claims(fit, encode, kmeans, scope), *_growth_claims(grown, scope))
    parts: tuple[Part, ...] = (_training(fit, products, kmeans), _encoding(encode), *_growth_plots(grown))
    lead = (
        "Medians of repeats, nothing else running beside. A product is that of all rows with 400 vectors, "
        "in the same run: it compares machines. The paper's machine: a desktop PC, 4 cores at 3.07 GHz."
    )
    return Section("tab2", EXPERIMENT.title, lead, data_note(DATA, scope), parts, claims)


def _training(fit: dict[str, Line], products: dict[str, Line], kmeans: Line) -> Table:
    """Seconds beside the paper's, what of them is k-means, and the ratio to the bare product."""
    lengths = [int(x) for x in kmeans.at]
    rows = []
    for method, line in fit.items():
        on_base = method in _ON_BASE
        seconds = [Cell(line.at[b], number("tab2", "train", method, b)) for b in lengths]
        own = Cell(kmeans.at[lengths[0]], paper()["tab2"]["kmeans"]) if on_base else Cell(None)
        ratios = [Cell(products[method].at[b]) for b in lengths]
        rows.append(Row(line.title, (*seconds, own, *ratios), method))
    columns = [f"{b} bits" for b in lengths] + ["of that k-means"] + [f"{b} bits, products" for b in lengths]
    return Table("tab2-train", "Training.", tuple(columns), tuple(rows), "seconds; products", 1)


def _encoding(encode: dict[str, Line]) -> Table:
    rows = tuple(
        Row(line.title, tuple(Cell(value, _printed_test(m, x)) for x, value in line.at.items()), m)
        for m, line in encode.items()
    )
    columns = tuple(f"{x:g} bits" for x in encode["pcah"].at)
    caption = "Encoding: microseconds for one query; the queries come in one batch."
    return Table("tab2-test", caption, columns, rows, "µs a query", 1)


def _printed_test(method: str, bits: float) -> float | None:
    seconds = number("tab2", "test", method, int(bits))
    return None if seconds is None else MICRO * seconds


def _grown(held: Held, scope: Scope) -> tuple[Line, Line]:
    """Seconds to train, and microseconds of a query, along the number of training rows."""
    result = held.get(_trials(scope, "growth", GROWN, GROWN_BITS)[0])
    figures = {"rows": [], "fit": [], "encode_query": []} if result is None else result.figures

    def along(name: str, key: str, factor: float) -> Line:
        pairs = zip(figures["rows"], figures[key], strict=True)
        return Line(name, GROWN, {float(n): Value(factor * seconds) for n, seconds in pairs})

    return along("training", "fit", 1), along("one query", "encode_query", MICRO)


def _growth_plots(grown: tuple[Line, Line]) -> list[Plot]:
    fit, query = grown
    words = f"IMH-tSNE, {GROWN_BITS} bits, by the number of training rows."
    axis = {"x_label": "training rows"}
    return [
        plot("tab2-training", f"Training of {words}", "seconds", [fit], **axis),
        plot("tab2-query", f"Encoding of a query with {words}", "µs", [query], **axis),
    ]


def _claims(fit: dict[str, Line], encode: dict[str, Line], kmeans: Line, scope: Scope) -> list[Claim]:
    lengths = list(fit["pcah"].at)
    all_fit, all_encode = told(list(fit.values()), digits=2), told(list(encode.values()), "bits, µs", 2)
    four, slow = ("imh-tsne", "imh-le", "agh", "sh"), ("sth", "bre")

    def fastest() -> bool:
        return all(ranked(fit.values(), x)[0] == "pcah" for x in lengths)

    def tsne_slower() -> bool:
        return all(fit["imh-tsne"][x] > fit[m][x] for m in four[1:] for x in lengths)

    def much_faster() -> bool:
        return all(MUCH * fit[m][x] < fit[s][x] for m in four for s in slow for x in lengths)

    def sth_slowest() -> bool:
        return all(encode["sth"][x] > FAR * encode[m][x] for m in NINE if m != "sth" for x in lengths)

    def dominates() -> bool:
        return all(kmeans[x] > fit[m][x] / 2 for m in _ON_BASE for x in lengths)

    return [
        claim("tab2-pcah", all_fit, fastest, scope),
        claim("tab2-tsne", told([fit[m] for m in four], digits=2), tsne_slower, scope),
        claim("tab2-sth-bre", told([fit[m] for m in (*four, *slow)], digits=2), much_faster, scope),
        claim("tab2-sth", all_encode, sth_slowest, scope),
        claim("tab2-kmeans", told([kmeans, *(fit[m] for m in _ON_BASE)], digits=2), dominates, scope),
    ]


def _growth_claims(grown: tuple[Line, Line], scope: Scope) -> list[Claim]:
    fit, query = grown

    def linear() -> bool:
        first, last = fit.xs[0], fit.xs[-1]
        return fit[last] / fit[first] <= LINEAR * last / first

    def constant() -> bool:
        values = [query[x] for x in query.xs]
        return max(values) <= LINEAR * min(values)

    return [
        claim("text-linear", told([fit], "rows, seconds", 2), linear, scope),
        claim("text-query", told([query], "rows, µs", 2), constant, scope),
    ]


EXPERIMENT = Experiment("tab2", "Table 2: training and test times on MNIST", (DATA,), trials, section)
