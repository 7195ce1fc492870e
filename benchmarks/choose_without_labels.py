"""Rules that choose a method without labels, compared by leaving one set out: ``make bench-choose``.

Each set has at most 5,000 rows and 500 queries; all methods have 64 bits. A rule sees codes and vectors only.
It is judged by the score of its choice as a share of the best candidate's: MAP ("ranking"), the geometric
mean of MAP and precision@10 ("auto"), or F1 of a look-up that returns 100 rows ("lookup"), by labels or, if a
set has none, by the nearest 2 %. The best rule of a family is chosen on the other sets. Adds to
``docs/results/choose.json`` set by set.
"""

import argparse
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _results import held, record
from choose_sets import sets
from sklearn.cluster import KMeans

from manihash import EuclideanTruth, LabelTruth, recipe
from manihash.advice.communities import communities, neighbor_graph
from manihash.advice.quality import Quality, Truths, quality_of
from manihash.advice.relevance import without_self
from manihash.advice.scores import f1_at, from_tables
from manihash.base.affinity import separation
from manihash.evaluation import NeighborTruth
from manihash.evaluation.truth import nearest_euclidean

ROWS, QUERIES, BITS = 5_500, 500, 64
RECIPES = ("imh-tsne-rotated", "imh-graph", "imh-hybrid", "imh-large-ee", "itq", "sign", "sph", "agh2")
BUDGET = 100  # rows of a look-up, as choose allows for so few rows
GOALS = ("ranking", "auto", "lookup")
Pick = Callable[[dict[str, Any], str], str]


def statistics(X: Any) -> tuple[dict[str, float], Any]:
    """Statistics of rows (n, d) that may tell if manifold codes suit them, and their communities (n,)."""
    near = without_self(nearest_euclidean(X, X, 11))
    graph = neighbor_graph(near)
    found, again = (communities(graph, np.random.default_rng(seed)) for seed in range(2))
    columns = np.random.default_rng(0).permutation(X.shape[1])
    halves = columns[: len(columns) // 2], columns[len(columns) // 2 :]
    one, two = (without_self(nearest_euclidean(X[:, half], X[:, half], 11)) for half in halves)
    other = communities(neighbor_graph(two), np.random.default_rng(0)).label
    pairs = np.random.default_rng(0).integers(len(X), size=(200_000, 2)).T
    together, too = (c.label[pairs[0]] == c.label[pairs[1]] for c in (found, again))
    linked = graph.copy()
    linked.data[:] = 1
    edges = graph.tocoo()
    shared = (linked @ linked)[edges.row[:20_000], edges.col[:20_000]]
    unit = X / np.maximum(1e-12, np.linalg.norm(X, axis=1, keepdims=True))
    cells = KMeans(min(400, len(X) // 5), n_init=1, max_iter=5, init="random", random_state=0)
    cell = cells.fit(unit).labels_
    return {
        "modularity": found.modularity,
        "stability of communities": float((together & too).sum() / max(1, (together | too).sum())),
        "spectral gap": separation(graph),
        "agreement of halves of the columns": float(np.mean(other[one] == other[:, None])),
        "shared neighbors": float(np.mean(shared) / 10),
        "neighbors in the own cell": float(np.mean(cell[near] == cell[:, None])),
    }, found.label


def measured(X: Any, y: Any) -> dict[str, Any]:
    """Statistics of a set, and MAP and precision@10 of each method by each kind of relevant rows."""
    order = np.random.default_rng(1).permutation(len(X))[:ROWS]
    X, y = np.asarray(X[order], np.float32), None if y is None else y[order]
    stats, label = statistics(X)
    q = min(QUERIES, len(X) // 10)
    Q, D = X[:q], X[q:]
    ten, hundred = NeighborTruth(Q, D, 10), NeighborTruth(Q, D, 100)
    kinds: dict[str, Any] = {"communities": LabelTruth(label[:q], label[q:]), "nearest": EuclideanTruth(Q, D)}
    if y is not None:
        kinds["labels"] = LabelTruth(y[:q], y[q:])
    methods: dict[str, Any] = {}
    for name in RECIPES:
        try:
            hasher = recipe(name, BITS, 0).fit(D)
        except ValueError:
            continue
        codes = hasher.encode(D)
        for kind, truth in kinds.items():
            found = quality_of(hasher, codes, Q, Truths(truth, ten, hundred))
            values = found.map, found.precision_at_10, lookup_f1(found)
            methods.setdefault(name, {})[kind] = [round(value, 4) for value in values]
        assert found.lookup is not None
        recall = np.interp(BUDGET, found.lookup.returned, found.lookup.recall)
        methods[name]["ten nearest"] = [round(found.recall_at_10, 4)] * 2 + [round(float(recall), 4)]
    classes = None if y is None else len(np.unique(y))
    return {"rows": len(D), "classes": classes, "statistics": stats, "methods": methods}


def lookup_f1(found: Quality) -> float:
    """F1 of a look-up of 100 rows, within radii that an index answers from its tables."""
    lookup = found.lookup
    assert lookup is not None
    part = slice(from_tables(lookup.returned))
    values = lookup.returned[part], lookup.relevant_precision[part], lookup.relevant_recall[part]
    return f1_at(BUDGET, *values)


def score(row: dict[str, Any], method: str, kind: str, goal: str) -> float:
    """MAP, its geometric mean with precision@10, or F1 of a look-up."""
    mean_ap, precision, f1 = row["methods"][method][kind]
    return float({"ranking": mean_ap, "auto": np.sqrt(mean_ap * precision), "lookup": f1}[goal])


def share(row: dict[str, Any], method: str, goal: str) -> float:
    """The true score of a method as a share of the best one."""
    kind = "labels" if row["classes"] else "nearest"
    return score(row, method, kind, goal) / max(score(row, m, kind, goal) for m in row["methods"])


def mixed(weight: float) -> Pick:
    """The rule that takes the best by communities^weight nearest^(1 - weight)."""

    def pick(row: dict[str, Any], goal: str) -> str:
        def value(method: str) -> float:
            parts = (score(row, method, kind, goal) + 1e-9 for kind in ("communities", "nearest"))
            by_community, by_distance = (float(np.log(part)) for part in parts)
            return weight * by_community + (1 - weight) * by_distance

        return max(row["methods"], key=value)

    return pick


def by_recall(row: dict[str, Any], goal: str) -> str:
    """The rule that takes the best by the recall of the ten nearest rows, for "lookup" within the radius."""
    return max(row["methods"], key=lambda method: score(row, method, "ten nearest", goal))


def gated(name: str, least: float) -> Pick:
    """The rule that trusts communities if a statistic is large enough, and otherwise distances."""
    return lambda row, goal: mixed(float(row["statistics"][name] >= least))(row, goal)


def families(rows: dict[str, dict[str, Any]]) -> dict[str, list[Pick]]:
    """Rules by family; one of a family is chosen on the other sets."""
    common = set.intersection(*(set(row["methods"]) for row in rows.values()))
    found: dict[str, list[Pick]] = {
        "one method for all": [lambda row, goal, name=name: name for name in sorted(common)],
        "communities alone": [mixed(1)],
        "nearest rows alone": [mixed(0)],
        "ten nearest rows alone, by recall": [by_recall],
        "communities and nearest rows, equal weights (choose)": [mixed(0.5)],
        "communities and nearest rows, weight chosen": [mixed(w) for w in (0, 0.25, 0.4, 0.5, 0.6, 0.75, 1)],
    }
    for name in next(iter(rows.values()))["statistics"]:
        values = sorted(row["statistics"][name] for row in rows.values())
        steps = [(a + b) / 2 for a, b in pairwise(values)]
        found[f"communities if {name} is high"] = [gated(name, least) for least in steps]
    return found


def left_out(rows: dict[str, dict[str, Any]], goal: str) -> dict[str, dict[str, Any]]:
    """For each family the shares of all sets, each with the rule that is best on the other sets."""
    result = {}
    for name, rules in families(rows).items():
        shares = [{key: share(row, rule(row, goal), goal) for key, row in rows.items()} for rule in rules]
        own = {
            key: max(shares, key=lambda each: sum(v for k, v in each.items() if k != key))[key]
            for key in rows
        }
        values = np.array(list(own.values()))
        result[name] = {
            "mean": round(float(values.mean()), 3),
            "worst": round(float(values.min()), 3),
            "worst set": min(own, key=own.__getitem__),
            "at least 0.95": f"{(values >= 0.95).sum()} of {len(values)}",
            "at least 0.9": f"{(values >= 0.9).sum()} of {len(values)}",
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, help="folder of unpacked packages, see choose_sets.py")
    parser.add_argument("--only", default="", help="only sets whose name contains this")
    options = parser.parse_args()
    part = held("choose").get("without labels", {"results": {"sets": {}}})["results"]
    for name, make in sets(options.packages).items():
        if options.only in name:
            part["sets"][name] = measured(*make())
            print(name, part["sets"][name]["statistics"], flush=True)
        if len(part["sets"]) > 1:
            part["left out"] = {goal: left_out(part["sets"], goal) for goal in GOALS}
            record("choose", "without labels", part)
    print(json.dumps(part["left out"], indent=1))


if __name__ == "__main__":
    main()
