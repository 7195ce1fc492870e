"""Figure 2: embeddings compared within IMH on CIFAR-10, with PCAH and the exhaustive l2 scan."""

from manihash.pages.curves import Value
from reproduction.paper.claims import FAR, above, claim, means
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Claim, Section
from reproduction.paper.series import Series, along_bits, by_method, describe, mean, plot
from reproduction.paper.settings import RunSettings

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


def trials(settings: RunSettings) -> list[Trial]:
    """Every embedding and PCAH at every length, and the scan."""
    found = [
        t for m in METHODS for bits in settings.bits for t in settings.seeded("retrieval", DATA, m, bits)
    ]
    return found + settings.seeded("scan", DATA)


def section(results: Results, settings: RunSettings) -> Section:
    """MAP by length, the scan as a level, and the claims."""
    series = [along_bits(results, settings, DATA, method, "map") for method in METHODS]
    scan = mean(results, settings.seeded("scan", DATA), "map", 100)
    levels = () if scan is None else (("l2 scan", scan.mean),)
    caption = "Hamming ranking with each embedding of the same base set."
    drawn = plot("fig2-map", caption, "MAP, %", series, levels=levels)
    lead = "Which embedding of the base set hashes best? The same base set and induction throughout."
    claims = tuple(_claims(by_method(series), scan, settings))
    return Section("fig2", EXPERIMENT.title, lead, data_note(DATA, settings), (drawn,), claims)


def _claims(methods: dict[str, Series], scan: Value | None, settings: RunSettings) -> list[Claim]:
    def pair(name: str, a: str, b: str, by: float = 1.0) -> Claim:
        return claim(
            name, describe([methods[a], methods[b]]), lambda: above(methods[a], methods[b], by), settings
        )

    level = Series("l2 scan", "scan", dict.fromkeys(methods["imh-tsne"].at, scan))
    four = [methods[m] for m in ("imh-tsne", "imh-sne", "imh-ee", "imh-le")]
    embeddings = [methods[m] for m in EMBEDDINGS]

    def above_scan() -> bool:
        return all(above(each, level) for each in four)

    def below_most() -> bool:
        found = means(embeddings)
        own = found.pop("imh-le-b")
        return sum(own < other for other in found.values()) > len(found) / 2

    return [
        pair("fig2-tsne-le", "imh-tsne", "imh-le"),
        pair("fig2-sne-le", "imh-sne", "imh-le"),
        pair("fig2-ee-le", "imh-ee", "imh-le"),
        claim("fig2-scan", describe([*four, level]), above_scan, settings),
        claim("fig2-le-b", describe(embeddings), below_most, settings),
        pair("fig2-le-b-pca", "imh-pca", "imh-le-b"),
        pair("fig2-pca-pcah", "imh-pca", "pcah", FAR),
    ]


EXPERIMENT = Experiment("fig2", "Figure 2: embeddings within IMH", (DATA,), trials, section)
