"""Product quantization (Jégou, Douze and Schmid, 2011), optimized (Ge, He, Ke and Sun, 2013)."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from manihash import checks
from manihash.base.principal import principal_directions
from manihash.code_layout import CodeLayout
from manihash.code_tables import by_coordinate, center_distances
from manihash.codes import check_codes
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.hashers._codebooks import (
    CodebookMap,
    bits_of_fields,
    fields_of_codes,
    learn_codebooks,
    learn_rotation,
    nearest_centers,
)
from manihash.hashers._hasher import Hasher
from manihash.hashers._linear import linear_values, mean_of
from manihash.progress import note
from manihash.rows import Rows
from manihash.rows.mapping import RowMap
from manihash.rows.raw import Preparation
from manihash.types import Floats

# Rows that centers and rotation are learned from: 256 for each of 256 centers.
_TRAINING_ROWS = 2**16
# Components per field, if there are so many columns. With four, the reconstruction error of 16 fields is 2 to
# 6 % larger (MNIST, CIFAR-10 GIST, CLINC150).
_LEAST_WIDTH = 8
# Tables of squared distances are float32; the squares of centers must exceed this, and coordinates, too.
_LEAST_SQUARE = _LEAST_COORDINATE = 1e-30


class ProductQuantizer(Hasher):
    """Product quantization: the nearest center in each of several groups of columns.

        q_j(x) = argmin_c |z_j(x) - c|,   z(x) = Pᵀx - b = (z_1(x), …, z_f(x))

    The coordinates z (p of them) are cut into f fields of equal width, and each field has a codebook of
    2^``bits_per_field`` centers, learned by k-means. The code of a row holds the number of the nearest center
    in each field. The distance of a query to a row is that to its centers, Σ_j |z_j(query) - c_j(row)|²: a
    sum of f numbers from a table that is computed once per query. This is what ``distances`` returns; the
    Hamming distance of two codes means nothing.

    With ``rotation=True`` the coordinates are principal components, rotated so that the fields lose as
    little as possible (optimized product quantization). Otherwise they are the columns as they are, in their
    order, filled up with zeros to a multiple of f.

    For this hasher the bits are not the signs of ``embed``, which returns the coordinates z.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes, a multiple of ``bits_per_field``.
    bits_per_field : {8, 4, 2, 1}, default=8
        Bits of a field: 8 for 256 centers, 4 for 16 centers. Fewer bits are possible, and less precise.
    rotation : bool, default=True
        Learn a rotation of the principal components.
    n_components : int, default=128
        Number p of principal components, rounded up to a multiple of the number of fields, and at least
        eight per field. It is at most the number of columns, rounded down to such a multiple. Not used
        without rotation.
    max_iter : int, default=20
        Number of rounds, each of one iteration of k-means and one rotation, and of the k-means iterations
        that follow.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample of rows and of the initial centers. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, p) or None
        The directions P. None if the coordinates are the columns themselves.
    offset_ : ndarray of shape (p,)
        The vector b, which is subtracted from Pᵀx: the mean of the coordinates.
    codebooks_ : ndarray of shape (f, c, w) and dtype float32
        The c = 2^``bits_per_field`` centers of each of f fields of w = p / f coordinates.
    n_iter_ : int
        Number of rounds with a rotation, or of k-means iterations without.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the training rows.
    origin_ : ndarray of shape (d,) or None
        Vector that is subtracted from all rows first if they lie far from zero; other fitted values are then
        relative to it.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    References
    ----------
    .. [1] H. Jégou, M. Douze and C. Schmid, "Product quantization for nearest neighbor search", IEEE TPAMI
       33(1), 2011.
    .. [2] T. Ge, K. He, Q. Ke and J. Sun, "Optimized product quantization", IEEE TPAMI 36(4), 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import ProductQuantizer
    >>> X = np.random.default_rng(0).standard_normal((1000, 32))
    >>> quantizer = ProductQuantizer(n_bits=16, bits_per_field=4, random_state=0).fit(X)
    >>> codes = quantizer.encode(X)
    >>> codes.shape
    (1000, 2)
    >>> quantizer.distances(X[:5], codes).shape
    (5, 1000)
    """

    _by_distance = True
    maps_tensors = True
    projection_: Floats | None
    offset_: Floats
    codebooks_: Floats

    def __init__(
        self,
        n_bits: int = 64,
        bits_per_field: int = 8,
        rotation: bool = True,
        n_components: int = 128,
        max_iter: int = 20,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.bits_per_field = bits_per_field
        self.rotation = rotation
        self.n_components = n_components
        self.max_iter = max_iter
        self.normalize = normalize
        self.random_state = random_state

    def reconstruct(self, codes: ArrayLike) -> NDArray[np.float32]:
        """Compute the coordinates of the centers that codes stand for.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)) and dtype uint8
            Packed codes.

        Returns
        -------
        ndarray of shape (n, p) and dtype float32
            The centers of all fields, side by side, in the space of ``embed``.
        """
        labels, books = self._labels(codes), self.codebooks_
        return books[np.arange(len(books)), labels].reshape(len(labels), -1)

    def tables(self, Q: Any) -> NDArray[np.float32]:
        """Compute the squared distances of queries to all centers, field by field.

        Parameters
        ----------
        Q : array-like of shape (q, d)
            Queries, with as many columns as the rows of ``fit``.

        Returns
        -------
        ndarray of shape (q, f, c) and dtype float32
            Squared distances |z_j - c|². They do not depend on the queries asked together.

        Raises
        ------
        ValueError
            If squared distances of the training rows leave the range of float32.
        """
        Z = backend(Q).to_numpy(self.embed(Q)) if hasattr(Q, "dtype") else self.embed(Q)
        self._check_range()
        return center_distances(np.asarray(Z), by_coordinate(self.codebooks_)).astype(np.float32)

    def _check_range(self) -> None:
        """Raise if squared distances of coordinates leave the range of float32."""
        square = float(np.square(self.codebooks_, dtype=np.float64).max())
        if not _LEAST_SQUARE < square < 1 / _LEAST_SQUARE:
            raise _out_of_range(f"squared distances of about {square:.0e}")

    def distances(self, Q: Any, codes: ArrayLike) -> NDArray[np.float32]:
        """Compute the squared distances of queries to the centers of codes.

        Parameters
        ----------
        Q : array-like of shape (q, d)
            Queries, with as many columns as the rows of ``fit``.
        codes : array-like of shape (n, ceil(n_bits / 8)) and dtype uint8
            Packed codes of rows.

        Returns
        -------
        ndarray of shape (q, n) and dtype float32
            Σ_j |z_j - c_j|², added in the order of the fields.
        """
        labels, tables = self._labels(codes), self.tables(Q)
        found = np.zeros((len(tables), len(labels)), np.float32)
        for j in range(labels.shape[1]):
            found += tables[:, j, labels[:, j]]
        return found

    def _labels(self, codes: ArrayLike) -> NDArray[np.intp]:
        check_is_fitted(self)
        return fields_of_codes(check_codes(codes, self.n_bits_), len(self.codebooks_), self._field_bits)

    @property
    def _field_bits(self) -> int:
        """Bits of a field of the fitted model."""
        return int(self.codebooks_.shape[1] - 1).bit_length()

    @property
    def layout_(self) -> CodeLayout:
        """One part of fields, ranked by the squared distance to their centers."""
        check_is_fitted(self)
        return CodeLayout(self.n_bits_, 0, codebooks=self.codebooks_)

    @property
    def _n_values(self) -> int:
        return len(self.offset_)

    def _most_bits(self, n: int, d: int) -> int | None:
        return d * self.bits_per_field

    def _check(self) -> None:
        super()._check()
        if checks.positive_int(self.bits_per_field, "bits_per_field") not in (1, 2, 4, 8):
            raise ValueError(f"bits_per_field must be 8, 4, 2 or 1, not {self.bits_per_field!r}")
        if self.n_bits % self.bits_per_field:
            fewer = self.n_bits // self.bits_per_field * self.bits_per_field
            possible = [length for length in (fewer, fewer + self.bits_per_field) if length]
            raise ValueError(
                f"n_bits={self.n_bits} is not a multiple of bits_per_field={self.bits_per_field}: use "
                f"n_bits={' or '.join(map(str, possible))}"
            )
        checks.flag(self.rotation, "rotation")
        checks.positive_int(self.n_components, "n_components")
        checks.positive_int(self.max_iter, "max_iter")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        fields, centers = self.n_bits // self.bits_per_field, 2**self.bits_per_field
        self._check_size(len(rows), rows.width, fields, centers)
        if len(rows) > _TRAINING_ROWS:
            rows.check_all()
            note(f"the quantizer is learned from {_TRAINING_ROWS:,} of {len(rows):,} rows")
            rows = rows.sample(_TRAINING_ROWS, rng)
        rows = rows.cached()
        first, mean = rows.block(0, 1), mean_of(rows)
        if all(rows.map(lambda X: bool((first == X).all()))):
            raise ValueError("the rows are all equal, so there is nothing to quantize: give rows that differ")
        if self.rotation:
            p = self._components(rows.width, fields)
            P = principal_directions(rows, p, rng)
            Z = self._coordinates(rows, P, mean @ P.T.astype(np.float64))
            self.n_iter_ = self.max_iter
            R, books = learn_rotation(Z, P, fields, centers, self.max_iter, rng)
            self.projection_: Floats | None = P.T.astype(np.float64) @ R
            self.offset_ = mean @ self.projection_
        else:
            self.projection_ = None
            self.offset_ = np.pad(mean, (0, -rows.width % fields))
            Z = self._coordinates(rows, None, self.offset_)
            _warn_of_constant_fields(Z, fields)
            books, self.n_iter_ = learn_codebooks(Z, fields, centers, self.max_iter, rng)
        self.codebooks_ = books.astype(np.float32)

    def _components(self, d: int, fields: int) -> int:
        """Return the number p of principal components."""
        width = max(-(-self.n_components // fields), _LEAST_WIDTH)
        return min(width, d // fields) * fields

    def _check_size(self, n: int, d: int, fields: int, centers: int) -> None:
        if fields > d:
            raise ValueError(
                f"n_bits={self.n_bits} are {fields} fields of {self.bits_per_field} bits, and X has fewer "
                f"columns than fields: n_features = {d}. Use at most n_bits={d * self.bits_per_field}"
            )
        if n < centers:
            fewer = "bits_per_field=4, which needs 16 rows" if centers > 16 else "another method, such as LSH"
            raise ValueError(
                f"a field of {self.bits_per_field} bits has {centers} centers and needs at least as many "
                f"rows, got n_samples = {n}: give more rows, or use {fewer}"
            )

    def _coordinates(self, rows: Rows, P: Floats | None, offset: Floats) -> Floats:
        """Return the coordinates (n, p) of rows, for directions P (p, d); in float32 if that is enough."""
        center = offset.astype(rows.dtype)
        dtype = np.float64 if self.in_float64_ else np.float32

        def block(X: Floats) -> Floats:
            return (_padded(X, len(center)) if P is None else numpy_backend.product(X, P)) - center

        with np.errstate(over="ignore"):
            Z = np.asarray(rows.stack(block, len(center), dtype))
        largest = float(np.abs(Z).max())
        if not _LEAST_COORDINATE < largest < 1 / _LEAST_COORDINATE:
            raise _out_of_range(f"coordinates of about {largest:.0e}")
        return Z

    def _embed(self, X: Any) -> Any:
        if self.projection_ is None:
            return _padded(X, len(self.offset_)) - backend(X).like(self.offset_, X)
        return linear_values(X, self.projection_, self.offset_)

    def _make_map(self, preparation: Preparation) -> RowMap:
        return CodebookMap(self.projection_, self.offset_, self.codebooks_, preparation)

    def _bits_of(self, Y: Any) -> Any:
        return bits_of_fields(nearest_centers(Y, self.codebooks_), self._field_bits)


def _out_of_range(what: str) -> ValueError:
    return ValueError(
        f"{what} leave the range of float32: scale the vectors so that their values are near 1, and fit again"
    )


def _warn_of_constant_fields(Z: Floats, fields: int) -> None:
    """Warn if no column of some fields of coordinates (n, p) varies."""
    unused = int((np.ptp(Z, axis=0) == 0).reshape(fields, -1).all(axis=1).sum())
    if unused:
        warnings.warn(
            f"all columns of {unused} of {fields} fields are constant, and the bits of these fields tell "
            "nothing apart: remove constant columns, use fewer bits, or rotation=True (recipe opq)",
            stacklevel=5,
        )


def _padded(X: Any, p: int) -> Any:
    """Return rows (b, d) with columns of zeros up to p columns."""
    missing = p - X.shape[1]
    xp = backend(X)
    return X if not missing else xp.hstack([X, xp.zeros_like(X[:, :missing])])
