"""What hashers and inductive embeddings share: input validation, fitting and saving."""

import logging
import os
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from manihash import checks, codes
from manihash.compute import backend, fused
from manihash.compute.numpy import is_plain, plain
from manihash.compute.threads import single_blas_thread
from manihash.files.lineage import Lineage, new_lineage
from manihash.files.model import save_model
from manihash.progress import progress_shown
from manihash.rows import Rows, kind_of, rows_of, rows_to_fit
from manihash.rows.dask import DaskRows, check_chunks
from manihash.rows.local import is_sliceable
from manihash.rows.mapping import EmbeddedMap, Mapping, Result, RowMap, forget_map, kept_maps, logged_repeats
from manihash.rows.raw import Preparation
from manihash.rows.torch import TorchRows, is_on_gpu, without_torch
from manihash.types import Floats

_log = logging.getLogger(__name__)

# Up to this many rows are mapped without blocks and threads.
_FEW_ROWS = 64


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
    checks.check_unmasked(X)  # validation would drop the mask
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
        is_flat = "got 1D array" in str(error)
        if "bytes/strings" in str(error) or (is_flat and np.asarray(X).dtype.kind in "US"):
            raise ValueError(
                "X holds text: give one vector of numbers per row, such as the embedding of each text"
            ) from None
        if is_flat:  # the message of scikit-learn, without the values
            raise ValueError(
                f"Expected 2D array, one row per vector, got 1D array of shape {np.shape(X)}. Reshape your "
                "data: X[:1] or X[0][None] is one row of X"
            ) from None
        raise ValueError(f"{error} {_remedy(estimator, X, str(error), fitting)}".rstrip()) from error
    if X.dtype.kind not in "fiub":
        raise checks.not_numbers(X.dtype)
    return X


def _checked_torch(estimator: BaseEstimator, X: Any, fitting: bool, least: int) -> Any:
    """As ``checked``, for rows of torch; they are copied to numpy if the estimator does not support torch."""
    if not (estimator.takes_tensors or (estimator.maps_tensors and not fitting)):
        _log.warning("%s computes with numpy: X was copied from torch", type(estimator).__name__)
        return checked(estimator, without_torch(X), fitting=fitting, least=least)
    width = None if fitting else getattr(estimator, "n_features_in_", None)
    remedy = _width_remedy(estimator, X)
    checks.shape_of_rows(X.shape, least, width, type(estimator).__name__, remedy=remedy)
    estimator.n_features_in_ = int(X.shape[1])
    return X


def _remedy(estimator: BaseEstimator, X: Any, message: str, fitting: bool) -> str:
    """What to do about an error of the validation, "" if it says so itself."""
    if "give" in message:
        return ""
    if "sample(s)" in message:
        return "Give at least two rows to fit." if fitting else "Give at least one row."
    if "Complex" in message:
        return "Give real numbers, for example the real and imaginary parts as separate columns."
    if "could not convert string" in message:
        return "Give vectors of numbers: leave out columns of text."
    if "features, but" in message:
        return _width_remedy(estimator, X)
    return ""


def _width_remedy(estimator: BaseEstimator, X: Any) -> str:
    """What to do about rows of another width than those of ``fit``."""
    if isinstance(estimator, RowEstimator):
        return estimator._width_remedy(X.shape[1] if len(getattr(X, "shape", ())) == 2 else None)
    return checks.WIDTH_REMEDY


class RowEstimator(BaseEstimator):
    """An estimator over rows that can be saved: subclasses implement ``_fit(rows, y, rng)``.

    ``normalize_``, ``origin_`` and ``in_float64_`` record how rows are prepared. If the result of the method
    does not change when a vector is added to all rows (``_by_distance``) and the rows lie far from zero,
    ``origin_`` (d,) is subtracted from every row, and fitted values are relative to it; otherwise it is None.
    ``in_float64_`` is True if float32 is not precise enough for the rows seen by ``fit``: rows of any type
    are then computed with in float64. ``lineage_`` identifies the model: see ``manihash.files.lineage``.
    """

    _by_distance: Any = False
    takes_tensors: Any = False  # whether ``fit`` and ``encode`` compute with torch if X is a tensor
    maps_tensors: Any = False  # whether ``encode`` does, even if ``fit`` does not

    random_state: Any
    n_features_in_: int
    normalize_: bool
    origin_: Floats | None
    in_float64_: bool = False
    lineage_: Lineage
    _n_features_out: Any

    __metadata_request__fit: ClassVar[dict[str, Any]] = {
        "verbose": UNUSED
    }  # nothing that a pipeline passes on

    def fit(self, X: Any, y: Any = None, *, verbose: bool = False) -> Self:
        """Fit the model to the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The vectors: an array, a memory map, a sparse matrix, rows of a file, a dask array or a tensor.
        y : array-like of shape (n,), default=None
            Labels, for supervised methods; otherwise ignored.
        verbose : bool, default=False
            Show a progress bar, in a terminal or in a notebook.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        BadRowsError
            If a row holds NaN, infinity or values whose squares overflow.
        """
        with progress_shown(verbose, type(self).__name__):
            return self._learn(X, lambda rows, rng: self._fit(rows, y, rng))

    def _learn(self, X: Any, learn: Callable[[Rows, np.random.Generator], None]) -> Self:
        """Prepare X, set fitted values by ``learn`` and complete the model; an error leaves it as it was."""
        self._check()
        before = dict(vars(self))
        try:
            forget_map(self)
            X = checked(self, X, fitting=True, least=2)
            self.normalize_ = self._scales_rows()
            rows = rows_to_fit(X, normalize=self.normalize_, by_distance=self._by_distance)
            self.origin_ = rows.origin
            self.__dict__.pop("in_float64_", None)
            if rows.needs_float64:  # not set otherwise: files that were written without it stay the same
                self.in_float64_ = True
            with single_blas_thread():  # equal eigenvalues have other eigenvectors on several threads
                learn(rows, checks.generator(self.random_state))
                self._store_plain()
                self._summarize(rows)
            self.lineage_ = new_lineage(self)
            self._after_fit(rows)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check(self) -> None:
        """Raise if a parameter is invalid, before any work is done."""

    def _width_remedy(self, width: int | None) -> str:
        """What to do about rows of another width than those of ``fit``; None if it is not known."""
        return checks.WIDTH_REMEDY

    def _scales_rows(self) -> bool:
        """Whether rows are scaled to unit length when they are prepared."""
        return checks.flag(getattr(self, "normalize", False), "normalize")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        raise TypeError(f"{type(self).__name__} does not implement _fit")

    def _store_plain(self) -> None:
        """Store fitted arrays as a model file does: a loaded model then computes the same bits."""
        for name, value in list(vars(self).items()):
            if name.endswith("_") and isinstance(value, np.ndarray) and not is_plain(value):
                setattr(self, name, plain(value))

    def _summarize(self, rows: Rows) -> None:
        """Keep what is needed about the training rows, after ``_fit``."""

    def _after_fit(self, rows: Rows) -> None:
        """Work on the training rows when the model is fitted."""

    def _rows_to_map(self, X: Any) -> Rows:
        """The rows of X, checked, to be prepared as in ``fit``."""
        check_is_fitted(self)
        X = checked(self, X, fitting=False)
        dtype = np.float64 if self.in_float64_ else None
        rows = rows_of(X, normalize=self.normalize_, origin=self.origin_, dtype=dtype)
        # Base points in cells are found faster for many rows at once: more of them share a cell.
        rows.blocks_at_once = 1 if getattr(self, "finder_", None) is None else 4
        return rows

    def _map(self, X: Any, result: Result, stage: str) -> Any:
        """The rows of X mapped to values, bits or codes, in the form that users expect for X."""
        if self._is_small(X):
            return getattr(self._row_map(self._type_of(X)), result)(X, range(len(X)))
        rows, f = self._mapping(X, result)
        width = self._n_values if result == "values" else self._n_features_out
        width = codes.n_bytes(width) if result == "codes" else width
        with logged_repeats(None if rows.lazy else getattr(f, "row_map", None), len(rows)):
            return rows.map_blocks(f, width, rows.dtype if result == "values" else np.uint8, stage)

    def _mapping(self, X: Any, result: Result) -> tuple[Rows, Callable[[Any], Any]]:
        """The rows of X, and a function that maps a block of them and is not changed by another ``fit``."""
        rows, model = self._rows_to_map(X), copy(self)
        if isinstance(rows, TorchRows) and is_on_gpu(rows):
            exact = rows.in_float64() if result != "values" and fused.is_filtered() else rows
            return self._by_kernel(rows, exact, result), partial(model._map_tensor, result=result)
        rows.raw = True
        return rows, Mapping(model, rows.dtype, result, self._row_map(rows.dtype))

    def _is_small(self, X: Any) -> bool:
        """Whether X is an array of a few rows that need no further checks."""
        if type(X) is not np.ndarray or X.ndim != 2 or not 0 < len(X) <= _FEW_ROWS:
            return False
        fitted = vars(self)
        return (
            X.shape[1] == fitted.get("n_features_in_")
            and X.dtype.kind in "fiub"
            and "feature_names_in_" not in fitted
            and self.__sklearn_is_fitted__()
        )

    def _type_of(self, X: Any) -> np.dtype[Any]:
        return np.dtype(np.float64) if self.in_float64_ else backend(X).float_type(X)

    def _row_map(self, dtype: Any) -> RowMap:
        """The map of rows of a type, made once for the fitted model."""

        maps = kept_maps(self)
        if dtype not in maps:
            maps[dtype] = self._make_map(Preparation(np.dtype(dtype), self.normalize_, self.origin_))
        return maps[dtype]

    def _make_map(self, preparation: Preparation) -> RowMap:
        """The map that ``encode``, ``transform`` and ``embed`` apply: by ``_embed`` and ``_bits_of``.

        A method whose bits are certain has another one, which agrees with ``_embed`` up to rounding.
        """
        model = copy(self)
        return EmbeddedMap(model._embed, model._bits_of, preparation)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_embed" in vars(cls) and "_make_map" not in vars(cls):
            cls._make_map = RowEstimator._make_map  # type: ignore[method-assign]  # not that of the old values

    def _embed(self, X: Floats) -> Floats:
        """Real values (b, r) of a block of prepared rows (b, d)."""
        raise TypeError(f"{type(self).__name__} does not implement _embed")

    def _bits_of(self, Y: Any) -> Any:
        """Whether each bit (b, r) of rows with real values Y (b, v) is 1: their sign, by default."""
        return Y > 0

    @property
    def _n_values(self) -> int:
        """The number of real values of a row: one per bit, by default."""
        return int(self._n_features_out)

    def _map_tensor(self, X: Any, result: Result) -> Any:
        """A block of prepared rows, a tensor on a GPU, mapped to values, bits or codes."""
        Y = self._embed(X)
        if result == "values":
            return Y
        bits = self._bits_of(Y)
        return bits if result == "bits" else backend(X).pack(bits)

    def _by_kernel(self, rows: TorchRows, exact: TorchRows, result: Result) -> Rows:
        """The rows, to be mapped by one fused kernel of a GPU if a subclass has one; otherwise ``exact``."""
        return exact

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file; ``manihash.load`` reads it.

        The write is atomic: after an error or an interrupt, an old file at ``path`` is unchanged.

        Parameters
        ----------
        path : str or path-like
            The file to write, usually with the extension ``.mhash``.
        """
        check_is_fitted(self)
        save_model(self, path)
