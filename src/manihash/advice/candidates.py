"""The candidates among which ``choose`` chooses, and their measurement on a sample."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from manihash.advice.quality import (
    CopiesFound,
    Qualities,
    Quality,
    Truths,
    mean_quality,
    quality_of,
    quality_of_ranking,
)
from manihash.advice.sample import Sample
from manihash.codes import hamming, n_bytes
from manihash.evaluation.truth import EuclideanScan
from manihash.hashers.collapse import codes_not_judged
from manihash.hashers.recipes import recipe
from manihash.progress import without_notes
from manihash.search.hamming_index import HammingIndex
from manihash.types import Floats

MANIFOLD = ("imh-hybrid", "imh-graph", "imh-large-ee", "imh-tsne-rotated", "agh2")
OTHER = ("itq", "sign", "sign-prefix")
# Codes for a look-up only, and codes that are not looked up.
LOOK_UP, RANKED = ("imh-hybrid-hamming",), ("pq", "opq")
LABELED = ("ksh", "cgh", "ldahash", "imh-supervised", "imh-supervised-large", "imh-hybrid-supervised")
# Signs of all columns, as vector databases store them: measured for comparison.
WHOLE = ("sign-zero", "sign-median")
# A recipe, and the same with a smaller base set for faster fits.
FASTER = {"imh-graph": "imh-graph-small"}
VECTORS = "vectors"  # a scan of the vectors, for comparison
_TIMED_QUERIES = 100


@dataclass(frozen=True)
class Candidate:
    """A recipe at one code length."""

    recipe: str
    n_bits: int

    @property
    def uses_labels(self) -> bool:
        """Whether it learns from labels."""
        return self.recipe in LABELED

    def __str__(self) -> str:
        return self.recipe if self.recipe == VECTORS else f"{self.recipe}, {self.n_bits} bits"


@dataclass(frozen=True, eq=False)
class Measured:
    """A candidate on samples: quality and times, or the reason why it was not measured."""

    candidate: Candidate
    quality: Quality | None = None
    groups: tuple[Quality, ...] = ()
    bytes_per_row: int = 0
    fit_seconds: float = 0.0
    encode_us_per_row: float = 0.0
    search_us_per_query: float = 0.0
    n_rows: int = 0  # rows that it was fitted to
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Split:
    """A sample with what answers are compared with, and the seed of the methods."""

    sample: Sample
    truths: Truths
    seed: int
    copies: "Copies | None" = None


@dataclass(frozen=True, eq=False)
class Copies:
    """Noisy copies (c, d) of some rows of a sample, and the positions (c,) of their originals."""

    X: Floats
    of: Any


def candidates(n_bits: int, width: int, goal: str, *, labels: bool, faster: bool) -> list[Candidate]:
    """All candidates of one length for a goal, quick ones first, and signs of all columns."""
    quick = tuple(FASTER.values()) if faster else ()
    own = LOOK_UP if goal in ("group", "duplicates") else RANKED
    names = (*own, *OTHER, *(LABELED if labels else ()), *quick, *MANIFOLD)
    whole = [Candidate(name, width) for name in WHOLE]
    return [*whole, *(Candidate(name, n_bits) for name in names)]


def measure(candidate: Candidate, split: Split) -> Measured:
    """Fit a candidate to a sample and measure it; a method that refuses the rows gives a reason."""
    sample = split.sample
    try:
        hasher, fit = fitted(candidate, sample, split.seed)
    except ValueError as error:
        return Measured(candidate, reason=str(error))
    with codes_not_judged():
        start = perf_counter()
        codes = hasher.encode(sample.database)
        encode = perf_counter() - start
        found = quality_of(hasher, codes, sample.Q, split.truths)
        if split.copies is not None and found.whole.lookup is not None:
            found = _with_copies(found, hasher, codes, split.copies)
    return Measured(
        candidate,
        found.whole,
        found.groups,
        n_bytes(candidate.n_bits),
        fit,
        1e6 * encode / len(codes),
        1e6 * _search_seconds(hasher, codes, sample.Q[:_TIMED_QUERIES]),
        len(sample.X),
    )


def fitted(candidate: Candidate, sample: Sample, seed: int) -> tuple[Any, float]:
    """The hasher of a candidate, fitted to a sample, and the seconds that this took."""
    with without_notes(), codes_not_judged(), warnings.catch_warnings():  # the scores judge them
        warnings.simplefilter("ignore", UserWarning)
        hasher, start = recipe(candidate.recipe, candidate.n_bits, seed), perf_counter()
        hasher = hasher.fit(sample.X, sample.lesson) if candidate.uses_labels else hasher.fit(sample.X)
        return hasher, perf_counter() - start


def measure_vectors(split: Split) -> Measured:
    """The measures of a scan of the vectors, which no code is compared with but by its quality."""
    sample = split.sample
    found = quality_of_ranking(EuclideanScan(sample.Q, sample.database).keys, split.truths)
    width = sample.X.shape[1] * sample.X.dtype.itemsize
    return Measured(Candidate(VECTORS, 8 * width), found.whole, found.groups, width, n_rows=len(sample.X))


def combined(measures: Sequence[Measured]) -> Measured:
    """The means of what was measured for one candidate on several splits, with the groups of all of them."""
    known = [each for each in measures if each.quality is not None]
    if len(known) < 2:
        return known[0] if known else measures[0]
    names = ("fit_seconds", "encode_us_per_row", "search_us_per_query")
    times: Any = {name: float(np.mean([getattr(each, name) for each in known])) for name in names}
    quality = mean_quality([each.quality for each in known])
    return replace(known[0], quality=quality, groups=sum((each.groups for each in known), ()), **times)


def _search_seconds(hasher: Any, codes: Any, Q: Any) -> float:
    """Seconds of a search for the ten nearest rows, per query."""
    layout, queries = hasher.layout_, hasher.encode(Q)
    values = hasher.embed(Q) if layout.has_fields else None
    index = HammingIndex(codes, hasher.n_bits_, layout=layout, made_by=hasher)
    k = min(10, len(codes))
    index.search(queries[:1], k=k, asymmetric=None if values is None else values[:1])
    start = perf_counter()
    index.search(queries, k=k, asymmetric=values)
    return (perf_counter() - start) / len(queries)


def plant_copies(sample: Sample, spacing: float, number: int, rng: np.random.Generator) -> Copies:
    """Copies of random rows with normal noise, of a quarter of the spacing of the rows in length."""
    X = sample.database
    some = np.sort(rng.choice(len(X), min(number, len(X)), replace=False))
    noise = rng.normal(size=(len(some), X.shape[1]))
    noise *= spacing / 4 / np.linalg.norm(noise, axis=1, keepdims=True)
    return Copies((X[some] + noise).astype(X.dtype), some)


def _with_copies(found: Qualities, hasher: Any, codes: Any, copies: Copies) -> Qualities:
    """The qualities with the copies that are found; each group has its own part of the copies."""
    number, encoded, layout = len(found.groups), hasher.encode(copies.X), hasher.layout_
    if layout.has_fields:  # the first part is looked up
        encoded, codes = layout.first(encoded), layout.first(codes)
    n_bits = layout.look_up_bits if layout.has_fields else layout.n_bits
    return Qualities(
        replace(found.whole, copies=_found(encoded, codes, copies.of, n_bits)),
        tuple(
            replace(group, copies=_found(encoded[g::number], codes, copies.of[g::number], n_bits))
            for g, group in enumerate(found.groups)
        ),
    )


def _found(encoded: Any, codes: Any, of: Any, n_bits: int) -> CopiesFound:
    """How many copies are within each radius of their originals, and how many rows are."""
    near = np.zeros(n_bits + 1)
    returned = np.zeros(n_bits + 1)
    for start in range(0, len(encoded), 256):
        distance = hamming(encoded[start : start + 256], codes)
        own = distance[np.arange(len(distance)), of[start : start + 256]]
        near += np.bincount(own, minlength=len(near))
        returned += np.bincount(distance.ravel(), minlength=len(returned))
    return CopiesFound(np.cumsum(near) / len(encoded), np.cumsum(returned) / len(encoded))
