"""What each radius costs and finds: a curve that chooses the radius within which duplicates are searched."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manihash.codes import hamming, words
from manihash.display import Shown
from manihash.search.near_pairs import choose_scheme
from manihash.search.vector_pairs import PairVerifier
from manihash.types import Codes, Ids

_log = logging.getLogger(__name__)

_SAMPLE = 1000  # rows that are compared with all rows
_BLOCK = 2**17  # rows that are read at once
_BYTES_PER_PAIR = 16  # bytes to count the distances of codes
_FOUND = 0.99  # share of the duplicates of these rows that must be within the radius
_FEW_PAIRS = 10  # with fewer duplicates in the sample this share says little
_FEW_CANDIDATES = 10  # per row: a radius with more of them is used only if the sample needs it
_SCAN = 0.25  # share of all pairs: with more candidates, codes are of little use
# Seconds that a search may take to look further than the sample needs. The sample itself takes _PER_PRODUCT
# for each value that is multiplied, so the search may take as long. All of these are constants, not measured
# times: the same rows must give the same radius, or an interrupted search could not be resumed.
_CHEAP, _PER_PRODUCT = 2.0, 1e-10
_PER_PAIR, _PER_VALUE = 1e-7, 2e-9  # seconds to verify a pair, and for each value of its vectors
_DEVIATIONS = 3.0  # of the bits that differ between two rows at the threshold


@dataclass(frozen=True, repr=False)
class RadiusStep(Shown):
    """A radius, as measured on a sample of the rows before the search.

    Parameters
    ----------
    radius : int
        Hamming radius.
    candidates : float
        Expected number of candidate pairs of all rows.
    found : float
        Share of the sample's true duplicates within the radius; NaN if the sample has none.
    seconds : float
        Estimated time to search and to verify all candidate pairs; that of your machine may differ.

    Examples
    --------
    >>> from manihash.search import RadiusStep
    >>> RadiusStep(radius=2, candidates=100.0, found=0.5, seconds=0.1).found
    0.5
    """

    radius: int
    candidates: float
    found: float
    seconds: float


@dataclass(frozen=True)
class RadiusChoice:
    """The radius, the steps of the curve, the duplicates of the sample, and why this radius was chosen."""

    radius: int
    curve: tuple[RadiusStep, ...]
    duplicates: int | None
    reason: str


def choose_radius(codes: Codes, n_bits: int, verifier: PairVerifier, memory: int) -> RadiusChoice:
    """Choose the radius within which the duplicates of codes (n, b) are searched.

    It contains 99 % of the duplicates of a sample. A sample with few duplicates cannot show how far apart
    the codes of duplicates are, so larger radii are used as long as they are cheap, up to the number of bits
    in which two rows at the threshold are expected to differ.
    """
    n = len(codes)
    some = np.sort(np.random.default_rng(0).choice(n, min(n, _SAMPLE), replace=False))
    duplicates = _duplicates(codes, n_bits, verifier, some)
    expected = _expected_bits(n_bits, verifier, some)
    curve = _curve(codes, some, _near(codes, n_bits, some, memory), duplicates, expected, verifier.n_columns)
    count = int(duplicates.sum())
    cheap = max(_CHEAP, _PER_PRODUCT * n * len(some) * verifier.n_columns)
    needed = _needed(curve, n, count)
    chosen = needed
    for step in curve[needed.radius + 1 :]:
        if step.radius > expected or 2 * step.candidates > _FEW_CANDIDATES * n or step.seconds > cheap:
            break
        chosen = step
    if chosen.candidates > _SCAN * n * n / 2:
        _log.warning(
            "within radius %d, %.0f %% of all pairs of rows are candidates: use longer codes that keep "
            "details, such as itq or sign with 128 bits",
            chosen.radius,
            200 * chosen.candidates / (n * n),
        )
    reason = _reason(curve, chosen, needed, count, len(some), expected)
    return RadiusChoice(chosen.radius, curve, count, reason)


def _near(codes: Codes, n_bits: int, some: Ids, memory: int) -> Ids:
    """How many pairs of some rows and all other rows have each Hamming distance (n_bits + 1,)."""
    near = np.zeros(n_bits + 1)
    at_once = min(64, len(some))
    rows = max(1, min(_BLOCK, memory // (4 * _BYTES_PER_PAIR * at_once)))
    for start in range(0, len(codes), rows):
        block = np.asarray(codes[start : start + rows])
        for i in range(0, len(some), at_once):
            distance = hamming(codes[some[i : i + at_once]], block)
            near += np.bincount(distance.ravel(), minlength=n_bits + 1)
    near[0] -= len(some)  # each row itself
    return near


def _duplicates(codes: Codes, n_bits: int, verifier: PairVerifier, some: Ids) -> Ids:
    """How many duplicates of some rows are at each Hamming distance (n_bits + 1,)."""
    duplicates = np.zeros(n_bits + 1)
    for query, row in verifier.duplicates_of(some):
        far = np.bitwise_count(codes[some[query]] ^ codes[row]).sum(axis=1, dtype=np.intp)
        duplicates += np.bincount(far, minlength=n_bits + 1)
    return duplicates


def _expected_bits(n_bits: int, verifier: PairVerifier, some: Ids) -> int:
    """At most so many bits are expected to differ between two rows that are just similar enough.

    A bit of sign codes differs with probability angle / π, where the angle of the rows is seen from their
    mean. All bits are possible if the threshold is as large as the data.
    """
    spread = verifier.squared_spread(some)
    if not (math.isfinite(spread) and spread > 0):
        return n_bits
    angle = 2 * math.asin(min(1.0, verifier.largest_gap / (2 * math.sqrt(spread))))
    share = angle / math.pi
    return min(n_bits, math.ceil(n_bits * share + _DEVIATIONS * math.sqrt(n_bits * share * (1 - share))))


def _curve(
    codes: Codes, some: Ids, near: Ids, duplicates: Ids, expected: int, n_columns: int
) -> tuple[RadiusStep, ...]:
    """What each radius costs and finds, up to the largest one that may be chosen."""
    n, count = len(codes), duplicates.sum()
    candidates = np.cumsum(near) * n / len(some) / 2
    found = np.cumsum(duplicates) / count if count else np.full(len(near), np.nan)
    last = max(expected, int(np.flatnonzero(duplicates)[-1]) if count else 0)
    steps, sampled = [], words(codes[some])
    for radius, pairs in enumerate(candidates[: last + 1].tolist()):
        search = choose_scheme(sampled, n, radius).seconds
        seconds = search + (_PER_PAIR + _PER_VALUE * n_columns) * pairs
        steps.append(RadiusStep(radius, pairs, float(found[radius]), seconds))
        if pairs > _SCAN * n * n / 2:
            break
    return tuple(steps)


def _needed(curve: Sequence[RadiusStep], n: int, count: int) -> RadiusStep:
    """The smallest radius that finds nearly all of the sample's duplicates; a few need few candidates."""
    enough = [step for step in curve if step.found >= _FOUND]
    if count >= _FEW_PAIRS:
        return enough[0] if enough else curve[-1]
    few = [step for step in curve if 2 * step.candidates <= _FEW_CANDIDATES * n]
    if not few or not count:
        return curve[0]
    return min(enough[0] if enough else few[-1], few[-1], key=lambda step: step.radius)


def _reason(
    curve: Sequence[RadiusStep],
    chosen: RadiusStep,
    needed: RadiusStep,
    count: int,
    sampled: int,
    expected: int,
) -> str:
    """Why a radius was chosen, as a sentence."""
    text = f"{sampled:,} random rows have {count:,} {'duplicate' if count == 1 else 'duplicates'}"
    if count:
        # Rounded down: 98.96 % is not 99 %.
        share = math.floor(1000 * chosen.found + 1e-9) / 10
        text += f", and {share:g} % of them are within radius {chosen.radius}"
    if count and chosen.radius == needed.radius:
        text += (
            "; a larger radius would take long or give many candidates" if chosen.radius < expected else ""
        )
    elif chosen.radius >= min(expected, curve[-1].radius):
        text += f"; rows at the threshold are expected to differ in at most {expected} bits"
    else:
        text += f"; radius {chosen.radius} is the largest one that takes little time and has few candidates"
    return text
