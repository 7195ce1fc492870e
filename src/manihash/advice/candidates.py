"""The candidates among which ``choose`` chooses, and their measurement on a sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from manihash.advice.quality import Quality, Truths, quality_of, quality_of_ranking
from manihash.advice.sample import Sample
from manihash.codes import hamming, n_bytes
from manihash.hashers.recipes import recipe
from manihash.progress import without_notes
from manihash.search.faiss_peers import PEERS, FaissQuantizer
from manihash.search.index import HammingIndex
from manihash.search.scanners import faiss_library
from manihash.types import Floats

MANIFOLD = ("imh-tsne-rotated", "imh-graph-small", "imh-graph", "imh-hybrid", "imh-large-ee", "agh2")
OTHER = ("itq", "sph", "sign")
# A recipe, and the same with a smaller base set for faster fits.
FASTER = {"imh-graph": "imh-graph-small"}
# Up to this many rows, every row is a base point of both imh-graph and imh-graph-small.
_SAME_BASE_ROWS = 2000


@dataclass(frozen=True)
class Candidate:
    """A recipe, or a quantizer of FAISS, at one code length."""

    recipe: str
    n_bits: int

    @property
    def is_peer(self) -> bool:
        """Whether it is a quantizer of FAISS, which has no Hamming distance and no radius."""
        return self.recipe in PEERS

    def __str__(self) -> str:
        return f"{self.recipe}, {self.n_bits} bits"


@dataclass(frozen=True, eq=False)
class Measured:
    """A candidate on a sample: quality and times, or the reason why it was not measured."""

    candidate: Candidate
    quality: Quality | None = None
    bytes_per_row: int = 0
    fit_seconds: float = 0.0
    encode_us_per_row: float = 0.0
    search_us_per_query: float = 0.0
    copies: "CopiesFound | None" = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class CopiesFound:
    """Share of the planted copies whose original is within each radius, and rows within it: (n_bits + 1,)."""

    found: Floats
    returned: Floats


def candidates(lengths: Sequence[int], n_rows: int) -> list[Candidate]:
    """All candidates for a sample of some rows, short codes first; those of FAISS if it is installed."""
    same = {"imh-graph-small"} if n_rows <= _SAME_BASE_ROWS else set()
    peers = PEERS if faiss_library() is not None else {}
    names = [name for name in (*OTHER, *peers, *MANIFOLD) if name not in same]
    return [Candidate(name, bits) for bits in sorted(set(lengths)) for name in names]


def measure(
    candidate: Candidate, sample: Sample, truths: Truths, seed: int, copies: "Copies | None" = None
) -> Measured:
    """Fit a candidate to the sample and measure it; a method that refuses the rows gives a reason."""
    if candidate.is_peer:
        return _measure_peer(candidate, sample, truths, seed)
    times = [perf_counter()]
    try:
        with without_notes():
            hasher = recipe(candidate.recipe, candidate.n_bits, seed).fit(sample.X)
    except ValueError as error:
        return Measured(candidate, reason=str(error))
    times.append(perf_counter())
    codes = hasher.encode(sample.X)
    times.append(perf_counter())
    queries = hasher.encode(sample.Q)
    layout = hasher.layout_
    values = hasher.embed(sample.Q) if layout.has_fields else None
    quality = quality_of(hasher, codes, sample.Q, truths)
    index = HammingIndex(codes, candidate.n_bits, layout=layout, made_by=hasher)
    index.search(queries[:1], k=min(10, len(codes)), asymmetric=None if values is None else values[:1])
    start = perf_counter()
    index.search(queries, k=min(10, len(codes)), asymmetric=values)
    search = perf_counter() - start
    fit, encode = np.diff(times)
    return Measured(
        candidate,
        quality,
        n_bytes(candidate.n_bits),
        float(fit),
        1e6 * float(encode) / len(codes),
        1e6 * search / len(queries),
        None if copies is None else _found(hasher, codes, copies),
    )


def _measure_peer(candidate: Candidate, sample: Sample, truths: Truths, seed: int) -> Measured:
    """The measures of a quantizer of FAISS; its distances are real numbers."""
    times = [perf_counter()]
    try:
        peer = FaissQuantizer(PEERS[candidate.recipe], candidate.n_bits, random_state=seed).fit(sample.X)
    except (ValueError, ImportError) as error:
        return Measured(candidate, reason=str(error))
    times.append(perf_counter())
    codes = peer.encode(sample.X)
    times.append(perf_counter())
    index = peer.index(codes)
    quality = quality_of_ranking(lambda start, stop: index.distances(sample.Q[start:stop]), truths)
    start = perf_counter()
    index.search(sample.Q, k=min(10, len(codes)))
    search = perf_counter() - start
    fit, encode = np.diff(times)
    return Measured(
        candidate,
        quality,
        peer.bytes_per_row_,
        float(fit),
        1e6 * float(encode) / len(codes),
        1e6 * search / len(sample.Q),
    )


@dataclass(frozen=True, eq=False)
class Copies:
    """Noisy copies (c, d) of some rows of a sample, and the positions (c,) of their originals."""

    X: Floats
    of: Any


def plant_copies(sample: Sample, spacing: float, number: int, rng: np.random.Generator) -> Copies:
    """Copies of random rows with normal noise, of a quarter of the spacing of the rows in length."""
    some = np.sort(rng.choice(len(sample.X), min(number, len(sample.X)), replace=False))
    noise = rng.normal(size=(len(some), sample.X.shape[1]))
    noise *= spacing / 4 / np.linalg.norm(noise, axis=1, keepdims=True)
    return Copies((sample.X[some] + noise).astype(sample.X.dtype), some)


def _found(hasher: Any, codes: Any, copies: Copies) -> CopiesFound:
    """How many copies are within each radius of their originals, and how many rows are."""
    near = np.zeros(hasher.n_bits_ + 1)
    returned = np.zeros(hasher.n_bits_ + 1)
    encoded = hasher.encode(copies.X)
    for start in range(0, len(encoded), 256):
        distance = hamming(encoded[start : start + 256], codes)
        own = distance[np.arange(len(distance)), copies.of[start : start + 256]]
        near += np.bincount(own, minlength=len(near))
        returned += np.bincount(distance.ravel(), minlength=len(returned))
    return CopiesFound(np.cumsum(near) / len(encoded), np.cumsum(returned) / len(encoded))
