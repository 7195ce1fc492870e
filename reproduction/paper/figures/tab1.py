"""Table 1: random against k-means base points on CIFAR-10, with AGH."""

from reproduction.paper.claims import claim, everywhere_above, number
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Cell, Claim, Row, Section, Table
from reproduction.paper.series import Series, along_bits, by_method, describe, title
from reproduction.paper.settings import RunSettings

DATA = "cifar10-gist"
BITS = (32, 64, 96)
VARIANTS = ("imh-le-b", "imh-le", "imh-tsne")
METHODS = (*(f"{method}{base}" for method in VARIANTS for base in ("-random", "")), "agh")


def trials(settings: RunSettings) -> list[Trial]:
    """Three variants with both bases, and AGH, at three lengths."""
    lengths = settings.lengths(BITS)
    return [t for m in METHODS for bits in lengths for t in settings.seeded("retrieval", DATA, m, bits)]


def section(results: Results, settings: RunSettings) -> Section:
    """The table of our numbers and the paper's, and the claims."""
    lengths = settings.lengths(BITS)
    series = [along_bits(results, settings, DATA, method, "map", lengths=lengths) for method in METHODS]
    rows = tuple(
        Row(
            title(each.method),
            tuple(Cell(each.at[bits], number("tab1", "map", each.method, bits)) for bits in lengths),
            each.method,
        )
        for each in series
    )
    columns = tuple(f"{bits} bits" for bits in lengths)
    caption = "Random and k-means base sets of 400 points."
    table = Table("tab1", caption, columns, rows, "MAP, %")
    lead = "How the base points are chosen: at random, or as k-means centers."
    claims = tuple(_claims(by_method(series), settings))
    return Section("tab1", EXPERIMENT.title, lead, data_note(DATA, settings), (table,), claims)


def _claims(methods: dict[str, Series], settings: RunSettings) -> list[Claim]:
    def kmeans_wins(method: str) -> Claim:
        a, b = methods[method], methods[f"{method}-random"]
        name = f"tab1-{method.removeprefix('imh-')}"
        return claim(name, describe([a, b], digits=2), lambda: everywhere_above(a, b), settings)

    random = [methods[f"{method}-random"] for method in VARIANTS]
    agh = methods["agh"]

    def all_but_one() -> bool:
        return sum(each[x] <= agh[x] for each in random for x in agh.xs) <= 1

    return [
        *map(kmeans_wins, VARIANTS),
        claim("tab1-random-agh", describe([*random, agh], digits=2), all_but_one, settings),
    ]


EXPERIMENT = Experiment("tab1", "Table 1: random and k-means base points", (DATA,), trials, section)
