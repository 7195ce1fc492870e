"""What a bridge is expected to lose: maps compared on pairs that they were not fitted to.

A pair that was held out is a query. Its new row is mapped and encoded, and the codes of the old rows of all
other pairs are ranked. The recall of its ten nearest old rows is compared with that of the query's own old
row. Their ratio is the share that is kept, with a bootstrap interval over the queries.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manihash.code_tables import table_distances
from manihash.codes import unpack
from manihash.compute import numpy as numpy_backend
from manihash.display import Shown
from manihash.evaluation.first_answers import FIRST, expected_hits_ranked
from manihash.living.bridge_fit import MapSettings, fitted_maps, settings_of, unit_length
from manihash.living.bridge_map import SpaceMap
from manihash.progress import advance
from manihash.types import Floats, Ints, Mask

LEAST_PAIRS = 10
GOOD = 0.95  # share that the advice aims at
_POOR = 0.8
_FOLDS, _HELD_OUT = 5, 2_000
_RESAMPLES, _INTERVAL = 1_000, (0.025, 0.975)
_FIRST_PART = 1 / 4  # of the pairs, at the first point of the learning curve; each point has twice as many
_LITTLE = 0.1  # part of the loss; more pairs are worth it if four times as many save more than this
_MOST_DOUBLINGS = 6
_SLACK = 0.01  # share of the recall that a cheaper map may lose
_BLOCK = 256


@dataclass(frozen=True, repr=False)
class BridgeQuality(Shown):
    """What a bridge is expected to lose, measured on pairs that its map was not fitted to.

    Parameters
    ----------
    kind : {"orthogonal", "low-rank", "ridge", "residual"}
        The chosen map.
    share : float
        Recall@10 of new rows on the codes of old rows, as a share of the recall@10 that the same items have
        when their old rows are encoded. The ten nearest old rows are the ground truth. 1 if nothing is lost.
    interval : tuple of float
        95 % confidence interval of ``share``.
    recall : float
        Recall@10 of new rows on codes of old rows.
    old_recall : float
        Recall@10 of the old rows of the same items.
    same_bits : float
        Share of the bits that are those of the item's old row.
    n_pairs : int
        Number of pairs.
    n_queries : int
        Number of pairs that were held out and measured.
    wrong_pairs : list of int
        Numbers of the pairs that seem to have wrong partners. They are used neither to fit nor to measure.
    shares : dict of str to float
        The share of every kind of map that was tried.
    curve : list of tuple (int, float)
        Learning curve of the chosen kind: number of pairs, and share.
    pairs_for_good : int or None
        Estimated number of pairs for a share of 0.95; None if it is reached, or if more pairs would not do.
    advice : str
        Whether the bridge is good enough, and whether more pairs would help, in one or two sentences.

    Attributes
    ----------
    poor : bool
        Whether the share is below 0.8.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import ITQ
    >>> rng = np.random.default_rng(0)
    >>> X_old = rng.normal(size=(1000, 16)) * np.arange(16, 0, -1)
    >>> X_new = X_old @ rng.normal(size=(16, 24))
    >>> bridged = ITQ(n_bits=16, random_state=0).fit(X_old).bridge(X_new, X_old)
    >>> bridged.quality.share > 0.95, bridged.quality.poor
    (True, False)
    """

    kind: str
    share: float
    interval: tuple[float, float]
    recall: float
    old_recall: float
    same_bits: float
    n_pairs: int
    n_queries: int
    wrong_pairs: list[int] = field(repr=False)
    shares: dict[str, float]
    curve: list[tuple[int, float]] = field(repr=False)
    pairs_for_good: int | None
    advice: str

    @property
    def poor(self) -> bool:
        """Whether the share is below 0.8."""
        return self.share < _POOR


@dataclass(frozen=True)
class _Measured:
    """Recall (q,) of each query with a map, and the share of its bits that are those of its old row (q,)."""

    recall: Floats
    same_bits: Floats


class _Queries:
    """Pairs of new rows X (n, d) and old rows Y (n, p), folds of them, and the recall that their codes have.

    A map is measured with the pairs of the fold that it was not fitted to. Wrong pairs are left out.
    """

    def __init__(self, hasher: Any, X: Floats, Y: Floats, wrong: Mask, rng: np.random.Generator) -> None:
        self.hasher, self.X, self.Y, self.wrong = hasher, X, Y, wrong
        order = rng.permutation(np.flatnonzero(~wrong))
        size = max(1, len(order) // _FOLDS)
        n_folds = int(np.clip(-(-_HELD_OUT // size), 1, _FOLDS))
        self.folds = [order[i * size : (i + 1) * size] for i in range(n_folds)]
        self.queries = np.concatenate(self.folds)
        self.k = max(1, min(FIRST, (len(X) - 1) // 2))
        self.dtype = np.float64 if hasher.in_float64_ else np.float32
        self.codes = hasher.encode(Y)
        self.nearest = self._nearest()
        self.old = self.measured(Y[self.queries]).recall

    def _nearest(self) -> Ints:
        """The k nearest other old rows of each query (q, k)."""
        rows = unit_length(self.Y) if ignores_length(self.hasher, self.Y) else self.Y
        found = []
        for start in range(0, len(self.queries), _BLOCK):
            part = self.queries[start : start + _BLOCK]
            squared = numpy_backend.squared_distances(rows[part], rows)
            squared[np.arange(len(part)), part] = np.inf
            found.append(np.argpartition(squared, self.k - 1, axis=1)[:, : self.k])
        return np.concatenate(found)

    def measured(self, rows: Floats) -> _Measured:
        """What the queries find among the codes of the old rows, given rows (q, p) of the old space."""
        rows = rows.astype(self.dtype)
        codes, layout = self.hasher.encode(rows), self.hasher.layout_
        values = self.hasher.embed(rows) if layout.has_fields else codes
        recall, same = [], []
        for start in range(0, len(self.queries), _BLOCK):
            block = slice(start, start + _BLOCK)
            part = self.queries[block]
            if layout.has_fields:  # such queries are not rounded to codes
                distance = table_distances(layout.tables(values[block]), layout.split(self.codes))
            else:
                distance = layout.levels(codes[block], self.codes)
            distance = np.asarray(distance, np.float64)
            distance[np.arange(len(part)), part] = np.inf
            relevant = np.zeros(distance.shape, np.bool_)
            np.put_along_axis(relevant, self.nearest[block], True, axis=1)
            recall.append(expected_hits_ranked(distance, relevant, self.k) / self.k)
            bits = (unpack(each, self.hasher.n_bits_) for each in (codes[block], self.codes[part]))
            same.append(np.equal(*bits).mean(axis=1))
        return _Measured(np.concatenate(recall), np.concatenate(same))

    def of_maps(
        self, settings: MapSettings, kinds: tuple[str, ...], part: float, done: Callable[[], None]
    ) -> dict[str, _Measured]:
        """What maps of some kinds find, fitted to a part of the pairs outside of each fold."""
        mapped: dict[str, list[Floats]] = {kind: [] for kind in kinds}
        for fold in self.folds:
            train = np.setdiff1d(np.flatnonzero(~self.wrong), fold)
            train = np.random.default_rng(settings.seed).permutation(train)[: round(part * len(train))]
            maps = fitted_maps(self.X[train], self.Y[train], np.zeros(len(train), np.bool_), settings, kinds)
            for kind, made in maps.items():
                mapped[kind].append(made.apply(self.X[fold]))
            done()
        return {kind: self.measured(np.concatenate(parts)) for kind, parts in mapped.items()}


def best_map(
    hasher: Any, X: Floats, Y: Floats, kinds: tuple[str, ...], rng: np.random.Generator
) -> tuple[SpaceMap, BridgeQuality]:
    """The map whose codes lose least, fitted to all pairs of X (n, d) and Y (n, p), and what it loses."""
    settings, wrong = settings_of(X, Y, rng)
    pairs = _Queries(hasher, X, Y, wrong, rng)
    steps = iter(range(1, 3 * len(pairs.folds) + 1))

    def done() -> None:
        advance("bridge", next(steps), 3 * len(pairs.folds))

    found = pairs.of_maps(settings, kinds, 1.0, done)
    maps = fitted_maps(X, Y, wrong, settings, kinds)
    kind = _chosen(found, maps)
    curve = [
        (part, pairs.of_maps(settings, (kind,), part, done)[kind]) for part in (_FIRST_PART, 2 * _FIRST_PART)
    ]
    curve.append((1.0, found[kind]))
    used = round((1 - 1 / _FOLDS) * int((~wrong).sum()))
    points = [(round(part * used), _share(measured.recall, pairs.old)) for part, measured in curve]
    share = points[-1][1]
    more = _pairs_for_good(points, curve[-1][1].recall - curve[-2][1].recall, pairs.old)
    quality = BridgeQuality(
        kind=kind,
        share=share,
        interval=_interval(found[kind].recall, pairs.old, rng),
        recall=float(found[kind].recall.mean()),
        old_recall=float(pairs.old.mean()),
        same_bits=float(found[kind].same_bits.mean()),
        n_pairs=len(X),
        n_queries=len(pairs.queries),
        wrong_pairs=np.flatnonzero(wrong).tolist(),
        shares={name: _share(measured.recall, pairs.old) for name, measured in found.items()},
        curve=points,
        pairs_for_good=more[0],
        advice=_advice(share, more, len(X)),
    )
    return maps[kind], quality


def ignores_length(hasher: Any, Y: Floats) -> bool:
    """Whether the codes of a hasher depend on the direction of rows (n, p) alone; found by trying."""
    some = Y[:_BLOCK]
    once, again = (np.asarray(hasher.embed(rows), np.float64) for rows in (some, 4 * some))
    return bool(np.allclose(once, again, rtol=1e-4, atol=1e-6 * float(np.abs(once).max())))


def _share(recall: Floats, old: Floats) -> float:
    return float(recall.sum() / old.sum()) if old.sum() else 1.0


def _interval(recall: Floats, old: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """The bootstrap interval of the share."""
    if not old.sum():
        return (0.0, 1.0)
    drawn = rng.integers(0, len(old), (_RESAMPLES, len(old)))
    low, high = np.quantile(recall[drawn].sum(axis=1) / np.maximum(old[drawn].sum(axis=1), 1e-9), _INTERVAL)
    return float(low), float(high)


def _chosen(found: dict[str, _Measured], maps: dict[str, SpaceMap]) -> str:
    """The kind with the fewest products among those within one standard error, or 1 %, of the best."""
    best = max(found, key=lambda kind: float(found[kind].recall.mean()))

    def is_as_good(kind: str) -> bool:
        lost = found[best].recall - found[kind].recall
        slack = max(float(lost.std()) / np.sqrt(len(lost)), _SLACK * float(found[best].recall.mean()))
        return bool(lost.mean() <= slack)

    return min(filter(is_as_good, found), key=lambda kind: maps[kind].n_products)


def _pairs_for_good(
    points: list[tuple[int, float]], last_gain: Floats, old: Floats
) -> tuple[int | None, float, bool | None]:
    """The pairs needed for a good share or None, the share with four times the pairs, and whether they help.

    Whether they help is None if the noise of the last doubling hides it. Each doubling of the pairs is taken
    to gain a constant part of what the doubling before it gained.
    """
    (_, first), (_, second), (_, share) = points
    gain, before = share - second, second - first
    noise = 2 * float(last_gain.std()) / np.sqrt(len(last_gain)) / max(float(old.mean()), 1e-9)
    if gain <= noise:
        return None, share, None if noise > _LITTLE * (1 - share) else False
    ratio = float(np.clip(gain / before, 0.1, 0.9)) if before > 0 else 0.5
    shares = share + gain * np.cumsum(ratio ** np.arange(1, _MOST_DOUBLINGS + 1))
    enough = np.flatnonzero(shares >= GOOD)
    needed = points[-1][0] * 2 ** (int(enough[0]) + 1) if len(enough) and share < GOOD else None
    helps = float(shares[1]) - share > _LITTLE * (1 - share)
    return needed, min(1.0, float(shares[1])), helps


def _advice(share: float, more: tuple[int | None, float, bool | None], n: int) -> str:
    """Whether the bridge is good enough, and what more pairs would do."""
    needed, with_four_times, helps = more
    if share >= GOOD:
        kept = f"{share:.1%} of the recall" if share < 1 else "all of the recall"
        return f"good: new rows keep {kept} of old rows"
    word = "poor" if share < _POOR else "fair"
    text = f"{word}: new rows lose {1 - share:.1%} of the recall of old rows. "
    if needed is not None:
        return (
            text + f"About {_rounded(needed)} pairs instead of {n:,} would bring the loss to {1 - GOOD:.0%}"
        )
    if helps:
        loss = max(0.0, 1 - with_four_times)
        return text + f"Four times the pairs ({4 * n:,}) would lower the loss to about {loss:.1%}"
    if helps is None:
        return text + f"{n:,} pairs are too few to tell whether more would help: try twice as many"
    return text + (
        "More pairs would change little: the old rows hold something that these maps cannot compute from the "
        "new ones" + (". Encode the rows again with a model of the new space" if share < _POOR else "")
    )


def _rounded(n: int) -> str:
    """A number with two significant digits."""
    scale = 10 ** max(0, len(str(n)) - 2)
    return f"{-(-n // scale) * scale:,}"
