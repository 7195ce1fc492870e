"""What an index holds, and whether its codes have collapsed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manihash.codes import n_bytes, unpack
from manihash.search.buckets import Buckets

# Codes unpacked to bits at once.
_BLOCK = 2**14
# Bits are called correlated from here, codes collapsed where one code holds such a share of the rows.
_CORRELATED = 0.95
_COLLAPSED = 0.1
_FEW_EFFECTIVE = 0.25


@dataclass(frozen=True)
class Stats:
    """Figures of an index; ``warnings`` say what is wrong with its codes and what to do."""

    rows: int
    n_bits: int
    distinct_codes: int
    largest_bucket: int
    mean_bucket: float
    median_bucket: float  # of the bucket that a row finds itself in
    constant_bits: tuple[int, ...]
    correlated_bits: tuple[tuple[int, int], ...]  # pairs with |correlation| of at least 0.95
    effective_bits: (
        float  # independent bits that would vary as much: (trace C)² / |C|², C the bits' correlation
    )
    entropy: float  # of the distribution of rows over codes, in bits
    bytes: int
    table_bytes: int  # of the tables that radius look-up made, on top of bytes
    warnings: tuple[str, ...]


def stats(buckets: Buckets, n_bits: int, held: int, tables: int) -> Stats:
    """Figures of all rows of the buckets, of which there is at least one."""
    count = buckets.counts(np.arange(len(buckets.codes)))
    n, u = int(count.sum()), len(count)
    share = count / n
    correlation, constant = _correlation(buckets, count, n_bits)
    pairs = np.argwhere(np.triu(np.abs(correlation) >= _CORRELATED, 1))
    squares = float(np.square(correlation).sum())
    effective = float(np.trace(correlation)) ** 2 / squares if squares else 0.0
    ordered = np.sort(count)
    median = float(ordered[np.searchsorted(np.cumsum(ordered), (n + 1) // 2)])
    constants, correlated = tuple(constant.tolist()), tuple((int(i), int(j)) for i, j in pairs)
    return Stats(
        rows=n,
        n_bits=n_bits,
        distinct_codes=u,
        largest_bucket=int(count.max()),
        mean_bucket=n / u,
        median_bucket=median,
        constant_bits=constants,
        correlated_bits=correlated,
        effective_bits=effective,
        entropy=float(-(share * np.log2(share)).sum()) + 0.0,
        bytes=held,
        table_bytes=tables,
        warnings=_warnings(n, n_bits, int(count.max()), len(constants), len(correlated), effective),
    )


def _correlation(
    buckets: Buckets, count: NDArray[np.int64], n_bits: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Correlation (r, r) of the bits over the rows, zero for bits that never change; and which these are."""
    both, ones = np.zeros((n_bits, n_bits)), np.zeros(n_bits)
    for i in range(0, len(count), _BLOCK):
        bits = unpack(buckets.codes[i : i + _BLOCK, : n_bytes(n_bits)], n_bits).astype(np.float64)
        weighted = bits * count[i : i + _BLOCK, None]
        both += weighted.T @ bits
        ones += weighted.sum(axis=0)
    n = count.sum()
    p = ones / n
    deviation = np.sqrt(p * (1 - p))
    constant = np.flatnonzero((ones == 0) | (ones == n))
    scale = np.divide(1, deviation, where=deviation > 0, out=np.zeros(n_bits))
    return (both / n - np.outer(p, p)) * np.outer(scale, scale), constant


def _warnings(
    n: int, n_bits: int, largest: int, constant: int, correlated: int, effective: float
) -> tuple[str, ...]:
    said = []
    if n > 1 and largest > max(1, _COLLAPSED * n):
        said.append(
            f"the codes have collapsed: one code holds {largest:,} of {n:,} rows. Fit with more base points, "
            "with a rotation (ITQRotation), or with more bits; look for vectors that are equal"
        )
    if n > 1 and constant:
        said.append(
            f"{constant} of {n_bits} bits are the same in every row and tell nothing: fit with a rotation, "
            f"or with at most {max(1, n_bits - constant)} bits"
        )
    if correlated:
        said.append(
            f"{correlated} pairs of bits say nearly the same (correlation of 0.95 and more): "
            "fit with a rotation, or with fewer bits"
        )
    if n > n_bits and effective < _FEW_EFFECTIVE * n_bits:
        said.append(
            f"{n_bits} bits vary as {effective:.1f} independent ones would: shorter codes would do as well, "
            "or a larger base set would use them better"
        )
    return tuple(said)
