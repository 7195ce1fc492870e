"""Beyond the paper: rotation, larger base sets, graphs, hybrid codes, asymmetric ranking, other methods."""

from dataclasses import dataclass, field
from typing import Any

from manihash.hashers.recipe_table import RECIPES
from manihash.search.faiss_baselines import installed_baselines
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.figures.large_sets import BASE_SIZE, NEIGHBORS, SIFT_SETS
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Cell, Row, Section, Table
from reproduction.paper.series import mean, title
from reproduction.paper.settings import RunSettings

MNIST, CIFAR = "mnist", "cifar10-gist"
BITS = (32, 64)
SIZES, QUICK_SIZES = (0, 1000, 2000), (0, 1000)  # of base sets; 0 is the recipe's default
ASYMMETRIC = ("imh-tsne", "imh-tsne-rotated", "imh-le", "agh", "itq", "pcah")
ASYMMETRIC_QUERIES = 200  # of a large set, where every ranking is a sort of a million reals


@dataclass(frozen=True)
class Variant:
    """A row of the comparison: a recipe, with options."""

    method: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The printed name, with the size of the base set if it is not the usual one."""
        size = self.options.get("base__size")
        return title(self.method) + (f", m = {size:,}" if size else "")


def _variants(settings: RunSettings) -> list[Variant]:
    """The paper's best method first, then its improvements, other methods, and quantizers of FAISS."""
    bases = [
        Variant(method, {"base__size": size} if size else {})
        for size in (QUICK_SIZES if settings.quick else SIZES)
        for method in ("imh-tsne", "imh-tsne-rotated")
    ]
    ours = ("imh-large", "imh-graph", "imh-hybrid")
    others = ("imh-supervised", "ksh", "ldahash", "ssh", "agh2", "itq", "rmmh", "klsh", "lsh")
    plain = ("sign", "e2lsh", "sklsh", "mahalanobis-lsh")
    recipes = [Variant(method) for method in (*ours, *others, *plain) if method in RECIPES]
    return bases + recipes + [Variant(method) for method in installed_baselines()]


def _large_variants() -> list[Variant]:
    """The variants on a large set, with the paper's base size for it."""
    base = {"base__size": BASE_SIZE, "n_neighbors": NEIGHBORS}
    on_base = [Variant(method, base) for method in ("imh-tsne", "imh-tsne-rotated")]
    return on_base + [Variant(method) for method in ("imh-hybrid", "itq", "lsh", "sign")]


def trials(settings: RunSettings) -> list[Trial]:
    """All variants on two sets with classes, asymmetric ranking on one, and the large set."""
    return [
        *(
            t
            for data in _labeled(settings)
            for v in _variants(settings)
            for b in _bits(settings)
            for t in _of(settings, data, v, b)
        ),
        *(
            t
            for method in ASYMMETRIC
            for b in _bits(settings)
            for t in settings.seeded("asymmetric", MNIST, method, b)
        ),
        *(t for v in _large_variants() for b in _bits(settings) for t in _on_large(settings, v, b)),
        *(t for v in _large_variants() for t in _asymmetric(settings, v)),
    ]


def section(results: Results, settings: RunSettings) -> Section:
    """The tables, and a sentence that lists where plain methods win."""
    tables = [_by_class(results, settings, data) for data in _labeled(settings)]
    tables.append(_asymmetric_table(results, settings))
    if _has_large(settings):
        tables.append(_by_distance(results, settings))
    lead = "The same comparisons with variants and methods that are not in the paper. " + _plain_wins(
        results, settings
    )
    sets = [*_labeled(settings), *([_large(settings)] if _has_large(settings) else [])]
    note = " ".join(data_note(data, settings) for data in sets)
    return Section("ours", EXPERIMENT.title, lead, note, tuple(tables))


def _by_class(results: Results, settings: RunSettings, data: str) -> Table:
    named = {"MAP": "map", "F1": "f1", "precision@10": "precision_at_10", "recall@10": "recall_at_10"}
    columns = tuple(f"{name}, {b} bits" for name in named for b in _bits(settings))
    rows = tuple(
        Row(
            v.title,
            tuple(
                Cell(mean(results, _of(settings, data, v, b), figure, 100))
                for figure in named.values()
                for b in _bits(settings)
            ),
            v.method,
        )
        for v in _variants(settings)
    )
    caption = (
        f"{data}: more variants and methods. IMH supervised, KSH, LDAHash and SSH learn from labels. F1 of "
        "hybrid codes (graph + ITQ) is that of their first part. Recall@10: share of the ten nearest rows "
        "among the first ten answers. Quantizers of FAISS rank by estimated distance, without a look-up."
    )
    return Table(f"ours-{data}", caption, columns, rows, "%", 1)


def _asymmetric_table(results: Results, settings: RunSettings) -> Table:
    bits = _bits(settings)
    columns = tuple(f"{name}, {b} bits" for b in bits for name in ("Hamming", "asymmetric"))

    def cells(method: str) -> tuple[Cell, ...]:
        return tuple(
            Cell(mean(results, settings.seeded("asymmetric", MNIST, method, b), figure, 100))
            for b in bits
            for figure in ("map_hamming", "map")
        )

    rows = tuple(Row(title(method), cells(method), method) for method in ASYMMETRIC)
    caption = "MNIST: the query as real values (asymmetric), or as a code like the database (Hamming)."
    return Table("ours-asymmetric", caption, columns, rows, "MAP, %", 1)


def _by_distance(results: Results, settings: RunSettings) -> Table:
    data, bits = _large(settings), _bits(settings)
    last = bits[-1]
    columns = (
        *(f"F1, {b} bits" for b in bits),
        *(f"MAP, {b} bits" for b in bits),
        f"asymmetric MAP, {last} bits",
    )
    rows = tuple(
        Row(
            v.title,
            (
                *(Cell(mean(results, _of(settings, data, v, b), "f1", 100)) for b in bits),
                *(Cell(mean(results, _of(settings, data, v, b), "map_ties", 100)) for b in bits),
                Cell(mean(results, _asymmetric(settings, v), "map", 100)),
            ),
            v.method,
        )
        for v in _large_variants()
    )
    caption = f"{data}: truth by distance. Look-up within radius 2, and the ranking (ties in random order)."
    return Table("ours-distance", caption, columns, rows, "%", 1)


def _plain_wins(results: Results, settings: RunSettings) -> str:
    """A sentence with every case where ITQ, LSH or sign quantization beats IMH-tSNE."""
    found = []
    places = [(data, _variants(settings), "map") for data in _labeled(settings)]
    if _has_large(settings):
        places += [(_large(settings), _large_variants(), figure) for figure in ("map_ties", "f1")]
    for data, variants, figure in places:
        best = next(v for v in variants if v.method == "imh-tsne")
        for b in _bits(settings):
            theirs = mean(results, _of(settings, data, best, b), figure, 100)
            for v in (v for v in variants if v.method in ("itq", "sign", "lsh")):
                plain = mean(results, _of(settings, data, v, b), figure, 100)
                if plain and theirs and plain.mean > theirs.mean:
                    name = "F1" if figure == "f1" else "MAP"
                    found.append(
                        f"{v.title} {plain.mean:.1f} against {theirs.mean:.1f} ({data}, {name}, {b} bits)"
                    )
    if not found:
        return "No plain method beats IMH-tSNE here."
    return "Where a plain method beats IMH-tSNE: " + "; ".join(found) + "."


def _of(settings: RunSettings, data: str, variant: Variant, bits: int) -> list[Trial]:
    return settings.seeded("retrieval", data, variant.method, bits, **variant.options)


def _on_large(settings: RunSettings, variant: Variant, bits: int) -> list[Trial]:
    return _of(settings, _large(settings), variant, bits) if _has_large(settings) else []


def _asymmetric(settings: RunSettings, variant: Variant) -> list[Trial]:
    if not _has_large(settings):
        return []
    queries = min(ASYMMETRIC_QUERIES, settings.large_queries)
    last = _bits(settings)[-1]
    return settings.seeded(
        "asymmetric", _large(settings), variant.method, last, queries=queries, **variant.options
    )[:1]


def _bits(settings: RunSettings) -> tuple[int, ...]:
    return settings.lengths(BITS)


def _labeled(settings: RunSettings) -> list[str]:
    return [MNIST, CIFAR] if CIFAR in settings.available else [MNIST]


def _large(settings: RunSettings) -> str:
    return settings.first_available(SIFT_SETS)


def _has_large(settings: RunSettings) -> bool:
    return _large(settings) in settings.available


EXPERIMENT = Experiment("ours", "Beyond the paper", (MNIST,), trials, section)
