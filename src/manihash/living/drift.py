"""Drift: do new rows come from the distribution that a hasher was fitted to?

Four tests compare new rows with the training statistics. The p-value is the smallest of theirs times their
number (Bonferroni), so the tests may depend on each other.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from manihash.living.statistics import Observed, Statistics
from manihash.types import Floats, Ints

LEAST_ROWS = 30
_INSIDE = 0.99  # quantile of the training distances that bounds the training range
_EXPECTED = 5  # rows per group of base points, as the chi-squared test needs
_LISTED = 10
_MOSTLY = 0.5  # share of rows outside the training range above which the model does not describe the rows


@dataclass(frozen=True)
class Drift:
    """The result of ``hasher.drift``: whether new rows differ from the training rows, and how.

    Parameters
    ----------
    n_rows : int
        Number of new rows.
    statistic : float
        The smallest p-value of the tests.
    p_value : float
        Bound of the probability of such a statistic without drift: ``statistic`` times the number of tests,
        at most 1.
    level : float
        Drift is reported if ``p_value`` is below it.
    tests : dict of str to float
        The p-value of each test: ``distance`` (Kolmogorov-Smirnov test of the distance to the k-th nearest
        base point), ``outside`` (rows outside the training range), ``usage`` (chi-squared test of the rows
        nearest to each base point) and ``bits`` (the mean of each bit).
    outside : float
        Share of the new rows farther from their k-th nearest base point than 99 % of the training rows.
        Without drift it is near 0.01. For hashers without base points, rows whose values are shorter or
        longer than those of 99 % of the training rows.
    gained, lost : list of tuple (int, float, float)
        Base points whose share of rows grew or fell most: index, share of the training rows, share now.
    bits : list of tuple (int, float, float)
        Bits whose mean changed most: index, mean in training, mean now.
    quantiles : ndarray of shape (2, 257)
        Quantiles from 0 to 1 of the distance to the k-th nearest base point: of the training rows and of the
        new rows.
    advice : {"nothing", "update", "refit"}
        What to do.
    reason : str
        Why, in one sentence.

    Attributes
    ----------
    drifted : bool
        Whether drift is reported.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import IMH, KMeansBase, PCA
    >>> X = np.random.default_rng(0).normal(size=(3000, 8))
    >>> hasher = IMH(n_bits=4, base=KMeansBase(50), embedding=PCA(), random_state=0).fit(X[:2000])
    >>> hasher.drift(X[2000:]).drifted
    False
    >>> hasher.drift(X[2000:] + 1).drifted
    True
    """

    n_rows: int
    statistic: float
    p_value: float
    level: float
    tests: dict[str, float]
    outside: float
    gained: list[tuple[int, float, float]] = field(repr=False)
    lost: list[tuple[int, float, float]] = field(repr=False)
    bits: list[tuple[int, float, float]] = field(repr=False)
    quantiles: Floats = field(repr=False, compare=False)
    advice: str
    reason: str

    @property
    def drifted(self) -> bool:
        """Whether drift is reported."""
        return self.p_value < self.level


def compare(known: Statistics, seen: Observed, level: float) -> Drift:
    """Return how observed rows differ from the training rows."""
    n, distance = len(seen.distance), seen.distance
    tests = {
        "distance": _distance_test(known, distance),
        "outside": _outside_test(known, distance, bool(seen.m)),
        "bits": _bit_test(known, seen.bit_means, n),
    }
    if seen.m:
        tests["usage"] = _usage_test(known["usage"].astype(np.int64), seen.usage())
    smallest = min(tests.values())
    p_value = min(1.0, len(tests) * smallest)
    outside = float(_is_outside(known, distance, bool(seen.m)).mean())
    now = np.quantile(distance, np.linspace(0, 1, len(known["quantiles"])))
    quantiles = np.stack([known["quantiles"].astype(np.float64), now])
    farther = np.median(quantiles[1]) > np.median(quantiles[0]) and tests["distance"] * len(tests) < level
    farther |= tests["outside"] * len(tests) < level
    advice, reason = _advice(p_value < level, outside, bool(seen.m), farther)
    gained, lost = _changes(known["usage"] / max(1, known["n_sampled"]), seen.usage() / n)
    before = known["bit_means"].astype(np.float64)
    order = np.argsort(-np.abs(seen.bit_means - before), kind="stable")[:_LISTED]
    bits = [(int(j), float(before[j]), float(seen.bit_means[j])) for j in order]
    return Drift(n, smallest, p_value, level, tests, outside, gained, lost, bits, quantiles, advice, reason)


def combined(parts: list[Drift]) -> Drift:
    """Return the drift of a hasher with several parts: that of the part that differs most, corrected."""
    worst = min(parts, key=lambda part: part.p_value)
    p_value = min(1.0, len(parts) * worst.p_value)
    calm = p_value >= worst.level
    return Drift(
        **{name: getattr(worst, name) for name in Drift.__dataclass_fields__}
        | {"p_value": p_value}
        | ({"advice": "nothing", "reason": _NOTHING} if calm else {})
    )


def _distance_test(known: Statistics, distance: Floats) -> float:
    """Return the p-value of the two-sample Kolmogorov-Smirnov test, given quantiles of one sample."""
    from scipy.special import kolmogorov

    n, S = len(distance), known["n_sampled"]
    values, counts = np.unique(distance.astype(np.float32), return_counts=True)
    up_to = counts.cumsum() / n
    before = np.concatenate([[0], up_to[:-1]])
    F_up_to, F_before = (
        _share_up_to(known["quantiles"], values, "right"),
        _share_up_to(known["quantiles"], values, "left"),
    )
    D = float(max(np.abs(up_to - F_up_to).max(), np.abs(before - F_before).max()))
    return float(kolmogorov(D * np.sqrt(n * S / (n + S))))


def _share_up_to(quantiles: Floats, values: Floats, side: Literal["left", "right"]) -> Floats:
    """Return the share of rows at most (right) or below (left) ``values``, given evenly spaced quantiles."""
    place, last = np.searchsorted(quantiles, values, side), len(quantiles) - 1
    low, high = np.clip(place - 1, 0, last), np.clip(place, 0, last)
    gap = (quantiles[high] - quantiles[low]).astype(np.float64)
    part = np.where(gap > 0, (values - quantiles[low]) / np.where(gap > 0, gap, 1), 0)
    return np.clip(np.where(place == 0, 0, low + part) / last, 0, 1)


def _is_outside(known: Statistics, distance: Floats, one_sided: bool) -> Any:
    """Return which rows lie outside the training range."""
    at = np.linspace(0, 1, len(known["quantiles"]))
    if one_sided:
        return distance > np.interp(_INSIDE, at, known["quantiles"])
    margin = (1 - _INSIDE) / 2
    low, high = np.interp([margin, 1 - margin], at, known["quantiles"])
    return (distance < low) | (distance > high)


def _outside_test(known: Statistics, distance: Floats, one_sided: bool) -> float:
    """Return the probability of so many rows outside the training range: Fisher's exact test, one-sided."""
    from scipy.stats import hypergeom

    n, S = len(distance), known["n_sampled"]
    found, expected = int(_is_outside(known, distance, one_sided).sum()), round((1 - _INSIDE) * S)
    return float(hypergeom.sf(found - 1, n + S, found + expected, n))


def _bit_test(known: Statistics, means: Floats, n: int) -> float:
    """Return the smallest p-value of the two-sample tests of all bit means, times their number."""
    from scipy.special import ndtr

    S, before = known["n_sampled"], known["bit_means"].astype(np.float64)
    pooled = (S * before + n * means) / (S + n)
    # The error is at least that of one row in the sample: for bits that were constant in training.
    variance = np.maximum(pooled * (1 - pooled), 1 / (S + n)) * (1 / S + 1 / n)
    z = np.abs(means - before) / np.sqrt(variance)
    return min(1.0, len(z) * 2 * float(ndtr(-z.max())))


def _usage_test(before: Ints, now: Ints) -> float:
    """Return the p-value of the chi-squared test that both samples use the base points alike.

    Consecutive base points are grouped until at least 5 rows are expected in the smaller sample: base points
    of a large base set are stored cell by cell, so groups are neighborhoods.
    """
    from scipy.stats import chi2

    n, S = int(now.sum()), int(before.sum())
    expected = (before + now) * min(n, S) / (n + S)
    group = np.minimum(
        np.floor(expected.cumsum() / _EXPECTED), max(expected.sum() // _EXPECTED - 1, 0)
    ).astype(int)
    a, b = (np.bincount(group, weights=counts) for counts in (before, now))
    used = a + b > 0
    a, b = a[used], b[used]
    if len(a) < 2:
        return 1.0
    statistic = float(((a * np.sqrt(n / S) - b * np.sqrt(S / n)) ** 2 / (a + b)).sum())
    return float(chi2.sf(statistic, len(a) - 1))


def _changes(before: Floats, now: Floats) -> tuple[list[Any], list[Any]]:
    """Return the base points whose shares grew most, and those whose shares fell most."""
    change = now - before if len(before) else np.empty(0)
    order = np.argsort(change, kind="stable")
    lost = [(int(j), float(before[j]), float(now[j])) for j in order[:_LISTED] if change[j] < 0]
    gained = [(int(j), float(before[j]), float(now[j])) for j in order[::-1][:_LISTED] if change[j] > 0]
    return gained, lost


_NOTHING = "the new rows look like the training rows"


def _advice(drifted: bool, outside: float, has_base: bool, farther: bool) -> tuple[str, str]:
    """Return what to do, and why; ``farther``: rows are farther from the base points than in training."""
    if not drifted:
        return "nothing", _NOTHING
    if not has_base:
        return (
            "refit",
            "the values of the new rows differ, and the codes that show it have no base points to add to",
        )
    if outside > _MOSTLY:
        return "refit", f"{outside:.0%} of the new rows lie outside the training range: the data have changed"
    if farther:
        return (
            "update",
            "the new rows lie farther from the base points than the training rows: add base points",
        )
    return (
        "nothing",
        "the model covers the new rows; only their proportions differ from those of the training rows",
    )
