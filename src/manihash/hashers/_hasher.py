"""The base class of all hashers: real values Y, then their signs or nearest centers."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from manihash import checks
from manihash.code_layout import CodeLayout
from manihash.hashers._living import LivingEstimator
from manihash.hashers.collapse import check_encoded, check_fitted, watched
from manihash.rows import Rows
from manihash.types import Codes, Floats

if TYPE_CHECKING:
    from manihash.search.model_index import Index


class Hasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LivingEstimator):
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
    uses_labels: Any = False  # whether ``fit`` learns from y

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the hash functions from rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training rows, at least two.
        y : array-like of shape (n,) or None, default=None
            Labels. Only supervised methods use them; all others ignore them.

        Returns
        -------
        Hasher
            The fitted hasher itself.
        """
        return super().fit(X, y)

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

    def to_onnx(self, path: str | os.PathLike[str], *, double: bool = False) -> None:
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
        """
        import manihash

        manihash.export_onnx(self, path, double=double)

    def _check(self) -> None:
        checks.positive_int(self.n_bits, "n_bits")

    @property
    def _stored_width(self) -> int:
        """The number of columns of the vectors beside an index, with which answers are rescored."""
        return self.n_features_in_

    def _as_stored(self, X: Any) -> Any:
        """Queries (n, d) in the space of the vectors beside an index."""
        return X

    @property
    def _n_features_out(self) -> int:
        return self.n_bits_
