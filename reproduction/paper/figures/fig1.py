"""Figure 1: the ten nearest of 300 digits, before and after a nonlinear embedding, as pictures."""

from manihash.datasets import load_dataset
from reproduction.paper.claims import claim
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.run.trial import Figures, Results, Trial
from reproduction.paper.section import Cell, Claim, Item, Pictures, Row, Section, Strip, Table
from reproduction.paper.series import NotMeasured, average
from reproduction.paper.settings import RunSettings
from reproduction.paper.tasks.answers import EMBEDDED, LSH_BITS, SAMPLE, TOP

DATA = "mnist"
WAYS = {
    "pixels": "l2 distance, 784-D pixels",
    "lsh": f"Hamming distance, LSH with {LSH_BITS} bits",
    "embedded": f"l2 distance, {EMBEDDED}-D t-SNE embedding",
    "bits": f"Hamming distance, {EMBEDDED} bits of the embedding",
}


def trials(settings: RunSettings) -> list[Trial]:
    """A sample for each seed; the first is shown."""
    return settings.seeded("sample", DATA, "imh-tsne", EMBEDDED)


def section(results: Results, settings: RunSettings) -> Section:
    """Four queries with their answers by four ways of searching, and how often all 300 are right."""
    found = [results[t].figures for t in trials(settings) if t in results]
    items: tuple[Item, ...] = (*_pictures(found[0], settings), _table(found)) if found else ()
    lead = (
        f"The {TOP} nearest of {SAMPLE} digits by four searches; wrong answers are framed. The four "
        "queries are the first of their class in the sample. The table is the mean over all 300 as queries."
    )
    return Section("fig1", EXPERIMENT.title, lead, _data(settings), items, (_claim(found, settings),))


def _data(settings: RunSettings) -> str:
    whole = data_note(DATA, settings).split(". ")[0]
    return f"{whole}. {SAMPLE} of them, drawn at random, are queries and database; truth: the query's class."


def _pictures(figures: Figures, settings: RunSettings) -> list[Pictures]:
    data = load_dataset(DATA, n_queries=settings.queries, n_train=settings.rows)
    assert data.y_train is not None
    assert data.image_shape is not None
    images = data.X_train[figures["rows"]].reshape(-1, *data.image_shape)
    y = data.y_train[figures["rows"]]
    found = []
    for i, query in enumerate(figures["queries"]):
        strips = tuple(
            Strip(
                name,
                (images[query], *(images[j] for j in figures["ids"][way][i])),
                (None, *(bool(y[j] == y[query]) for j in figures["ids"][way][i])),
            )
            for way, name in WAYS.items()
        )
        found.append(Pictures(f"fig1-query-{i + 1}", f"Query {i + 1}, a {y[query]}.", strips))
    return found


def _table(found: list[Figures]) -> Table:
    rows = tuple(
        Row(name, (Cell(average([100 * figures["precision"][way] for figures in found])),))
        for way, name in WAYS.items()
    )
    caption = f"Correct among the {TOP} nearest, all {SAMPLE} digits as queries."
    return Table("fig1", caption, ("precision",), rows, "%", 1)


def _claim(found: list[Figures], settings: RunSettings) -> Claim:
    if not found:
        return claim("fig1-embedded", "not measured", _raise, settings)
    at = {way: average([100 * figures["precision"][way] for figures in found]).mean for way in WAYS}
    ours = "; ".join(f"{name} {at[way]:.1f} %" for way, name in WAYS.items())

    def better() -> bool:
        return min(at["embedded"], at["bits"]) > max(at["pixels"], at["lsh"])

    return claim("fig1-embedded", ours, better, settings)


def _raise() -> bool:
    raise NotMeasured("fig1")


EXPERIMENT = Experiment("fig1", "Figure 1: neighbors before and after embedding", (DATA,), trials, section)
