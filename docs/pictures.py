"""Draws the pictures of README and of the first pages into docs/images; run by ``make pictures``."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyBboxPatch
from sklearn.datasets import load_digits

from manihash import InductiveEmbedding, recipe, unpack

FOLDER = Path(__file__).parent / "images"
BLUE, GRAY, GREEN = "#2b6cb0", "#4a5568", "#2f855a"


def overview() -> None:
    """Vectors, their codes, and the answers of a look-up, for the digits of scikit-learn."""
    X, y = load_digits(return_X_y=True)
    X, Q, y, y_query = X[:-200], X[-200:], y[:-200], y[-200:]
    hasher = recipe("imh-hybrid", n_bits=64, random_state=0).fit(X)
    codes, index = hasher.encode(X), hasher.index(X)
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.1), width_ratios=[1, 1.25, 1.35])
    Y = InductiveEmbedding(2, random_state=0).fit(X).transform(X)
    axes[0].scatter(*Y.T, c=y, cmap="tab10", s=4)
    axes[0].set_title("1. vectors on a manifold\n(1,597 digits, 512 bytes each)", fontsize=10)
    order = np.concatenate([np.flatnonzero(y == digit)[:9] for digit in range(10)])
    axes[1].imshow(unpack(codes[order], 64), cmap="Blues", aspect="auto", interpolation="nearest", vmax=1.25)
    axes[1].set_title("2. codes of 8 bytes\n(9 of each digit, one code per line)", fontsize=10)
    axes[2].set_title("3. a look-up finds similar items\n(left: query)", fontsize=10)
    queries = [int(np.flatnonzero(y_query == digit)[1]) for digit in (2, 4, 5, 8)]
    _, ids = index.search(Q[queries], k=6)
    gap = np.zeros((8, 4))
    rows = [
        np.hstack([q.reshape(8, 8), gap, *X[i].reshape(-1, 8, 8)])
        for q, i in zip(Q[queries], ids, strict=True)
    ]
    axes[2].imshow(np.vstack([np.pad(row, ((1, 1), (0, 0))) for row in rows]), cmap="gray_r")
    axes[2].axvline(9.5, color=BLUE)
    for axis in axes:
        axis.set(xticks=[], yticks=[])
    fig.tight_layout()
    fig.savefig(FOLDER / "overview.png", dpi=110)


BOXES = [  # x, y, text, kind
    (50, 96, "Do you have labels\nfor some rows?", "question"),
    (84, 96, "run choose with\nthe labels", "answer"),
    (50, 75, "What counts as a\ngood answer?", "question"),
    (14, 55, "Exact copies and\nnear-duplicates", "case"),
    (38, 55, "The nearest rows\nby distance", "case"),
    (62, 55, "Items of one kind:\nwhole clusters", "case"),
    (87, 55, "Both, or\nnot sure", "case"),
    (14, 33, "itq or sign,\n128 bits or more", "answer"),
    (38, 33, "opq or pq, then\nre-rank by vectors", "answer"),
    (62, 33, "imh-graph", "answer"),
    (87, 33, "imh-hybrid", "answer"),
    (62, 13, "imh-graph-small:\nhalf the time to fit", "answer"),
]
ARROWS = [(0, 1, "yes"), (0, 2, "no"), (2, 3, ""), (2, 4, ""), (2, 5, ""), (2, 6, "")]
ARROWS += [(3, 7, ""), (4, 8, ""), (5, 9, ""), (6, 10, ""), (9, 11, "")]
COLORS = {"question": (GRAY, "#edf2f7"), "case": (BLUE, "#ebf4ff"), "answer": (GREEN, "#e6fffa")}


def choosing() -> None:
    """The decision chart of the page about choosing a method."""
    plt.rcParams["svg.hashsalt"] = "manihash"
    fig, axis = plt.subplots(figsize=(9, 5.6))
    axis.set(xlim=(0, 100), ylim=(3, 103))
    axis.axis("off")
    for start, end, label in ARROWS:
        (x0, y0, *_), (x1, y1, *_) = BOXES[start], BOXES[end]
        level = y0 == y1
        place = "bottom" if level else "center"
        begin, stop = ((x0 + 11, y0), (x1 - 11, y1)) if level else ((x0, y0 - 6.5), (x1, y1 + 6.5))
        axis.annotate("", stop, begin, arrowprops={"arrowstyle": "->", "color": GRAY})
        axis.text((begin[0] + stop[0]) / 2 + 1, (begin[1] + stop[1]) / 2, label, color=GRAY, va=place)
    for x, y, text, kind in BOXES:
        edge, face = COLORS[kind]
        box = FancyBboxPatch((x - 10.5, y - 6), 21, 12, "round,pad=0.3,rounding_size=1.5", ec=edge, fc=face)
        axis.add_patch(box)
        weight = "bold" if kind == "answer" else "normal"
        axis.text(x, y, text, ha="center", va="center", fontsize=9.5, color="#1a202c", weight=weight)
    fig.savefig(FOLDER / "choosing.svg", bbox_inches="tight", metadata={"Date": None})


def rerank() -> None:
    """Recall@10 against the number of candidates, from the results of the benchmark."""
    results = json.loads((FOLDER.parent / "results" / "quality.json").read_text("utf-8"))
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for axis, name in zip(axes, ("clinc150", "photo-sift1m"), strict=True):
        for method, color in (("imh-hybrid", BLUE), ("opq", GREEN), ("itq", GRAY)):
            found = results.get(f"{name}, {method}, 64 bits, seed 0", {}).get("results", {})
            for kind, style in (("float32", "-"), ("one byte per value", "--")):
                curve = found.get(f"candidates, {kind}", {})
                label = f"{method}, {kind}"
                axis.plot(
                    [int(n) for n in curve], list(curve.values()), style, color=color, label=label, marker="."
                )
        axis.set(xscale="log", xlabel="candidates", title=name)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("recall@10")
    axes[0].legend(fontsize=8)
    fig.tight_layout()
    fig.savefig(FOLDER / "rerank.svg", metadata={"Date": None})


def logo() -> None:
    """Two rows of bits on a curve, as the logo and the icon of the site."""
    fig, axis = plt.subplots(figsize=(1.28, 1.28))
    angle = np.linspace(0.15, 2.99, 7)
    colors = np.where(np.array([1, 0, 1, 1, 0, 0, 1]) == 1, BLUE, "#90cdf4")
    axis.scatter(np.cos(angle), np.sin(angle), c=colors, s=120, marker="s")
    axis.scatter(
        np.cos(angle[1::2]) * 0.55, np.sin(angle[1::2]) * 0.55, c=colors[::-1][1::2], s=90, marker="s"
    )
    axis.set(xlim=(-1.25, 1.25), ylim=(-0.35, 1.4))
    axis.axis("off")
    fig.subplots_adjust(0, 0, 1, 1)
    fig.savefig(FOLDER / "logo.png", dpi=100, transparent=True)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    overview()
    choosing()
    rerank()
    logo()
