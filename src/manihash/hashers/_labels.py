"""What hashers that learn from labels share: which rows have one, which are used, and S of their pairs.

y is one label a row: whole numbers or strings. A row without a label has -1 (numbers) or None. Of the rows
that have one, ``n_labels`` are used, drawn so that the classes take turns.
"""

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


@dataclass(frozen=True)
class Labeled:
    """The rows whose labels are used: their places ``index`` (l,) and classes ``number`` (l,), 0 … c - 1."""

    index: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def members(self) -> sp.csr_array:
        """G (l, c): 1 where a row is of a class."""
        l = len(self.number)
        return sp.csr_array((np.ones(l), self.number, np.arange(l + 1)))

    @cached_property
    def counts(self) -> Ints:
        """How many rows each class has, (c,)."""
        return np.bincount(self.number)

    def similarity_times(self, B: Floats) -> Floats:
        """S B for B (l, q); S_ij is 1 for a pair of one class, else -1: S = 2 G Gᵀ - 1 1ᵀ, never held."""
        return 2 * (self.members @ (self.members.T @ B)) - B.sum(axis=0)


class LabeledHasher(Hasher):
    """A hasher that ``fit(X, y)`` teaches: it wants y, and uses ``n_labels`` of its labels (None: all)."""

    n_labels: int | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check(self) -> None:
        super()._check()
        if self.n_labels is not None:
            checks.positive_int(self.n_labels, "n_labels", least=2)

    def _labeled(self, rows: Rows, y: Any, rng: np.random.Generator) -> Labeled:
        index, number = labels(y, len(rows))
        taken = in_turns(number, rng)[: self.n_labels]
        used = Labeled(index[taken], np.unique(number[taken], return_inverse=True)[1])
        self.n_labels_ = len(used)
        return used


def labels(y: Any, n: int) -> tuple[Ints, Ints]:
    """The rows that have a label, and the numbers of their classes: two (l,)."""
    if y is None:
        raise ValueError(
            "this method requires y to be passed, but the target y is None: give fit(X, y) one label a row "
            "(--labels FILE on the command line), or take a method that learns without, such as imh-tsne"
        )
    # A list as objects: as strings, a NaN among names would be one more name.
    given = np.asarray(y, None if hasattr(y, "dtype") else object)
    if given.shape != (n,):
        raise ValueError(
            f"y must be one label a row, shape ({n},), not {given.shape}: give the labels of the rows "
            "of X in their order, -1 or None for a row without a label"
        )
    index, names = _named(given)
    classes, number = np.unique(names, return_inverse=True)
    if len(classes) < 2:
        what = f"one class only ({classes[0]})" if len(classes) else "no class at all"
        raise ValueError(
            f"y names {what}, and {n - len(index)} of {n} rows have no label (-1 or None): "
            "give labels of at least two classes"
        )
    return index, number


def _named(y: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """The rows that have a label, and their labels as whole numbers or strings."""
    if y.dtype.kind == "O":
        held = np.flatnonzero([label is not None for label in y])
        if any(isinstance(label, float) and label != label for label in y):
            raise ValueError("y contains NaN: give None to a row without a label, or leave the row out")
        own = np.array(y[held].tolist())
        if own.dtype.kind == "O" or own.ndim != 1:
            raise ValueError("y must hold whole numbers or strings, and None for a row without a label")
        inner, names = _named(own)
        return held[inner], names
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError(
                "y contains NaN or infinity: give -1 to a row without a label, or leave the row out"
            )
        if (y != np.rint(y)).any():
            raise ValueError("y holds numbers that are not whole, so they are no labels: give classes")
    elif y.dtype.kind not in "iubUS":
        raise ValueError(f"y holds values of type {y.dtype}: give whole numbers or strings")
    index = np.flatnonzero(y != -1) if y.dtype.kind in "if" else np.arange(len(y))
    return index, y[index]


def in_turns(number: Ints, rng: np.random.Generator) -> Ints:
    """The rows at random, but so that classes take turns until they run out: any start of it is balanced."""
    shuffled = rng.permutation(len(number))
    return shuffled[np.argsort(turn(number[shuffled]), kind="stable")]


def turn(number: Ints) -> Ints:
    """How many rows of its own class stand before each row, (l,)."""
    order = np.argsort(number, kind="stable")
    grouped = number[order]
    before = np.empty(len(number), np.intp)
    before[order] = np.arange(len(number)) - np.searchsorted(grouped, grouped)
    return before
