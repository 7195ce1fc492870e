"""What hashers and inductive embeddings share: rows checked at the door, and model files.

A model file holds the parameters as JSON, nested parts by their public name in manihash, and the fitted
values (attributes that end in ``_``), those of parts too, as arrays or JSON. A part that is not manihash's
own is recorded by name only: the fitted model does not need it.
"""

import importlib
import logging
import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from manihash import checks
from manihash.files import model as persist
from manihash.files.model import Arrays, ModelFileError
from manihash.rows import Rows, kind_of, rows_of
from manihash.rows.dask import DaskRows, check_chunks
from manihash.rows.local import is_sliceable
from manihash.rows.torch import TorchRows, without_torch
from manihash.types import Floats

_log = logging.getLogger(__name__)


def checked(estimator: BaseEstimator, X: Any, *, fitting: bool, least: int = 1) -> Any:
    """X as a two-dimensional numeric array (n, d), not copied; raise if it is something else.

    Rows in a file, of a dask array or for torch stay where they are. NaN and infinity are found later, by
    ``Rows``, which visits each block anyway and can name the row.
    """
    kind = kind_of(X)
    if kind is TorchRows:
        return _checked_torch(estimator, X, fitting, least)
    if kind is DaskRows:
        check_chunks(X)
    sliceable = is_sliceable(X)
    if sliceable:
        checks.shape_of_rows(X.shape, least)
    try:
        X = validate_data(
            estimator,
            X,
            reset=fitting,
            skip_check_array=sliceable,
            accept_sparse="csr" if get_tags(estimator).input_tags.sparse else False,
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=least,
        )
    except ValueError as error:
        raise ValueError(f"{error} {_remedy(str(error), fitting)}".rstrip()) from error
    if X.dtype.kind not in "fiub":
        raise checks.not_numbers(X.dtype)
    return X


def _checked_torch(estimator: BaseEstimator, X: Any, fitting: bool, least: int) -> Any:
    """As ``checked``, for rows of torch; they are copied to numpy if the estimator does not support torch."""
    if not getattr(estimator, "takes_tensors", False):
        _log.warning("%s computes with numpy: X was copied from torch", type(estimator).__name__)
        return checked(estimator, without_torch(X), fitting=fitting, least=least)
    checks.shape_of_rows(X.shape, least, None if fitting else getattr(estimator, "n_features_in_", None))
    estimator.n_features_in_ = int(X.shape[1])
    return X


def _remedy(message: str, fitting: bool) -> str:
    """What to do about an error of scikit-learn's validation, "" if it says so itself."""
    if "sample(s)" in message:
        return "Give at least two rows to fit." if fitting else "Give at least one row."
    if "Complex" in message:
        return "Give real numbers, for example the real and imaginary parts as separate columns."
    if "features, but" in message:
        return "Give vectors of the width the model was fitted on, or fit a new model."
    return ""


class RowEstimator(BaseEstimator):
    """An estimator over rows that can be saved: subclasses implement ``_fit(rows, y, rng)``.

    ``normalize_`` and ``origin_`` record how rows are prepared. If only distances matter to the method
    (``_by_distance``) and float32 rows lie far from zero, ``origin_`` (d,) is subtracted from every row, and
    fitted points are relative to it; otherwise it is None.
    """

    _by_distance = False
    takes_tensors: Any = False  # whether it computes with torch if X is a tensor

    random_state: Any
    n_features_in_: int
    normalize_: bool
    origin_: Floats | None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model to the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The vectors: an array, a memory map, a sparse matrix, rows of a file, a dask array or a tensor.
        y : array-like of shape (n,), default=None
            Labels, for supervised methods; otherwise ignored.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        BadRowsError
            If a row holds NaN, infinity or values whose squares overflow.
        """
        self._check()
        X = checked(self, X, fitting=True, least=2)
        self.normalize_ = checks.flag(getattr(self, "normalize", False), "normalize")
        rows = rows_of(X, normalize=self.normalize_, by_distance=self._by_distance)
        self.origin_ = rows.origin
        self._fit(rows, y, checks.generator(self.random_state))
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check(self) -> None:
        """Raise if a parameter is invalid, before any work is done."""

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        raise TypeError(f"{type(self).__name__} does not implement _fit")

    def _rows_to_map(self, X: Any) -> Rows:
        """The rows of X, checked, to be prepared as in ``fit``."""
        check_is_fitted(self)
        X = checked(self, X, fitting=False)
        rows = rows_of(X, normalize=self.normalize_, origin=self.origin_)
        # Base points in cells are found faster for many rows at once: more of them share a cell.
        rows.blocks_at_once = 1 if getattr(self, "finder_", None) is None else 4
        return rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, whole or not at all; ``manihash.load`` reads it."""
        check_is_fitted(self)
        arrays: Arrays = {}
        fitted = {name: value for name, value in vars(self).items() if _is_fitted_value(name)}
        document = {
            "class": type(self).__name__,
            "params": _to_json(self.get_params(deep=False), "params", arrays),
            "fitted": _to_json(fitted, "fitted", arrays),
        }
        persist.write(path, document, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted model that ``save`` wrote. Executes nothing that the file brings."""
    document, arrays = persist.read(path)
    try:
        model = _public_class(document["class"])(**_from_json(document["params"], arrays))
        if not isinstance(model, RowEstimator):
            raise ModelFileError(f"{path} holds a {document['class']}, which is no model")
        _set_fitted(model, _from_json(document["fitted"], arrays))
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(
            f"{path} does not describe a model of this manihash ({error}): fit anew"
        ) from error
    return model


class ForeignPart:
    """Stands in a loaded model for a part that was not manihash's own, such as another's embedding."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"ForeignPart({self.text!r})"

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Always an error: model files carry no code."""
        raise ValueError(
            f"this model was made with {self.text}, which model files do not carry: set it to fit again"
        )


def _set_fitted(part: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if not _is_fitted_value(name):
            raise ModelFileError(f"the model file sets {name!r}, which is no fitted value")
        setattr(part, name, value)


def _is_fitted_value(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _public_class(name: str) -> Any:
    """A class of manihash by its public name, and nothing else."""
    package = importlib.import_module("manihash")
    if name not in package.__all__ or not isinstance(getattr(package, name), type):
        raise ModelFileError(
            f"the model file names {name!r}, which this manihash does not have: upgrade manihash"
        )
    return getattr(package, name)


def _to_json(value: Any, place: str, arrays: Arrays) -> Any:
    """The value as JSON; arrays go into ``arrays`` under their place."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.generic():
            return value.item()
        case np.ndarray() if value.dtype == object:
            return {"strings": [str(item) for item in value]}
        case np.ndarray():
            arrays[place] = value
            return {"array": place}
        case dict():
            return {"dict": {key: _to_json(item, f"{place}.{key}", arrays) for key, item in value.items()}}
        case list() | tuple():
            items = [_to_json(item, f"{place}.{i}", arrays) for i, item in enumerate(value)]
            return {"list" if isinstance(value, list) else "tuple": items}
        case np.random.Generator() | np.random.RandomState():
            return None
        case BaseEstimator() if type(value).__module__.startswith("manihash."):
            params = _to_json(value.get_params(deep=False), place, arrays)
            part = {"part": type(value).__name__, "params": params}
            fitted = {name: item for name, item in vars(value).items() if _is_fitted_value(name)}
            return part | ({"fitted": _to_json(fitted, f"{place}.fitted", arrays)} if fitted else {})
    return {"foreign": " ".join(repr(value).split())}


def _from_json(value: Any, arrays: Arrays) -> Any:
    match value:
        case {"strings": items}:
            return np.array(items, object)
        case {"array": place}:
            return arrays[place]
        case {"dict": items}:
            return {key: _from_json(item, arrays) for key, item in items.items()}
        case {"list": items}:
            return [_from_json(item, arrays) for item in items]
        case {"tuple": items}:
            return tuple(_from_json(item, arrays) for item in items)
        case {"part": name, "params": params}:
            part = _public_class(name)(**_from_json(params, arrays))
            _set_fitted(part, _from_json(value.get("fitted", {}), arrays))
            return part
        case {"foreign": text}:
            return ForeignPart(text)
    return value
