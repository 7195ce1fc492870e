"""Statistics of the codes of an index, and warnings if they have collapsed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.codes import n_bytes, unpack
from manihash.display import Shown, html
from manihash.linalg import effective_number
from manihash.search.buckets import Buckets
from manihash.types import Ints

# Codes unpacked to bits at once.
_BLOCK = 2**14
# Thresholds of the warnings: correlation of two bits, share of rows with one code.
_CORRELATED = 0.95
# Share of the bits that repeat an earlier one from which on shorter codes are advised.
_REPEATED = 0.25
_COLLAPSED = 0.1


@dataclass(frozen=True, repr=False)
class IndexStats(Shown):
    """Statistics of the codes of an index, as ``HammingIndex.stats`` returns them.

    Parameters
    ----------
    rows : int
        Number of rows.
    n_bits : int
        Length of a code.
    distinct_codes : int
        Number of distinct codes.
    largest_bucket : int
        Largest number of rows with one code.
    mean_bucket : float
        Mean number of rows per distinct code.
    median_bucket : float
        Median over the rows of the number of rows with the same code.
    constant_bits : tuple of int
        Bits that are the same in every row.
    correlated_bits : tuple of (int, int)
        Pairs of bits with an absolute correlation of at least 0.95.
    effective_bits : float
        Number of independent bits with as much variance: (trace C)² / ‖C‖², C the correlation of the bits. It
        describes redundancy and not quality: longer codes can be better at the same number.
    entropy : float
        Entropy of the distribution of rows over codes, in bits.
    bytes : int
        Memory of codes, row lists and ids.
    table_bytes : int
        Memory of the tables that radius queries have built, in addition to ``bytes``.
    warnings : tuple of str
        Problems of the codes.

    Examples
    --------
    >>> from manihash import HammingIndex, pack
    >>> stats = HammingIndex(pack([[0, 0, 1], [0, 1, 0], [0, 1, 0]]), n_bits=3).stats()
    >>> stats.rows, stats.distinct_codes, stats.largest_bucket
    (3, 2, 2)
    >>> stats.constant_bits
    (0,)
    """

    rows: int
    n_bits: int
    distinct_codes: int
    largest_bucket: int
    mean_bucket: float
    median_bucket: float
    constant_bits: tuple[int, ...]
    correlated_bits: tuple[tuple[int, int], ...]
    effective_bits: float
    entropy: float
    bytes: int
    table_bytes: int
    warnings: tuple[str, ...]

    def _facts(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "n_bits": self.n_bits,
            "distinct_codes": self.distinct_codes,
            "mean_bucket": self.mean_bucket,
            "median_bucket": self.median_bucket,
            "largest_bucket": self.largest_bucket,
            "constant_bits": len(self.constant_bits),
            "correlated_pairs": len(self.correlated_bits),
            "effective_bits": self.effective_bits,
            "entropy": self.entropy,
            "bytes": self.bytes,
            "warnings": len(self.warnings),
        }

    def _repr_html_(self) -> str:
        notes = [f"Warning: {warning}." for warning in self.warnings]
        return html(type(self).__name__, self._facts(), notes)


def stats(buckets: Buckets, n_bits: int, held: int, tables: int, *, ranked: bool = True) -> IndexStats:
    """Statistics of the rows of buckets, at least one; ``held`` and ``tables`` are numbers of bytes.

    ``ranked`` is whether these codes rank the rows; many rows may share a first part, which only finds them.
    """
    count = buckets.counts(np.arange(len(buckets.codes)))
    n, u = int(count.sum()), len(count)
    share = count / n
    correlation, constant = _correlation(buckets, count, n_bits)
    pairs = np.argwhere(np.triu(np.abs(correlation) >= _CORRELATED, 1))
    ordered = np.sort(count)
    median = float(ordered[np.searchsorted(np.cumsum(ordered), (n + 1) // 2)])
    constants, correlated = tuple(constant.tolist()), tuple((int(i), int(j)) for i, j in pairs)
    return IndexStats(
        rows=n,
        n_bits=n_bits,
        distinct_codes=u,
        largest_bucket=int(count.max()),
        mean_bucket=n / u,
        median_bucket=median,
        constant_bits=constants,
        correlated_bits=correlated,
        effective_bits=effective_number(correlation),
        entropy=float(-(share * np.log2(share)).sum()) + 0.0,
        bytes=held,
        table_bytes=tables,
        warnings=_warnings(
            n, n_bits, int(count.max()) if ranked else 1, len(constants), len({j for _, j in correlated})
        ),
    )


def _correlation(buckets: Buckets, count: Ints, n_bits: int) -> tuple[NDArray[np.float64], Ints]:
    """Correlation (r, r) of the bits over the rows, zero for constant bits; and the constant bits."""
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


def _warnings(n: int, n_bits: int, largest: int, constant: int, repeated: int) -> tuple[str, ...]:
    """One sentence per problem of the codes; advice only where it follows from the codes alone."""
    texts = []
    if n > 1 and largest > max(1, _COLLAPSED * n):
        texts.append(
            f"the codes have collapsed: {largest:,} of {n:,} rows have the same code, and a search cannot "
            "tell them apart. Check for equal vectors, use another method, or rank the answers by the "
            "original vectors (Rerank)"
        )
    if n > 1 and constant:
        texts.append(
            f"{constant} of {n_bits} bits are the same in every row: "
            "they do not change any ranking of the rows"
        )
    if repeated >= _REPEATED * n_bits:
        texts.append(
            f"{repeated} of {n_bits} bits repeat an earlier bit (correlation 0.95 or more): codes of "
            f"{n_bits - repeated} bits would say about as much, so use fewer bits, or another method"
        )
    return tuple(texts)
