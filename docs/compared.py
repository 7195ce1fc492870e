"""Draws the plots of the page that compares methods into docs/images; run by ``make bench-compared``.

Each picture has a hash of the values that are drawn: a test fails if they have changed since then.
"""

import hashlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt

sys.path += [str(Path(__file__).parents[1] / "benchmarks"), str(Path(__file__).parent / "_ext")]

import figures
from tables_of_methods import BYTES, FIGURES, OTHERS, OURS, WORD, measured_sets, values

FOLDER = Path(__file__).parent / "images"
STYLES = {  # color, width, order
    WORD: ("#1a56a8", 2.6),
    "imh-hybrid-hamming": ("#63a4e8", 1.8),
    "imh-graph": ("#2f855a", 1.8),
    "imh-tsne": ("#9ae6b4", 1.5),
    "pq": ("#c05621", 1.8),
    "opq": ("#e8894a", 1.8),
    "rabitq": ("#97266d", 1.6),
    "itq": ("#2d3748", 1.6),
}
GRAY = ("#cbd5e0", 1.0)


def drawn(figure: str) -> dict[str, dict[str, dict[int, list[float]]]]:
    """The values of a figure: dataset, method, bytes, seeds."""
    source = figures.Source("quality")

    def read(name: str) -> Any:
        return source

    found = {}
    for data in measured_sets(read):
        curves = {
            method: {size: own for size in BYTES if (own := values(read, data, method, size, figure))}
            for method in (*OURS, *OTHERS)
        }
        found[data] = {method: curve for method, curve in curves.items() if curve}
        scan = source.get(f"{data}, scan") or {}
        if figure in scan:
            found[data]["scan of the vectors"] = {size: [scan[figure]] for size in BYTES}
    return found


def hash_of(figure: str) -> str:
    """A hash of the values of a figure."""
    return hashlib.sha256(json.dumps(drawn(figure)).encode()).hexdigest()[:16]


def file_of(figure: str) -> Path:
    """The picture of a figure."""
    return FOLDER / f"compared-{figure.replace('@', '-').replace(', ', '-')}.svg"


def draw(figure: str) -> None:
    """One small plot per dataset: a figure against the bytes of a row; bands are the range over seeds."""
    found = drawn(figure)
    columns = min(3, len(found))  # the text of more would be too small on the page
    lines = -(-len(found) // columns)
    fig, grid = plt.subplots(lines, columns, figsize=(7.5, 2.2 * lines + 0.9), squeeze=False)
    labels: dict[str, Any] = {}
    for axis, (data, curves) in zip(grid.flat, found.items(), strict=False):
        for method in reversed(curves):
            color, width = STYLES.get(method, GRAY)
            sizes, seeds = list(curves[method]), list(curves[method].values())
            is_scan = method.startswith("scan")
            style = {"color": "#718096", "ls": ":"} if is_scan else {"color": color, "marker": "."}
            means = [statistics.mean(own) for own in seeds]
            (line,) = axis.plot(sizes, means, lw=1.2 if is_scan else width, ms=4, **style)
            axis.fill_between(
                sizes, list(map(min, seeds)), list(map(max, seeds)), color=color, alpha=0.2, lw=0
            )
            labels[method if method in STYLES or is_scan else "agh, sph, sh, sign, lsh"] = line
        axis.set_xscale("log", base=2)
        axis.set_xticks(BYTES, [str(size) for size in BYTES])
        axis.set_title(
            data.replace("python documentation, ", "Python docs, ").removesuffix(", 30,000 rows"), fontsize=9
        )
        axis.grid(alpha=0.25)
        axis.tick_params(labelsize=8)
    for axis in list(grid.flat)[len(found) :]:
        axis.axis("off")
    for axis in grid[:, 0]:
        axis.set_ylabel(figure, fontsize=9)
    fig.supxlabel("bytes per row", fontsize=9)
    order = [name for name in (*STYLES, "agh, sph, sh, sign, lsh", "scan of the vectors") if name in labels]
    fig.legend(
        [labels[name] for name in order], order, loc="upper center", ncols=4, fontsize=8, frameon=False
    )
    fig.tight_layout(rect=(0, 0, 1, 1 - 0.75 / (2.2 * lines + 0.9)))
    fig.savefig(file_of(figure), metadata={"Date": None, "Description": f"values {hash_of(figure)}"})
    plt.close(fig)


def main() -> None:
    matplotlib.rcParams |= {"svg.hashsalt": "manihash", "svg.fonttype": "none"}
    for figure in FIGURES:
        draw(figure)
        print(f"written: {file_of(figure).relative_to(FOLDER.parents[1])}")


if __name__ == "__main__":
    main()
