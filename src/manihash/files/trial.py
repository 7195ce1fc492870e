"""A trial of a model read from a file: values that do not fit together are refused when it is loaded."""

from typing import Any

import numpy as np

from manihash.checks import positive_int
from manihash.errors import MissingFunctionError, ModelFileError
from manihash.files.model_format import Arrays


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
