"""Model files: fitted estimators to a file and back.

A file holds the class of the model, its parameters and its fitted values (attributes that end in ``_``).
Parts are stored the same way, inside the model. Classes are found by their names in the registry, never
by a path in the file. A part that is not an estimator of manihash is stored as text only: the fitted model
does not need it.
"""

import os
from typing import Any

import numpy as np

from manihash.checks import flag, positive_int, positive_number
from manihash.errors import MissingFunctionError, ModelFileError
from manihash.files.lineage import checked_lineage, old_lineage
from manihash.files.model_format import Arrays, read_document, write_document
from manihash.files.registry import model_class, name_in_files, part_class

_NEW_NAMES = {"turns": "n_rotations"}  # parameters that files of earlier versions name differently
_FLAGS, _POSITIVE = {"normalize_", "in_float64_"}, {"bandwidth_", "gamma_", "width_"}  # fitted values


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, atomically."""
    name = name_in_files(type(model))
    if name is None:
        raise ValueError(
            f"{type(model).__name__} cannot be saved: model files hold estimators of manihash and registered "
            "classes only. Call manihash.register(name, class) first"
        )
    arrays: Arrays = {}
    document = {
        "class": name,
        "params": _to_json(model.get_params(deep=False), "params", arrays),
        "fitted": _to_json(_checked(model, _fitted_values(model)), "fitted", arrays),
    }
    write_document(path, document, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a fitted model from a file that ``save`` wrote.

    The file is verified first: its format version and its checksum. Loading executes no code from the file.

    Parameters
    ----------
    path : str or path-like
        The model file.

    Returns
    -------
    Hasher or InductiveEmbedding
        The fitted model. It gives the same codes as the model that was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is damaged, is not a model file, or was written by a newer version of manihash.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from manihash import load
    >>> from manihash.hashers import LSH
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> hasher = LSH(n_bits=16, random_state=0).fit(X)
    >>> with TemporaryDirectory() as folder:
    ...     hasher.save(Path(folder) / "model.mhash")
    ...     loaded = load(Path(folder) / "model.mhash")
    >>> bool(np.array_equal(loaded.encode(X), hasher.encode(X)))
    True
    """
    document, arrays = read_document(path)
    try:
        check_arrays(arrays)
        model = model_class(document["class"])(**_from_json(document["params"], arrays))
        _set_fitted_values(model, _from_json(document["fitted"], arrays))
        has_lineage = hasattr(model, "lineage_")
        model.lineage_ = checked_lineage(model.lineage_) if has_lineage else old_lineage(model)
        try_out(model, arrays)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"{error}" if isinstance(error, ModelFileError) else f"{error!r}: fit the model again"
        raise ModelFileError(f"cannot load a model from {path}: {text}") from error
    return model


class ForeignPart:
    """Stands in a loaded model for a part that is not an estimator of manihash."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"ForeignPart({self.text!r})"

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Raise a ValueError: model files do not contain code."""
        raise ValueError(
            f"this model was fitted with {self.text}, which model files do not contain: set it with "
            "set_params to fit again"
        )


def _fitted_values(estimator: Any) -> dict[str, Any]:
    """The attributes whose names end in ``_``."""
    return {name: value for name, value in vars(estimator).items() if _is_fitted_value(name)}


def _checked(model: Any, fitted: dict[str, Any]) -> dict[str, Any]:
    """The fitted values; raise if one is a model that files cannot hold: it is needed to encode."""
    for name, value in fitted.items():
        if hasattr(value, "get_params") and hasattr(value, "encode"):
            if name_in_files(type(value)) is None:
                raise ValueError(
                    f"{type(model).__name__} cannot be saved: its {name} is a {type(value).__name__}, and "
                    "model files hold estimators of manihash and registered classes only"
                )
            _checked(value, _fitted_values(value))
    return fitted


def _set_fitted_values(estimator: Any, values: dict[str, Any]) -> None:
    """Set fitted values, and nothing else; raise if the estimator finds that they do not fit together."""
    for name, value in values.items():
        if not _is_fitted_value(name):
            raise ModelFileError(f"the file sets {name!r}, which is not a fitted value")
        setattr(estimator, name, value)
    for name in _FLAGS & values.keys():
        flag(values[name], name)
    for name in _POSITIVE & values.keys():
        if values[name] is not None:  # gamma_ of a kernel that has none
            positive_number(values[name], name)
    origin = values.get("origin_")  # few rows are prepared in another way: a trial does not find it
    if origin is not None and getattr(origin, "shape", None) != (values.get("n_features_in_"),):
        raise ModelFileError("origin_ is not a vector of the width of the rows: fit the model again")
    if values and hasattr(estimator, "_check_loaded"):
        estimator._check_loaded()


def _is_fitted_value(name: str) -> bool:
    """Whether an attribute is a fitted value, by its name."""
    return name.endswith("_") and not name.startswith("_")


def _to_json(value: Any, place: str, arrays: Arrays) -> Any:
    """The value as JSON; arrays are added to ``arrays`` under their place in the model."""
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
    if (name := name_in_files(type(value))) is None:
        return {"foreign": " ".join(repr(value).split())}
    part = {"part": name, "params": _to_json(value.get_params(deep=False), place, arrays)}
    fitted = _fitted_values(value)
    return part | ({"fitted": _to_json(fitted, f"{place}.fitted", arrays)} if fitted else {})


def _from_json(value: Any, arrays: Arrays) -> Any:
    """The value that ``_to_json`` described."""
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
            given = _from_json(params, arrays)
            part = part_class(name)(**{_NEW_NAMES.get(key, key): item for key, item in given.items()})
            _set_fitted_values(part, _from_json(value.get("fitted", {}), arrays))
            return part
        case {"foreign": text}:
            return ForeignPart(text)
    return value


def check_arrays(arrays: Arrays) -> None:
    """Raise if an array of a model holds NaN or infinity: no model that was fitted does."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFileError(f"the array {name} holds NaN or infinity: fit the model again")


def try_out(model: Any, arrays: Arrays) -> None:
    """Raise unless the model maps rows of its width to codes, or to coordinates, of its length."""
    is_hasher = hasattr(model, "encode")
    width = positive_int(model.n_features_in_, "n_features_in_")
    length = positive_int(model.n_bits_ if is_hasher else model.n_components, "the length of a result")
    if max(width, length) > max(2**20, sum(array.size for array in arrays.values())):
        raise ModelFileError(f"{width} features or {length} bits exceed what the arrays can describe")
    rows = np.linspace(-1, 1, 2 * width, dtype=np.float32).reshape(2, width)
    expected = 2, length
    try:
        found = model.transform(rows)
        if is_hasher:
            model.encode(rows)
            _ = model.layout_  # raises if the codes cannot be ranked
    except MemoryError:
        raise
    except MissingFunctionError:  # the user sets it after loading
        return
    except Exception as error:
        raise ModelFileError(f"its values do not fit together ({error}): fit the model again") from error
    if found.shape != expected:
        raise ModelFileError(
            f"two rows give an array of shape {found.shape}, expected {expected}: fit the model again"
        )
