"""Measurements as records of a table, and the recommendation in plain sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manihash.advice.candidates import VECTORS, Measured
from manihash.advice.relevance import Relevance
from manihash.advice.sample import Sample
from manihash.advice.scores import LOOK_UPS, SHOWN, WEIGHTS, Purpose, error_of
from manihash.evaluation import metrics

# Codes that do not reach this share of a scan of the vectors are too short, and the advice says so first.
_ENOUGH = 0.9
# Signs of columns that do not reach this share of the best candidate do not serve the goal.
_USABLE = 0.2
# Factor by which the first columns must beat random directions to be called the best ones.
_CLEARLY = 1.1


_PROXIES = (
    "The score for the goal is a weighted mean over these proxies, and MAP, P@10 and F1 in the table count "
    "rows of the cluster. By your own categories, these values can be lower or higher."
)
_ESTIMATE = (
    "estimated without labels: ± is one standard error over the queries, and does not include the error of "
    "the estimate"
)


@dataclass(frozen=True, eq=False)
class Findings:
    """What was measured: the best candidate, those of the whole sample, and all of them on a few rows."""

    best: Measured
    last: Sequence[Measured]
    found: Sequence[Measured]
    purpose: Purpose
    few_purpose: Purpose
    sample: Sample
    relevance: Relevance
    n_bits: int
    refused: Sequence[tuple[Measured, str]] = ()  # candidates that must not be recommended, and why


@dataclass(frozen=True)
class Unseen:
    """Scores on classes without labels: of the recommendation, and of a recipe that learns from none."""

    other: str
    score: float
    other_score: float


def record(
    measured: Measured, purpose: Purpose, fit_all: float, findings: Findings, *, is_final: bool
) -> dict[str, Any]:
    """The record of a candidate: what was measured, or the reason why nothing was."""
    candidate, quality = measured.candidate, measured.quality
    row: dict[str, Any] = {
        "recipe": candidate.recipe,
        "n_bits": candidate.n_bits,
        "score": purpose.score(measured),
        "final": is_final,
        "uses_labels": candidate.uses_labels,
    }
    if quality is None:
        return row | {"reason": measured.reason}
    if row["score"] is not None:
        row |= _errors(measured, purpose, findings.best if is_final else None)
    names = ("map", "precision_at_10", "recall_at_10", "recall_at_10_reranked", "recall_at_100")
    row |= {name: getattr(quality, name) for name in (*names, "recall_at_100_reranked")}
    if quality.nearest_map is not None:
        row |= {name: getattr(quality, name) for name in ("nearest_map", "nearest_precision_at_10")}
    row |= {"bytes_per_row": measured.bytes_per_row, "rows": measured.n_rows}
    if candidate.recipe != VECTORS:
        times = ("fit_seconds", "encode_us_per_row", "search_us_per_query")
        row |= {name: getattr(measured, name) for name in times} | {"fit_all_seconds": fit_all}
    return row | _looked_up(measured, purpose)


def _errors(measured: Measured, purpose: Purpose, best: Measured | None) -> dict[str, float]:
    """The standard error of the score, and how far it is behind the best one, with the error of that."""
    scores = purpose.group_scores(measured)
    errors = {"error": error_of(scores)}
    if best is not None and len(best.groups) == len(scores):
        behind = purpose.group_scores(best) - scores
        errors |= {"behind": float(behind.mean()), "behind_error": error_of(behind)}
    return errors


def _looked_up(measured: Measured, purpose: Purpose) -> dict[str, Any]:
    """The fields of a record about the look-up within the radius; none without a look-up."""
    radius, quality = purpose.radius(measured), measured.quality
    if radius is None or quality is None or quality.lookup is None:
        return {}
    lookup = quality.lookup
    at = min(radius, len(lookup.returned) - 1)
    row = {
        "radius": radius,
        "returned": float(lookup.returned[at]),
        "lookup_recall": float(lookup.recall[at]),
        "empty": float(lookup.empty[at]),
        "f1": metrics.f1(float(lookup.relevant_precision[at]), float(lookup.relevant_recall[at])),
    }
    if lookup.nearest_precision is not None and lookup.nearest_recall is not None:
        row["nearest_f1"] = metrics.f1(float(lookup.nearest_precision[at]), float(lookup.nearest_recall[at]))
    if quality.copies is not None:
        row["copies_found"] = float(quality.copies.found[radius])
    return row


def reasons(
    findings: Findings, vectors: Measured | None, curve: Sequence[dict[str, Any]], unseen: Unseen | None
) -> list[str]:
    """The advice: one sentence or a few per fact, the recommendation first."""
    best, purpose = findings.best, findings.purpose
    texts = [_first(findings, vectors), *_others(findings)]
    if best.candidate.uses_labels:
        texts.append(
            f"{best.candidate.recipe} learns from labels: fit it with those that you have. The score is that "
            "on rows whose labels it has not seen."
        )
    texts += [] if unseen is None else [_unseen_text(best, unseen)]
    texts.append(_relevance_text(findings))
    if purpose.radius(best) is not None:
        texts.append(_radius_text(findings))
    texts += [text for text in (_bytes_text(findings, curve), _signs_text(findings)) if text]
    texts.append(f"The sample was {findings.sample.text}.")
    return texts


def _first(findings: Findings, vectors: Measured | None) -> str:
    """The recommendation with its score; first of all that codes are too short, if they are."""
    best, purpose = findings.best, findings.purpose
    score, error = purpose.score(best) or 0.0, error_of(purpose.group_scores(best))
    name = f"{best.candidate.recipe} with {best.candidate.n_bits} bits"
    text = (
        f"({_size(best)}){_within(best, purpose)}: its {purpose.measure} is {score:.3f} ± {error:.3f} "
        f"({_ESTIMATE if purpose.is_estimate else '± one standard error'})"
    )
    exact = _exact(vectors, purpose)
    if not is_too_short(best, vectors, purpose):
        return f"Use {name} {text} on the sample{_scan_text(best, vectors, purpose)}."
    assert exact is not None
    longer = [m for m in findings.last if m.candidate.n_bits > findings.n_bits]
    for m in longer:
        if (more := purpose.score(m) or 0.0) >= _ENOUGH * exact:
            return (
                f"Use longer codes if you can: {m.candidate.recipe} with {m.candidate.n_bits} bits "
                f"({_size(m)}) has {more:.3f}, and a scan of the vectors {exact:.3f}. "
                f"With at most {findings.n_bits} bits, use {name} {text}."
            )
    return (
        f"Use the vectors themselves if you can: a scan of them has {exact:.3f}, and no code of at most "
        f"{2 * findings.n_bits} bits comes within 10 % of it. The best code is {name} {text}."
    )


def _scan_text(best: Measured, vectors: Measured | None, purpose: Purpose) -> str:
    """What a scan of the vectors has, beside a candidate; empty if it was not measured."""
    if vectors is None:
        return ""
    exact = f"{purpose.score(vectors):.3f}"
    if purpose.is_better(best, vectors):
        return f", more than that of a scan of the vectors, which has {exact}"
    return f"; a scan of the vectors has {exact}"


def _within(measured: Measured, purpose: Purpose) -> str:
    """The radius of a look-up in words, if the goal is one."""
    if purpose.goal not in LOOK_UPS:
        return ""
    return f" and look-ups within radius {purpose.radius(measured)}{_part(measured)}"


def _part(measured: Measured) -> str:
    """Which part of the codes a radius is that of, if only the first part is looked up."""
    assert measured.quality is not None
    assert measured.quality.lookup is not None
    is_first = len(measured.quality.lookup.returned) - 1 < measured.candidate.n_bits
    return " of the first part" if is_first else ""


def _size(measured: Measured) -> str:
    """The size of a code in words."""
    return f"{_bytes(measured.bytes_per_row)} per row"


def _bytes(number: int) -> str:
    return "1 byte" if number == 1 else f"{number} bytes"


def _exact(vectors: Measured | None, purpose: Purpose) -> float | None:
    """The score of a scan of the vectors; None if it is not known, or means nothing for the goal."""
    return 1.0 if purpose.goal == "neighbors" else None if vectors is None else purpose.score(vectors)


def is_too_short(best: Measured, vectors: Measured | None, purpose: Purpose) -> bool:
    """Whether the best codes lose much of what a scan of the vectors finds."""
    exact = _exact(vectors, purpose)
    return exact is not None and (purpose.score(best) or 0.0) < _ENOUGH * exact


def _others(findings: Findings) -> list[str]:
    """What the recommendation was compared with: what must not be recommended, and the next best."""
    best, purpose = findings.best, findings.purpose
    refused = {m.candidate: why for m, why in findings.refused}
    others = [
        (score, m)
        for m in findings.last
        if m is not best and m.candidate.n_bits <= findings.n_bits and (score := purpose.score(m)) is not None
    ]
    others.sort(key=lambda pair: -pair[0])
    better = [
        pair for pair in others if pair[1].candidate in refused and pair[0] > (purpose.score(best) or 0)
    ]
    texts = [f"{_name(m)} has {score:.3f}, but {refused[m.candidate]}." for score, m in better[:1]]
    allowed = [pair for pair in others if pair[1].candidate not in refused]
    return texts + ([_next_text(findings, *allowed[0])] if allowed else [])


def _next_text(findings: Findings, score: float, second: Measured) -> str:
    """How the next best candidate compares with the recommendation."""
    best, purpose = findings.best, findings.purpose
    if purpose.is_better(best, second):
        behind = purpose.group_scores(best) - purpose.group_scores(second)
        less = f"{behind.mean():.3f} ± {error_of(behind):.3f} less"
        return f"The next best is {_name(second)}, with {score:.3f}: {less}."
    why = "is shorter" if best.candidate.n_bits < second.candidate.n_bits else "fits faster"
    return f"{_name(second)} has {score:.3f}, which is equal within the error; the recommended code {why}."


def _name(measured: Measured) -> str:
    return f"{measured.candidate.recipe} with {measured.candidate.n_bits} bits"


def _unseen_text(best: Measured, unseen: Unseen) -> str:
    """How the recommendation works for classes without labels."""
    text = (
        f"On classes whose labels it has not seen, {best.candidate.recipe} has {unseen.score:.3f}, and "
        f"{unseen.other}, which needs no labels, {unseen.other_score:.3f}, both on a few rows"
    )
    if unseen.score < unseen.other_score:
        return (
            f"{text}: if rows of new classes will come, give labels for some of them, or use {unseen.other}."
        )
    return f"{text}."


def _relevance_text(findings: Findings) -> str:
    """Which rows count as right answers."""
    purpose = findings.purpose
    if purpose.goal not in WEIGHTS:
        known = "the nearest rows are known" if purpose.goal == "neighbors" else "copies were planted"
        return f"The score needs no labels: {known}."
    return f"{findings.relevance.text} {_PROXIES}" if purpose.is_estimate else findings.relevance.text


def _radius_text(findings: Findings) -> str:
    """What a look-up within the recommended radius returns."""
    best, purpose, sample = findings.best, findings.purpose, findings.sample
    radius, quality = purpose.radius(best), best.quality
    assert radius is not None
    assert quality is not None
    assert quality.lookup is not None
    lookup = quality.lookup
    at, scale = min(radius, len(lookup.returned) - 1), sample.n_rows / len(sample.database)
    if purpose.goal in LOOK_UPS:
        start = "A look-up"
    else:
        start = "The score is that of a ranking. If you look codes up instead, a look-up"
    text = (
        f"{start} within radius {radius}{_part(best)} returns {lookup.returned[at] * scale:,.0f} of all "
        f"{sample.n_rows:,} rows on average, with {lookup.recall[at]:.0%} of the ten nearest rows; "
        f"{lookup.empty[at]:.0%} of the queries get no answer."
    )
    returned, allowed = (f"{rows * scale:,.0f} rows" for rows in (lookup.returned[at], purpose.budget))
    if purpose.goal == "duplicates":
        assert quality.copies is not None
        rows = purpose.for_a_copy(quality.copies)[at]
        if rows > purpose.budget:
            text += (
                f" A copy gets {rows:,.0f} rows, more than the {purpose.budget:,.0f} allowed, which lowers "
            )
            text += "the score, but radius 0 is the smallest."
        return text
    if lookup.returned[at] > purpose.budget and returned != allowed:
        return f"{text} That is more than the {allowed} allowed, but radius 0 is the smallest."
    if purpose.goal == "group":
        text += f" It may return {allowed}: {_budget_text(purpose)}. {_score_text(best, purpose)}"
    return text.strip()


def _score_text(best: Measured, purpose: Purpose) -> str:
    """How the score of a look-up and its F1 within the radius differ; empty if they do not."""
    if not purpose.has_labels:
        return (
            "The score is for as many rows, interpolated between two radii; the F1 in the table is that of "
            "clusters, within the radius."
        )
    score, f1 = f"{purpose.score(best):.3f}", f"{_looked_up(best, purpose)['f1']:.3f}"
    if score == f1:
        return ""
    return (
        f"The F1 above is for as many rows, interpolated between two radii; within radius "
        f"{purpose.radius(best)} alone it is {f1}."
    )


def _budget_text(purpose: Purpose) -> str:
    """What the rows are that a look-up may return."""
    if purpose.is_limit:
        return "max_candidates"
    return "the mean number of rows with one label" if purpose.has_labels else "1 %, at least 100"


def knee_of(curve: Sequence[dict[str, Any]]) -> int | None:
    """The length in bits at which the curve of quality bends most, against the logarithm of the length."""
    if len(curve) < 3:
        return None
    x = np.log2([point["n_bits"] for point in curve])
    y = np.maximum.accumulate([point["score"] for point in curve])
    if y[-1] == y[0]:
        return int(curve[0]["n_bits"])
    above = (y - y[0]) / (y[-1] - y[0]) - (x - x[0]) / (x[-1] - x[0])
    at = int(np.argmax(above)) if above.max() > 0 else len(curve) - 1  # no bend: every byte gains
    return int(curve[at]["n_bits"])


def _bytes_text(findings: Findings, curve: Sequence[dict[str, Any]]) -> str:
    """What half and twice the recommended bytes lose and gain; empty if neither was measured."""
    best = findings.best
    lengths = [point["n_bits"] for point in curve]
    if len(curve) < 2 or best.candidate.n_bits not in lengths:
        return ""
    at = lengths.index(best.candidate.n_bits)
    points = ", ".join(f"{point['score']:.3f} with {point['bytes_per_row']}" for point in curve)
    others = [*curve[max(0, at - 1) : at], *curve[at + 1 : at + 2]]
    texts = [_length_text(findings, point, curve[at]) for point in others]
    return (
        f"{_size(best)} {'is' if best.bytes_per_row == 1 else 'are'} recommended: {'; '.join(texts)}. "
        f"All scores of {best.candidate.recipe} against bytes per row, on a few rows (to be compared with "
        f"each other, not with the scores above): {points}."
    )


def _length_text(findings: Findings, point: dict[str, Any], own: dict[str, Any]) -> str:
    """How the score of another length differs from that of the recommended one."""
    best, purpose = findings.best, findings.purpose
    limit = f", more than the {findings.n_bits} bits allowed," if point["n_bits"] > findings.n_bits else ""
    change = _change(point["score"] - own["score"])
    text = f"with {_bytes(point['bytes_per_row'])}{limit} the score is {change} on a few rows"
    candidate = replace(best.candidate, n_bits=point["n_bits"])
    whole = next((m for m in findings.last if m.candidate == candidate), None)
    if whole is None:
        return text
    return f"{text} and {_change((purpose.score(whole) or 0.0) - (purpose.score(best) or 0.0))} on the sample"


def _change(difference: float) -> str:
    """A difference of scores in words."""
    if abs(difference) < SHOWN:
        return "the same"
    return f"{abs(difference):.3f} {'higher' if difference > 0 else 'lower'}"


def _signs_text(findings: Findings) -> str:
    """What the signs of the columns are worth, by their threshold."""
    purpose = findings.few_purpose
    scored = [m for m in findings.found if purpose.score(m) is not None]
    known = {m.candidate.recipe: m for m in reversed(scored)}  # the first ones are not shortened
    signs = {name: m for name, m in known.items() if name.startswith("sign")}
    if not signs:
        return ""
    best = max(purpose.score(m) or 0.0 for m in scored)
    most = max(purpose.score(m) or 0.0 for m in signs.values())
    if most < _USABLE * best:
        return (
            f"Signs of the columns or of random directions do not serve this goal: on a few rows they have "
            f"at most {most:.3f}, and the best candidate {best:.3f}."
        )
    texts = [_threshold_text(signs, purpose), _prefix_text(known, purpose, _USABLE * best)]
    return " ".join([*(text for text in texts if text), "All of these are on a few rows."])


def _threshold_text(known: dict[str, Measured], purpose: Purpose) -> str:
    """Which threshold suits the signs of all columns."""
    if not {"sign-zero", "sign-median"} <= known.keys():
        return ""
    zero, median = known["sign-zero"], known["sign-median"]
    advice = "both thresholds are equal"
    if purpose.is_better(zero, median) or purpose.is_better(median, zero):
        advice = f"take {'zero' if purpose.is_better(zero, median) else 'the median'}"
    return (
        f"Signs of all {zero.candidate.n_bits} columns ({_size(zero)}) have "
        f"{purpose.score(zero):.3f} at zero and {purpose.score(median):.3f} at the median: {advice} for "
        "this embedding model."
    )


def _prefix_text(known: dict[str, Measured], purpose: Purpose, usable: float) -> str:
    """Whether the first columns are the best ones, and what a rotation gains."""
    if "sign" not in known:
        return ""
    rotated = known["sign"]
    n_bits, other = rotated.candidate.n_bits, purpose.score(rotated) or 0.0
    text = f"Signs of {n_bits} random directions have {other:.3f}"
    is_all = "sign-median" in known and known["sign-median"].candidate.n_bits <= n_bits
    if "sign-prefix" in known and not is_all:
        prefix = known["sign-prefix"]
        own = purpose.score(prefix) or 0.0
        first = "the first columns are hardly better than others"
        if own > max(_CLEARLY * other, usable) and purpose.is_better(prefix, rotated):
            first = "the first columns matter most, as in Matryoshka embeddings"
        text = (
            f"Signs of the first {n_bits} columns have {own:.3f}, and signs of as many random directions "
            f"{other:.3f}: {first}"
        )
    if "itq" in known:
        text += f"; after ITQ's rotation they have {purpose.score(known['itq']):.3f}"
    return f"{text}."
