"""Table 1: random against k-means base points on CIFAR-10, with AGH."""

from manihash.paper.experiment import Experiment
from manihash.paper.lines import Line, along_bits, by_method, claim, everywhere_above, title, told
from manihash.paper.notes import data_note
from manihash.paper.printed import number
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope
from manihash.report.section import Cell, Claim, Row, Section, Table

DATA = "cifar10-gist"
BITS = (32, 64, 96)
VARIANTS = ("imh-le-b", "imh-le", "imh-tsne")
METHODS = (*(f"{method}{base}" for method in VARIANTS for base in ("-random", "")), "agh")


def trials(scope: Scope) -> list[Trial]:
    """Three variants with both bases, and AGH, at three lengths."""
    lengths = scope.lengths(BITS)
    return [t for m in METHODS for bits in lengths for t in scope.seeded("retrieval", DATA, m, bits)]


def section(held: Held, scope: Scope) -> Section:
    """The table with the paper's numbers beside ours, and the claims."""
    lengths = scope.lengths(BITS)
    lines = [along_bits(held, scope, DATA, method, "map", lengths=lengths) for method in METHODS]
    rows = tuple(
        Row(
            title(line.method),
            tuple(Cell(line.at[bits], number("tab1", "map", line.method, bits)) for bits in lengths),
            line.method,
        )
        for line in lines
    )
    columns = tuple(f"{bits} bits" for bits in lengths)
    caption = "Random against k-means base points, 400 of them."
    table = Table("tab1", caption, columns, rows, "MAP, %")
    lead = "How the base points are chosen: at random, or as k-means centers."
    claims = tuple(_claims(by_method(lines), scope))
    return Section("tab1", EXPERIMENT.title, lead, data_note(DATA, scope), (table,), claims)


def _claims(line: dict[str, Line], scope: Scope) -> list[Claim]:
    def kmeans_wins(method: str) -> Claim:
        a, b = line[method], line[f"{method}-random"]
        name = f"tab1-{method.removeprefix('imh-')}"
        return claim(name, told([a, b], digits=2), lambda: everywhere_above(a, b), scope)

    random = [line[f"{method}-random"] for method in VARIANTS]
    agh = line["agh"]

    def all_but_one() -> bool:
        return sum(each[x] <= agh[x] for each in random for x in agh.xs) <= 1

    return [
        *map(kmeans_wins, VARIANTS),
        claim("tab1-random-agh", told([*random, agh], digits=2), all_but_one, scope),
    ]


EXPERIMENT = Experiment("tab1", "Table 1: random and k-means base points", (DATA,), trials, section)
