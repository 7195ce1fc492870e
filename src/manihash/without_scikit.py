"""What a fitted model needs of scikit-learn where scikit-learn is not installed: parameters and checks."""

import inspect
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manihash import checks


class NotFittedError(ValueError, AttributeError):
    """Raised if a model is used before it is fitted, as scikit-learn's error of this name."""


class BaseEstimator:
    """An estimator whose parameters are the arguments of its constructor."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; ``deep`` adds those of parts, as ``part__name``."""
        names = [name for name in inspect.signature(type(self)).parameters if name != "self"]
        params = {name: getattr(self, name) for name in names}
        parts = {name: part for name, part in params.items() if deep and hasattr(part, "get_params")}
        for name, part in parts.items():
            params |= {f"{name}__{inner}": value for inner, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of parts as ``part__name``."""
        valid = self.get_params(deep=False)
        for name, value in params.items():
            first, _, rest = name.partition("__")
            if first not in valid:
                raise ValueError(
                    f"Invalid parameter {first!r} for estimator {self!r}: expected one of {sorted(valid)}"
                )
            if rest:
                getattr(self, first).set_params(**{rest: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))


class TransformerMixin:
    """A mixin of classes with ``fit`` and ``transform``."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to rows, and transform them."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]


class ClassNamePrefixFeaturesOutMixin:
    """A mixin of classes whose output columns are numbered."""

    _n_features_out: Any

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the output columns."""
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(self._n_features_out)], object)


def clone(estimator: Any, *, safe: bool = True) -> Any:
    """Raise: estimators are copied to be fitted."""
    raise ImportError(
        f"copying {type(estimator).__name__} to fit it needs scikit-learn: pip install scikit-learn scipy",
        name="sklearn",
    )


def check_is_fitted(estimator: Any) -> None:
    """Raise unless the estimator is fitted."""
    if not estimator.__sklearn_is_fitted__():
        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Load a fitted model, or call 'fit'"
        )


def validate(estimator: Any, X: Any, *, least: int, sliceable: bool) -> Any:
    """X as an array (n, d) of the width that the estimator was fitted on; ``sliceable`` rows are not read."""
    if not sliceable and not hasattr(X, "toarray"):
        X = np.asarray(X)
        if X.dtype == object:
            X = X.astype(np.float64)
        if X.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: X holds values of type {X.dtype}.")
    checks.shape_of_rows(X.shape, least, estimator.n_features_in_, type(estimator).__name__)
    return X
