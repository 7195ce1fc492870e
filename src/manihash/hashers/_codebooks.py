"""Codebooks of product quantizers: how they are learned, and fields of bits in packed codes.

Coordinates (n, p) are cut into f fields of w columns. The codebook of a field has c centers (c, w).

Rows are mapped to numbers of nearest centers that are certain. Scores t (z·c - |c|²/2) are largest for the
nearest center. They are computed in the type of the rows, with bounds on their errors. An error of z changes
the difference of two scores by at most that error times the distance of the centers, which is small for the
centers that matter. A field is decided if its best score exceeds each other one by more than the errors. The
others are computed again in float64, and where even that does not decide, in a fixed order. Ties go to the
center with the lowest number.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import codes
from manihash.base.kmeans import among_all, lloyd, lloyd_round
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.largest import set_k_largest
from manihash.compute.rounding import (
    buffer,
    paired_products,
    split_error,
    split_product,
    sum_error,
    underflow_error,
)
from manihash.compute.threads import single_blas_thread
from manihash.progress import advance
from manihash.rows.local import LocalRows
from manihash.rows.raw import DecidedMap, Preparation, ScaledBlock, as_block
from manihash.types import Codes, Floats, Ints, Mask

# Lloyd iterations from the random start, before the first rotation.
_FIRST_STEPS = 3
# Smaller variances, relative to the largest, count as this one.
_LEAST_VARIANCE = 1e-9
# Centers at a distance of this many rounding errors of float32 of their length count as equal.
_ROUNDING = 64


def learn_codebooks(
    Z: Floats, fields: int, centers: int, max_iter: int, rng: np.random.Generator
) -> tuple[Floats, int]:
    """Return codebooks (f, c, w) of coordinates (n, p) and the most iterations that a field took.

    They are found by k-means in each field, which starts from rows at random.
    """
    w, found, most = Z.shape[1] // fields, [], 0
    for j, T in enumerate(_fields(Z, w)):
        advance("codebooks", j, fields)
        rows = LocalRows(T)
        start = T[rng.choice(len(T), centers, replace=False)]
        book, labels, _, taken = lloyd(rows, start, max_iter, among_all(rows))
        found.append(_merged(book, labels))
        most = max(most, taken)
    advance("codebooks", fields, fields)
    return np.stack(found), most


def learn_rotation(
    Z: Floats, P: Floats, fields: int, centers: int, max_iter: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return a rotation R (p, p) in float64 and codebooks (f, c, w) of the coordinates Z R.

    P (p, d) are the principal directions of the coordinates Z. Each of ``max_iter`` rounds moves the centers
    of each field by an iteration of k-means, and then rotates Z as close to the centers of its rows as
    possible. Rounds of k-means alone follow.

    A rotation ends near its start. There are two: components with about equal products of their variances in
    each field, and fields like those of groups of columns, which are better where neighboring columns belong
    together, as in images. The one with the smaller error after the first iterations of k-means is kept.
    """
    chosen = [rng.choice(len(Z), centers, replace=False) for _ in range(fields)]
    starts = start_rotation(Z, fields), rotation_to_columns(Z, P, fields)
    begun = [_Rounds(Z, R, chosen) for R in starts]
    best = min(begun, key=lambda rounds: rounds.error)
    for done in range(max_iter):
        advance("rotation", done, max_iter)
        best.rotate()
        if done < max_iter - 1:
            best.move_centers()
    advance("rotation", max_iter, max_iter)
    return best.R, best.finished(max_iter)


class _Rounds:
    """Rounds of k-means and rotation of coordinates Z (n, p), after the first iterations of k-means.

    ``chosen`` has the rows of the first centers of each field. ``error`` is the sum of squared distances of
    rows to their centers.
    """

    def __init__(self, Z: Floats, R: Floats, chosen: list[NDArray[np.intp]]) -> None:
        self.Z, self.R, self.w = Z, R, Z.shape[1] // len(chosen)
        self._T = _rotated(Z, R)
        self._books = [part[rows] for part, rows in zip(_fields(self._T, self.w), chosen, strict=True)]
        self.move_centers(_FIRST_STEPS)

    def move_centers(self, steps: int = 1) -> None:
        """Move the centers of each field by some iterations of k-means."""
        self._nearest = np.empty_like(self._T)
        for j, part in enumerate(_fields(self._T, self.w)):
            rows = LocalRows(part)
            for _ in range(steps):
                self._books[j], labels, _ = lloyd_round(rows, self._books[j], among_all(rows))
            self._nearest[:, j * self.w : (j + 1) * self.w] = self._books[j][labels]

    @property
    def error(self) -> float:
        return float(np.square(self._T - self._nearest, dtype=np.float64).sum())

    def rotate(self) -> None:
        """Rotate the rows as close to their centers as possible."""
        self.R = _closest_rotation(self.Z, self._nearest)
        self._T = _rotated(self.Z, self.R)

    def finished(self, max_iter: int) -> Floats:
        """The codebooks (f, c, w) after k-means alone."""
        for j, part in enumerate(_fields(self._T, self.w)):
            rows = LocalRows(part)
            found = lloyd(rows, self._books[j], max_iter, among_all(rows))
            self._books[j] = _merged(*found[:2])
        return np.stack(self._books)


def _merged(book: Floats, labels: NDArray[Any]) -> Floats:
    """Return centers (c, w) in which those that differ only by rounding, and those without rows, are equal.

    Where rows repeat, float32 could not decide between such centers for any row. A center without rows equals
    the first one with rows.
    """
    used = np.unique(labels)
    first = np.full(len(book), used[0])
    lengths = np.sqrt(numpy_backend.squared_norms(exact := book[used].astype(np.float64)))
    near = np.sqrt(numpy_backend.squared_distances(exact, exact))
    rounding = _ROUNDING * np.finfo(np.float32).eps * np.maximum(lengths[:, None], lengths)
    first[used] = used[(near <= rounding).argmax(axis=1)]
    while (again := first[first]).tolist() != first.tolist():  # the first center may be near another one
        first = again
    return book[first]


def start_rotation(Z: Floats, fields: int) -> Floats:
    """Return a permutation (p, p): fields get columns of Z with about equal products of their variances."""
    p, variances = Z.shape[1], Z.var(axis=0, dtype=np.float64)
    # Relative to the smallest: all logarithms are positive, and each column makes a product larger.
    logs = np.log(np.maximum(variances, _LEAST_VARIANCE * variances.max()))
    logs -= logs.min()
    chosen: list[list[int]] = [[] for _ in range(fields)]
    for column in np.argsort(-logs, kind="stable"):
        free = [j for j in range(fields) if len(chosen[j]) < p // fields]
        chosen[min(free, key=lambda j: (logs[chosen[j]].sum(), j))].append(int(column))
    return np.eye(p)[:, np.concatenate(chosen)]


def rotation_to_columns(Z: Floats, P: Floats, fields: int) -> Floats:
    """Return the rotation (p, p) after which fields are most like principal components of groups of columns.

    Z (n, p) are coordinates for the principal directions P (p, d). Field j gets the components of the j-th
    of ``fields`` groups of neighboring columns.
    """
    width, variances = Z.shape[1] // fields, Z.var(axis=0, dtype=np.float64)
    components = []
    for group in np.array_split(P.T.astype(np.float64), fields):  # (d / f, p)
        U, _, _ = np.linalg.svd(group * np.sqrt(variances), full_matrices=False)
        components.append(group.T @ U[:, :width])
    return _nearest_rotation(variances[:, None] * np.hstack(components))


def _rotated(Z: Floats, R: Floats) -> Floats:
    """Return Z R (n, p) in the type of Z, computed in fixed blocks."""
    turned = R.astype(Z.dtype)
    return np.asarray(LocalRows(Z).stack(lambda X: X @ turned, len(R), Z.dtype))


def _closest_rotation(Z: Floats, Y: Floats) -> Floats:
    """Return the rotation R (p, p) that minimizes |Z R - Y|², for Z and Y (n, p): orthogonal Procrustes."""
    p = Z.shape[1]

    def block(both: Floats) -> tuple[tuple[()], tuple[Floats]]:
        return (), (both[:, :p].T @ both[:, p:],)

    _, (cross,) = LocalRows(np.hstack([Z, Y])).fold(block)
    return _nearest_rotation(cross)


def _nearest_rotation(A: Floats) -> Floats:
    """Return the rotation R (p, p) with the largest trace of AᵀR."""
    U, _, Vt = np.linalg.svd(A)
    return U @ Vt


def _fields(Z: Floats, w: int) -> list[Floats]:
    """Return the columns (n, w) of each field of Z (n, p), contiguous."""
    return [np.ascontiguousarray(Z[:, start : start + w]) for start in range(0, Z.shape[1], w)]


def nearest_centers(Z: Any, books: Floats) -> Any:
    """The number of the nearest center in each field, (b, f), of coordinates (b, p), an array or a tensor."""
    xp, (f, _, w) = backend(Z), books.shape
    labels = [xp.closeness(Z[:, j * w : (j + 1) * w], xp.like(books[j], Z)).argmax(1) for j in range(f)]
    return xp.hstack([label[:, None] for label in labels])


def bits_of_fields(labels: Any, bits: int) -> Any:
    """Whether the bits (b, f * bits) of numbers (b, f) are 1; the highest bit of a number comes first."""
    powers = backend(labels).like(2 ** np.arange(bits - 1, -1, -1), labels)
    return ((labels[:, :, None] // powers) % 2 > 0).reshape(len(labels), -1)


def fields_of_codes(codes: Codes, fields: int, bits: int) -> Ints:
    """The numbers (n, f) in packed codes (n, b)."""
    numbers = codes[:, :, None] >> _shifts(bits) & np.uint8(2**bits - 1)
    return numbers.reshape(len(codes), -1)[:, :fields].astype(np.intp)


def codes_of_fields(labels: Ints, bits: int) -> Codes:
    """Numbers (n, f) below 2^bits, packed: (n, ceil(f * bits / 8))."""
    numbers, shifts = labels.astype(np.uint8), _shifts(bits)
    if bits == 8:
        return numbers
    padded = np.pad(numbers, ((0, 0), (0, -numbers.shape[1] % len(shifts))))
    return np.bitwise_or.reduce(padded.reshape(len(padded), -1, len(shifts)) << shifts, axis=2)


def _shifts(bits: int) -> NDArray[np.uint8]:
    """The places of the fields in a byte, the first field highest."""
    return np.arange(8 - bits, -1, -bits, dtype=np.uint8)


# Scores in memory at once: they fit into a cache.
_HELD_SCORES = 2**18
# Numbers in memory at once where pairs of a row and a field are computed in a fixed order.
_PAIRED_NUMBERS = 2**18


@dataclass(frozen=True)
class _Coordinates:
    """t z and t (b, f, w + 1) of a block, with bounds (b, f) on errors.

    ``shift`` is the error of the coordinates: it changes the difference of two scores by at most ``shift``
    times the distance of the centers. ``rounding`` is the error of a score itself.
    """

    rows: Floats
    shift: Floats
    rounding: Floats


@dataclass(frozen=True)
class _Typed:
    """What is multiplied with rows of a type: directions (p, d), offset (p,) and centers (f, w + 1, c).

    The last entry of a center is -|c|²/2.
    """

    directions: Floats | None
    offset: Floats
    centers: Floats


class CodebookMap(DecidedMap):
    """Maps rows to the nearest centers of Pᵀz - b in each field.

    P is (d, p), or None for the columns themselves, filled up with zeros; b is (p,), and codebooks (f, c, w).
    """

    def __init__(self, P: Floats | None, b: Floats, books: Floats, preparation: Preparation) -> None:
        self.preparation, self.repeated = preparation, 0
        self.f, self.c, self.w = books.shape
        self._p = None if P is None else np.ascontiguousarray(P.T, np.float64)  # (p, d)
        self._b, self._books = b.astype(np.float64), books.astype(np.float64)
        half = np.add.reduce(np.square(self._books), axis=2) / 2  # (f, c)
        half[_is_repeated(books)] = np.inf  # the first of equal centers is the nearest
        used = np.where(np.isfinite(half), half, 0)
        self._highest = used.max(axis=1)  # (f,)
        self._longest = np.sqrt(2 * self._highest)
        self._offsets = np.sqrt(np.square(self._b.reshape(self.f, self.w)).sum(axis=1))
        # Singular values of P are 1 in exact arithmetic; the error of a product has its Frobenius norm.
        self._spread = (
            np.ones(self.f)
            if self._p is None
            else np.sqrt(np.square(self._p.reshape(self.f, -1)).sum(axis=1))
        )
        self._distances = np.stack([_distances(book) for book in self._books])  # (f, c, c)
        centers = np.concatenate([self._books.transpose(0, 2, 1), -half[:, None]], axis=1)
        with np.errstate(over="ignore"):
            self._typed = {
                np.dtype(kind): _Typed(
                    None if self._p is None else self._p.astype(kind), b.astype(kind), centers.astype(kind)
                )
                for kind in {preparation.dtype, np.dtype(np.float64)}
            }

    def bits(self, part: Any, row_numbers: Any) -> NDArray[np.uint8]:
        """As ``RowMap.bits``."""
        packed = self.codes(part, row_numbers)
        return codes.unpack(packed, self.f * self._field_bits)

    def codes(self, part: Any, row_numbers: Any) -> Codes:
        """As ``RowMap.codes``."""
        return codes_of_fields(self._centers(part, row_numbers), self._field_bits)

    def values(self, part: Any, row_numbers: Any) -> Floats:
        """As ``RowMap.values``; computed in float64."""
        with np.errstate(all="ignore"):
            self.preparation.scaled(part, row_numbers)  # checks the rows
            Z = self.preparation.exact(part)
        if self._p is None:
            return (self._filled(Z) - self._b).astype(self.preparation.dtype)
        with single_blas_thread():
            return (numpy_backend.rowwise_product(Z, self._p) - self._b).astype(self.preparation.dtype)

    @property
    def _field_bits(self) -> int:
        return (self.c - 1).bit_length()

    def _centers(self, part: Any, row_numbers: Any) -> Ints:
        """The number of the nearest center of each row and field, (b, f)."""
        with np.errstate(all="ignore"):
            labels, certain = self._decide(self.preparation.scaled(part, row_numbers))
        rest = np.flatnonzero(~certain.all(axis=1))
        self.count(len(rest), len(part))
        if len(rest):
            Z = self.preparation.exact(part[rest])
            with np.errstate(all="ignore"):
                again, sure = self._decide(as_block(Z, np.float64))
            row, field = np.nonzero(~sure)
            again[row, field] = self._in_fixed_order(Z, row, field)
            labels[rest] = again
        return labels

    def _decide(self, block: ScaledBlock) -> tuple[Ints, Mask]:
        """Nearest centers (b, f) of a block, and whether they are certain."""
        labels, certain = np.empty((len(block), self.f), np.intp), np.empty((len(block), self.f), bool)
        z = self._coordinates(block)
        # The best score exceeds all others by more than this: certain, whatever the centers are.
        enough = 2 * (z.shift * self._longest + z.rounding)
        step = max(16, _HELD_SCORES // (self.f * self.c))
        centers = self._typed[z.rows.dtype].centers
        for start in range(0, len(block), step):
            some = slice(start, start + step)
            T = z.rows[some].transpose(1, 0, 2)
            scores = np.matmul(T, centers, out=buffer("scores", (*T.shape[:2], self.c), T.dtype))
            best, index = (np.empty((*T.shape[:2], 2), kind) for kind in (T.dtype, np.intp))
            set_k_largest(*(array.reshape(-1, array.shape[2]) for array in (scores, best, index)))
            sure = best[:, :, 0] - best[:, :, 1] > enough[some].T
            field, row = np.nonzero(~sure)
            if len(row):
                found = scores[field, row], best[field, row], index[field, row]
                bounds = z.shift[some][row, field], z.rounding[some][row, field]
                sure[field, row] = self._is_certain(field, *found, *bounds)
            certain[some], labels[some] = sure.T, index[:, :, 0].T
        return labels, certain

    def _is_certain(
        self, field: Ints, scores: Floats, best: Floats, index: Ints, shift: Floats, rounding: Floats
    ) -> Mask:
        """Whether the best score of k pairs of a row and a field exceeds each other by more than the errors.

        ``best`` and ``index`` (k, 2) are the two largest of the scores (k, c), which are -inf there.
        """
        scores[np.arange(len(scores)), index[:, 1]] = best[:, 1]
        needed = self._distances[field, index[:, 0]] * shift[:, None]
        needed += 2 * rounding[:, None] + scores
        return np.asarray((best[:, :1] > needed).all(axis=1))

    def _coordinates(self, block: ScaledBlock) -> _Coordinates:
        """The coordinates of a block, in memory that the next call overwrites."""
        (b, d), dtype = block.rows.shape, block.rows.dtype
        typed, t = self._typed[dtype], block.scale[:, None]
        T = buffer("coordinates", (b, self.f, self.w + 1), dtype)
        if typed.directions is None:
            shifted, of_product = self._filled(block.rows), sum_error(0, dtype)
        else:
            shifted, of_product = split_product(block.rows, typed.directions), split_error(d, dtype)
        shifted = shifted - t * typed.offset
        T[:, :, :-1], T[:, :, -1] = shifted.reshape(b, self.f, self.w), t
        # The scale of rows of unit length is a sum over d columns; otherwise it is 1.
        of_scale = sum_error(d if self.preparation.normalize else 0, dtype)
        shift = block.length[:, None] * (of_product * self._spread)
        shift = shift + t * (of_scale * (self._offsets + self._longest))
        shift = shift + (np.reshape(block.error, (-1, 1)) + underflow_error(d, dtype)) * self._spread
        length = np.sqrt(np.vecdot(T[:, :, :-1], T[:, :, :-1]))
        rounding = (length * self._longest + t * self._highest) * sum_error(self.w, dtype)
        # Distances in a fixed order have an error, too: it is part of the bound, so that both agree.
        fixed = sum_error(self.w, np.float64) * (length + t * self._longest) ** 2 / t
        return _Coordinates(T, shift, rounding + fixed + underflow_error(self.w, dtype))

    def _filled(self, Z: Floats) -> Floats:
        """Rows (b, d) with columns of zeros up to p columns."""
        missing = len(self._b) - Z.shape[1]
        return np.pad(Z, ((0, 0), (0, missing))) if missing else Z

    def _in_fixed_order(self, Z: Floats, row: Ints, field: Ints) -> Ints:
        """The nearest centers (k,) of pairs of a row of Z (b, d) in float64 and a field."""
        found = np.empty(len(row), np.intp)
        step = max(1, _PAIRED_NUMBERS // (self.c * self.w))
        for start in range(0, len(row), step):
            i, j = row[start : start + step], field[start : start + step]
            columns = j[:, None] * self.w + np.arange(self.w)
            if self._p is None:
                coordinates = self._filled(Z[i])[np.arange(len(i))[:, None], columns]
            else:
                coordinates = paired_products(Z[i], self._p, columns)
            differences = self._books[j] - (coordinates - self._b[columns])[:, None]
            squared = np.add.reduce(np.square(differences, out=differences), axis=2)
            found[start : start + step] = squared.argmin(axis=1)
        return found


def _distances(book: Floats) -> Floats:
    """A bound (c, c) on the distance of each two centers of a field, (c, w) in float64."""
    near = np.sqrt(numpy_backend.squared_distances(book, book))
    # The error of a squared distance is at most γ (|a| + |b|)².
    rounding = 4 * np.sqrt(sum_error(book.shape[1], np.float64) * np.square(book).sum(axis=1).max())
    return np.asarray(near + rounding)


def _is_repeated(books: Floats) -> Mask:
    """Whether a center (f, c) equals one with a lower number in its field."""
    repeated = np.ones(books.shape[:2], bool)
    for field, book in enumerate(books):
        repeated[field, np.unique(book, axis=0, return_index=True)[1]] = False
    return repeated
