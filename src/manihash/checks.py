"""What input is accepted, and the message a user sees when it is not."""

import importlib
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What to do where base points are too few.
LARGER_BASE = (
    "enlarge the base set (that of imh-large has a sixth of the rows: give more rows, or take imh-tsne)"
)


class BadRowsError(ValueError):
    """Rows that hold what cannot be computed with: NaN, infinity, numbers whose squares overflow."""


def positive_int(value: Any, name: str, least: int = 1) -> int:
    """The value as an int if it is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """The value as a bool if it is true or false."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return bool(value)


def positive_number(value: Any, name: str, *, zero: bool = False) -> float:
    """The value as a float if it is finite and above zero (``zero``: or zero)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)) or value < 0:
        raise ValueError(f"{name} must be a finite number above zero, not {value!r}")
    if value == 0 and not zero:
        raise ValueError(f"{name} must be above zero, not 0")
    return float(value)


def neighbors_of(k: Any, m: int, name: str = "n_neighbors") -> int:
    """k as an int if a base set of m points has that many neighbors to give."""
    k = positive_int(k, name)
    if k > m:
        raise ValueError(f"{k} neighbors asked of a base set of {m} points: lower {name} or {LARGER_BASE}")
    return k


def part(given: Any, name: str, ability: str, such_as: str) -> Any:
    """What was given, if it is an object that has a method called ``ability``."""
    if isinstance(given, type):
        raise ValueError(f"{name} must be an object, not a class: give {given.__name__}()")
    if not hasattr(given, ability):
        came = f"{type(given).__name__} of shape {given.shape}" if hasattr(given, "shape") else repr(given)
        raise ValueError(f"{name} must be {such_as}, not {came}")
    return given


def generator(random_state: Any) -> np.random.Generator:
    """One Generator from None, a seed, a Generator, or a RandomState of scikit-learn's kind."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a whole number >= 0 or a Generator, not {random_state!r}"
        ) from error


def seed(rng: np.random.Generator) -> int:
    """A seed for a part that wants one of its own, scikit-learn's among them."""
    return int(rng.integers(2**31))


def extra(module: str, name: str) -> ModuleType:
    """Import an optional library, or say which extra of manihash brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs {module}, an optional part: pip install 'manihash[{name}]'", name=module
        ) from error


def table(shape: tuple[int, ...], least: int, width: int | None) -> None:
    """Raise unless a shape is that of at least ``least`` rows of ``width`` numbers, None for any width."""
    if len(shape) != 2:
        raise ValueError(f"X has {len(shape)} dimensions: two were wanted, one vector a row")
    if shape[0] < least or shape[1] < 1:
        raise ValueError(
            f"X holds {shape[0]} sample(s) of {shape[1]} feature(s): give at least {least} of at least 1"
        )
    if width is not None and shape[1] != width:
        raise ValueError(
            f"X has {shape[1]} features, but the model was fitted on {width}: give vectors of that width, or "
            "fit a new model"
        )


def finite_block(
    X: NDArray[Any], first_row: int = 0, *, numbers: NDArray[np.intp] | None = None, name: str = "Input X"
) -> None:
    """Raise if a block of rows holds a NaN or an infinity, naming the first row that does.

    Rows are numbered from ``first_row``, or by ``numbers`` where they do not follow each other.
    """
    bad = ~np.isfinite(X).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        what = "NaN" if np.isnan(X[row]).any() else "infinity (inf)"
        number = first_row + row if numbers is None else int(numbers[row])
        raise BadRowsError(
            f"{name} contains {what}: the first such row is {number}. "
            "Remove these rows or fill their gaps before hashing"
        )
