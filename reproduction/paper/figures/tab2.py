"""Table 2: training and test times on MNIST, and how they grow with the training set."""

from dataclasses import replace

from manihash.pages.curves import Plot, Value
from reproduction.paper.claims import FAR, claim, number, paper, ranked
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Cell, Claim, Item, Row, Section, Table
from reproduction.paper.series import Series, by_method, describe, mean, plot, title
from reproduction.paper.settings import PAPER_METHODS, RunSettings

DATA = "mnist"
MICRO = 1e6
BITS = (64, 128)
GROWN, GROWN_BITS = "imh-tsne", 64
MUCH = 2.0  # times faster: "much faster"
LINEAR = 1.25  # training may grow by this factor more than n, and the time of a query by this factor
_ON_BASE = ("imh-tsne", "imh-le", "agh")


def trials(settings: RunSettings) -> list[Trial]:
    """Nine methods at two lengths, and the growth with n; one seed, since times are measured."""
    lengths = settings.lengths(BITS)
    found = [t for bits in lengths for m in PAPER_METHODS for t in _trials(settings, "times", m, bits)]
    return found + _trials(settings, "growth", GROWN, GROWN_BITS)


def _trials(settings: RunSettings, task: str, method: str, bits: int) -> list[Trial]:
    return settings.seeded(task, DATA, method, bits)[:1]


def section(results: Results, settings: RunSettings) -> Section:
    """Times to train and to encode with the paper's, ratios to the bare product, and growth with n."""
    lengths = settings.lengths(BITS)

    def along(method: str, figure: str, factor: float = 1.0) -> Series:
        at = {float(b): mean(results, _trials(settings, "times", method, b), figure, factor) for b in lengths}
        return Series(title(method), method, at)

    fit, encode, products = (
        by_method(along(method, *figure) for method in PAPER_METHODS)
        for figure in (("fit",), ("encode_query", MICRO), ("fit_products",))
    )
    kmeans = replace(along("imh-tsne", "kmeans"), title="k-means", method="kmeans")
    grown = _grown(results, settings)
    claims = (*_claims(fit, encode, kmeans, settings), *_growth_claims(grown, settings))
    items: tuple[Item, ...] = (_training(fit, products, kmeans), _encoding(encode), *_growth_plots(grown))
    lead = (
        "Medians of three runs, with nothing else running. A product is that of all rows with 400 vectors "
        "in the same run: it makes machines comparable. The paper used a desktop PC, 4 cores at 3.07 GHz."
    )
    return Section("tab2", EXPERIMENT.title, lead, data_note(DATA, settings), items, claims)


def _training(fit: dict[str, Series], products: dict[str, Series], kmeans: Series) -> Table:
    """Seconds with the paper's, those of k-means alone, and the ratio to the bare product."""
    lengths = [int(x) for x in kmeans.at]
    rows = []
    for method, each in fit.items():
        on_base = method in _ON_BASE
        seconds = [Cell(each.at[b], number("tab2", "train", method, b)) for b in lengths]
        own = Cell(kmeans.at[lengths[0]], paper()["tab2"]["kmeans"]) if on_base else Cell(None)
        ratios = [Cell(products[method].at[b]) for b in lengths]
        rows.append(Row(each.title, (*seconds, own, *ratios), method))
    columns = [f"{b} bits" for b in lengths] + ["k-means alone"] + [f"{b} bits, products" for b in lengths]
    return Table("tab2-train", "Training.", tuple(columns), tuple(rows), "seconds; products", 1)


def _encoding(encode: dict[str, Series]) -> Table:
    rows = tuple(
        Row(each.title, tuple(Cell(value, _printed_test(m, x)) for x, value in each.at.items()), m)
        for m, each in encode.items()
    )
    columns = tuple(f"{x:g} bits" for x in encode["pcah"].at)
    caption = "Encoding: microseconds for one query; the queries come in one batch."
    return Table("tab2-test", caption, columns, rows, "µs per query", 1)


def _printed_test(method: str, bits: float) -> float | None:
    seconds = number("tab2", "test", method, int(bits))
    return None if seconds is None else MICRO * seconds


def _grown(results: Results, settings: RunSettings) -> tuple[Series, Series]:
    """Seconds to train, and microseconds of a query, along the number of training rows."""
    result = results.get(_trials(settings, "growth", GROWN, GROWN_BITS)[0])
    figures = {"rows": [], "fit": [], "encode_query": []} if result is None else result.figures

    def along(name: str, key: str, factor: float) -> Series:
        pairs = zip(figures["rows"], figures[key], strict=True)
        return Series(name, GROWN, {float(n): Value(factor * seconds) for n, seconds in pairs})

    return along("training", "fit", 1), along("one query", "encode_query", MICRO)


def _growth_plots(grown: tuple[Series, Series]) -> list[Plot]:
    fit, query = grown
    words = f"IMH-tSNE, {GROWN_BITS} bits, by the number of training rows."
    axis = {"x_label": "training rows"}
    return [
        plot("tab2-training", f"Training of {words}", "seconds", [fit], **axis),
        plot("tab2-query", f"Encoding of a query with {words}", "µs", [query], **axis),
    ]


def _claims(
    fit: dict[str, Series], encode: dict[str, Series], kmeans: Series, settings: RunSettings
) -> list[Claim]:
    lengths = list(fit["pcah"].at)
    all_fit, all_encode = (
        describe(list(fit.values()), digits=2),
        describe(list(encode.values()), "bits, µs", 2),
    )
    four, slow = ("imh-tsne", "imh-le", "agh", "sh"), ("sth", "bre")

    def fastest() -> bool:
        return all(ranked(fit.values(), x)[0] == "pcah" for x in lengths)

    def tsne_slower() -> bool:
        return all(fit["imh-tsne"][x] > fit[m][x] for m in four[1:] for x in lengths)

    def much_faster() -> bool:
        return all(MUCH * fit[m][x] < fit[s][x] for m in four for s in slow for x in lengths)

    def sth_slowest() -> bool:
        return all(
            encode["sth"][x] > FAR * encode[m][x] for m in PAPER_METHODS if m != "sth" for x in lengths
        )

    def dominates() -> bool:
        return all(kmeans[x] > fit[m][x] / 2 for m in _ON_BASE for x in lengths)

    return [
        claim("tab2-pcah", all_fit, fastest, settings),
        claim("tab2-tsne", describe([fit[m] for m in four], digits=2), tsne_slower, settings),
        claim("tab2-sth-bre", describe([fit[m] for m in (*four, *slow)], digits=2), much_faster, settings),
        claim("tab2-sth", all_encode, sth_slowest, settings),
        claim("tab2-kmeans", describe([kmeans, *(fit[m] for m in _ON_BASE)], digits=2), dominates, settings),
    ]


def _growth_claims(grown: tuple[Series, Series], settings: RunSettings) -> list[Claim]:
    fit, query = grown

    def linear() -> bool:
        first, last = fit.xs[0], fit.xs[-1]
        return fit[last] / fit[first] <= LINEAR * last / first

    def constant() -> bool:
        values = [query[x] for x in query.xs]
        return max(values) <= LINEAR * min(values)

    return [
        claim("text-linear", describe([fit], "rows, seconds", 2), linear, settings),
        claim("text-query", describe([query], "rows, µs", 2), constant, settings),
    ]


EXPERIMENT = Experiment("tab2", "Table 2: training and test times on MNIST", (DATA,), trials, section)
