"""The base class of the hashers that learn from labels: which rows have a label, and which of them are used.

y has one label per row: integers or strings. The label -1 (integers) or None marks a row without a label.
``n_labels`` of the labeled rows are used, sampled with balanced classes; "auto" means 1,000, or 40 per class
if that is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import Tags

from manihash import checks
from manihash.hashers._hasher import Hasher
from manihash.rows import Rows
from manihash.types import Floats, Ints

# Labels that "auto" uses: in all, and per class. With seven labels per class, 150 classes were not learned.
_LABELS, _LABELS_PER_CLASS = 1000, 40


@dataclass(frozen=True)
class LabeledRows:
    """The rows whose labels are used: their indices ``index`` (l,) and their ``classes`` (l,), 0 … c - 1."""

    index: Ints
    classes: Ints

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def indicator(self) -> sp.csr_array:
        """G (l, c): G_ij is 1 if row i belongs to class j, otherwise 0."""
        l = len(self.classes)
        return sp.csr_array((np.ones(l), self.classes, np.arange(l + 1)))

    @cached_property
    def class_counts(self) -> Ints:
        """The number of rows of each class, (c,)."""
        return np.bincount(self.classes)

    def similarity_times(self, B: Floats) -> Floats:
        """S B for B (l, q), where S_ij is 1 if rows i and j have the same class and -1 otherwise.

        S = 2 G Gᵀ - 1 1ᵀ, so S (l, l) is not computed.
        """
        return 2 * (self.indicator @ (self.indicator.T @ B)) - B.sum(axis=0)


class LabeledHasher(Hasher):
    """A hasher whose ``fit(X, y)`` requires y and uses ``n_labels`` of the labels (None: all)."""

    n_labels: int | str | None
    uses_labels = True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check(self) -> None:
        super()._check()
        if self.n_labels is not None and not _is_auto(self.n_labels):
            checks.positive_int(self.n_labels, "n_labels", least=2)

    def _sample_labels(self, rows: Rows, y: Any, rng: np.random.Generator) -> LabeledRows:
        """The labeled rows to learn from; ``n_labels_`` is set to their number."""
        index, classes = parse_labels(y, len(rows))
        used = balanced_order(classes, rng)[: self._most_labels(classes)]
        labeled = LabeledRows(index[used], np.unique(classes[used], return_inverse=True)[1])
        self.n_labels_ = len(labeled)
        return labeled

    def _most_labels(self, classes: Ints) -> int | None:
        """The number of labels to use, given the classes 0 … c - 1 of all labeled rows; None for all."""
        if _is_auto(self.n_labels):
            return max(_LABELS, _LABELS_PER_CLASS * (int(classes.max()) + 1))
        return self.n_labels  # type: ignore[return-value]


def _is_auto(n_labels: Any) -> bool:
    return isinstance(n_labels, str) and n_labels == "auto"


def parse_labels(y: Any, n: int) -> tuple[Ints, Ints]:
    """The indices of the rows that have a label, and their classes 0 … c - 1: two arrays (l,)."""
    if y is None:
        raise ValueError(
            "this method requires y to be passed, but the target y is None: call fit(X, y) with one label "
            "per row, or use an unsupervised method"
        )
    checks.check_unmasked(y, "y")
    # A list becomes an array of objects: in an array of strings, NaN would become the string "nan".
    labels = np.asarray(y, None if hasattr(y, "dtype") else object)
    if labels.shape != (n,):
        raise ValueError(
            f"y must have one label per row, shape ({n},), got shape {labels.shape}: give the labels in the "
            "order of the rows of X, with -1 or None for a row without a label"
        )
    index, known = _known_labels(labels)
    names, classes = np.unique(known, return_inverse=True)
    if len(names) < 2:
        what = f"only one class ({names[0]})" if len(names) else "no class"
        raise ValueError(
            f"y contains {what}, and {n - len(index)} of {n} rows have no label (-1 or None): "
            "give labels of at least two classes"
        )
    return index, classes


def _known_labels(y: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """The indices of the rows that have a label, and their labels as integers or strings: two arrays (l,)."""
    if y.dtype.kind == "O":
        return _known_objects(y)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError(
                "y contains NaN or infinity: use -1 for a row without a label, or remove the row"
            )
        if (y != np.rint(y)).any():
            raise ValueError("y contains numbers that are not integers: give class labels")
    elif y.dtype.kind not in "iubUS":
        raise ValueError(f"y has the dtype {y.dtype}: give integers or strings")
    index = np.flatnonzero(y != -1) if y.dtype.kind in "if" else np.arange(len(y))
    return index, y[index]


def _known_objects(y: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """As ``_known_labels``, for an array of Python objects."""
    if any(isinstance(label, float) and label != label for label in y):
        raise ValueError("y contains NaN: use None for a row without a label, or remove the row")
    # -1 beside strings would become a class of its own, the string "-1".
    given = np.flatnonzero(
        [label is not None and (isinstance(label, str) or bool(label != -1)) for label in y]
    )
    labels = np.array(y[given].tolist())
    if labels.dtype.kind == "O" or labels.ndim != 1:
        raise ValueError("y must contain integers or strings, and None for a row without a label")
    index, known = _known_labels(labels)
    return given[index], known


def balanced_order(classes: Ints, rng: np.random.Generator) -> Ints:
    """A random order (l,) of the rows in which every prefix has balanced classes, as far as rows suffice."""
    shuffled = rng.permutation(len(classes))
    return shuffled[np.argsort(rank_in_class(classes[shuffled]), kind="stable")]


def rank_in_class(classes: Ints) -> Ints:
    """For each row the number of earlier rows of the same class, (l,)."""
    order = np.argsort(classes, kind="stable")
    grouped = classes[order]
    rank = np.empty(len(classes), np.intp)
    rank[order] = np.arange(len(classes)) - np.searchsorted(grouped, grouped)
    return rank
