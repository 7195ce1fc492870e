"""Which encoder suits a set of vectors: candidates measured on a sample, and a recommendation.

All candidates are measured on a few rows first, and the best of them on the whole sample. What is equal is
decided by the differences over groups of queries: a difference within its standard error counts for nothing.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manihash import checks
from manihash.advice.candidates import (
    FASTER,
    MANIFOLD,
    Candidate,
    Measured,
    Split,
    candidates,
    combined,
    measure,
    measure_vectors,
    plant_copies,
)
from manihash.advice.choice import Choice
from manihash.advice.reasons import Findings, Unseen, is_too_short, knee_of, reasons, record
from manihash.advice.relevance import Relevance, relevance_of, resolution_for, spacing
from manihash.advice.sample import FEWEST_ROWS, Sample, draw_sample
from manihash.advice.scores import Purpose, checked_goal, error_of

# Rows and queries that all candidates are measured on, and the number of those that go on to the sample.
_FEW, _FEW_QUERIES, _FINALISTS = 1_500, 400, 4
# Look-ups often find more with shorter codes, of a large group with much shorter ones: so many recipes are
# measured at half of a length, if they reach this share of the best score. So many of each length go on, if
# they are close to the best one.
_SHORTER, _PROMISING, _SHORT_FINALISTS, _CLOSE = 6, 0.5, 2, 0.8
# Samples of at most so many rows are split into queries and database several times.
_SPLITS = ((2_500, 3), (5_000, 2))
_COPIES = 1000
_DUPLICATE_CANDIDATES = 10  # rows of all that a look-up of a copy may return
# Lengths of the curve of size against quality, as shares of the requested length.
_CURVE = (0.25, 0.5, 1, 2, 4)
_SHORTEST = 8


def choose(
    X: Any,
    n_bits: int = 64,
    goal: str = "auto",
    labels: ArrayLike | None = None,
    random_state: int = 0,
    *,
    sample: int = 10_000,
    max_candidates: int | None = None,
    max_fit_seconds: float | None = None,
) -> Choice:
    """Recommend a recipe, a code length and a radius for some vectors.

    Candidates (manifold methods, product quantizers, ITQ, signs; with labels also methods that learn from
    them) are fitted to a few rows of a random sample and measured with held-out queries; the best of them are
    fitted to the whole sample. The one with the best score for the goal is recommended. Among candidates that
    are equal within the error of the measurement, the one with the shortest code is taken, then the one that
    fits fastest.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The vectors, in memory or memory-mapped; at least 200 rows.
    n_bits : int, default=64
        Largest length of the codes. Half of the length is recommended if it is as good, for look-ups also
        shorter codes; longer codes are measured to say what they gain.
    goal : {"auto", "first", "group", "ranking", "neighbors", "duplicates"}, default="auto"
        What the codes are for. "first": the ten best answers, by precision@10. "group": everything of the
        same kind by a look-up within a small radius, by F1 if it returns ``max_candidates`` rows ("lookup" is
        the same). "ranking": relevant rows before others, by MAP. "neighbors": the nearest rows, by recall@10
        after re-ranking 100 rows. "duplicates": copies within a radius that returns at most ten rows. "auto":
        a good ranking with good first answers, by the geometric mean of MAP and precision@10.
    labels : array-like of shape (n,), default=None
        Labels of the rows, -1 or None for a row without one. They say which rows are relevant to each other.
        Methods that learn from labels see those of half of the rows, and are judged on other rows. Without
        labels proxies are used: rows of the query's community of the neighbor graph, the nearest 2 % of the
        rows, and the ten nearest rows.
    random_state : int, default=0
        Seed of the sample and of the methods.
    sample : int, default=10_000
        Largest number of rows to use.
    max_candidates : int, default=None
        Number of rows of X that a look-up may return on average. By default the mean number of relevant rows
        with labels, otherwise 1 % of the rows, at least 100; ten for the goal "duplicates".
    max_fit_seconds : float, default=None
        Longest time to fit the recommended model to all rows, estimated from the sample. Times are elapsed
        times, which other work on the machine makes longer.

    Returns
    -------
    Choice
        The recommendation, the table of all candidates, and the reasons.

    Raises
    ------
    ValueError
        If there are fewer than 200 rows, all of them are equal, the goal is unknown, or labels do not
        match the rows.

    See Also
    --------
    recipe : Builds a hasher by the name of its recipe.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash import choose
    >>> choice = choose(load_digits().data[:400], n_bits=16, goal="neighbors")
    >>> choice.n_bits <= 16
    True
    """
    steps = choosing(
        X,
        n_bits,
        goal,
        labels,
        random_state,
        sample=sample,
        max_candidates=max_candidates,
        max_fit_seconds=max_fit_seconds,
    )
    while True:
        try:
            next(steps)
        except StopIteration as done:
            choice: Choice = done.value
            return choice


def choosing(
    X: Any,
    n_bits: int,
    goal: str,
    labels: ArrayLike | None,
    random_state: int,
    *,
    sample: int,
    max_candidates: int | None,
    max_fit_seconds: float | None,
) -> Generator[str, None, Choice]:
    """Yield the name of each step before it is made, and return the choice."""
    n_bits = checks.positive_int(n_bits, "n_bits", least=2)
    goal = checked_goal(goal)
    size = checks.positive_int(sample, "sample", least=FEWEST_ROWS)
    limit = None if max_fit_seconds is None else checks.positive_number(max_fit_seconds, "max_fit_seconds")
    rng = checks.generator(checks.positive_int(random_state, "random_state", least=0))
    yield "sample"
    drawn = draw_sample(X, labels, size, rng)
    yield "relevant rows of the sample"
    scale = resolution_for(goal, drawn, checks.generator(random_state))
    stages = [Stage.of(each, goal, max_candidates, rng, random_state, scale) for each in _samples(drawn, rng)]
    few, whole = stages[0], [stage for stage in stages if len(stage.split.sample.X) == len(drawn.X)]
    tried = candidates(n_bits, drawn.X.shape[1], goal, labels=labels is not None, faster=limit is not None)
    shorter = _halvings(n_bits) * (_SHORTER + _SHORT_FINALISTS * len(whole)) if goal == "group" else 0
    steps = _Steps(len(tried) + (_FINALISTS + 3) * len(whole) + len(_CURVE) + 2 + shorter)
    found: list[Measured] = []
    for candidate in tried:
        yield steps.named(candidate, few)
        found.append(measure(candidate, few.split))
    for halving in range(_halvings(n_bits)) if goal == "group" else ():
        for candidate in _halves(found, few.purpose, n_bits >> halving, n_bits):
            yield steps.named(candidate, few)
            found.append(measure(candidate, few.split))
    last: list[Measured] = []
    for candidate in _finalists(found, few.purpose, n_bits, limit):
        own = [m for m in found if m.candidate == candidate and few is whole[0]]
        for stage in whole[len(own) :]:
            yield steps.named(candidate, stage)
            own.append(measure(candidate, stage.split))
        last.append(combined(own))
    main = whole[0]
    best = _winner(last, main, limit, n_bits)
    curve = yield from _curve(best, n_bits, found, few, steps)
    vectors = None
    if labels is not None and goal in ("first", "ranking", "auto"):
        yield steps.named("scan of the vectors", main)
        vectors = combined([measure_vectors(stage.split) for stage in whole])
    for length in _other_lengths(best, curve, vectors, n_bits, main, few):
        other = Candidate(best.candidate.recipe, length)
        if other in [m.candidate for m in last]:
            continue
        yield steps.named(other, main)
        last.append(combined([measure(other, stage.split) for stage in whole]))
    best = _winner([m for m in last if m.candidate.n_bits <= n_bits], main, limit, n_bits)
    refused = [(m, why) for m in last if (why := _refusal(m, main, limit, n_bits))]
    unseen = yield from _unseen_classes(best, last, main, few, steps, rng)
    findings = Findings(best, last, found, main.purpose, few.purpose, drawn, main.relevance, n_bits, refused)
    return _choice(findings, vectors, curve, unseen, random_state)


@dataclass(frozen=True, eq=False)
class Stage:
    """A sample on which candidates are measured, and how they are scored there."""

    split: Split
    relevance: Relevance
    purpose: Purpose

    @classmethod
    def of(
        cls,
        sample: Sample,
        goal: str,
        max_candidates: int | None,
        rng: np.random.Generator,
        seed: int,
        resolution: float,
    ) -> "Stage":
        """The stage of a sample, with its relevant rows; without labels, communities of a resolution."""
        relevance = relevance_of(sample, rng, resolution)
        copies = plant_copies(sample, spacing(sample), _COPIES, rng) if goal == "duplicates" else None
        purpose = purpose_of(goal, max_candidates, sample, relevance)
        return cls(Split(sample, relevance.truths, seed, copies), relevance, purpose)


class _Steps:
    """The names of steps, with their numbers; ``total`` is the largest number that may be needed."""

    def __init__(self, total: int) -> None:
        self._done, self._total = 0, total

    def named(self, what: Any, stage: Stage) -> str:
        """The name of the next step."""
        self._done += 1
        return f"{what}, {len(stage.split.sample.X):,} rows (step {self._done} of {self._total} at most)"


def _samples(drawn: Sample, rng: np.random.Generator) -> Iterator[Sample]:
    """A few rows for all candidates, and the whole sample, split once or several times."""
    n = len(drawn.X)
    splits = next((number for most, number in _SPLITS if n <= most), 1)
    if n > _SPLITS[0][0]:
        yield drawn.part(_FEW, _FEW_QUERIES, rng)
    yield drawn
    for _ in range(splits - 1):
        yield drawn.split_again(rng)


def purpose_of(goal: str, max_candidates: int | None, sample: Sample, relevance: Relevance) -> Purpose:
    """The purpose of the codes, with the budget of a look-up in rows of the database of a sample."""
    n = len(sample.database)
    most = None if max_candidates is None else checks.positive_int(max_candidates, "max_candidates")
    if goal == "duplicates":
        budget = float(most or _DUPLICATE_CANDIDATES)
    elif most is not None:
        budget = most * n / sample.n_rows
    elif relevance.by_labels:
        budget = float(relevance.truths.relevant.counts.mean())
    else:
        budget = max(100 * n / sample.n_rows, n / 100)
    return Purpose(goal, budget, relevance.by_labels, most is not None, n / sample.n_rows)


def _scored(found: Sequence[Measured], purpose: Purpose) -> list[tuple[float, Measured]]:
    """The candidates that can serve the goal, with their scores."""
    return [(score, m) for m in found if (score := purpose.score(m)) is not None]


def _halvings(n_bits: int) -> int:
    """How often a length can be halved."""
    return max(0, (n_bits // _SHORTEST).bit_length() - 1)


def _halves(found: Sequence[Measured], purpose: Purpose, length: int, n_bits: int) -> list[Candidate]:
    """The candidates of half of a length that are worth a measurement on a few rows.

    Below half of ``n_bits``, those of recipes that a halving has not made worse so far.
    """
    scores = {m.candidate: score for score, m in _scored(found, purpose) if _may_be_short(m, purpose)}
    least = _PROMISING * max(scores.values(), default=0.0)
    own = [
        (score, c.recipe)
        for c, score in scores.items()
        if c.n_bits == length and least <= score >= scores.get(Candidate(c.recipe, 2 * length), 0.0)
    ]
    own.sort(key=lambda pair: -pair[0])
    return [Candidate(recipe, length // 2) for _, recipe in own[:_SHORTER]]


def _may_be_short(measured: Measured, purpose: Purpose) -> bool:
    """Whether a code shorter than requested may be recommended.

    Shorter codes return more rows. Without labels nobody knows whether so many belong together: at radius 0
    they must return no more than allowed.
    """
    if purpose.goal != "group" or purpose.has_labels:
        return True
    lookup = None if measured.quality is None else measured.quality.lookup
    return lookup is not None and bool(lookup.returned[0] <= purpose.budget)


def _finalists(
    found: Sequence[Measured], purpose: Purpose, n_bits: int, limit: float | None
) -> list[Candidate]:
    """The candidates that go on: the best ones, and the best manifold method, which gains by more rows.

    Short codes seem better on few rows than they are. The best of each shorter length go on beside the
    others.
    """
    allowed = [
        (score, m.candidate)
        for score, m in _scored(found, purpose)
        if (m.candidate.n_bits == n_bits or (m.candidate.n_bits < n_bits and _may_be_short(m, purpose)))
        and (limit is None or m.fit_seconds <= limit)
    ]
    allowed.sort(key=lambda pair: -pair[0])
    lengths = [n_bits >> halving for halving in range(1, _halvings(n_bits) + 1)]
    ordered = [candidate for _, candidate in allowed if candidate.n_bits not in lengths]
    best = ordered[:_FINALISTS]
    manifold = [candidate for candidate in ordered if candidate.recipe in MANIFOLD][:1]
    best += [candidate for candidate in manifold if candidate not in best]
    for length in lengths:
        own = [c for score, c in allowed if c.n_bits == length and score >= _CLOSE * allowed[0][0]]
        best += own[:_SHORT_FINALISTS]
    return best


def _winner(last: Sequence[Measured], stage: Stage, limit: float | None, n_bits: int) -> Measured:
    """The best candidate; of those that are equal within the error, the shortest, then the fastest."""
    purpose = stage.purpose
    allowed = [pair for pair in _scored(last, purpose) if not _refusal(pair[1], stage, limit, n_bits)]
    if not allowed:
        raise ValueError(
            "no candidate could be measured within the limits: raise max_fit_seconds, or give rows of more "
            "columns"
        )
    allowed = _without_smaller_bases(allowed)
    _, best = max(allowed, key=lambda pair: pair[0])
    equal = [m for _, m in allowed if not purpose.is_better(best, m)]
    return min(equal, key=lambda m: (m.candidate.n_bits, m.fit_seconds))


def _refusal(measured: Measured, stage: Stage, limit: float | None, n_bits: int) -> str:
    """Why a candidate of the whole sample must not be recommended, in words; empty if it may be."""
    seconds = estimated_fit(measured, stage.split.sample)
    if limit is not None and seconds > limit:
        return f"a fit of all rows would take about {seconds:,.0f} s"
    if measured.candidate.n_bits < n_bits and not _may_be_short(measured, stage.purpose):
        return "its look-up returns more rows than allowed"
    return ""


def estimated_fit(measured: Measured, sample: Sample) -> float:
    """Seconds to fit all rows, if the time grows with their number."""
    return measured.fit_seconds * max(1.0, sample.n_rows / max(1, measured.n_rows))


def _without_smaller_bases(allowed: list[tuple[float, Measured]]) -> list[tuple[float, Measured]]:
    """The candidates without those that are a faster form of another one of the same length.

    On a sample both have a small base set. On all rows, that of the slower form is larger and better.
    """
    present = [m.candidate for _, m in allowed]
    faster = [Candidate(FASTER[c.recipe], c.n_bits) for c in present if c.recipe in FASTER]
    return [(score, m) for score, m in allowed if m.candidate not in faster]


def _curve(
    best: Measured, n_bits: int, found: Sequence[Measured], few: Stage, steps: _Steps
) -> Generator[str, None, list[Measured]]:
    """The best recipe at several lengths, on a few rows: those of a look-up that are known, too."""
    name, measures = best.candidate.recipe, []
    lengths = {m.candidate.n_bits for m in found if m.candidate.recipe == name}
    for length in sorted(lengths | {int(share * n_bits) for share in _CURVE}):
        candidate = Candidate(name, length)
        if length < _SHORTEST:
            continue
        known = [m for m in found if m.candidate == candidate]
        if not known:
            yield steps.named(candidate, few)
        measures.append(known[0] if known else measure(candidate, few.split))
    return [m for m in measures if few.purpose.score(m) is not None]


def _other_lengths(
    best: Measured, curve: Sequence[Measured], vectors: Measured | None, n_bits: int, main: Stage, few: Stage
) -> list[int]:
    """Lengths that are worth a fit of the whole sample: the half, if it is as good on a few rows, and the
    double, if the codes are too short.
    """
    by_length = {m.candidate.n_bits: m for m in curve}
    length, lengths = best.candidate.n_bits, []
    own, half = by_length.get(length), by_length.get(length // 2)
    if own is not None and half is not None and not few.purpose.is_better(own, half):
        lengths.append(length // 2)
    if is_too_short(best, vectors, main.purpose):
        lengths.append(2 * n_bits)
    return lengths


def _unseen_classes(
    best: Measured, last: Sequence[Measured], main: Stage, few: Stage, steps: _Steps, rng: Any
) -> Generator[str, None, Unseen | None]:
    """The best candidate, and the best one that needs no labels, on classes whose labels none has seen."""
    sample = few.split.sample.without_classes(rng) if best.candidate.uses_labels else None
    others = [(s, m) for s, m in _scored(last, main.purpose) if not m.candidate.uses_labels]
    if sample is None or not others:
        return None
    relevance, (_, other) = relevance_of(sample, rng), max(others, key=lambda pair: pair[0])
    scores = []
    for candidate in (best.candidate, Candidate(other.candidate.recipe, best.candidate.n_bits)):
        yield steps.named(f"{candidate}, new classes", few)
        scores.append(few.purpose.score(measure(candidate, Split(sample, relevance.truths, few.split.seed))))
    own, without = scores
    return None if own is None or without is None else Unseen(other.candidate.recipe, own, without)


def _choice(
    findings: Findings, vectors: Measured | None, curve: list[Measured], unseen: Unseen | None, seed: int
) -> Choice:
    """The choice, with all records and reasons."""
    best, purpose, sample = findings.best, findings.purpose, findings.sample
    final = [m.candidate for m in findings.last]
    table = [
        record(m, purpose, estimated_fit(m, sample), findings, is_final=True)
        for m in [*findings.last, *([] if vectors is None else [vectors])]
    ]
    few = [m for m in findings.found if m.candidate not in final or m.quality is None]
    table += [
        record(m, findings.few_purpose, estimated_fit(m, sample), findings, is_final=False) for m in few
    ]
    table.sort(key=lambda row: (row["score"] is None, not row["final"], -(row["score"] or 0)))
    points = [
        {
            "n_bits": m.candidate.n_bits,
            "bytes_per_row": m.bytes_per_row,
            "score": findings.few_purpose.score(m),
            "error": error_of(findings.few_purpose.group_scores(m)),
        }
        for m in curve
    ]
    return Choice(
        best.candidate.recipe,
        best.candidate.n_bits,
        purpose.radius(best),
        purpose.goal,
        "labels" if purpose.has_labels else "clusters and neighbors",
        table,
        reasons(findings, vectors, points, unseen),
        sample.text,
        best.candidate.uses_labels,
        points,
        knee_of(points),
        seed,
    )
