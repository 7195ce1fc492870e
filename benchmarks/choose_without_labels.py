"""Rules that choose a method without labels, compared by leaving one set out: ``make bench-choose``.

Each set has at most ``--rows`` rows and a tenth as many queries; all methods have 64 bits. A rule sees codes
and vectors only. It is judged by the score of its choice as a share of the best candidate's: precision@10
("first"), F1 of a look-up that returns 100 rows ("group"), MAP ("ranking"), or the geometric mean of MAP and
precision@10 ("auto"), by labels or, if a set has none, by the nearest 2 %. The best rule of a family is
chosen on the other sets. Adds to ``docs/results/choose.json`` set by set.
"""

import argparse
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import _ran
import numpy as np
from _results import held, is_current, record
from choose_sets import sets
from sklearn.cluster import KMeans

from manihash import EuclideanTruth, LabelTruth, recipe
from manihash.advice.candidates import LOOK_UP, MANIFOLD, RANKED
from manihash.advice.communities import communities, neighbor_graph
from manihash.advice.quality import Quality, Truths, quality_of
from manihash.advice.relevance import CLEAR, SMALL, nearest_others
from manihash.advice.scores import WEIGHTS, f1_at, from_tables
from manihash.base.affinity import number_of_groups
from manihash.evaluation import NeighborTruth

ROWS, BITS = 4_400, 64
RECIPES = (*RANKED, "itq", "sign", *MANIFOLD, *LOOK_UP)
BUDGET = 100  # rows of a look-up, as choose allows for so few rows
GOALS = ("first", "group", "ranking", "auto")
KINDS = ("communities", "nearest", "ten nearest")
FINE = ("small communities", *KINDS[1:])
MODULARITY = "modularity of small communities"
Pick = Callable[[dict[str, Any], str], str]


def statistics(X: Any) -> tuple[dict[str, float], Any, Any]:
    """Statistics of rows (n, d) that may tell which codes suit them, and large and small communities."""
    near = nearest_others(X)
    graph = neighbor_graph(near)
    found, again = (communities(graph, np.random.default_rng(seed)) for seed in range(2))
    small = communities(graph, np.random.default_rng(0), SMALL)
    columns = np.random.default_rng(0).permutation(X.shape[1])
    halves = columns[: len(columns) // 2], columns[len(columns) // 2 :]
    one, two = (nearest_others(X[:, half]) for half in halves)
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
    found_statistics = {
        "modularity": found.modularity,
        "stability of communities": float((together & too).sum() / max(1, (together | too).sum())),
        "agreement of halves of the columns": float(np.mean(other[one] == other[:, None])),
        "shared neighbors": float(np.mean(shared) / 10),
        "neighbors in the own cell": float(np.mean(cell[near] == cell[:, None])),
        "groups of the graph": number_of_groups(graph),
        MODULARITY: small.modularity,
    }
    return found_statistics, found.label, small.label


def measured(X: Any, y: Any, rows: int) -> dict[str, Any]:
    """Statistics of a set, and MAP, precision@10 and F1 of each method by each kind of relevant rows."""
    order = np.random.default_rng(1).permutation(len(X))[:rows]
    X, y = np.asarray(X[order], np.float32), None if y is None else y[order]
    stats, label, small = statistics(X)
    q = len(X) // 11
    Q, D = X[:q], X[q:]
    ten, hundred = NeighborTruth(Q, D, 10), NeighborTruth(Q, D, 100)
    kinds: dict[str, Any] = {
        "communities": LabelTruth(label[:q], label[q:]),
        "small communities": LabelTruth(small[:q], small[q:]),
        "nearest": EuclideanTruth(Q, D),
    }
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
            found = quality_of(hasher, codes, Q, Truths(truth, ten, hundred)).whole
            values = found.map, found.precision_at_10, lookup_f1(found)
            methods.setdefault(name, {})[kind] = [None if v is None else round(v, 4) for v in values]
        look_up = found.lookup
        recall = None if look_up is None else float(np.interp(BUDGET, look_up.returned, look_up.recall))
        methods[name]["ten nearest"] = [found.recall_at_10, found.recall_at_10, recall]
    classes = None if y is None else len(np.unique(y))
    return {"rows": len(D), "classes": classes, "statistics": stats, "methods": methods}


def lookup_f1(found: Quality) -> float | None:
    """F1 of a look-up of 100 rows, within radii that an index answers from its tables; None without one."""
    lookup = found.lookup
    if lookup is None:
        return None
    part = slice(from_tables(lookup.returned))
    values = lookup.returned[part], lookup.relevant_precision[part], lookup.relevant_recall[part]
    return f1_at(BUDGET, *values)


def score(row: dict[str, Any], method: str, kind: str, goal: str) -> float:
    """MAP, its geometric mean with precision@10, or F1 of a look-up."""
    mean_ap, precision, f1 = row["methods"][method][kind]
    values = {"first": precision, "group": f1, "ranking": mean_ap, "auto": np.sqrt(mean_ap * precision)}
    return float(values[goal])


def methods_for(row: dict[str, Any], goal: str) -> list[str]:
    """The methods that can serve a goal: not all codes are looked up."""
    return [m for m, by in row["methods"].items() if goal != "group" or by["nearest"][2] is not None]


def share(row: dict[str, Any], method: str, goal: str) -> float:
    """The true score of a method as a share of the best one."""
    kind = "labels" if row["classes"] else "nearest"
    return score(row, method, kind, goal) / max(score(row, m, kind, goal) for m in methods_for(row, goal))


def mixed(*weights: float, kinds: tuple[str, ...] = KINDS) -> Pick:
    """The rule that takes the best by a weighted geometric mean over communities, nearest 2 % and the ten."""

    def pick(row: dict[str, Any], goal: str) -> str:
        def value(method: str) -> float:
            logs = [np.log(max(score(row, method, kind, goal), 1e-9)) for kind in kinds]
            return float(np.dot(weights, logs))

        return max(methods_for(row, goal), key=value)

    return pick


def gated(name: str, least: float) -> Pick:
    """The rule that trusts communities more if a statistic is large enough, and otherwise distances."""
    high, low = mixed(0.75, 0.25, 0), mixed(0.25, 0.75, 0)
    return lambda row, goal: (high if row["statistics"][name] >= least else low)(row, goal)


def finer(name: str, least: float) -> Pick:
    """The rule that takes small communities if a statistic is large enough, and otherwise large ones."""

    def pick(row: dict[str, Any], goal: str) -> str:
        kinds = FINE if row["statistics"][name] >= least else KINDS
        return mixed(*WEIGHTS[goal], kinds=kinds)(row, goal)

    return pick


def chosen(row: dict[str, Any], goal: str) -> str:
    """The rule of choose."""
    least = {"first": -1.0, "group": CLEAR}.get(goal, np.inf)
    return finer(MODULARITY, least)(row, goal)


def families(rows: dict[str, dict[str, Any]]) -> dict[str, list[Pick]]:
    """Rules by family; one of a family is chosen on the other sets."""
    common = set.intersection(*(set(row["methods"]) for row in rows.values()))
    grid = (0, 0.25, 0.4, 0.5, 0.6, 0.75, 1)
    found: dict[str, list[Pick]] = {
        "one method for all": [lambda row, goal, name=name: name for name in sorted(common - {*RANKED})],
        "communities alone": [mixed(1, 0, 0)],
        "nearest rows alone": [mixed(0, 1, 0)],
        "communities and nearest rows, equal weights": [mixed(0.5, 0.5, 0)],
        "communities and nearest rows, weight chosen": [mixed(w, 1 - w, 0) for w in grid],
        "communities and the ten nearest, weight chosen": [mixed(w, 0, 1 - w) for w in grid],
        "communities, nearest rows and the ten nearest, weights chosen": [
            mixed(w, (1 - w) * (1 - ten), (1 - w) * ten) for w in grid for ten in (0, 0.25, 0.5, 0.75, 1)
        ],
        "communities, nearest rows and the ten nearest, fixed weights": [mixed(0.5, 0.25, 0.25)],
        "the same with small communities": [mixed(0.5, 0.25, 0.25, kinds=FINE)],
        "small communities and nearest rows, equal weights": [mixed(0.5, 0.5, 0, kinds=FINE)],
        "the rule of choose": [chosen],
    }
    for name in next(iter(rows.values()))["statistics"]:
        values = sorted(row["statistics"][name] for row in rows.values())
        steps = [(a + b) / 2 for a, b in pairwise(values)]
        found[f"more communities if {name} is high"] = [gated(name, least) for least in steps]
        found[f"small communities if {name} is high"] = [finer(name, least) for least in steps]
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
            "at least 0.93": f"{(values >= 0.93).sum()} of {len(values)}",
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, help="folder of unpacked packages, see choose_sets.py")
    parser.add_argument("--only", default="", help="only sets whose name contains this")
    parser.add_argument("--rows", type=int, default=ROWS, help="largest number of rows of a set")
    options = parser.parse_args()
    _ran.start(calls=True)
    resumed = options.only and is_current("choose", "without labels")
    part = held("choose")["without labels"]["results"] if resumed else {"sets": {}}
    for name, make in sets(options.packages).items():
        if options.only in name:
            part["sets"][name] = measured(*make(), options.rows)
            print(name, part["sets"][name]["statistics"], flush=True)
        if len(part["sets"]) > 1:
            part["left out"] = {goal: left_out(part["sets"], goal) for goal in GOALS}
            record("choose", "without labels", part)
    print(json.dumps(part["left out"], indent=1))


if __name__ == "__main__":
    main()
