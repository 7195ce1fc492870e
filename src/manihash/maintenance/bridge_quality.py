"""What a bridge is expected to lose: maps compared on pairs that they were not fitted to.

A pair that was held out is a query. Its new row is mapped and encoded, and the codes of the old rows of all
other pairs are ranked, with those of further old rows if they are given. The recall of its ten nearest old
rows is compared with that of the query's own old row. Their ratio is the share that is kept, with a bootstrap
interval over the queries.

Ten of a few rows are easy to find, so this share is near 1 for useless maps if few rows are ranked. The share
of the bits that are those of the old row has the same meaning for any number of pairs. It chooses the map,
and a share of the recall is called good only if enough rows were ranked or nearly all bits are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manihash.code_tables import table_distances
from manihash.codes import unpack
from manihash.compute import numpy as numpy_backend
from manihash.display import Shown
from manihash.evaluation.first_answers import FIRST, expected_hits_ranked
from manihash.maintenance.bridge_fit import MapSettings, fitted_maps, settings_of, unit_length
from manihash.maintenance.bridge_map import SpaceMap
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
_SLACK = 0.05  # share by which a cheaper map may have more bits that differ
# A share is good if so many old rows were ranked, or so many bits are equal; it is uncertain below the second
# numbers. In simulations (Gaussian and clustered rows, MNIST; 30 to 2,000 pairs) no share was good that was
# below 0.9 among 20,000 rows. With 95 % of the bits, text embeddings (CLINC150, 100 pairs) had a share of
# 1.00 among the pairs and of 0.82 among 5,000 rows.
_RANKED_FOR_GOOD, _BITS_FOR_GOOD = 10_000, 0.975
_RANKED_FOR_FAIR, _BITS_FOR_FAIR = 1_000, 0.9
_CHANCE = 0.01  # share of equal bits above chance that says nothing
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
        Whether the bridge is good enough, and whether more pairs would help, in a few sentences.
    n_ranked : int, default=0
        Number of old rows whose codes were ranked: those of the pairs, and those of ``reference``.
    chance_bits : float, default=0.5
        Share of the bits that are those of another item's old row. A map that has learned nothing has as
        many in common with the item's own.

    Attributes
    ----------
    poor : bool
        Whether the share is below 0.8.
    verdict : {"good", "fair", "poor", "uncertain", "unrelated"}
        The first word of ``advice``. Good is a share of at least 0.95 that holds for a large index: 10,000
        old rows were ranked, or 97.5 % of the bits are those of old rows. Poor is a share below 0.8.
        Uncertain is a share among less than 1,000 old rows with less than 90 % of the bits: it is probably
        too high. Unrelated are codes that have no more bits in common with their old rows than with other
        ones.

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
    n_ranked: int = 0
    chance_bits: float = 0.5

    @property
    def poor(self) -> bool:
        """Whether the share is below 0.8."""
        return self.share < _POOR

    @property
    def verdict(self) -> str:
        """The first word of the advice: good, fair, poor, uncertain or unrelated."""
        return self.advice.partition(":")[0]


@dataclass(frozen=True)
class _Measured:
    """For each query with a map: recall (q,), and share of bits of its old row and of another one (q,)."""

    recall: Floats
    same_bits: Floats
    chance_bits: Floats


class _Queries:
    """Pairs of new rows X (n, d) and old rows Y (n, p), folds of them, and the recall that their codes have.

    A map is measured with the pairs of the fold that it was not fitted to. Wrong pairs are left out. The old
    rows of the pairs are ranked, and the rows of ``reference`` (r, p) that are none of them.
    """

    def __init__(
        self, hasher: Any, X: Floats, Y: Floats, reference: Floats, wrong: Mask, rng: np.random.Generator
    ) -> None:
        self.hasher, self.X, self.Y, self.wrong = hasher, X, Y, wrong
        order = rng.permutation(np.flatnonzero(~wrong))
        size = max(1, len(order) // _FOLDS)
        n_folds = int(np.clip(-(-_HELD_OUT // size), 1, _FOLDS))
        self.folds = [order[i * size : (i + 1) * size] for i in range(n_folds)]
        self.queries = np.concatenate(self.folds)
        self.ranked = np.concatenate([Y, _others(reference, Y)])
        self.k = max(1, min(FIRST, (len(self.ranked) - 1) // 2))
        self.dtype = np.float64 if hasher.in_float64_ else np.float32
        self.codes = hasher.encode(self.ranked)
        self.nearest = self._nearest()
        self.old = self.measured(Y[self.queries]).recall

    def _nearest(self) -> Ints:
        """The k nearest other old rows of each query (q, k)."""
        rows = unit_length(self.ranked) if ignores_length(self.hasher, self.Y) else self.ranked
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
        others = np.roll(self.queries, 1)
        recall: list[Floats] = []
        same: dict[str, list[Floats]] = {"own": [], "other": []}
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
            bits = unpack(codes[block], self.hasher.n_bits_)
            for whose, rows_of_codes in (("own", part), ("other", others[block])):
                found = unpack(self.codes[rows_of_codes], self.hasher.n_bits_)
                same[whose].append(np.equal(bits, found).mean(axis=1))
        return _Measured(*map(np.concatenate, (recall, same["own"], same["other"])))

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
    hasher: Any, X: Floats, Y: Floats, reference: Floats, kinds: tuple[str, ...], rng: np.random.Generator
) -> tuple[SpaceMap, BridgeQuality]:
    """The map whose codes lose least, fitted to all pairs of X (n, d) and Y (n, p), and what it loses.

    The codes of the old rows ``reference`` (r, p) are ranked beside those of the pairs.
    """
    settings, wrong = settings_of(X, Y, rng)
    pairs = _Queries(hasher, X, Y, reference, wrong, rng)
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
        advice="",
        n_ranked=len(pairs.ranked),
        chance_bits=float(found[kind].chance_bits.mean()),
    )
    related = _is_related(found[kind])
    return maps[kind], replace(quality, advice=_advice(quality, more[1:], related))


def _others(rows: Floats, Y: Floats) -> Floats:
    """The rows (r, p) that are not among the rows of Y (n, p)."""
    known = {row.tobytes() for row in Y}
    return rows[[row.tobytes() not in known for row in rows]]


def _is_related(measured: _Measured) -> bool:
    """Whether codes have more bits in common with the item's own old row than with that of another item."""
    more = measured.same_bits - measured.chance_bits
    return float(more.mean()) > _CHANCE + 2 * float(more.std()) / np.sqrt(len(more))


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
    """The kind with the fewest products among those nearly as good as the one with the most equal bits.

    The recall among few rows does not tell maps apart; the bits do.
    """
    best = max(found, key=lambda kind: float(found[kind].same_bits.mean()))

    def is_as_good(kind: str) -> bool:
        lost = found[best].same_bits - found[kind].same_bits
        slack = max(float(lost.std()) / np.sqrt(len(lost)), _SLACK * float(1 - found[best].same_bits.mean()))
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


def _advice(quality: BridgeQuality, gain: tuple[float, bool | None], related: bool) -> str:
    """Whether the bridge is good enough, and what more pairs would do.

    ``gain`` is the share with four times the pairs and whether they help, ``related`` whether the codes know
    anything about their items.
    """
    share, n_ranked, bits = quality.share, quality.n_ranked, quality.same_bits
    if not related:
        return (
            f"unrelated: {bits:.1%} of the bits are those of the old rows, no more than by chance. Do the "
            "rows belong together? Row i of the new and of the old vectors must be the same item. If they "
            "do, " + ("give more pairs" if quality.n_pairs < _RANKED_FOR_FAIR else "encode the rows again")
        )
    if quality.poor:
        return f"poor: {_loss(quality)}. {_more_pairs(quality, *gain)}"
    easy = (
        f"the share was measured among {n_ranked:,} old rows, where the nearest {FIRST} are easier to find "
        f"than in a large index, and {bits:.1%} of the bits are those of the old rows"
    )
    if n_ranked < _RANKED_FOR_FAIR and bits < _BITS_FOR_FAIR:
        return (
            f"uncertain: {easy}. In a large index the share can be much lower. Give more pairs, at least "
            f"{_RANKED_FOR_FAIR:,}, or further old rows to measure it"
        )
    if share < GOOD:
        return f"fair: {_loss(quality)}. {_more_pairs(quality, *gain)}"
    if n_ranked < _RANKED_FOR_GOOD and bits < _BITS_FOR_GOOD:
        return f"fair: {easy}. Give {_RANKED_FOR_GOOD:,} further old rows to measure it"
    kept = f"{share:.1%} of the recall" if share < 1 else "all of the recall"
    return f"good: new rows keep {kept} of old rows"


def _loss(quality: BridgeQuality) -> str:
    return f"new rows lose {1 - quality.share:.1%} of the recall of old rows"


def _more_pairs(quality: BridgeQuality, with_four_times: float, helps: bool | None) -> str:
    """What more pairs would do."""
    n, needed = quality.n_pairs, quality.pairs_for_good
    if needed is not None:
        return f"About {_rounded(needed)} pairs instead of {n:,} would bring the loss to {1 - GOOD:.0%}"
    if helps:
        loss = max(0.0, 1 - with_four_times)
        return f"Four times the pairs ({4 * n:,}) would lower the loss to about {loss:.1%}"
    if helps is None:
        return f"{n:,} pairs are too few to tell whether more would help: try twice as many"
    return (
        "More pairs would change little: the old rows hold something that these maps cannot compute from the "
        "new ones" + (". Encode the rows again with a model of the new space" if quality.poor else "")
    )


def _rounded(n: int) -> str:
    """A number with two significant digits."""
    scale = 10 ** max(0, len(str(n)) - 2)
    return f"{-(-n // scale) * scale:,}"
