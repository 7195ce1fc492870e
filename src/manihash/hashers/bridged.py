"""A hasher of an old embedding space for the rows of a new one."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from manihash import checks
from manihash.base.graph import set_seed
from manihash.code_layout import CodeLayout
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.errors import BadRowsError
from manihash.files.lineage import Lineage, model_id, new_lineage
from manihash.hashers._hasher import Hasher
from manihash.hashers.collapse import codes_not_judged
from manihash.hashers.lsh import LSH
from manihash.maintenance.bridge_fit import KINDS
from manihash.maintenance.bridge_map import CertainMap, SpaceMap
from manihash.maintenance.bridge_quality import LEAST_PAIRS, BridgeQuality, best_map
from manihash.maintenance.drift import Drift
from manihash.maintenance.update import Update
from manihash.rows import Rows, rows_of
from manihash.rows.mapping import Result, RowMap
from manihash.rows.raw import Preparation
from manihash.types import Codes, Floats, Ints

_MOST_PAIRS = 20_000
_MOST_RANKED = 20_000  # further old rows whose codes are ranked


class BridgedHasher(Hasher):
    """Codes of an old hasher for the rows of a new embedding model.

    A map from the new space to the old one is learned from pairs: the same items in both spaces. A new row is
    mapped, and the old hasher encodes the mapped row:

    h(x) = h_old(f(x))

    The codes belong to the index of the old hasher, which stays as it is. ``hasher.bridge(X_new, X_old)``
    makes such a hasher from a fitted one.

    Four kinds of maps f are tried: orthogonal (a rotation and a scale, Procrustes), ridge (affine least
    squares), low-rank (the same, through a few columns) and residual (ridge, and a small layer of
    max(0, ·) units that learns what ridge leaves). The one that keeps most bits of held-out pairs is chosen,
    the cheapest one if several are nearly as good. Pairs that seem to have wrong partners are left out.

    Parameters
    ----------
    hasher : Hasher, default=None
        The old hasher. A fitted one is used as it is; one that is not fitted is fitted to the old rows.
        None for ``LSH()``.
    kind : {"auto", "orthogonal", "low-rank", "ridge", "residual"}, default="auto"
        The kind of map. ``"auto"`` tries all of them.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the held-out pairs, of the residual map, and of an old hasher that is not fitted.

    Attributes
    ----------
    hasher_ : Hasher
        The fitted old hasher.
    map_ : dict
        The map: its kind and its arrays.
    quality : BridgeQuality
        What the bridge is expected to lose.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the new rows.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    See Also
    --------
    manihash.Hasher.bridge : The usual way to make a bridged hasher.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import HammingIndex
    >>> from manihash.hashers import ITQ
    >>> rng = np.random.default_rng(0)
    >>> X_old = rng.normal(size=(2000, 16)) * np.arange(16, 0, -1)
    >>> X_new = np.tanh(X_old @ rng.normal(size=(16, 40)) / 60)  # the same items in another model
    >>> hasher = ITQ(n_bits=16, random_state=0).fit(X_old)
    >>> index = HammingIndex(hasher.encode(X_old), hasher.n_bits_)
    >>> bridged = hasher.bridge(X_new[:500], X_old[:500], random_state=0)
    >>> bridged.n_features_in_, bridged.quality.share > 0.9
    (40, True)
    >>> distances, ids = index.search(bridged.encode(X_new[500:]), k=10)
    >>> ids.shape
    (1500, 10)
    """

    hasher_: Hasher
    map_: dict[str, Any]
    quality_: dict[str, Any]
    maps_tensors = True
    _reference: Any = None  # set while ``fit`` runs

    __metadata_request__fit: ClassVar[dict[str, Any]] = {"verbose": UNUSED, "reference": UNUSED}

    def __init__(self, hasher: Any = None, kind: str = "auto", random_state: Any = None) -> None:
        self.hasher = hasher
        self.kind = kind
        self.random_state = random_state

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    @property
    def quality(self) -> BridgeQuality:
        """What the bridge is expected to lose, measured on held-out pairs."""
        known = dict(self.quality_)
        known["interval"] = tuple(known["interval"])
        return BridgeQuality(**known | {"curve": [tuple(point) for point in known["curve"]]})

    def fit(self, X: Any, y: Any = None, *, reference: Any = None, verbose: bool = False) -> "BridgedHasher":
        """Learn the map from pairs of rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of the new space, at least 10 and usually 1,000 to 10,000.
        y : array-like of shape (n, p)
            Rows of the old space: row i is the same item as row i of X.
        reference : array-like of shape (r, p), default=None
            Further rows of the old space, for example all stored ones. ``quality`` is then measured among
            them and not among the pairs alone. At most 20,000 of them are used, chosen at random.
        verbose : bool, default=False
            Show a progress bar, in a terminal or in a notebook.

        Returns
        -------
        BridgedHasher
            The fitted hasher itself.
        """
        self._reference = reference
        try:
            with _naming("the new rows"):
                return super().fit(X, y, verbose=verbose)
        finally:
            self.__dict__.pop("_reference", None)

    def to_old_space(self, X: Any) -> Floats:
        """Map rows into the old space, as ``encode`` does before it encodes them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of the new space.

        Returns
        -------
        ndarray of shape (n, p)
            Rows of the old space, for example to compare them with stored old vectors.
        """
        certain = self._certain()
        rows = self._rows_to_map(X)
        rows.raw = True
        return np.asarray(
            rows.stack(lambda block: certain.rows(*block), self.hasher_.n_features_in_, certain.dtype)
        )

    def _check(self) -> None:
        if self.kind not in ("auto", *KINDS):
            raise ValueError(f"kind={self.kind!r} is not one of auto, {', '.join(KINDS)}")
        if self.hasher is not None and not isinstance(self.hasher, Hasher):
            raise ValueError(f"hasher must be a hasher such as IMH() or ITQ(), not {self.hasher!r}")

    def _scales_rows(self) -> bool:
        return False  # the map does, if that is better

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        if y is None:
            raise ValueError(
                "BridgedHasher requires y to be passed, but the target y is None: give the rows of the old "
                "space, fit(X_new, X_old)"
            )
        n, old_rows = len(rows), y if hasattr(y, "shape") else np.asarray(y)
        if len(old_rows.shape) == 1:
            old_rows = old_rows.reshape(-1, 1)
        hasher = self._old_hasher(old_rows, rng)
        self._check_width(rows, old_rows, hasher)
        old = hasher._rows_to_map(old_rows)
        if len(old) != n:
            raise ValueError(
                f"got {n:,} new rows and {len(old):,} old rows: give pairs, row i of both is the same item"
            )
        if n < LEAST_PAIRS:
            raise ValueError(
                f"got {n} pairs: a bridge needs at least {LEAST_PAIRS}, and usually 1,000 or more. Give more "
                "pairs"
            )
        chosen = np.arange(n) if n <= _MOST_PAIRS else np.sort(rng.choice(n, _MOST_PAIRS, replace=False))
        X, Y = _taken(rows, chosen, "the new rows"), _taken(old, chosen, "the old rows")
        kinds = KINDS if self.kind == "auto" else (self.kind,)
        with codes_not_judged():  # the quality says how good the codes of each map are
            found, quality = best_map(hasher, X, Y, self._further_rows(hasher), kinds, rng)
        wrong = [int(chosen[pair]) for pair in quality.wrong_pairs]
        self.hasher_, self.map_ = hasher, found.values()
        self.quality_ = asdict(replace(quality, wrong_pairs=wrong))
        self.n_bits_ = hasher.n_bits_

    @staticmethod
    def _check_width(rows: Rows, old_rows: Any, hasher: Hasher) -> None:
        """Raise if the old rows are not of the old hasher's width."""
        width, expected = old_rows.shape[1], hasher.n_features_in_
        if width == expected:
            return
        new = rows.X.shape[1]
        swapped = new == expected
        raise ValueError(
            f"the old rows have {width:,} features, but the old hasher expects {expected:,}, and the new "
            f"rows have {new:,}: "
            + ("are new and old rows swapped?" if swapped else "give the rows that the hasher was fitted to")
        )

    def _further_rows(self, hasher: Hasher) -> Floats:
        """The old rows (r, p) that are ranked beside those of the pairs; they do not change the map."""
        if self._reference is None:
            return np.empty((0, hasher.n_features_in_))
        rows = hasher._rows_to_map(self._reference)
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:_MOST_RANKED])
        return _taken(rows, chosen, "the rows of reference")

    def _width_remedy(self, width: int | None) -> str:
        if width is not None and width == self.hasher_.n_features_in_:
            return (
                "These look like rows of the old embedding model: encode and search them with the old model, "
                "whose codes are in the same index."
            )
        return "Give rows of the new embedding model, or those of the old one to the old model."

    def _old_hasher(self, Y: Any, rng: np.random.Generator) -> Hasher:
        """The old hasher: a copy of a fitted one, or one that is fitted to the old rows."""
        hasher: Hasher = LSH() if self.hasher is None else self.hasher
        if hasher.__sklearn_is_fitted__():
            return copy(hasher)
        new = clone(hasher)
        set_seed(new, checks.seed(rng))
        with _naming("the old rows"):
            return new.fit(Y)

    def _after_fit(self, rows: Rows) -> None:
        self.lineage_ = self._next_lineage(self.hasher_.lineage_)

    def _next_lineage(self, parent: Lineage) -> Lineage:
        """The codes of the old hasher are accepted, whatever the parent is."""
        found, owner = new_lineage(self, parent, keeps_codes=True), model_id(self.hasher_)
        if owner is not None and owner not in found["compatible"]:
            found["compatible"].append(owner)
        return found

    @property
    def _stored_width(self) -> int:
        return self.hasher_._stored_width

    def _as_stored(self, X: Any) -> Any:
        return self.hasher_._as_stored(self.to_old_space(X))

    @property
    def _codes_owner(self) -> Hasher:
        """The model that the codes belong to."""
        return self.hasher_

    @property
    def layout_(self) -> CodeLayout:
        """The parts of the codes and their distance: those of the old hasher."""
        check_is_fitted(self)
        return self.hasher_.layout_

    def _bits_of(self, Y: Any) -> Any:
        return self.hasher_._bits_of(Y)

    @property
    def _n_values(self) -> int:
        return self.hasher_._n_values

    def _space_map(self) -> SpaceMap:
        return SpaceMap(**self.map_)

    def _certain(self) -> CertainMap:
        return CertainMap(self._space_map(), np.float64 if self.hasher_.in_float64_ else np.float32)

    def _make_map(self, preparation: Preparation) -> RowMap:
        certain = self._certain()
        return _BridgedMap(certain, self.hasher_._row_map(certain.dtype), preparation.dtype)

    def _embed(self, X: Floats) -> Floats:
        if backend(X) is not numpy_backend:
            return self._map_tensor(X, "values")
        return self._row_map(X.dtype).values(X, np.arange(len(X)))

    def _map_tensor(self, X: Any, result: Result) -> Any:
        """As ``RowEstimator._map_tensor``: mapped on the device, and encoded there if the old hasher can."""
        xp, old = backend(X), self.hasher_
        mapped = self._certain().tensor(xp.to_float64(X))
        found = {"values": old.embed, "bits": old.transform, "codes": old.encode}[result](mapped)
        return found if type(found) is type(X) else xp.copy_like(found, mapped)

    def _drift(self, rows: Rows, level: float) -> Drift:
        found = super()._drift(rows, level)
        if found.advice == "nothing":
            return found
        reason = "the map was not learned from rows such as these: bridge again, with pairs of them"
        return replace(found, advice="refit", reason=reason)

    def _check_update(self) -> None:
        try:
            self.hasher_._check_update()
        except ValueError as error:
            raise ValueError(f"the old hasher of this bridge cannot be updated: {error}") from error

    def _update(self, X: Any, X_old: Any, most: int | None, max_changed: float) -> Update:
        """Update the old hasher with the mapped rows."""
        hasher = copy(self.hasher_)
        before = None if X_old is None else self.to_old_space(X_old)
        result = hasher.update(self.to_old_space(X), before, max_new_points=most, max_changed=max_changed)
        self.hasher_ = hasher
        self._know(self._rows_to_map(X))
        return result

    def _check_refit(self) -> None:
        raise ValueError(
            "a bridged hasher cannot be refitted, because its codes belong to the index of the old hasher: "
            "bridge again with new pairs, hasher.bridge(X_new, X_old), or fit a model of the new space and "
            "encode all rows again"
        )


def _taken(rows: Rows, chosen: Ints, name: str) -> Floats:
    """The chosen rows as they were given, in float64; errors name the rows."""
    with _naming(name):
        return np.asarray(rows_of(rows.X, dtype=np.float64).take(chosen))


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Say in errors about bad rows which rows they are, unless an inner call has said it."""
    try:
        yield
    except BadRowsError as error:
        if isinstance(error.__cause__, BadRowsError):
            raise
        raise BadRowsError(f"{name}: {error}") from error


class _BridgedMap:
    """Maps rows into the old space, and applies the map of the old hasher."""

    def __init__(self, certain: CertainMap, old: RowMap, dtype: np.dtype[Any]) -> None:
        self.certain, self.old, self.dtype = certain, old, dtype

    @property
    def repeated(self) -> int | None:
        """Rows that the old hasher computed again in float64."""
        return getattr(self.old, "repeated", None)

    def values(self, part: Any, row_numbers: Any) -> Floats:
        """As ``RowMap.values``."""
        found = self.old.values(self.certain.rows(part, row_numbers), row_numbers)
        return found.astype(self.dtype, copy=False)

    def bits(self, part: Any, row_numbers: Any) -> Any:
        """As ``RowMap.bits``."""
        return self.old.bits(self.certain.rows(part, row_numbers), row_numbers)

    def codes(self, part: Any, row_numbers: Any) -> Codes:
        """As ``RowMap.codes``."""
        return self.old.codes(self.certain.rows(part, row_numbers), row_numbers)
