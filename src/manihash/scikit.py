"""scikit-learn's base classes, or small ones of our own if scikit-learn or scipy is not installed.

A model can be loaded and can encode rows with numpy alone. Only fitting needs scikit-learn and scipy.
"""

from typing import Any

_missing: ImportError | None = None

try:
    import scipy  # noqa: F401
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
    from sklearn.utils import get_tags
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    _missing = error
    from manihash.without_scikit import (
        BaseEstimator,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
        check_is_fitted,
        clone,
        validate,
    )

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "TransformerMixin",
    "check_can_fit",
    "check_is_fitted",
    "clone",
    "validated",
]


def check_can_fit(estimator: Any) -> None:
    """Raise if the libraries that fitting needs are not installed."""
    if _missing is not None:
        raise ImportError(
            f"fitting {type(estimator).__name__} needs scikit-learn and scipy ({_missing}): pip install "
            "scikit-learn scipy. Without them a fitted model can be loaded and can encode",
            name=_missing.name,
        ) from _missing


def validated(estimator: Any, X: Any, *, fitting: bool, least: int, sliceable: bool) -> Any:
    """X as an array (n, d), dense or sparse, not copied; ``sliceable`` rows stay where they are.

    Sets the width and the names of the columns of the estimator if it is being fitted, otherwise compares
    them. NaN and infinity are not looked for.
    """
    if _missing is not None:
        return validate(estimator, X, least=least, sliceable=sliceable)
    return validate_data(
        estimator,
        X,
        reset=fitting,
        skip_check_array=sliceable,
        accept_sparse="csr" if get_tags(estimator).input_tags.sparse else False,
        dtype="numeric",
        ensure_all_finite=False,
        ensure_min_samples=least,
    )
