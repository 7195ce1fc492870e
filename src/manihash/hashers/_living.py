"""What hashers do with rows that arrive after ``fit``: drift, update and refit."""

import logging
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from manihash import checks
from manihash.estimator import RowEstimator
from manihash.files.lineage import Lineage, new_lineage
from manihash.living.drift import LEAST_ROWS, MOST_ROWS, Drift, compare
from manihash.living.refit import Refit, as_array, some_rows
from manihash.living.statistics import (
    Observed,
    Statistics,
    checked_statistics,
    training_statistics,
    with_rows,
)
from manihash.living.update import Update
from manihash.rows import Rows
from manihash.rows.torch import uses_torch, without_torch

if TYPE_CHECKING:
    from manihash.hashers.bridged import BridgedHasher

_log = logging.getLogger(__name__)


def passes(check: Callable[[], None]) -> bool:
    """Return whether a check raises no ValueError."""
    try:
        check()
    except ValueError:
        return False
    return True


class LivingEstimator(RowEstimator):
    """An estimator of codes that keeps statistics of its training rows, and can be updated and refitted."""

    n_bits_: int
    statistics_: Statistics

    def transform(self, X: Any) -> Any:
        """Compute the bits of rows."""
        raise TypeError(f"{type(self).__name__} does not implement transform")

    def drift(self, X: Any, *, level: float = 0.01) -> Drift:
        """Test whether rows come from the distribution that the hasher was fitted to.

        The rows are compared with statistics of the training rows, which the model keeps, by their distances
        to a few training rows (landmarks). For rows of the training distribution, drift is reported with
        probability at most ``level``, whatever the hasher. After updates, rows of any mixture of the training
        rows and the rows of updates are no drift. Of more than 20,000 rows, a sample is compared.

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
        return self._drift(rows, level)

    def _drift(self, rows: Rows, level: float) -> Drift:
        known = self._known_statistics()
        rows.check_all()
        some = rows if len(rows) <= MOST_ROWS else rows.sample(MOST_ROWS, np.random.default_rng(0))
        observed = Observed.of(self, some, known["landmarks"])
        found = compare(known, observed, level, can_update=passes(self._check_update))
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
        raise ValueError(
            f"{type(self).__name__} cannot be updated: only hashers with base points that a loss embeds can, "
            "such as IMH with TSNE(). Use hasher.refit(X) or fit a new model"
        )

    def _update(self, X: Any, X_old: Any, most: int | None, max_changed: float) -> Update:
        """Add base points for rows of X; the values of this hasher are replaced, not changed in place."""
        raise TypeError(f"{type(self).__name__} does not implement _update")

    def refit(self, X: Any) -> Refit:
        """Train anew on all rows, so that most bits stay as they are.

        The base set is chosen anew. The embedding starts from the old values of the rows and is aligned to
        them, so that bits keep their meaning. If the rows differ from those that the model knows, base points
        for new kinds of rows are added first, and a warning is logged before the work starts: a new fit tells
        such rows apart better. Codes of the old model should not be mixed with new ones: encode all rows
        again. The hasher itself is changed; ``lineage_`` names the old one as its parent.

        Parameters
        ----------
        X : array-like of shape (n, d)
            All rows, old and new.

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
            found = self.drift(X)
        except ValueError:  # too few rows, or a model without statistics
            return
        if found.drifted:
            _log.warning(
                "the rows differ from those that this model knows (p = %.2g): a refit keeps most bits, but "
                "new kinds of rows are told apart better by a new fit. If old bits need not be kept, call "
                "fit(X) instead",
                found.p_value,
            )

    def _refitted(self, new: Self, X: Any) -> Self:
        """Return ``new``, an unfitted hasher, fitted to X with bits as similar to those of this one."""
        new._learn(X, lambda rows, rng: new._fit_near(self, rows, rng))
        new.lineage_ = new_lineage(new, self.lineage_)
        return new

    def _fit_near(self, old: Self, rows: Rows, rng: np.random.Generator) -> None:
        """As ``_fit``, with bits as similar to those of a fitted hasher as possible."""
        raise TypeError(f"{type(self).__name__} does not implement _fit_near")

    def bridge(
        self, X_new: Any, X_old: Any, *, kind: str = "auto", random_state: Any = None
    ) -> "BridgedHasher":
        """Make a hasher for the rows of a new embedding model whose codes belong to the old index.

        The embedding model has changed, and the stored codes stay. A map from the new space to the old one is
        learned from items whose vectors are known in both; the widths may differ. A few hundred to 10,000
        pairs are usual. The hasher itself is not changed.

        Parameters
        ----------
        X_new : array-like of shape (n, d)
            Rows of the new model.
        X_old : array-like of shape (n, p)
            Rows of the old model: row i is the same item as row i of X_new.
        kind : {"auto", "orthogonal", "low-rank", "ridge", "residual"}, default="auto"
            The kind of map. ``"auto"`` tries all of them on held-out pairs.
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
        bridged = BridgedHasher(self, kind, seed).fit(X_new, X_old)
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
