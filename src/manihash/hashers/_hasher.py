"""The one base class of all hashers: a real-valued Y, then the sign."""

from collections.abc import Iterator
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from manihash import checks, codes
from manihash.compute import backend
from manihash.estimator import RowEstimator
from manihash.rows import Rows
from manihash.types import Codes, Floats


class Hasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowEstimator):
    """Binary codes of vectors: a subclass writes ``_fit(rows, y, rng)`` and ``_embed(block)``.

    Checking, blocks of rows, unit length (``normalize``), the sign, packing and model files are written here,
    once. A bit is 1 where the real value is above zero. A row's code is the same whatever batch it comes in.
    Of a dask array, ``encode``, ``transform`` and ``embed`` give a dask array.
    """

    n_bits: int
    normalize: bool

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the rows of X (n, d); ``n_bits_`` keeps the length of the codes."""
        super().fit(X, y)
        self.n_bits_ = int(self.n_bits)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_bits_")

    def _embed(self, X: Floats) -> Floats:
        """Real values (b, r) of a block of prepared rows (b, d)."""
        raise TypeError(f"{type(self).__name__} embeds nothing")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def embed(self, X: Any) -> Floats:
        """Real values (n, r) of the rows of X (n, d), before the sign."""
        rows = self._by_kernel(self._rows_to_map(X), pack=False)
        return rows.map_blocks(self._now()._embed, self._n_features_out, rows.dtype, "embed")

    def transform(self, X: Any) -> NDArray[np.uint8]:
        """Bits (n, r) of 0 and 1."""
        model = self._now()
        return self._rows_to_map(X).map_blocks(
            lambda block: model._embed(block) > 0, self._n_features_out, np.uint8, "transform"
        )

    def encode(self, X: Any) -> Codes:
        """Packed codes (n, ceil(r / 8)): one byte holds eight bits, in the order of ``np.packbits``."""
        rows, width = self._by_kernel(self._rows_to_map(X), pack=True), codes.n_bytes(self._n_features_out)
        return rows.map_blocks(self._now()._code, width, np.uint8, "encode")

    def encode_blocks(self, X: Any, start: int = 0) -> Iterator[Codes]:
        """The codes of ``encode``, some rows at a time, from row ``start`` on: all of them are never held."""
        rows = self._by_kernel(self._rows_to_map(X), pack=True)
        return rows.stream(self._now()._code, "encode", start=start)

    def _now(self) -> Self:
        """The model as it is now, for what is computed later: another ``fit`` does not change it."""
        return copy(self)

    def _code(self, block: Floats) -> Codes:
        return backend(block).pack(self._embed(block) > 0)

    def _by_kernel(self, rows: Rows, *, pack: bool) -> Rows:
        """The rows, to be embedded or encoded by one kernel where a subclass has one."""
        return rows

    def _check(self) -> None:
        checks.positive_int(self.n_bits, "n_bits")

    @property
    def _n_features_out(self) -> int:
        return self.n_bits_
