"""Checks of what users pass in, with error messages that say what was expected and what to do."""

import importlib
import sys
from collections.abc import Callable
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.errors import BadRowsError


def passes(check: Callable[[], object]) -> bool:
    """Whether a check raises no ValueError."""
    try:
        check()
    except ValueError:
        return False
    return True


def positive_int(value: Any, name: str, least: int = 1) -> int:
    """The value as an int; raise unless it is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """The value as a bool; raise unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return bool(value)


def positive_number(value: Any, name: str, *, zero: bool = False) -> float:
    """The value as a float; raise unless it is finite and positive, or zero if ``zero`` allows it."""
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not known or not 0 <= value <= sys.float_info.max:  # of integers, too, which have no largest one
        least = "of at least" if zero else "above"
        raise ValueError(f"{name} must be a finite number {least} zero, not {value!r}")
    if value == 0 and not zero:
        raise ValueError(f"{name} must be above zero, not 0")
    return float(value)


def neighbor_count(k: Any, m: int, name: str = "n_neighbors") -> int:
    """k as an int; raise unless it is from 1 to m, the number of neighbors that a base set has."""
    k = positive_int(k, name)
    if k > m:
        raise ValueError(
            f"{name}={k} exceeds the {m} neighbors available in the base set: "
            f"lower {name}, use a larger base set or give more rows that differ"
        )
    return k


def part(given: Any, name: str, method: str, expected: str) -> Any:
    """The object given; raise unless it has a method of the given name."""
    if isinstance(given, type):
        raise ValueError(f"{name} must be an object, not a class: give {given.__name__}()")
    if not hasattr(given, method):
        got = f"{type(given).__name__} of shape {given.shape}" if hasattr(given, "shape") else repr(given)
        raise ValueError(f"{name} must be {expected}, not {got}")
    return given


def generator(random_state: Any) -> np.random.Generator:
    """A Generator from None, a seed, a Generator, or a RandomState as in scikit-learn."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a whole number >= 0 or a Generator, not {random_state!r}"
        ) from error


def seed(rng: np.random.Generator) -> int:
    """A random seed for a nested estimator."""
    return int(rng.integers(2**31))


def extra(module: str, name: str) -> ModuleType:
    """Import an optional library; the error names the extra of manihash that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs {module}, an optional dependency: pip install 'manihash[{name}]'", name=module
        ) from error


WIDTH_REMEDY = "Give vectors of the width the model was fitted on, or fit a new model."


def shape_of_rows(
    shape: tuple[int, ...],
    least: int,
    width: int | None = None,
    model: str = "the model",
    name: str = "X",
    remedy: str = WIDTH_REMEDY,
) -> None:
    """Raise unless the shape is (n, d) with n >= ``least`` and d >= 1, or d = ``width`` if it is given."""
    if len(shape) != 2:
        raise ValueError(f"{name} has {len(shape)} dimensions, expected 2: one vector per row")
    if shape[0] < least or shape[1] < 1:
        raise ValueError(
            f"{name} holds {shape[0]} sample(s) of {shape[1]} feature(s): give at least {least} of at least 1"
        )
    if width is not None and shape[1] != width:
        # The words of scikit-learn.
        raise ValueError(
            f"{name} has {shape[1]} features, but {model} is expecting {width} features as input. {remedy}"
        )


def not_numbers(dtype: Any, what: str = "X holds") -> ValueError:
    """The error for an X whose type is not that of real numbers."""
    return ValueError(f"{what} values of type {dtype}: give real numbers (float, int or bool)")


def check_unmasked(array: Any, name: str = "Input X", *, row_numbers: Any = None) -> None:
    """Raise if a numpy masked array, or a row in a list, has masked values: they are not data.

    The message names the first such row; ``row_numbers`` are the numbers of the rows, by default from 0.
    """
    if type(array) is np.ndarray:
        return
    if isinstance(array, list | tuple):
        bad = np.array([_has_mask(row) for row in array], bool)
    elif _has_mask(array):
        bad = np.asarray(np.ma.getmaskarray(array).reshape(len(array), -1).any(axis=1))
    else:
        return
    if bad.any():
        row = int(bad.argmax())
        raise BadRowsError(
            f"{name} contains masked values: the first such row is "
            f"{row if row_numbers is None else int(row_numbers[row])}. Remove these rows or fill their gaps, "
            "for example with X.filled(value)"
        )


def _has_mask(array: Any) -> bool:
    """Whether an array is masked somewhere."""
    return isinstance(array, np.ndarray) and type(array) is not np.ndarray and bool(np.ma.is_masked(array))


def finite_block(
    X: NDArray[Any],
    first_row: int = 0,
    *,
    row_numbers: NDArray[np.intp] | None = None,
    name: str = "Input X",
) -> None:
    """Raise if a block of rows contains NaN or infinity, and name the first such row.

    Rows are numbered from ``first_row``, or by ``row_numbers``.
    """
    bad = ~np.isfinite(X).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        what = "NaN" if np.isnan(X[row]).any() else "infinity (inf)"
        number = first_row + row if row_numbers is None else int(row_numbers[row])
        raise BadRowsError(
            f"{name} contains {what}: the first such row is {number}. "
            "Remove these rows or fill their gaps before hashing"
        )
