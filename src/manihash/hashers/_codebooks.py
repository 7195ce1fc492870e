"""Codebooks of product quantizers: how they are learned, and fields of bits in packed codes.

Coordinates (n, p) are cut into f fields of w columns. The codebook of a field has c centers (c, w).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.base.lloyd import among_all, lloyd, lloyd_round
from manihash.compute import backend
from manihash.progress import advance
from manihash.rows.local import LocalRows
from manihash.types import Codes, Floats, Ints

# Lloyd iterations from the random start, before the first rotation.
_FIRST_STEPS = 3
# Smaller variances, relative to the largest, count as this one.
_LEAST_VARIANCE = 1e-9


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
        found.append(_with_equal_unused(book, labels))
        most = max(most, taken)
    advance("codebooks", fields, fields)
    return np.stack(found), most


def learn_rotation(
    Z: Floats, fields: int, centers: int, max_iter: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return a rotation R (p, p) in float64 and codebooks (f, c, w) of the coordinates Z R.

    Each of ``max_iter`` rounds moves the centers of each field by an iteration of k-means, and then rotates
    Z as close to the centers of its rows as possible. Rounds of k-means alone follow.
    """
    p = Z.shape[1]
    w = p // fields
    R = start_rotation(Z, fields)
    T = _rotated(Z, R)
    books = [part[rng.choice(len(part), centers, replace=False)] for part in _fields(T, w)]
    for done in range(max_iter):
        advance("rotation", done, max_iter)
        nearest = np.empty_like(T)
        for j, part in enumerate(_fields(T, w)):
            rows = LocalRows(part)
            for _ in range(1 if done else _FIRST_STEPS):
                books[j], labels, _ = lloyd_round(rows, books[j], among_all(rows))
            nearest[:, j * w : (j + 1) * w] = books[j][labels]
        R = _closest_rotation(Z, nearest)
        T = _rotated(Z, R)
    advance("rotation", max_iter, max_iter)
    for j, part in enumerate(_fields(T, w)):
        rows = LocalRows(part)
        books[j] = _with_equal_unused(*lloyd(rows, books[j], max_iter, among_all(rows))[:2])
    return R, np.stack(books)


def _with_equal_unused(book: Floats, labels: NDArray[Any]) -> Floats:
    """Return centers (c, w) in which those without rows equal the first one with rows.

    Where rows repeat, such centers differ from a used one by rounding, and float32 could decide no row.
    """
    used = np.unique(labels)
    kept = np.repeat(book[used[:1]], len(book), axis=0)
    kept[used] = book[used]
    return kept


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
    U, _, Vt = np.linalg.svd(cross)
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
