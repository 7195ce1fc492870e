"""Figure 2: embeddings compared within IMH on CIFAR-10, with PCAH and the exhaustive l2 scan."""

from manihash.paper.experiment import Experiment
from manihash.paper.lines import FAR, Line, above, along_bits, by_method, claim, means, plot, told
from manihash.paper.notes import data_note
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope, mean
from manihash.report.section import Claim, Section, Value

DATA = "cifar10-gist"
EMBEDDINGS = (
    "imh-tsne",
    "imh-sne",
    "imh-ee",
    "imh-le",
    "imh-le-b",
    "imh-lle",
    "imh-isomap",
    "imh-dm",
    "imh-pca",
)
METHODS = (*EMBEDDINGS, "pcah")


def trials(scope: Scope) -> list[Trial]:
    """Every embedding and PCAH at every length, and the scan."""
    found = [t for m in METHODS for bits in scope.bits for t in scope.seeded("retrieval", DATA, m, bits)]
    return found + scope.seeded("scan", DATA)


def section(held: Held, scope: Scope) -> Section:
    """MAP by length, the scan as a level, and the claims."""
    lines = [along_bits(held, scope, DATA, method, "map") for method in METHODS]
    scan = mean(held, scope.seeded("scan", DATA), "map", 100)
    levels = () if scan is None else (("l2 scan", scan.mean),)
    caption = "Hamming ranking with each embedding of the same base set."
    drawn = plot("fig2-map", caption, "MAP, %", lines, levels=levels)
    lead = "Which embedding of the base set hashes best? The same base set and induction throughout."
    claims = tuple(_claims(by_method(lines), scan, scope))
    return Section("fig2", EXPERIMENT.title, lead, data_note(DATA, scope), (drawn,), claims)


def _claims(line: dict[str, Line], scan: Value | None, scope: Scope) -> list[Claim]:
    def pair(name: str, a: str, b: str, by: float = 1.0) -> Claim:
        return claim(name, told([line[a], line[b]]), lambda: above(line[a], line[b], by), scope)

    level = Line("l2 scan", "scan", dict.fromkeys(line["imh-tsne"].at, scan))
    four = [line[m] for m in ("imh-tsne", "imh-sne", "imh-ee", "imh-le")]
    embeddings = [line[m] for m in EMBEDDINGS]

    def below_most() -> bool:
        found = means(embeddings)
        own = found.pop("imh-le-b")
        return sum(own < other for other in found.values()) > len(found) / 2

    return [
        pair("fig2-tsne-le", "imh-tsne", "imh-le"),
        pair("fig2-sne-le", "imh-sne", "imh-le"),
        pair("fig2-ee-le", "imh-ee", "imh-le"),
        claim("fig2-scan", told([*four, level]), lambda: all(above(each, level) for each in four), scope),
        claim("fig2-le-b", told(embeddings), below_most, scope),
        pair("fig2-le-b-pca", "imh-pca", "imh-le-b"),
        pair("fig2-pca-pcah", "imh-pca", "pcah", FAR),
    ]


EXPERIMENT = Experiment("fig2", "Figure 2: embeddings within IMH", (DATA,), trials, section)
