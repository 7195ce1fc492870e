"""What each radius costs and finds: a curve that chooses the radius within which duplicates are searched."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from manihash.codes import hamming, words
from manihash.display import Shown
from manihash.search.near_pairs import choose_scheme
from manihash.search.vector_pairs import PairVerifier
from manihash.types import Codes

_log = logging.getLogger(__name__)

_SAMPLE = 1000  # rows that are compared with all rows
_BLOCK = 2**17  # rows that are read at once
_FOUND = 0.99  # share of the duplicates of these rows that must be within the radius
_FEW_PAIRS = 10  # with fewer duplicates in the sample this share is not known, and
_FEW_CANDIDATES = 10  # the radius is the largest one with so many candidates per row
_SCAN = 0.25  # share of all pairs: with more candidates, codes are of little use


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
        Estimated time to search and to verify all candidate pairs.

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


def radius_curve(codes: Codes, n_bits: int, verifier: PairVerifier) -> tuple[RadiusStep, ...]:
    """What each radius costs and finds, measured with some rows and all rows."""
    n = len(codes)
    some = np.sort(np.random.default_rng(0).choice(n, min(n, _SAMPLE), replace=False))
    near = np.zeros(n_bits + 1)
    for start in range(0, n, _BLOCK):
        block = np.asarray(codes[start : start + _BLOCK])
        for i in range(0, len(some), 64):
            near += np.bincount(hamming(codes[some[i : i + 64]], block).ravel(), minlength=n_bits + 1)
    near[0] -= len(some)  # each row itself
    duplicates = np.zeros(n_bits + 1)
    for query, row in verifier.duplicates_of(some):
        far = np.bitwise_count(codes[some[query]] ^ codes[row]).sum(axis=1, dtype=np.intp)
        duplicates += np.bincount(far, minlength=n_bits + 1)
    start_time = perf_counter()
    trial = np.random.default_rng(0).integers(n, size=(2, min(20_000, 50 * n)))
    verifier.verified(*trial)
    per_pair = (perf_counter() - start_time) / trial.shape[1]
    candidates = np.cumsum(near) * n / len(some) / 2
    found = np.cumsum(duplicates) / duplicates.sum() if duplicates.sum() >= _FEW_PAIRS else None
    steps, sampled = [], words(codes[some])
    for radius, pairs in enumerate(candidates.tolist()):
        search = choose_scheme(sampled, n, radius).seconds
        share = float("nan") if found is None else float(found[radius])
        steps.append(RadiusStep(radius, pairs, share, search + per_pair * pairs))
        if pairs > _SCAN * n * n / 2 or share >= 1 - 1e-9:
            break
    return tuple(steps)


def chosen_radius(curve: Sequence[RadiusStep], n: int) -> int:
    """The smallest radius that finds nearly all duplicates, or the largest one with few candidates."""
    enough = [step for step in curve if step.found >= _FOUND]
    if enough:
        chosen = enough[0]
    else:
        few = [step for step in curve if 2 * step.candidates <= _FEW_CANDIDATES * n]
        chosen = few[-1] if few else curve[0]
        if not np.isnan(chosen.found):
            chosen = curve[-1]
    if chosen.candidates > _SCAN * n * n / 2:
        _log.warning(
            "within radius %d, %.0f %% of all pairs of rows are candidates: use longer codes that keep "
            "details, such as itq or sign with 128 bits",
            chosen.radius,
            200 * chosen.candidates / (n * n),
        )
    return chosen.radius
