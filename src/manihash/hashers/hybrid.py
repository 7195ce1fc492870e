"""Two hashers in one code: bits for look-up, and bits that rank what was found.

The bits are divided between the two, and the second part of a code has a weight.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from manihash import checks, codes
from manihash.base.graph import set_seed
from manihash.code_layout import FIRST_BITS, CodeLayout, check_weight
from manihash.code_tables import table_distances
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.errors import BadRowsError
from manihash.hashers._hasher import Hasher
from manihash.hashers.collapse import codes_not_judged
from manihash.hashers.imh import IMH
from manihash.hashers.itq import ITQ
from manihash.hashers.product import ProductQuantizer
from manihash.linalg import effective_number
from manihash.maintenance.drift import Drift, combined
from manihash.maintenance.update import Update
from manihash.progress import note
from manihash.rows import Rows
from manihash.rows.mapping import RowMap
from manihash.rows.raw import Preparation
from manihash.types import Codes, Floats, Ids

# With this many bits a manifold method has separated what it can; further bits are worth more as second part.
_MOST_FIRST_BITS = 24
# The same before a product quantizer, for codes of at least so many bits.
_MOST_BEFORE_FIELDS = {256: 64, 128: 32, 0: 24}
_SAMPLE, _NUMBERS = 2000, 2**22  # rows whose first parts are compared, and numbers of them in memory
# Numbers of groups and the weights of the second part for them, of signs and of a product quantizer: see
# docs/methods/hybrid.md for the datasets that they were chosen on.
_SIGNS = (2.9, 5.75, 10.0, 20.0), (1.0, 0.25, 0.25, 0.5)
_FIELDS = (2.0, 2.8, 5.3, 10.0, 20.0), (4.0, 2.0, 0.125, 0.125, 1.0)
# The least weight of a product quantizer by the agreement of bits with the nearest rows.
_AGREEMENTS = (0.4, 0.6), (1.0, 0.125)
_EQUAL = 1e-10  # differences of squared distances, relative to squared lengths, that count as none
_NO_CORRELATION = 1e-3  # redundancy less 1 below which bits count as independent
_QUERIES = 250  # rows that are compared with the others for the scale of the parts


def checked_weight(weight: Any) -> float | str:
    """The weight of a second part, which may be "auto"."""
    return "auto" if isinstance(weight, str) and weight == "auto" else check_weight(weight)


def weight_by_groups(bits: Floats, *, fields: bool) -> float:
    """The weight of the second part, given bits of the first part (s, r) and whether the second has fields.

    It is least for a few clear groups, 5 to 10: the first part is best at these. Without groups, the distance
    of the first part repeats a few coarse splits, and the second has more weight. The same holds for 20
    groups or more: the distance of two groups says little about what their rows have in common. In between,
    the logarithm of the weight lies on straight lines over that of the number of groups. Before signs it is a
    multiple of 1/4, from 1/4 to 1.
    """
    groups, weights = _FIELDS if fields else _SIGNS
    x = np.log(separated_groups(bits))
    weight = float(np.exp(np.interp(x, np.log(groups), np.log(weights))))
    return round(weight, 3) if fields else round(4 * weight) / 4


def separated_groups(bits: Floats) -> float:
    """About how many groups of equal size bits (s, r) tell apart, whatever the number of bits.

    If each bit takes one side for each of G groups at random, squared correlations are 1 / G in the mean, and
    the effective number of bits is e = r / (1 + (r - 1) / G). The result is G for the e of the bits.
    """
    r, varying = bits.shape[1], bits[:, bits.std(axis=0) > 0].astype(np.float64)
    if varying.shape[1] < 2:
        return 1.0
    redundancy = r / effective_number(np.atleast_2d(np.corrcoef(varying.T)))
    return float((r - 1) / max(redundancy - 1, _NO_CORRELATION))


def agreement(bits: Floats, X: Floats) -> float:
    """Share of rows (s, d) whose nearest other row has the same bits (s, r); ties count in proportion."""
    _, code = np.unique(bits, axis=0, return_inverse=True)
    X = X - X.mean(axis=0)  # far from zero, the squared lengths would exceed all differences
    squared = numpy_backend.squared_norms(X)
    D = squared[:, None] + squared - 2 * (X @ X.T)
    np.fill_diagonal(D, np.inf)
    # Rounding, which differs between machines, must not decide between equal distances.
    near = D.min(axis=1, keepdims=True) + _EQUAL * squared.max() >= D
    same = near & (code[:, None] == code)
    return float((same.sum(axis=1) / near.sum(axis=1)).mean())


def least_weight(bits: Floats, X: Floats) -> float:
    """The least weight of a product quantizer, given bits (s, r) of the first part and their rows (s, d).

    Bits that separate a row from the nearest one do not stand for groups, however few groups they seem to
    tell apart: their distance must not outweigh that of the quantizer.
    """
    shares, weights = _AGREEMENTS
    return round(float(np.exp(np.interp(agreement(bits, X), shares, np.log(weights)))), 3)


def scale_of_fields(layout: CodeLayout, values: Floats, codes: Codes) -> float:
    """Spread of the distances of the first part, divided by that of the fields, over rows (s, v), (s, b)."""
    some = values[:: max(1, len(values) // _QUERIES)]
    spread = [
        float(table_distances(layout.tables(some, factors), layout.split(codes)).std(dtype=np.float64))
        for factors in ((1.0, 0.0), (0.0, 1.0))
    ]
    return spread[0] / spread[1] if min(spread) > 0 else 1.0


def sampled_rows(rows: Rows) -> Ids:
    """Ascending positions of rows spread evenly over all rows."""
    n = len(rows)
    size = min(n, _SAMPLE, max(_NUMBERS // rows.width, 100))
    return np.asarray(np.arange(size) * n // size, np.int64)


def field_bits_of(n_bits: int, n: int) -> int:
    """Bits of a field of a quantizer as second part: fewer if codes are short, or rows fewer than centers."""
    return next(b for b in (8, 4, 1) if b == 1 or (n >= 2**b and n_bits >= 2 * b))


def first_length(
    n_bits: int, most_first: int | None, most_second: int | None, field_bits: int | None = None
) -> int:
    """Return the length of the first part: half of the bits, at most 24, if the rows allow it.

    If the second part has fields of ``field_bits``, it has a whole number of them, and the first has at most
    24 bits, 32 of codes of 128 bits, or 64 of codes of 256.
    """
    most = _MOST_FIRST_BITS
    if field_bits is not None:
        most = next(most for least, most in _MOST_BEFORE_FIELDS.items() if n_bits >= least)
    step = field_bits or 1
    usual = n_bits - (n_bits - min(most, n_bits // 2)) // step * step
    length = usual
    if most_second is not None:
        length = max(length, n_bits - most_second // step * step)
    if most_first is not None and length > max(most_first, 1):
        length = n_bits - -(-(n_bits - max(most_first, 1)) // step) * step
        if length < 1:
            length = n_bits % step or step
    if length != usual:
        note(
            f"the first part has {length} bits instead of {usual}: the number of rows or columns "
            "allows no other split"
        )
    return length


def check_limits(
    parts: tuple[Hasher, Hasher], limits: tuple[int | None, ...], n_bits: int | None, rows: Rows
) -> None:
    """Raise if a part, or both together, have more bits than the rows allow, before the first is fitted."""
    first, second = limits
    allowed = f"{len(rows)} rows of {rows.width} columns allow"
    if n_bits is not None and first is not None and second is not None and n_bits > first + second:
        raise ValueError(
            f"n_bits={n_bits} exceeds the {first + second} bits that {allowed}, {first} for the first part "
            f"and {second} for the second: lower n_bits, or give more rows"
        )
    for part, most, name in zip(parts, limits, ("first", "second"), strict=True):
        if most is not None and part.n_bits > most:
            raise ValueError(
                f"the {name} part, {type(part).__name__}: n_bits={part.n_bits} exceeds the {most} bits that "
                f"{allowed}: lower n_bits, or give more rows"
            )


class Hybrid(Hasher):
    """Codes of two hashers side by side, for look-up and for ranking.

    The first bits of a code are those of ``first``, usually a manifold method such as ``IMH``. Rows of one
    cluster share most of these bits, so a look-up within a small radius of the first part finds the cluster.
    The other bits are those of ``second``: they order the rows inside a cluster. The distance of two codes a
    and b is

    d(a, b) = d_H(a_first, b_first) + weight * scale * d_2(a_second, b_second)

    with the Hamming distance d_H. If ``second`` is a ``ProductQuantizer``, d_2 is the squared distance of its
    centers, and ``scale_`` gives both terms the same spread over the training rows. If its bits are signs, as
    those of ``ITQ``, d_2 is the Hamming distance and the scale 1: a database that compares all bits by
    Hamming distance can store such codes, and ranks with weight 1. ``index`` returns an index that ranks by
    d.

    Parameters
    ----------
    first : Hasher, default=None
        Hasher of the first bits. None for ``IMH(n_bits=32, normalize=True)``.
    second : Hasher, default=None
        Hasher of the other bits, or a ``ProductQuantizer``. None for ``ITQ(n_bits=32, normalize=True)``.
    weight : float or "auto", default=0.5
        Weight of the second part in the distance, at least 0. It does not change the codes. ``"auto"`` takes
        1/4 (1/8 for a product quantizer) if the bits of the first part tell about 5 to 10 groups of the
        training rows apart, 1/2 (1) for 20 groups or more, and 1 (4) for rows without groups. For a product
        quantizer it is at least 1 if most rows have other bits than the row nearest to them. No labels are
        used.
    n_bits : int or None, default=None
        Length of the whole code, at least 2: the first part gets half of it, at most 24 bits (before a
        product quantizer 32 from 128 bits on, and 64 from 256), and the second part gets the rest, a whole
        number of fields. If the rows are too few for the first part, or have too few columns for the second,
        the split is changed. If None, each part has the ``n_bits`` that are set on it.
    normalize : bool or None, default=None
        ``normalize`` of both parts. If None, each part has its own.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the parts that have no seed of their own.

    Attributes
    ----------
    first_ : Hasher
        The fitted hasher of the first bits; ``first`` itself is not changed.
    second_ : Hasher
        The fitted hasher of the other bits.
    weight_ : float
        Weight of the second part in the distance, a number also for ``weight="auto"``.
    scale_ : float
        Factor of the distance of a product quantizer; 1 if the second part is signs.
    layout_ : CodeLayout
        The parts of the codes, and the distance that ranks them.
    n_bits_ : int
        Length of the whole code.
    n_features_in_ : int
        Number of columns of the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import IMH, Hybrid
    >>> from manihash.base import KMeansBase
    >>> from manihash.embeddings import PCA
    >>> from manihash.hashers import ProductQuantizer
    >>> X = np.random.default_rng(0).normal(size=(1000, 40))
    >>> first = IMH(n_bits=8, base=KMeansBase(50), embedding=PCA())
    >>> hasher = Hybrid(first, ProductQuantizer(n_bits=24), random_state=0).fit(X)
    >>> hasher.encode(X).shape, hasher.layout_.look_up_bits
    ((1000, 4), 8)
    >>> distances, ids = hasher.index(X).search(X[:5], k=3)
    >>> ids[:, 0]
    array([0, 1, 2, 3, 4])
    """

    def __init__(
        self,
        first: Any = None,
        second: Any = None,
        weight: float | str = 0.5,
        n_bits: int | None = None,
        normalize: bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.first = first
        self.second = second
        self.weight = weight
        self.n_bits = n_bits  # type: ignore[assignment]
        self.normalize = normalize  # type: ignore[assignment]
        self.random_state = random_state

    @property
    def takes_tensors(self) -> bool:
        """Whether tensors are computed with torch by a part; a part that cannot gets a copy of each block."""
        return any(bool(getattr(part, "takes_tensors", False)) for part in self._given_parts())

    @property
    def maps_tensors(self) -> bool:
        """Whether ``encode`` computes with torch for a part."""
        return any(bool(getattr(part, "maps_tensors", False)) for part in self._given_parts())

    @property
    def uses_labels(self) -> bool:
        """Whether a part learns from y."""
        return any(bool(getattr(part, "uses_labels", False)) for part in self._given_parts())

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        given = (part for part in self._given_parts() if isinstance(part, Hasher))
        tags.target_tags.required = any(get_tags(part).target_tags.required for part in given)
        return tags

    def _given_parts(self) -> tuple[Any, Any]:
        """Return the parts as they were given, or the default parts."""
        first = IMH(n_bits=32, normalize=True) if self.first is None else self.first
        return first, ITQ(n_bits=32, normalize=True) if self.second is None else self.second

    def _check(self) -> None:
        checked_weight(self.weight)
        if self.n_bits is not None:
            checks.positive_int(self.n_bits, "n_bits", least=2)
        if self.normalize is not None:
            checks.flag(self.normalize, "normalize")
        for part, name in zip(self._given_parts(), ("first", "second"), strict=True):
            if not isinstance(part, Hasher):
                raise ValueError(f"{name} must be a hasher such as IMH() or ITQ(), not {part!r}")
        if _has_fields(self._given_parts()[0]):
            raise ValueError("first must be a hasher of signs: a ProductQuantizer is possible as second part")
        if isinstance(second := self._given_parts()[1], Hybrid) and _has_fields(second):
            raise ValueError(
                "second must be a hasher of signs or a ProductQuantizer, not a Hybrid with a "
                "ProductQuantizer: its signs can be a part of first, Hybrid(Hybrid(a, b), ProductQuantizer())"
            )

    def _scales_rows(self) -> bool:
        return False  # each part prepares its rows itself

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        first, second = (clone(part) for part in self._given_parts())
        field_bits = None
        if self.n_bits is not None and isinstance(second, ProductQuantizer):
            field_bits = min(second.bits_per_field, field_bits_of(self.n_bits, len(rows)))
            second.set_params(bits_per_field=field_bits)
        limits = first._most_bits(len(rows), rows.width), second._most_bits(len(rows), rows.width)
        if self.n_bits is not None:
            length = first_length(self.n_bits, *limits, field_bits)
            first.set_params(n_bits=length)
            second.set_params(n_bits=self.n_bits - length)
        check_limits((first, second), limits, self.n_bits, rows)
        for part, name in ((first, "first"), (second, "second")):
            set_seed(part, checks.seed(rng))
            if self.normalize is not None:
                part.set_params(normalize=self.normalize)
            _fit_part(part, name, rows.X, y)
        self.first_, self.second_ = first, second
        self.weight_, self.scale_ = self._weight_and_scale(rows)

    def _weight_and_scale(self, rows: Rows) -> tuple[float, float]:
        """Return the weight of the second part, and the factor of its distance, from a sample of the rows."""
        weight, fields = checked_weight(self.weight), _has_fields(self.second_)
        if not fields and not isinstance(weight, str):
            return weight, 1.0
        X = rows.take(sampled_rows(rows))
        Y = np.asarray(backend(values := self._embed(X)).to_numpy(values))
        if isinstance(weight, str):
            bits = Y[:, : self.first_.n_bits_] > 0
            weight = weight_by_groups(bits, fields=fields)
            if fields:
                weight = max(weight, least_weight(bits, _as_compared(self.first_, X)))
        if not fields:
            return weight, 1.0
        layout = CodeLayout(self._fitted_length(), self.first_.n_bits_, 1.0, self.second_.layout_.codebooks)
        return weight, scale_of_fields(layout, Y, codes.pack(np.asarray(self._bits_of(Y))))

    @property
    def layout_(self) -> CodeLayout:
        """The parts of the codes, and the distance that ranks them."""
        check_is_fitted(self)
        codebooks, scale = self.second_.layout_.codebooks, float(getattr(self, "scale_", 1.0))
        return CodeLayout(self.n_bits_, self.first_.n_bits_, self.weight_, codebooks, scale)

    def _fitted_length(self) -> int:
        return int(self.first_.n_bits_ + self.second_.n_bits_)

    def _check_loaded(self) -> None:
        """Raise if values read from a file do not fit together: look-ups and ranks trust the layout."""
        parts = self.first_, self.second_
        if not all(isinstance(part, Hasher) and hasattr(part, "n_bits_") for part in parts):
            raise ValueError("first_ and second_ must be fitted hashers")
        recorded = self.__dict__.pop(f"{FIRST_BITS}_", self.first_.n_bits_)  # in old files
        if recorded != self.first_.n_bits_ or self.n_bits_ != self._fitted_length():
            raise ValueError(
                f"the file has a first part of {recorded!r} bits and n_bits_={self.n_bits_}, but the parts "
                f"have {self.first_.n_bits_} and {self.second_.n_bits_} bits"
            )
        if any(part.n_features_in_ != self.n_features_in_ for part in parts):
            raise ValueError("the parts expect rows of another width than the hybrid")
        _ = self.layout_  # raises if weight_, scale_ or the codebooks are impossible

    def _embed(self, X: Floats) -> Floats:
        return backend(X).hstack([_values(part, X) for part in (self.first_, self.second_)])

    def _bits_of(self, Y: Any) -> Any:
        n = self.first_._n_values
        return backend(Y).hstack([self.first_._bits_of(Y[:, :n]), self.second_._bits_of(Y[:, n:])])

    @property
    def _n_values(self) -> int:
        return int(self.first_._n_values + self.second_._n_values)

    def _summarize(self, rows: Rows) -> None:
        pass  # each part has statistics of its own

    def _summarize_after(self, old: Hasher, X: Any) -> None:
        pass  # as above

    @property
    def _n_known(self) -> int:
        return self.first_._n_known

    def _record(self, X: Any) -> None:
        first, second = copy(self.first_), copy(self.second_)
        for part in (first, second):
            part.record_statistics(X)
        self.first_, self.second_ = first, second

    def _know(self, rows: Rows) -> None:
        first, second = copy(self.first_), copy(self.second_)
        for part in (first, second):
            part._know(part._rows_to_map(rows.X))
        self.first_, self.second_ = first, second

    def _check_update(self) -> None:
        if not any(checks.passes(part._check_update) for part in (self.first_, self.second_)):
            instead = "use hasher.refit(X)" if checks.passes(self._check_refit) else "fit a new model"
            raise ValueError(
                f"{self._names()} cannot be updated: no part can get new base points, as IMH with TSNE() "
                f"can. Instead, {instead}, and encode all rows again"
            )

    def _names(self) -> str:
        """Return the names of the class and of the parts."""
        return f"{type(self).__name__} of {type(self.first_).__name__} and {type(self.second_).__name__}"

    def _update(self, X: Any, X_old: Any, most: int | None, max_changed: float) -> Update:
        """Update the parts that can be updated: usually the first; ITQ gets new statistics only."""
        first, second = copy(self.first_), copy(self.second_)
        parts = [part for part in (first, second) if checks.passes(part._check_update)]
        share = max_changed / len(parts)
        results = [part.update(X, X_old, max_new_points=most, max_changed=share) for part in parts]
        changed = None if X_old is None else min(1.0, sum(result.changed or 0.0 for result in results))
        added, removed = (sum(getattr(r, name) for r in results) for name in ("n_added", "n_removed"))
        for part in (first, second):
            if part not in parts:
                part._know(part._rows_to_map(X))
        self.first_, self.second_ = first, second
        return Update(results[0].n_rows, added, removed, changed)

    def _check_refit(self) -> None:
        if not any(checks.passes(part._check_refit) for part in (self.first_, self.second_)):
            raise ValueError(
                f"{self._names()} cannot be refitted, because no part has bits that can be aligned with old "
                "ones: fit a new model, and encode all rows again"
            )

    def _fit_near(self, old: "Hybrid", rows: Rows, rng: np.random.Generator) -> None:
        """Refit the parts that can be refitted; the others keep their bits. The split stays as it is."""
        parts = zip((old.first_, old.second_), self._given_parts(), ("first", "second"), strict=True)
        self.first_, self.second_ = (
            _refitted_part(part, name, rows.X, checks.seed(rng) if _is_unseeded(given) else None)
            for part, given, name in parts
        )
        weight = checked_weight(self.weight)
        self.weight_ = old.weight_ if isinstance(weight, str) else weight
        self.scale_ = float(getattr(old, "scale_", 1.0))

    def _drift(self, rows: Rows, level: float) -> Drift:
        parts = self.first_, self.second_
        return combined([part._drift(part._rows_to_map(rows.X), level) for part in parts])

    def _make_map(self, preparation: Preparation) -> RowMap:
        return _PartsMap(
            [
                part._row_map(np.dtype(np.float64) if part.in_float64_ else preparation.dtype)
                for part in (self.first_, self.second_)
            ],
            preparation,
        )

    def _rows_to_map(self, X: Any) -> Rows:
        rows = super()._rows_to_map(X)
        rows.blocks_at_once = _blocks_at_once(self)
        return rows


class _PartsMap:
    """The maps of both parts side by side."""

    def __init__(self, parts: list[RowMap], preparation: Preparation) -> None:
        self.parts, self.preparation = parts, preparation

    @property
    def repeated(self) -> int:
        """Rows that the parts computed again in float64."""
        return sum(getattr(each, "repeated", 0) for each in self.parts)

    def values(self, part: Any, row_numbers: Any) -> Floats:
        """As ``RowMap.values``."""
        values = [each.values(part, row_numbers) for each in self.parts]
        return np.hstack(values).astype(self.preparation.dtype, copy=False)

    def bits(self, part: Any, row_numbers: Any) -> Any:
        """As ``RowMap.bits``."""
        return np.hstack([each.bits(part, row_numbers) for each in self.parts])

    def codes(self, part: Any, row_numbers: Any) -> Codes:
        """As ``RowMap.codes``."""
        return codes.pack(self.bits(part, row_numbers))


def _fit_part(part: Hasher, name: str, X: Any, y: Any) -> None:
    """Fit a part; an error that is not about the rows says which part raised it."""
    with _errors_of(part, name):
        part.fit(X, y)


def _refitted_part(part: Hasher, name: str, X: Any, seed: int | None) -> Hasher:
    """Return a part that was refitted to X, or a copy that knows X if its bits cannot be aligned."""
    with _errors_of(part, name):
        if not checks.passes(part._check_refit):
            known = copy(part).record_statistics(X)
            known._summarize_after(part, X)
            return known
        new = clone(part) if seed is None else clone(part).set_params(random_state=seed)
        return part._refitted(new, X)


def _is_unseeded(part: Any) -> bool:
    """Return whether the user left the seed of a part to the hybrid."""
    return getattr(part, "random_state", 0) is None


@contextmanager
def _errors_of(part: Hasher, name: str) -> Iterator[None]:
    """Work on a part; an error that is not about the rows says which part raised it."""
    try:
        with codes_not_judged():
            yield
    except BadRowsError:
        raise
    except ValueError as error:
        raise ValueError(f"the {name} part, {type(part).__name__}: {error}") from error


def _has_fields(part: Hasher) -> bool:
    """Return whether the codes of a part, fitted or not, have fields of a product quantizer."""
    if isinstance(part, Hybrid):
        return _has_fields(part._given_parts()[1])
    return isinstance(part, ProductQuantizer)


def _values(part: Hasher, X: Floats) -> Floats:
    """Return the real values (b, r) of a part for rows (b, d), prepared here as it prepares them."""
    if not part.maps_tensors and (array := backend(X).to_numpy(X)) is not X:
        return backend(X).copy_like(_values(part, array), X)
    xp = backend(X)
    exact = part.in_float64_ or (part.normalize_ and part.origin_ is not None)
    block = xp.to_float64(X) if exact else X
    if part.normalize_:
        block = xp.unit_rows(block, xp.squared_norms(block))
    if part.origin_ is not None:
        block = block - xp.like(part.origin_, block)
    return part._map_tensor(block, "values")


def _as_compared(part: Hasher, X: Any) -> Floats:
    """Return rows (s, d) in float64, scaled to unit length if a part scales them."""
    rows = np.asarray(backend(X).to_numpy(X)).astype(np.float64)
    return numpy_backend.unit_rows(rows, numpy_backend.squared_norms(rows)) if part.normalize_ else rows


def _blocks_at_once(part: Any) -> int:
    """Return how many blocks a part maps together."""
    if isinstance(part, Hybrid):
        return max(_blocks_at_once(part.first_), _blocks_at_once(part.second_))
    return 1 if getattr(part, "finder_", None) is None else 4
