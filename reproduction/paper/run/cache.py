"""What the trials of one process share: a dataset, its ground truth, and base sets."""

from collections import OrderedDict
from time import perf_counter
from typing import Any

from manihash import checks
from manihash.base.graph import choose_base
from manihash.base.kmeans import KMeansBase, RandomBase
from manihash.datasets import Dataset, load_dataset
from manihash.evaluation.first_answers import NeighborTruth
from manihash.evaluation.truth import Truth, truth_of
from manihash.hashers._hasher import Hasher
from manihash.hashers.agh import AGH
from manihash.hashers.imh import IMH
from manihash.hashers.recipes import recipe
from manihash.rows import rows_to_fit
from manihash.types import Floats
from reproduction.paper.run.trial import Trial

_BASES = 12  # base sets in memory; each has some megabytes


class TrialCache:
    """The last dataset and the last base sets. Using them does not change the result of a trial."""

    def __init__(self) -> None:
        self._set: tuple[Any, Dataset] | None = None
        self._truth: tuple[Any, Truth] | None = None
        self._neighbors: tuple[Any, NeighborTruth] | None = None
        self._bases: OrderedDict[Any, tuple[Floats, float]] = OrderedDict()

    def dataset(self, trial: Trial) -> Dataset:
        """The dataset of a trial."""
        key = (trial.data, trial.rows, trial.queries)
        if self._set is None or self._set[0] != key:
            self._set = self._truth = self._neighbors = None
            held = load_dataset(trial.data, n_queries=trial.queries, n_train=trial.rows)
            self._set = (key, held)
        return self._set[1]

    def truth(self, trial: Trial) -> Truth:
        """The ground truth of a trial: by label, or the nearest 2 % for sets that are judged by distance."""
        data = self.dataset(trial)
        key = (trial.data, trial.rows, trial.queries)
        if self._truth is None or self._truth[0] != key:
            self._truth = (key, _truth_of(data))
        return self._truth[1]

    def neighbors(self, trial: Trial) -> NeighborTruth:
        """The true ten nearest rows of the queries of a trial."""
        data = self.dataset(trial)
        key = (trial.data, trial.rows, trial.queries)
        if self._neighbors is None or self._neighbors[0] != key:
            self._neighbors = (key, NeighborTruth(data.X_test, data.X_train))
        return self._neighbors[1]

    def hasher(self, trial: Trial) -> Hasher:
        """The trial's hasher, not fitted, with the base set that ``fit`` would choose."""
        made: Hasher = recipe(trial.method, n_bits=trial.bits, random_state=trial.seed, **dict(trial.options))
        if isinstance(made, IMH | AGH) and isinstance(made.base, KMeansBase | RandomBase):
            made.base = self.base(trial, made)[0]
        return made

    def base(self, trial: Trial, hasher: IMH | AGH) -> tuple[Floats, float]:
        """The base set (m, d) of an unfitted hasher, and the seconds to make it."""
        key = (trial.data, trial.rows, trial.queries, repr(hasher.base), hasher.normalize, trial.seed)
        if key not in self._bases:
            X = self.dataset(trial).X_train
            rows = rows_to_fit(X, normalize=hasher.normalize, by_distance=True)
            start = perf_counter()
            points, _ = choose_base(hasher.base, rows, checks.seed(checks.generator(trial.seed)))
            seconds = perf_counter() - start
            self._bases[key] = (points if rows.origin is None else points + rows.origin, seconds)
        self._bases.move_to_end(key)
        while len(self._bases) > _BASES:
            self._bases.popitem(last=False)
        return self._bases[key]


def _truth_of(data: Dataset) -> Truth:
    """The paper's ground truth of a set: classes on MNIST and CIFAR-10, otherwise the nearest 2 %."""
    labels = (None, None) if _is_about_distance(data) else (data.y_test, data.y_train)
    return truth_of(data.X_test, data.X_train, *labels)


def _is_about_distance(data: Dataset) -> bool:
    """tiny-gist960 has classes, but replaces GIST1M, which has none."""
    return data.name == "tiny-gist960"
