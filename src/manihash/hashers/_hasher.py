"""The base class of all hashers: real values Y, then their signs or nearest centers."""

import logging
import os
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from manihash import checks
from manihash.code_layout import CodeLayout
from manihash.estimator import RowEstimator
from manihash.files.lineage import Lineage, new_lineage
from manihash.hashers.collapse import check_encoded, check_fitted, watched
from manihash.maintenance.drift import LEAST_ROWS, MOST_ROWS, Drift, compare
from manihash.maintenance.refit import Refit, as_array, some_rows
from manihash.maintenance.statistics import (
    Observed,
    Statistics,
    checked_statistics,
    sizes_after,
    training_statistics,
    with_rows,
)
from manihash.maintenance.update import Update
from manihash.rows import Rows
from manihash.rows.torch import uses_torch, without_torch
from manihash.types import Codes, Floats

if TYPE_CHECKING:
    from manihash.hashers.bridged import BridgedHasher
    from manihash.search.index import Index

_log = logging.getLogger(__name__)


class Hasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowEstimator):
    """Base class of all hashers: binary codes of vectors.

    A hasher maps a row x to real values y(x) of length ``n_bits``, and bit j of its code is 1 if
    y_j(x) > 0, otherwise 0. A subclass implements two methods: ``_fit(rows, y, rng)``, which sets the
    fitted attributes, and ``_embed(X)``, which returns the real values of a block of rows. This class
    validates the input, visits the rows in blocks, scales them to unit length if ``normalize`` is set,
    takes the sign, packs the bits and writes model files. A subclass whose bits are not signs implements
    ``_bits_of(Y)``, which returns the bits of real values (``ProductQuantizer``).

    The code of a row does not depend on the batch that contains it. All methods accept numpy arrays, scipy
    sparse matrices, memory maps, dask arrays and torch tensors; for a dask array, ``encode``, ``transform``
    and ``embed`` return a dask array.

    Attributes
    ----------
    n_bits_ : int
        Length of the codes.
    layout_ : CodeLayout
        The parts of the codes, and the distance that ranks them.
    n_features_in_ : int
        Number of columns of the rows seen by ``fit``.
    lineage_ : dict
        Identity of the fitted model: ``id`` (a hash of the fitted values), ``parent`` (id of the model that
        was updated or refitted, or None), ``version`` of manihash, and ``compatible`` (ids of the models
        whose codes it accepts).
    statistics_ : dict
        Statistics of the training rows, a few kilobytes, which ``drift`` compares new rows with.

    Examples
    --------
    A method is one subclass; this one compares each column with its mean:

    >>> import numpy as np
    >>> from manihash import Hasher
    >>> class AboveMean(Hasher):
    ...     def __init__(self, n_bits=4, normalize=False, random_state=None):
    ...         self.n_bits = n_bits
    ...         self.normalize = normalize
    ...         self.random_state = random_state
    ...
    ...     def _fit(self, rows, y, rng):
    ...         self.mean_ = rows.take(np.arange(len(rows))).mean(axis=0)
    ...
    ...     def _embed(self, X):
    ...         return X - self.mean_
    >>> X = np.arange(12.0).reshape(3, 4)
    >>> AboveMean(n_bits=4).fit(X).transform(X)
    array([[0, 0, 0, 0],
           [0, 0, 0, 0],
           [1, 1, 1, 1]], dtype=uint8)
    """

    n_bits: int
    normalize: bool
    n_bits_: int
    statistics_: Statistics
    uses_labels: Any = False  # whether ``fit`` learns from y

    def fit(self, X: Any, y: Any = None, *, verbose: bool = False) -> Self:
        """Learn the hash functions from rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training rows, at least two.
        y : array-like of shape (n,) or None, default=None
            Labels. Only supervised methods use them; all others ignore them.
        verbose : bool, default=False
            Show a progress bar, in a terminal or in a notebook.

        Returns
        -------
        Hasher
            The fitted hasher itself.
        """
        return super().fit(X, y, verbose=verbose)

    def _after_fit(self, rows: Rows) -> None:
        self.n_bits_ = self._fitted_length()
        check_fitted(self, rows)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_bits_")

    def _fitted_length(self) -> int:
        """The length of the codes, after ``_fit``."""
        return int(self.n_bits)

    @property
    def layout_(self) -> CodeLayout:
        """The parts of the codes and their distance, which an index of the codes needs."""
        check_is_fitted(self)
        return CodeLayout(self.n_bits_)

    def _most_bits(self, n: int, d: int) -> int | None:
        """The most bits that this method can learn from n rows of d columns; None if there is no limit."""
        return None

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def embed(self, X: Any) -> Floats:
        """Compute the real values of rows, before they become bits.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows with as many columns as those of ``fit``.

        Returns
        -------
        ndarray of shape (n, n_bits)
            Real values; bit j of a row is 1 where column j is positive. ``ProductQuantizer`` returns
            coordinates (n, p), which have no such relation to the bits.
        """
        return self._map(X, "values", "embed")

    def transform(self, X: Any) -> NDArray[np.uint8]:
        """Compute the bits of rows, one per column.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows with as many columns as those of ``fit``.

        Returns
        -------
        ndarray of shape (n, n_bits) and dtype uint8
            The bits, 0 or 1.
        """
        return self._map(X, "bits", "transform")

    def encode(self, X: Any) -> Codes:
        """Compute the packed codes of rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows with as many columns as those of ``fit``.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)) and dtype uint8
            The codes. One byte holds eight bits in the order of ``numpy.packbits``; unused bits of the last
            byte are 0.
        """
        encoded = self._map(X, "codes", "encode")
        check_encoded(self, X, encoded)
        return encoded

    def encode_blocks(self, X: Any, start: int = 0) -> Iterator[Codes]:
        """Compute the packed codes of rows block by block, so that not all of them are in memory.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows with as many columns as those of ``fit``.
        start : int, default=0
            Number of the first row to encode.

        Returns
        -------
        iterator of ndarray
            Codes of consecutive rows; together they equal ``encode(X)[start:]``.
        """
        rows, f = self._mapping(X, "codes")
        return watched(self, X, rows.stream(f, "encode", start=start), range(start, len(rows)))

    def index(self, X: Any, ids: Any = None) -> "Index":
        """Encode rows and return an index of them, which knows this hasher.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows to search among.
        ids : array-like of shape (n,), default=None
            Distinct integers or strings, one per row. By default the id of a row is its position.

        Returns
        -------
        Index
            The index: ``search`` and ``within`` take vectors.
        """
        import manihash

        return manihash.Index(self, self.encode(X), ids)

    def to_onnx(self, path: str | os.PathLike[str], *, double: bool = False, tables: bool = False) -> None:
        """Write the fitted hasher as an ONNX file, which other programs run without manihash.

        The graph maps float32 rows to packed codes and to real values, as ``encode`` and ``embed`` do. See
        ``manihash.export_onnx``, which this method calls.

        Parameters
        ----------
        path : str or path-like
            The file to write, usually with the extension ``.onnx``.
        double : bool, default=False
            Compute in float64: the codes are those of ``encode`` for rows in float64. In float32, values
            within rounding of zero may have another sign.
        tables : bool, default=False
            Add the output ``tables``, from which another program computes the distances of a query to codes.
        """
        import manihash

        manihash.export_onnx(self, path, double=double, tables=tables)

    def drift(self, X: Any, *, level: float = 0.01) -> Drift:
        """Test whether rows come from the distribution that the hasher was fitted to.

        The rows are compared with statistics of the training rows, which the model keeps, by their distances
        to a few training rows (landmarks). For rows of the training distribution, drift is reported with
        probability at most ``level``, whatever the hasher. After updates and refits, rows of any mixture of
        the training rows and the new rows are no drift. Of more than 20,000 rows, a sample is compared.

        Parameters
        ----------
        X : array-like of shape (n, d)
            New rows, at least 30: a batch as it arrives, not training rows.
        level : float, default=0.01
            Probability of a false alarm.

        Returns
        -------
        Drift
            Whether the rows differ, how, and what to do.
        """
        if not 0 < checks.positive_number(level, "level") < 1:
            raise ValueError(f"level={level} is not between 0 and 1: give a probability such as 0.01")
        rows = self._rows_to_map(X)
        if len(rows) < LEAST_ROWS:
            raise ValueError(f"drift needs at least {LEAST_ROWS} rows, got {len(rows)}: give a larger batch")
        found = self._drift(rows, level)
        if found.advice == "refit" and not checks.passes(self._check_refit):
            reason = f"{found.reason}; fit a new model, because this one cannot be refitted"
            found = replace(found, reason=reason)
        return found

    def _drift(self, rows: Rows, level: float) -> Drift:
        known = self._known_statistics()
        rows.check_all()
        some = rows if len(rows) <= MOST_ROWS else rows.sample(MOST_ROWS, np.random.default_rng(0))
        observed = Observed.of(self, some, known["landmarks"])
        found = compare(known, observed, level, can_update=checks.passes(self._check_update))
        return replace(found, n_rows=len(rows))

    def _known_statistics(self) -> Statistics:
        """The training statistics; raise if there are none, or those of another model."""
        m = len(getattr(self, "base_points_", ()))
        return checked_statistics(getattr(self, "statistics_", None), self.n_features_in_, m, self.n_bits_)

    def update(
        self, X: Any, X_old: Any = None, *, max_new_points: int | None = None, max_changed: float = 0.02
    ) -> Update:
        """Add base points for new rows; most old rows keep their codes.

        Base points are added where the new rows are far from the old base points. They are embedded by the
        loss of the embedding while the old base points stay fixed. Old rows whose nearest base points stay
        the same keep their codes. The hasher itself is changed; ``lineage_`` names the old one as its parent.

        Parameters
        ----------
        X : array-like of shape (n, d)
            New rows.
        X_old : array-like of shape (n, d), default=None
            Rows that were encoded before, or a sample of them. They are used to count the codes that change,
            and base points that would change too many are not added. Without them, the result does not say
            how many change.
        max_new_points : int, default=None
            Largest number of base points to add. None for as many per row as ``fit`` chose.
        max_changed : float, default=0.02
            Largest share of the old rows that may get another code.

        Returns
        -------
        Update
            How many base points were added, and the share of old rows whose codes change.

        Raises
        ------
        ValueError
            If the hasher has no base points to add to, or was fitted by an embedding without a loss.
        """
        most = None if max_new_points is None else checks.positive_int(max_new_points, "max_new_points")
        if not 0 < checks.positive_number(max_changed, "max_changed") <= 1:
            raise ValueError(f"max_changed={max_changed} is not between 0 and 1: give a share such as 0.02")
        check_is_fitted(self)
        self._check_update()
        X, X_old = (without_torch(rows) if uses_torch(rows) else rows for rows in (X, X_old))
        new = copy(self)
        result = new._update(X, X_old, most, float(max_changed))
        if result.n_added:
            new.lineage_ = new._next_lineage(self.lineage_)
        self.__dict__ = new.__dict__  # in one step: after an error or an interrupt, the model is the old one
        return result

    def _next_lineage(self, parent: Lineage) -> Lineage:
        """The lineage after an update."""
        return new_lineage(self, parent, keeps_codes=True)

    def _check_update(self) -> None:
        """Raise if the hasher cannot be updated, before any work is done."""
        instead = "use hasher.refit(X)" if checks.passes(self._check_refit) else "fit a new model"
        raise ValueError(
            f"{type(self).__name__} cannot be updated: only hashers with base points that a loss embeds can, "
            f"such as IMH with TSNE(). Instead, {instead}, and encode all rows again"
        )

    def _update(self, X: Any, X_old: Any, most: int | None, max_changed: float) -> Update:
        """Add base points for rows of X; the values of this hasher are replaced, not changed in place."""
        raise TypeError(f"{type(self).__name__} does not implement _update")

    def refit(self, X: Any) -> Refit:
        """Train anew on all rows, so that most bits stay as they are.

        The base set is chosen anew. The embedding starts from the old values of the rows and is aligned to
        them, so that bits keep their meaning. If the rows, or those after the rows that the model knows,
        differ from these, new clusters are moved away from old ones, for which more bits change, and a
        warning is logged before the work starts: a new fit can still tell such rows apart better. Codes of
        the old model should not be mixed with new ones: encode all rows again. The hasher itself is changed;
        ``lineage_`` names the old one as its parent.

        Parameters
        ----------
        X : array-like of shape (n, d)
            All rows: first those that the model knows, in the order of ``fit`` and updates, then new ones.
            In this order the new rows alone are no drift afterwards.

        Returns
        -------
        Refit
            The share of bits and of codes that changed.

        Raises
        ------
        ValueError
            If the method has nothing to start from or to align: fit a new model then.
        """
        check_is_fitted(self)
        self._check_refit()
        self._warn_of_new_rows(X)
        new = self._refitted(clone(self), X)
        rows = new._rows_to_map(X)
        some = some_rows(rows).X
        different = as_array(self.transform(some)) != as_array(new.transform(some))
        result = Refit(len(rows), float(different.mean()), float(different.any(axis=1).mean()))
        self.__dict__ = new.__dict__  # in one step, as in ``update``
        return result

    def _check_refit(self) -> None:
        """Raise if the bits of this hasher cannot be aligned with those of a new one, before any work."""
        raise ValueError(
            f"{type(self).__name__} cannot be refitted, because its bits cannot be aligned with old ones: "
            "fit a new model, and encode all rows again"
        )

    def _warn_of_new_rows(self, X: Any) -> None:
        """Log, before a refit, that a new fit is better for rows that differ from those the model knows."""
        try:
            found = self._drift_of_new(X)
        except ValueError:  # too few rows, or a model without statistics
            return
        if found.drifted:
            better = "a new fit"
            if checks.passes(self._check_update):
                better = "update(X_new, X_old) with the new rows alone, or a new fit,"
            _log.warning(
                "the rows differ from those that this model knows (p = %.2g): a refit keeps most bits, but "
                "%s usually ranks new kinds of rows better",
                found.p_value,
                better,
            )

    def _drift_of_new(self, X: Any) -> Drift:
        """The drift of X, or of the rows after those that the model knows: few hardly change the whole."""
        found, rows, known = self.drift(X), self._rows_to_map(X), self._n_known
        if len(rows) - known < LEAST_ROWS:
            return found
        new = self._drift(rows.subset(np.arange(known, len(rows))), found.level)
        return min(found, new, key=lambda each: each.p_value)

    @property
    def _n_known(self) -> int:
        """Number of rows that the model knows."""
        return self._known_statistics()["n_rows"]

    def _refitted(self, new: Self, X: Any) -> Self:
        """Return ``new``, an unfitted hasher, fitted to X with bits as similar to those of this one."""
        new._learn(X, lambda rows, rng: new._fit_near(self, rows, rng))
        new._summarize_after(self, X)
        new.lineage_ = new_lineage(new, self.lineage_)
        return new

    def _fit_near(self, old: Self, rows: Rows, rng: np.random.Generator) -> None:
        """As ``_fit``, with bits as similar to those of a fitted hasher as possible."""
        raise TypeError(f"{type(self).__name__} does not implement _fit_near")

    def bridge(
        self,
        X_new: Any,
        X_old: Any,
        *,
        kind: str = "auto",
        reference: Any = None,
        random_state: Any = None,
    ) -> "BridgedHasher":
        """Make a hasher for the rows of a new embedding model whose codes belong to the old index.

        The embedding model has changed, and the stored codes stay. A map from the new space to the old one is
        learned from items whose vectors are known in both; the widths may differ. 1,000 to 10,000 pairs are
        usual. The hasher itself is not changed.

        Parameters
        ----------
        X_new : array-like of shape (n, d)
            Rows of the new model.
        X_old : array-like of shape (n, p)
            Rows of the old model: row i is the same item as row i of X_new.
        kind : {"auto", "orthogonal", "low-rank", "ridge", "residual"}, default="auto"
            The kind of map. ``"auto"`` tries all of them on held-out pairs.
        reference : array-like of shape (r, p), default=None
            Further rows of the old model, for example all stored ones, or 10,000 of them. The loss is then
            measured among them. Among few pairs alone it cannot be measured well. At most 20,000 of them are
            used, chosen at random.
        random_state : int, Generator, RandomState or None, default=None
            Seed of the held-out pairs and of the residual map. None for a seed derived from the model, so
            that the same pairs give the same bridge.

        Returns
        -------
        BridgedHasher
            The hasher for new rows. Look at its ``quality`` before you use it.

        Raises
        ------
        ValueError
            If the numbers of rows differ, there are fewer than 10 pairs, or X_old is not of this hasher's
            width.
        """
        from manihash.hashers.bridged import BridgedHasher

        check_is_fitted(self)
        seed = int(self.lineage_["id"][:8], 16) if random_state is None else random_state
        bridged = BridgedHasher(self, kind, seed).fit(X_new, X_old, reference=reference)
        bridged.hasher = clone(self)  # a model file would hold the fitted hasher twice
        return bridged

    def record_statistics(self, X: Any) -> Self:
        """Compute the training statistics that ``drift`` needs, as ``fit`` does.

        Use it for a model of an earlier version that has none. Codes and the id of the model do not change.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows that the hasher was fitted to.

        Returns
        -------
        Hasher
            The hasher itself, with new ``statistics_``.
        """
        check_is_fitted(self)
        self._record(X)
        return self

    def _record(self, X: Any) -> None:
        self._summarize(self._rows_to_map(X))

    def _know(self, rows: Rows) -> None:
        """Add rows to the training statistics, so that ``drift`` no longer reports rows such as these."""
        self.statistics_ = with_rows(self, self._known_statistics(), rows)

    def _summarize(self, rows: Rows) -> None:
        self.statistics_ = training_statistics(self, rows)

    def _summarize_after(self, old: "Hasher", X: Any) -> None:
        """As ``_summarize``; the rows that an old model knows, and those after them, are separate samples."""
        if not checks.passes(old._known_statistics):  # fitted by an earlier version
            return
        rows = self._rows_to_map(X)
        sizes = sizes_after(old._known_statistics(), len(rows))
        if len(sizes) > 1:
            self.statistics_ = training_statistics(self, rows, sizes)

    def _check(self) -> None:
        checks.positive_int(self.n_bits, "n_bits")

    @property
    def _stored_width(self) -> int:
        """The number of columns of the vectors beside an index, with which answers are re-ranked."""
        return self.n_features_in_

    def _as_stored(self, X: Any) -> Any:
        """Queries (n, d) in the space of the vectors beside an index."""
        return X

    @property
    def _n_features_out(self) -> int:
        return self.n_bits_
