"""Which encoder suits a set of vectors: candidates measured on a sample, and a recommendation."""

from collections.abc import Generator, Sequence
from difflib import get_close_matches
from typing import Any

from numpy.typing import ArrayLike

from manihash import checks
from manihash.advice.candidates import FASTER, Candidate, Measured, candidates, measure, plant_copies
from manihash.advice.choice import Choice
from manihash.advice.reasons import reasons, record
from manihash.advice.relevance import Relevance, relevance_of
from manihash.advice.sample import FEWEST_ROWS, Sample, draw_sample
from manihash.advice.scores import GOALS, Purpose
from manihash.codes import n_bytes

# A shorter code is preferred if its score is at least this share of the best one.
_AS_GOOD = 0.99
# A quantizer of FAISS is named if its score is this many times that of the best recipe.
_CLEARLY_BETTER = 1.02
_COPIES = 1000


def choose(
    X: Any,
    n_bits: int = 64,
    goal: str = "auto",
    labels: ArrayLike | None = None,
    random_state: int = 0,
    *,
    sample: int = 20_000,
    max_candidates: int | None = None,
    max_fit_seconds: float | None = None,
) -> Choice:
    """Recommend a recipe, a code length and a radius for some vectors.

    Candidates (manifold methods, ITQ, SpH, sign; with FAISS installed also its quantizers) are fitted to a
    random sample at several code lengths, and measured with held-out queries. The one with the best score
    for the goal is recommended; a shorter code is preferred if its score is almost as good.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The vectors, in memory or memory-mapped; at least 200 rows.
    n_bits : int, default=64
        Largest length of the codes. Codes of half and of twice the length are measured, too.
    goal : {"auto", "ranking", "lookup", "neighbors", "duplicates"}, default="auto"
        What the codes are for. "ranking": relevant rows first, by MAP. "lookup": relevant rows within a small
        radius, by F1 if it returns ``max_candidates`` rows. "neighbors": the nearest rows, by recall@10 after
        rescoring 100 rows. "duplicates": copies within a radius that returns at most ten rows. "auto": a good
        ranking with good first answers, by the geometric mean of MAP and precision@10.
    labels : array-like of shape (n,), default=None
        Labels of the rows, -1 or None for a row without one. They say which rows are relevant to each other;
        no method learns from them. Without labels two stand-ins are used, and the score is the geometric mean
        of both: rows of the query's community of the neighbor graph, and the nearest 2 % of the rows.
    random_state : int, default=0
        Seed of the sample and of the methods.
    sample : int, default=20_000
        Largest number of rows to use.
    max_candidates : int, default=None
        Number of rows of X that a look-up may return on average. By default the mean number of relevant rows
        with labels, otherwise 1 % of the rows, at least 100.
    max_fit_seconds : float, default=None
        Longest time to fit the recommended model to all rows, estimated from the sample.

    Returns
    -------
    Choice
        The recommendation, the table of all candidates, and the reasons.

    Raises
    ------
    ValueError
        If there are fewer than 200 rows, the goal is unknown, or labels do not match the rows.

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
    _check_goal(goal)
    size = checks.positive_int(sample, "sample", least=FEWEST_ROWS)
    limit = None if max_fit_seconds is None else checks.positive_number(max_fit_seconds, "max_fit_seconds")
    rng = checks.generator(checks.positive_int(random_state, "random_state", least=0))
    yield "sample"
    drawn = draw_sample(X, labels, size, rng)
    yield "neighbors of the sample"
    relevance = relevance_of(drawn, rng)
    purpose = purpose_of(goal, max_candidates, drawn, relevance)
    copies = plant_copies(drawn, relevance.spacing, _COPIES, rng) if goal == "duplicates" else None
    found: list[Measured] = []
    tried = candidates((max(2, n_bits // 2), n_bits, 2 * n_bits), len(drawn.X))
    for i, candidate in enumerate(tried, 1):
        yield f"{candidate} ({i} of {len(tried)})"
        slow = _too_slow(candidate, found, limit, drawn)
        found.append(slow or measure(candidate, drawn, relevance.truths, random_state, copies))
    return recommend(found, purpose, n_bits, drawn, relevance, limit, random_state)


def _check_goal(goal: str) -> None:
    if goal not in GOALS:
        close = get_close_matches(str(goal).lower(), GOALS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"unknown goal {goal!r}{hint}: the goals are {', '.join(GOALS)}")


def purpose_of(goal: str, max_candidates: int | None, sample: Sample, relevance: Relevance) -> Purpose:
    """The purpose of the codes, with the budget of a look-up in rows of the sample."""
    n = len(sample.X)
    if max_candidates is not None:
        budget = checks.positive_int(max_candidates, "max_candidates") * n / sample.n_rows
    elif relevance.by_labels:
        budget = float(relevance.truths.relevant.counts.mean())
    else:
        budget = max(100 * n / sample.n_rows, n / 100)
    return Purpose(goal, budget, relevance.by_labels, max_candidates is not None)


def _estimated_fit(measured: Measured, sample: Sample) -> float:
    """Seconds to fit all rows, if the time grows with their number."""
    return measured.fit_seconds * max(1.0, sample.n_rows / len(sample.X))


def _too_slow(
    candidate: Candidate, found: Sequence[Measured], limit: float | None, sample: Sample
) -> Measured | None:
    """The reason to leave out a candidate, if its recipe was too slow with shorter codes."""
    for other in found:
        if limit is not None and other.candidate.recipe == candidate.recipe and other.quality is not None:
            seconds = _estimated_fit(other, sample)
            if seconds > limit:
                text = (
                    f"a fit of all rows with {other.candidate.n_bits} bits would take about {seconds:.0f} s"
                )
                return Measured(candidate, reason=text)
    return None


def recommend(
    found: Sequence[Measured],
    purpose: Purpose,
    n_bits: int,
    sample: Sample,
    relevance: Relevance,
    limit: float | None,
    seed: int,
) -> Choice:
    """The choice among measured candidates, of at most ``n_bits`` bits."""
    allowed = [
        (score, m)
        for m in found
        if m.candidate.n_bits <= n_bits
        and not m.candidate.is_peer
        and (score := purpose.score(m)) is not None
        and (limit is None or _estimated_fit(m, sample) <= limit)
    ]
    if not allowed:
        raise ValueError(
            "no candidate could be measured within the limits: raise max_fit_seconds, or give rows of more "
            "columns"
        )
    allowed = _without_smaller_bases(allowed)
    most = max(score for score, _ in allowed)
    _, best = min(
        ((score, m) for score, m in allowed if score >= _AS_GOOD * most),
        key=lambda pair: (pair[1].candidate.n_bits, -round(pair[0], 3), -_first_answers(pair[1])),
    )
    table = [record(m, purpose, _estimated_fit(m, sample)) for m in found]
    table.sort(key=lambda row: (row["score"] is None, -(row["score"] or 0)))
    radius = purpose.radius(best)
    assert radius is not None
    peer = _better_peer(found, most, purpose, n_bytes(n_bits))
    return Choice(
        best.candidate.recipe,
        best.candidate.n_bits,
        radius,
        purpose.goal,
        "labels" if relevance.by_labels else "clusters and neighbors",
        table,
        reasons(best, found, purpose, sample, relevance, peer),
        sample.text,
        None if peer is None else peer.candidate.recipe,
        seed,
    )


def _without_smaller_bases(allowed: list[tuple[float, Measured]]) -> list[tuple[float, Measured]]:
    """The candidates without those that are a faster form of another one of the same length.

    On a sample both have a small base set. On all rows, that of the slower form is larger and better.
    """
    present = [m.candidate for _, m in allowed]
    faster = [Candidate(FASTER[c.recipe], c.n_bits) for c in present if c.recipe in FASTER]
    return [(score, m) for score, m in allowed if m.candidate not in faster]


def _first_answers(measured: Measured) -> float:
    """Recall@10 after rescoring, which decides between equal scores."""
    return 0.0 if measured.quality is None else measured.quality.recall_at_10_rescored


def _better_peer(found: Sequence[Measured], most: float, purpose: Purpose, n_bytes: int) -> Measured | None:
    """The best quantizer of FAISS of at most some bytes per row, if it is clearly better than all recipes."""
    peers = [
        (score, m)
        for m in found
        if m.candidate.is_peer and m.bytes_per_row <= n_bytes and (score := purpose.score(m)) is not None
    ]
    score, best = max(peers, key=lambda pair: pair[0], default=(0.0, None))
    return best if score > _CLEARLY_BETTER * most else None
