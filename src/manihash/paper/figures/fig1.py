"""Figure 1: the ten nearest of 300 digits, before and after a nonlinear embedding, as pictures."""

from manihash.datasets import load_dataset
from manihash.paper.experiment import Experiment
from manihash.paper.lines import NotMeasured, claim
from manihash.paper.notes import data_note
from manihash.paper.run.trial import Figures, Trial
from manihash.paper.scope import Held, Scope, average
from manihash.paper.tasks.neighbors import EMBEDDED, LSH_BITS, SAMPLE, TOP
from manihash.report.section import Cell, Claim, Part, Pictures, Row, Section, Strip, Table

DATA = "mnist"
WAYS = {
    "pixels": "l2 distance, 784-D pixels",
    "lsh": f"Hamming distance, LSH with {LSH_BITS} bits",
    "embedded": f"l2 distance, {EMBEDDED}-D t-SNE embedding",
    "bits": f"Hamming distance, {EMBEDDED} bits of the embedding",
}


def trials(scope: Scope) -> list[Trial]:
    """A sample for each seed; the first is shown."""
    return scope.seeded("sample", DATA, "imh-tsne", EMBEDDED)


def section(held: Held, scope: Scope) -> Section:
    """Four queries with their answers by four ways of searching, and how often all 300 are right."""
    found = [held[t].figures for t in trials(scope) if t in held]
    parts: tuple[Part, ...] = (*_pictures(found[0], scope), _table(found)) if found else ()
    lead = (
        f"The {TOP} nearest of {SAMPLE} digits by four ways of searching; wrong ones are framed. The four "
        "queries are the first of their class in the sample. The table is the mean over all 300 as queries."
    )
    return Section("fig1", EXPERIMENT.title, lead, _data(scope), parts, (_claim(found, scope),))


def _data(scope: Scope) -> str:
    whole = data_note(DATA, scope).split(". ")[0]
    return f"{whole}. {SAMPLE} of them, drawn at random, are queries and database; truth: the query's class."


def _pictures(figures: Figures, scope: Scope) -> list[Pictures]:
    data = load_dataset(DATA, n_queries=scope.queries, n_train=scope.rows)
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
    caption = f"Right among the {TOP} nearest, all {SAMPLE} digits as queries."
    return Table("fig1", caption, ("precision",), rows, "%", 1)


def _claim(found: list[Figures], scope: Scope) -> Claim:
    if not found:
        return claim("fig1-embedded", "not measured", _raise, scope)
    at = {way: average([100 * figures["precision"][way] for figures in found]).mean for way in WAYS}
    ours = "; ".join(f"{name} {at[way]:.1f} %" for way, name in WAYS.items())

    def better() -> bool:
        return min(at["embedded"], at["bits"]) > max(at["pixels"], at["lsh"])

    return claim("fig1-embedded", ours, better, scope)


def _raise() -> bool:
    raise NotMeasured("fig1")


EXPERIMENT = Experiment("fig1", "Figure 1: neighbors before and after embedding", (DATA,), trials, section)
