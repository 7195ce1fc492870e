"""Figure 6: a query's answers by IMH-tSNE, SH, AGH and STH at 32 bits, as pictures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.datasets import load_dataset
from manihash.datasets.loading import PAPER_SEED, balanced_split
from manihash.datasets.locations import find
from manihash.datasets.sources import CIFAR10_BATCHES, CIFAR10_RECORD
from reproduction.paper.claims import claim
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Cell, Item, Pictures, Row, Section, Strip, Table
from reproduction.paper.series import Series, by_method, describe, mean, title
from reproduction.paper.settings import RunSettings
from reproduction.paper.tasks.answers import DEPTH

METHODS = ("imh-tsne", "sh", "agh", "sth")
BITS = 32


def trials(settings: RunSettings) -> list[Trial]:
    """Four methods; the first seed is shown."""
    return [t for method in METHODS for t in _trials(settings, method)]


def _trials(settings: RunSettings, method: str) -> list[Trial]:
    return settings.seeded("answers", _data(settings), method, settings.lengths((BITS,))[0])


def _data(settings: RunSettings) -> str:
    """CIFAR-10 where its images are on this machine, otherwise MNIST."""
    has_images = "cifar10-gist" in settings.available and all(find(name) for name in CIFAR10_BATCHES)
    return "cifar10-gist" if has_images else "mnist"


def section(results: Results, settings: RunSettings) -> Section:
    """The first query's answers, and the precision of all queries' answers."""
    data, bits = _data(settings), settings.lengths((BITS,))[0]
    series = [
        Series(title(m), m, {float(bits): mean(results, _trials(settings, m), "precision", 100)})
        for m in METHODS
    ]
    rows = tuple(Row(each.title, (Cell(each.at[float(bits)]),), each.method) for each in series)
    table = Table(
        "fig6",
        f"Correct among the first {DEPTH} answers, all queries.",
        (f"{bits} bits",),
        rows,
        "precision, %",
        1,
    )
    lead = f"The first {DEPTH} answers to the first test query, at {bits} bits; wrong answers are framed."
    methods = by_method(series)

    def best() -> bool:
        return max(METHODS, key=lambda m: methods[m][bits]) == "imh-tsne"

    missing: tuple[str, ...] = ()
    if data == "mnist":
        missing = (
            "The paper shows images of CIFAR-10, which are not on this machine: digits of MNIST instead "
            "(`manihash data get cifar10-gist` fetches the images where it must compute their GIST).",
        )
    items: tuple[Item, ...] = (*_pictures(results, settings, data), table)
    claims = (claim("fig6-tsne", describe(series), best, settings),)
    return Section("fig6", EXPERIMENT.title, lead, data_note(data, settings), items, claims, missing)


def _pictures(results: Results, settings: RunSettings, name: str) -> list[Pictures]:
    found = {m: results[t].figures["ids"] for m in METHODS for t in _trials(settings, m)[:1] if t in results}
    if not found:
        return []
    data = load_dataset(name, n_queries=settings.queries, n_train=settings.rows)
    assert data.y_train is not None
    assert data.y_test is not None
    if data.image_shape is None:
        images, queries = _cifar_images(settings)
    else:
        images, queries = (part.reshape(-1, *data.image_shape) for part in (data.X_train, data.X_test))
    strips = tuple(
        Strip(
            title(method),
            (queries[0], *(images[i] for i in ids)),
            (None, *(bool(data.y_train[i] == data.y_test[0]) for i in ids)),
        )
        for method, ids in found.items()
    )
    return [Pictures("fig6-answers", "The query comes first.", strips)]


def _cifar_images(settings: RunSettings) -> tuple[NDArray[Any], NDArray[Any]]:
    """CIFAR-10's images (n, 32, 32, 3) in the order of its descriptors' database, and of their queries."""
    paths = [path for path in map(find, CIFAR10_BATCHES) if path is not None]
    records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, CIFAR10_RECORD) for path in paths])
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    drawn, rows = balanced_split(records[:, 0], settings.queries or 1000, PAPER_SEED)
    return images[rows], images[drawn]


EXPERIMENT = Experiment("fig6", "Figure 6: answers as pictures", ("mnist",), trials, section)
