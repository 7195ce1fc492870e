"""Drift: do new rows come from the distribution that a hasher was fitted to?

Five tests compare new rows with training rows, both described by landmarks. The p-value is the smallest of
theirs times their number (Bonferroni), so the tests may depend on each other. Each test is exact, or errs on
the safe side, if new rows and training rows are exchangeable.

After updates and refits the model knows several samples. New rows that come from one of them, or from a
mixture of them in any proportions, are no drift: the largest p-value of these counts.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import kolmogorov
from scipy.stats import chi2, hypergeom

from manihash.display import Shown, axes, frame, html
from manihash.maintenance.statistics import (
    Observed,
    Reference,
    Seen,
    Statistics,
    beyond,
    mixed,
    pooled,
    unit_of,
)
from manihash.types import Floats, Ints, Mask

LEAST_ROWS = 30
MOST_ROWS = 20_000
_INSIDE = 0.99  # quantile of the training distances that bounds the training range
_EXPECTED = 5  # rows per group of landmarks, as the chi-squared test needs
_LISTED = 10
_MOSTLY = 0.5  # share of rows outside the training range above which the model does not describe the rows
_FARTHER = 3.0  # standard errors by which more rows than expected must lie beyond the edges of their cells
_SHOWN = 4  # every fourth quantile is part of the result


@dataclass(frozen=True, repr=False)
class Drift(Shown):
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
        The p-value of each test. All compare rows with landmarks, a few training rows that the model keeps:
        ``distance`` and ``center`` (Kolmogorov-Smirnov tests of the distance to the nearest landmark, and to
        the mean of all landmarks), ``outside`` (rows outside the training range), ``usage`` (chi-squared test
        of the rows nearest to each landmark) and ``sides`` (Fisher's exact test of the rows nearer to one
        landmark than to another).
    outside : float
        Share of the new rows outside the training range: farther from the nearest landmark than 99 % of the
        training rows. Without drift it is near 0.01.
    gained, lost : list of tuple (int, float, float)
        Base points whose share of rows grew or fell most: index, share of the training rows, share now.
        Empty for hashers without base points.
    bits : list of tuple (int, float, float)
        Bits whose mean changed most: index, mean in training, mean now.
    quantiles : ndarray of shape (2, 257)
        Quantiles from 0 to 1 of the distance to the nearest landmark: of the training rows and of the new
        rows.
    advice : {"nothing", "update", "refit"}
        What to do. With drift it is "nothing" if the new rows lie no farther from known rows than the
        training rows. New classes that lie among known rows are not recognized.
    reason : str
        Why, in one sentence.

    Attributes
    ----------
    drifted : bool
        Whether drift is reported.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import IMH
    >>> from manihash.base import KMeansBase
    >>> from manihash.embeddings import PCA
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

    def to_frame(self) -> Any:
        """Return the p-value of each test as a table.

        Returns
        -------
        pandas.DataFrame
            One row per test, with the column ``p_value``.
        """
        return frame({"p_value": self.tests})

    def plot(self, ax: Any = None) -> Any:
        """Draw how far training rows and new rows lie from the nearest landmark.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw on; None for new ones.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax, "distance to the nearest landmark", "share of rows at most this far")
        share = np.linspace(0, 1, self.quantiles.shape[1])
        for values, label in zip(self.quantiles, ("training rows", "new rows"), strict=True):
            ax.plot(values, share, label=label)
        ax.legend()
        return ax

    def _facts(self) -> dict[str, Any]:
        return {
            "n_rows": self.n_rows,
            "drifted": self.drifted,
            "p_value": self.p_value,
            "level": self.level,
            "outside": self.outside,
            "advice": self.advice,
        }

    def _repr_html_(self) -> str:
        tests = [{"test": name, "p_value": p} for name, p in self.tests.items()]
        reason = self.reason[:1].upper() + self.reason[1:].rstrip(".") + "."
        return html(type(self).__name__, self._facts(), [reason], tests)


def compare(known: Statistics, observed: Observed, level: float, *, can_update: bool) -> Drift:
    """Return how observed rows differ from the rows that the model knows."""
    seen, n = observed.seen, len(observed.seen.cell)
    tested = [(_tests(each, seen), each) for each in _candidates(known["references"], seen)]
    tests, best = max(tested, key=lambda pair: min(pair[0].values()))
    smallest = min(tests.values())
    p_value = min(1.0, len(tests) * smallest)
    outside = float(_is_outside(best, seen.squared).mean())
    farther = _are_farther(known["references"], seen)
    advice, reason = _advice(p_value < level, outside, farther, can_update)
    unit = unit_of(known["landmarks"]) or 1.0
    at = np.linspace(0, 1, len(best["quantiles"][::_SHOWN]))
    now = np.quantile(seen.squared, at)
    quantiles = np.sqrt(unit * np.stack([best["quantiles"][::_SHOWN], now]))
    gained, lost = _changes(known["usage"].astype(np.float64), observed.usage)
    before = known["bit_means"].astype(np.float64)
    order = np.argsort(-np.abs(observed.bit_means - before), kind="stable")[:_LISTED]
    bits = [(int(j), float(before[j]), float(observed.bit_means[j])) for j in order]
    return Drift(n, smallest, p_value, level, tests, outside, gained, lost, bits, quantiles, advice, reason)


def combined(parts: list[Drift]) -> Drift:
    """Return the drift of a hasher with several parts: that of the part that differs most, corrected."""
    worst = min(parts, key=lambda part: part.p_value)
    p_value = min(1.0, len(parts) * worst.p_value)
    advice, reason = worst.advice, worst.reason
    if p_value >= worst.level:
        advice, reason = "nothing", _NOTHING
    elif worst.outside <= _MOSTLY:  # base points of another part can be added
        advice, reason = next(
            ((part.advice, part.reason) for part in parts if part.advice == "update"), (advice, reason)
        )
    values = {name: getattr(worst, name) for name in Drift.__dataclass_fields__}
    return Drift(**values | {"p_value": p_value, "advice": advice, "reason": reason})


def _candidates(references: list[Reference], seen: Seen) -> list[Reference]:
    """Return the samples that new rows may come from: each reference, all together, and the best mixture."""
    if len(references) == 1:
        return references
    shares = [np.concatenate([each["cells"], each["sides"]]) / each["n_sampled"] for each in references]
    now = np.concatenate([seen.cells(len(references[0]["cells"])), seen.sides]) / len(seen.cell)
    weights, _ = nnls(np.stack(shares, axis=1), now)
    mixtures = [pooled(references)] + ([mixed(references, weights)] if weights.any() else [])
    return [each for each in references if each["n_sampled"] >= LEAST_ROWS] + mixtures


def _tests(known: Reference, seen: Seen) -> dict[str, float]:
    """Return the p-value of each test of new rows against a sample."""
    n, S = len(seen.cell), known["n_sampled"]
    return {
        "distance": _distance_test(known["quantiles"], S, seen.squared),
        "center": _distance_test(known["center"], S, seen.center),
        "outside": _outside_test(int(_is_outside(known, seen.squared).sum()), n, S),
        "usage": _usage_test(known["cells"].astype(np.int64), seen.cells(len(known["cells"]))),
        "sides": _sides_test(known["sides"].astype(np.int64), S, seen.sides, n),
    }


def _distance_test(quantiles: Floats, S: int, values: Floats) -> float:
    """Return the p-value of the two-sample Kolmogorov-Smirnov test, given quantiles of one sample of size S.

    Quantiles bound the share of the sample up to a value, and a value may be off by 1, the rounding of
    distances: only what lies outside these bounds counts.
    """
    n, last = len(values), len(quantiles) - 1
    jumps, counts = np.unique(values, return_counts=True)
    up_to = counts.cumsum() / n
    before = np.concatenate([[0], up_to[:-1]])
    most = np.searchsorted(quantiles, jumps + 1, "right") / last
    place = np.searchsorted(quantiles, jumps - 1, "left")
    least = np.maximum(place - 1, 0) / last
    D = max(0.0, float((up_to - most).max()), float((least - before).max()))
    return float(kolmogorov(D * np.sqrt(n * S / (n + S))))


def _is_outside(known: Reference, squared: Floats) -> Mask:
    """Return which rows lie outside the training range."""
    return squared > known["quantiles"][round(_INSIDE * (len(known["quantiles"]) - 1))] + 1


def _outside_test(found: int, n: int, S: int) -> float:
    """Return the probability of so many rows outside the training range: Fisher's exact test, one-sided."""
    expected = int(np.ceil((1 - _INSIDE) * S))
    return float(hypergeom.sf(found - 1, n + S, found + expected, n))


def _usage_test(before: Ints, now: Ints) -> float:
    """Return the p-value of the chi-squared test that both samples use the landmarks alike.

    Landmarks are grouped until at least 5 rows are expected in the smaller sample.
    """
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


def _sides_test(before: Ints, S: int, now: Ints, n: int) -> float:
    """Return the smallest p-value of Fisher's exact tests of all pairs of landmarks, times their number."""
    total = before + now
    tail = np.minimum(hypergeom.cdf(now, n + S, total, n), hypergeom.sf(now - 1, n + S, total, n))
    return float(min(1.0, 2 * len(tail) * tail.min()))


def _are_farther(references: list[Reference], seen: Seen) -> bool:
    """Return whether new rows lie farther from their landmarks than known rows of the same cells do.

    Cells are compared one by one, so other proportions of the cells do not count.
    """
    edges = np.stack([each["edges"] for each in references])
    widest = edges.argmax(axis=0)
    known = np.stack([each["cells"] for each in references])[widest, np.arange(edges.shape[1])]
    now = seen.cells(len(known))
    used = known > 0
    share = (beyond(known) + 1) / (known + 1)
    found = np.bincount(seen.cell[seen.squared > edges.max(axis=0)[seen.cell] + 1], minlength=len(known))
    error = now * share * (1 - share) * (1 + now / (known + 2))
    excess = float((found - now * share)[used].sum())
    return excess > _FARTHER * np.sqrt(float(error[used].sum()))


def _changes(
    before: Floats, now: Floats
) -> tuple[list[tuple[int, float, float]], list[tuple[int, float, float]]]:
    """Return the base points whose shares grew most, and those whose shares fell most."""
    change = now - before
    order = np.argsort(change, kind="stable")
    lost = [(int(j), float(before[j]), float(now[j])) for j in order[:_LISTED] if change[j] < 0]
    gained = [(int(j), float(before[j]), float(now[j])) for j in order[::-1][:_LISTED] if change[j] > 0]
    return gained, lost


_NOTHING = "the new rows look like the training rows"


def _advice(drifted: bool, outside: float, farther: bool, can_update: bool) -> tuple[str, str]:
    """Return what to do, and why; ``farther``: rows are farther from known rows than in training."""
    if not drifted:
        return "nothing", _NOTHING
    if outside > _MOSTLY:
        return "refit", f"{outside:.0%} of the new rows lie outside the training range: the data have changed"
    if not farther:
        return (
            "nothing",
            "the model covers the new rows: their proportions differ, but they lie no farther from known "
            "rows than the training rows",
        )
    why = "the new rows lie farther from known rows than the training rows"
    if can_update:
        return "update", f"{why}: add base points"
    return "refit", f"{why}, and base points cannot be added to this hasher"
