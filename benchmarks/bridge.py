"""New embedding models in front of old codes: ``make bench-bridge``.

Changes: 20,000 rows are encoded by a model of the old vectors. A bridge is learned from 2,000 of them as
pairs. New queries are mapped, encoded and searched in the old codes. They are compared with old queries on
old codes, and with a new model that is fitted to all new vectors, whose codes replace the old ones
(re-encoding). Widths: the model changes twice, 784 to 256 to 1,024 columns, and the second bridge is in front
of the first. Wrong pairs: 5 % of the pairs have the partner of another item. Pairs: the share by the number
of pairs. Cost: encode of the bridged model and of the old one. Writes
``docs/results/bridge.json`` and ``bridge-speed.json``.
"""

import argparse
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import _ran
import numpy as np
from _results import record

from manihash import LabelTruth, evaluate, load_dataset, recipe
from manihash.datasets.gist import gist

ROWS, PAIRS, BITS = 20_000, 2_000, 64
RECIPE = "imh-tsne"  # of widths, wrong pairs, numbers of pairs and cost
FILTERS, FIELD, GRID = 64, 5, 4


@cache
def mnist() -> tuple[Any, Any, Any, Any]:
    """Images (n, 28, 28) with labels, and those of the queries."""
    data = load_dataset("mnist")
    X, Q = (np.asarray(rows).reshape(-1, 28, 28) for rows in (data.X_train[:ROWS], data.X_test))
    return X, np.asarray(data.y_train[:ROWS]), Q, np.asarray(data.y_test)


@cache
def cifar() -> tuple[Any, Any, Any, Any]:
    """GIST descriptors with labels, and those of the queries."""
    data = load_dataset("cifar10-gist")
    X, Q = (np.asarray(rows, np.float32) for rows in (data.X_train[:ROWS], data.X_test))
    return X, np.asarray(data.y_train[:ROWS]), Q, np.asarray(data.y_test)


def pixels(images: Any) -> Any:
    return images.reshape(len(images), -1).astype(np.float32) / 255


def convolved(images: Any) -> Any:
    """1,024 features: random filters, max(0, ·), means over a 4 x 4 grid."""
    rng = np.random.default_rng(1)
    filters = rng.normal(size=(FIELD * FIELD, FILTERS)).astype(np.float32)
    offset = rng.normal(size=FILTERS).astype(np.float32)
    found = []
    for start in range(0, len(images), 500):
        block = images[start : start + 500].astype(np.float32) / 255
        windows = np.lib.stride_tricks.sliding_window_view(block, (FIELD, FIELD), axis=(1, 2))
        b, side = len(block), windows.shape[1]
        values = np.maximum(windows.reshape(b, side, side, -1) @ filters + offset, 0)
        cell = side // GRID
        means = values.reshape(b, GRID, cell, GRID, cell, FILTERS).mean(axis=(2, 4))
        found.append(means.reshape(b, -1))
    return np.concatenate(found)


def nonlinear(X: Any, width: int, scale: float, seed: int = 2) -> Any:
    """Random features tanh(x R + c) of rows."""
    rng = np.random.default_rng(seed)
    center, spread = cifar()[0].mean(axis=0), cifar()[0].std()
    R = rng.normal(size=(X.shape[1], width)).astype(np.float32) * scale / np.sqrt(X.shape[1])
    return np.tanh((X - center) / spread @ R + rng.normal(size=width).astype(np.float32) / 2)


def components(X: Any, of: Any, width: int, *, whiten: bool = False) -> Any:
    """Principal components of rows, those of ``of``."""
    mean = of.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(of, rowvar=False))
    V = vectors[:, ::-1][:, :width]
    return ((X - mean) @ (V / np.sqrt(values[::-1][:width]) if whiten else V)).astype(np.float32)


@cache
def features(name: str) -> tuple[Any, Any]:
    """Vectors of the rows and of the queries."""
    images = mnist()[0], mnist()[2]
    descriptors = cifar()[0], cifar()[2]
    made: dict[str, Callable[[], tuple[Any, Any]]] = {
        "MNIST pixels (784)": lambda: tuple(map(pixels, images)),  # type: ignore[return-value]
        "MNIST GIST (512)": lambda: tuple(map(gist, images)),  # type: ignore[return-value]
        "MNIST convolutions (1,024)": lambda: tuple(map(convolved, images)),  # type: ignore[return-value]
        "MNIST convolutions (256)": lambda: tuple(
            components(X, features("MNIST convolutions (1,024)")[0], 256)
            for X in features("MNIST convolutions (1,024)")
        ),
        "CIFAR-10 GIST (512)": lambda: descriptors,
        "CIFAR-10 whitened (256)": lambda: tuple(
            components(X, descriptors[0], 256, whiten=True) for X in descriptors
        ),
        "CIFAR-10 random features (1,024)": lambda: tuple(nonlinear(X, 1024, 1.0) for X in descriptors),
        "CIFAR-10 strongly nonlinear (1,024)": lambda: tuple(nonlinear(X, 1024, 6.0) for X in descriptors),
    }
    return made[name]()


CHANGES = [
    ("MNIST pixels (784)", "MNIST GIST (512)"),
    ("MNIST GIST (512)", "MNIST pixels (784)"),
    ("MNIST pixels (784)", "MNIST convolutions (256)"),
    ("MNIST pixels (784)", "MNIST convolutions (1,024)"),
    ("CIFAR-10 GIST (512)", "CIFAR-10 whitened (256)"),
    ("CIFAR-10 GIST (512)", "CIFAR-10 random features (1,024)"),
    ("CIFAR-10 GIST (512)", "CIFAR-10 strongly nonlinear (1,024)"),
]


@cache
def fitted(name: str, vectors: str) -> tuple[Any, Any]:
    """A hasher of some vectors, and the codes of the rows."""
    hasher = recipe(name, n_bits=BITS, random_state=0).fit(features(vectors)[0])
    return hasher, hasher.encode(features(vectors)[0])


def quality(hasher: Any, queries: Any, codes: Any, vectors: str) -> tuple[float, float]:
    """MAP and precision@10 of queries on codes."""
    _, y, _, yq = mnist() if vectors.startswith("MNIST") else cifar()
    layout = hasher.layout_
    values = hasher.embed(queries) if layout.has_fields else None
    truth = LabelTruth(yq, y)
    found = evaluate(hasher.encode(queries), codes, truth, BITS, layout=layout, values=values)
    return float(found.map), float(found.precision_at_10)


def pairs(n: int = PAIRS) -> Any:
    return np.random.default_rng(0).permutation(ROWS)[:n]


def _with_shares(found: dict[str, Any]) -> dict[str, Any]:
    for i, metric in enumerate(("MAP", "precision@10")):
        for reference in ("old queries", "re-encoding"):
            found[f"share of {reference}, {metric}"] = found["bridged"][i] / found[reference][i]
    return found


def change(name: str, old: str, new: str, n: int = PAIRS) -> dict[str, Any]:
    """What a bridge keeps."""
    (hasher, codes), (X, Q), chosen = fitted(name, old), features(new), pairs(n)
    bridged = hasher.bridge(X[chosen], features(old)[0][chosen])
    found = {
        "old queries": quality(hasher, features(old)[1], codes, old),
        "re-encoding": quality(*_swapped(fitted(name, new), Q), new),
        "bridged": quality(bridged, Q, codes, old),
        "map": bridged.quality.kind,
        "expected share": bridged.quality.share,
        "interval": bridged.quality.interval,
        "shares": bridged.quality.shares,
        "advice": bridged.quality.advice,
    }
    return _with_shares(found)


def _swapped(model: tuple[Any, Any], Q: Any) -> tuple[Any, Any, Any]:
    hasher, codes = model
    return hasher, Q, codes


WIDTHS = ("MNIST pixels (784)", "MNIST convolutions (256)", "MNIST convolutions (1,024)")


def widths(name: str) -> dict[str, Any]:
    """Two changes, one after the other, and wrong pairs in both."""
    (hasher, codes), chosen = fitted(name, WIDTHS[0]), pairs()
    found: dict[str, Any] = {"old queries": quality(hasher, features(WIDTHS[0])[1], codes, "MNIST")}
    for wrong in (0.0, 0.05):
        model = hasher
        for old, new in pairwise(WIDTHS):
            partners = _misplaced(chosen, wrong)
            model = model.bridge(features(new)[0][chosen], features(old)[0][partners])
            found[f"{new}, {wrong:.0%} wrong pairs"] = quality(model, features(new)[1], codes, "MNIST")
            found[f"{new}, {wrong:.0%} wrong pairs, pairs left out"] = len(model.quality.wrong_pairs)
    return found


def _misplaced(chosen: Any, share: float) -> Any:
    """The rows of the partners, a share of which belong to other items."""
    wrong = np.random.default_rng(5).permutation(len(chosen))[: round(share * len(chosen))]
    partners = chosen.copy()
    partners[wrong] = chosen[np.roll(wrong, 1)]
    return partners


def wrong_pairs(name: str) -> dict[str, Any]:
    """MAP with and without wrong pairs, for every change."""
    found = {}
    for old, new in CHANGES[:2] + CHANGES[4:6]:
        (hasher, codes), chosen = fitted(name, old), pairs()
        values = []
        for share in (0.0, 0.05):
            bridged = hasher.bridge(features(new)[0][chosen], features(old)[0][_misplaced(chosen, share)])
            values.append(quality(bridged, features(new)[1], codes, old))
        before = quality(hasher, features(old)[1], codes, old)
        found[f"{old} to {new}"] = {
            "share of old queries, MAP": values[1][0] / before[0],
            "share of old queries, precision@10": values[1][1] / before[1],
            "share of clean pairs, MAP": values[1][0] / values[0][0],
            "left out": len(bridged.quality.wrong_pairs),
            "wrong": round(0.05 * PAIRS),
        }
    return found


def by_pairs(name: str) -> list[dict[str, Any]]:
    """The share by the number of pairs, expected and measured."""
    rows = []
    for old, new in (CHANGES[0], CHANGES[1], CHANGES[5]):
        for n in (300, 1_000, 3_000):
            found = change(name, old, new, n)
            kept = {key: found[key] for key in ("map", "expected share", "interval", "advice")}
            measured = found["share of old queries, MAP"]
            rows.append({"change": f"{old} to {new}", "pairs": n, **kept, "measured share, MAP": measured})
    return rows


def cost(name: str) -> dict[str, Any]:
    """CPU time of one row more, in microseconds: encode of many rows, and of one row at a time."""
    found = {}
    for old, new in (CHANGES[2], CHANGES[0], CHANGES[5]):
        (hasher, _), chosen, (X, _) = fitted(name, old), pairs(), features(new)
        bridged = hasher.bridge(X[chosen], features(old)[0][chosen])
        own = features(old)[0][:8_192]
        before = _cpu(partial(hasher.encode, own), 5)
        many = _cpu(partial(bridged.encode, X[: len(own)]), 5) - before
        one = _cpu(partial(bridged.encode, X[:1]), 300) - _cpu(partial(hasher.encode, own[:1]), 300)
        found[f"{old} to {new}"] = {
            "map": bridged.quality.kind,
            "us per row, many rows": 1e6 * many / len(own),
            "us per row, one row": 1e6 * one,
            "us per row, encode of old rows": 1e6 * before / len(own),
        }
    return found


def _cpu(work: Callable[[], Any], repeats: int) -> float:
    """The median CPU time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return float(np.median(times))


def changes(name: str) -> None:
    """Measure all changes with a recipe; those of MNIST with the slowest one."""
    for old, new in CHANGES[:3] if name == "imh-hybrid" else CHANGES:
        record("bridge", f"{old} to {new}, {name}", found := change(name, old, new))
        print(name, old, new, found, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["changes", "widths", "wrong", "pairs", "cost"])
    parser.add_argument("--recipes", nargs="+", default=["imh-tsne", "itq", "imh-hybrid"])
    asked = parser.parse_args()
    parts = asked.parts
    _ran.start(calls="cost" not in parts)
    for part, measure in (("widths", widths), ("wrong", wrong_pairs), ("pairs", by_pairs), ("cost", cost)):
        if part in parts:
            results = measure(RECIPE)
            record("bridge-speed" if part == "cost" else "bridge", part, results)
            print(part, results, flush=True)
    for name in asked.recipes if "changes" in parts else ():
        changes(name)


if __name__ == "__main__":
    main()
