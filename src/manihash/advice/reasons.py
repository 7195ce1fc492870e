"""Measurements as records of a table, and the recommendation in plain sentences."""

from collections.abc import Sequence
from typing import Any

from manihash.advice.candidates import Measured
from manihash.advice.relevance import Relevance
from manihash.advice.sample import Sample
from manihash.advice.scores import Purpose
from manihash.evaluation import metrics
from manihash.search.faiss_peers import PEER_TITLES


def record(measured: Measured, purpose: Purpose, fit_all: float) -> dict[str, Any]:
    """The record of a candidate: what was measured, or the reason why nothing was."""
    candidate, quality = measured.candidate, measured.quality
    row: dict[str, Any] = {
        "recipe": candidate.recipe,
        "n_bits": candidate.n_bits,
        "score": purpose.score(measured),
    }
    if quality is None:
        return row | {"reason": measured.reason}
    row |= {
        "bytes_per_row": measured.bytes_per_row,
        "map": quality.map,
        "precision_at_10": quality.precision_at_10,
        "recall_at_10": quality.recall_at_10,
        "recall_at_10_rescored": quality.recall_at_10_rescored,
        "recall_at_100": quality.recall_at_100,
        "recall_at_100_rescored": quality.recall_at_100_rescored,
        "fit_seconds": measured.fit_seconds,
        "fit_all_seconds": fit_all,
        "encode_us_per_row": measured.encode_us_per_row,
        "search_us_per_query": measured.search_us_per_query,
    }
    if quality.nearest_map is not None:
        row |= {
            "nearest_map": quality.nearest_map,
            "nearest_precision_at_10": quality.nearest_precision_at_10,
        }
    radius = purpose.radius(measured)
    if radius is not None and quality.lookup is not None:
        lookup = quality.lookup
        at = min(radius, len(lookup.returned) - 1)
        row |= {
            "radius": radius,
            "returned": float(lookup.returned[at]),
            "lookup_recall": float(lookup.recall[at]),
            "empty": float(lookup.empty[at]),
            "f1": metrics.f1(float(lookup.relevant_precision[at]), float(lookup.relevant_recall[at])),
        }
        if lookup.nearest_precision is not None and lookup.nearest_recall is not None:
            row["nearest_f1"] = metrics.f1(
                float(lookup.nearest_precision[at]), float(lookup.nearest_recall[at])
            )
    if measured.copies is not None and radius is not None:
        row["copies_found"] = float(measured.copies.found[radius])
    return row


def reasons(
    best: Measured,
    found: Sequence[Measured],
    purpose: Purpose,
    sample: Sample,
    relevance: Relevance,
    peer: Measured | None,
) -> list[str]:
    """The advice: one sentence per fact."""
    score = purpose.score(best) or 0.0
    ours = [m for m in found if not m.candidate.is_peer]
    scored = [(purpose.score(m) or 0.0, m) for m in ours if purpose.score(m) is not None]
    texts = [
        f"Use {best.candidate.recipe} with {best.candidate.n_bits} bits ({best.bytes_per_row} bytes per "
        f"row): its {purpose.measure} is {score:.3f} on the sample."
    ]
    same_length = [(s, m) for s, m in scored if m.candidate.n_bits == best.candidate.n_bits and m is not best]
    if same_length:
        second_score, second = max(same_length, key=lambda pair: pair[0])
        texts.append(
            f"The next best of the same length is {second.candidate.recipe} with {second_score:.3f}."
        )
    texts += [] if peer is None else [_peer_text(peer, purpose)]
    texts.append(relevance.text)
    texts.append(_radius_text(best, purpose, sample))
    longer = [
        (s, m)
        for s, m in scored
        if m.candidate.n_bits > best.candidate.n_bits and m.candidate.recipe == best.candidate.recipe
    ]
    if longer:
        texts += [f"With {m.candidate.n_bits} bits the same recipe has {s:.3f}." for s, m in longer[-1:]]
    texts.append(f"The sample was {sample.text}.")
    return texts


def _peer_text(peer: Measured, purpose: Purpose) -> str:
    """Why a quantizer of FAISS serves the goal better."""
    return (
        f"For this goal alone, {PEER_TITLES[peer.candidate.recipe]} with {peer.bytes_per_row} bytes per row "
        f"is better: its {purpose.measure} is {purpose.score(peer):.3f}. It ranks by estimated distances, so "
        "it has no look-up within a radius, and databases of bits cannot store it."
    )


def _radius_text(best: Measured, purpose: Purpose, sample: Sample) -> str:
    """What a look-up within the recommended radius returns."""
    radius, quality = purpose.radius(best), best.quality
    assert radius is not None
    assert quality is not None
    assert quality.lookup is not None
    lookup = quality.lookup
    at = min(radius, len(lookup.returned) - 1)
    rows = lookup.returned[at] * sample.n_rows / len(sample.X)
    part = " of the first part" if best.candidate.recipe == "imh-hybrid" else ""
    text = (
        f"A look-up within radius {radius}{part} returns {rows:,.0f} of all {sample.n_rows:,} rows on "
        f"average, with {lookup.recall[at]:.0%} of the ten nearest rows; {lookup.empty[at]:.0%} of the "
        "queries get no answer."
    )
    if purpose.goal != "duplicates" and lookup.returned[at] > purpose.budget:
        budget = purpose.budget * sample.n_rows / len(sample.X)
        text += f" That is more than the {budget:,.0f} rows allowed, but radius 0 is the smallest."
    return text
