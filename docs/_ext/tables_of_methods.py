"""The page that compares methods: its tables, its first paragraph, and its plots (``docs/compared.py``)."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from tables_of_quality import Read, fits, mean, table_or_note

WORD = "imh-hybrid"
OURS = (WORD, "imh-hybrid-hamming", "imh-graph", "imh-tsne")
OTHERS = ("pq", "opq", "rabitq", "itq", "agh", "sph", "sh", "sign", "lsh")
SETS = {
    "clinc150": "label",
    "agnews": "label",
    "python documentation, by package": "label",
    "python documentation, by module": "label",
    "digits": "label",
    "mnist, 30,000 rows": "label",
    "cifar10-gist, 30,000 rows": "label",
    "tiny-gist960": "label",
    "photo-sift1m, 30,000 rows": "distance",
    "bigann10k": "distance",
}
BYTES = (4, 8, 16, 32, 64)
FIGURES = {
    "MAP": ("asymmetric", "MAP"),
    "precision@10": ("asymmetric", "precision@10"),
    "recall@10": ("asymmetric", "recall@10"),
    "recall@10, re-ranked": ("reranked", "recall@10"),
}
COMMAND = "make bench-compared"


def values(read: Read, data: str, method: str, n_bytes: int, figure: str) -> list[float]:
    """A figure of each seed of a fit; none if it was not measured or the method refuses the data."""
    ranking, key = FIGURES[figure]
    found = fits(read, f"{data}, {method}, {8 * n_bytes} bits")
    return [own[ranking][key] for own in found if key in own.get(ranking, {})]


def measured_sets(read: Read, n_bytes: int = 8) -> list[str]:
    """The sets on which our word and other methods were measured."""
    parts = read("quality").parts  # looked at, not shown: the line below a table does not name them

    def is_measured(data: str, method: str) -> bool:
        part = parts.get(f"{data}, {method}, {8 * n_bytes} bits, seed 0", {"results": {}})
        return "reranked" in part["results"]

    others = {data: sum(is_measured(data, method) for method in OTHERS) for data in SETS}
    return [data for data in SETS if is_measured(data, WORD) and others[data] >= 2]


def best_of(read: Read, methods: Sequence[str], data: str, n_bytes: int, figure: str) -> tuple[str, float]:
    """The best of those methods that were measured, and its mean; "" and 0 if none was."""
    found = {name: values(read, data, name, n_bytes, figure) for name in methods}
    means = [(name, statistics.mean(own)) for name, own in found.items() if own]
    return max(means, key=lambda pair: pair[1], default=("", 0.0))


def _beside(read: Read, methods: Sequence[str], size: int) -> tuple[list[str], list[str]]:
    """Where our word is behind the best of some methods, and where it is not: a line per figure."""
    sets = measured_sets(read, size)
    behind, ahead = [], []
    for figure in FIGURES:
        gaps = {
            data: (
                statistics.mean(values(read, data, WORD, size, figure)),
                *best_of(read, methods, data, size, figure),
            )
            for data in sets
        }
        lost = {data: gap for data, gap in gaps.items() if round(gap[2] - gap[0], 3) > 0}
        won = {data: gap for data, gap in gaps.items() if data not in lost}
        for found, sentences, sign in ((lost, behind, 1), (won, ahead, -1)):
            if found:
                _, most = max((sign * (gap[2] - gap[0]), data) for data, gap in found.items())
                own, other, theirs = found[most]
                where = "all" if len(found) == len(sets) else f"{len(found)} of {len(sets)}"
                example = f"{most}: {own:.3f}, `{other}` {theirs:.3f}"
                sentences.append(f"{figure} on {where} datasets (most on {example})")
    return behind, ahead


def where_we_lose(read: Read, n_bytes: str = "8") -> list[str]:
    """Sentences that say where our word is behind another method of its size, and where it is ahead."""
    size = int(n_bytes)
    if not measured_sets(read, size):
        return [f"Not measured yet: `{COMMAND}` does it."]
    behind, ahead = _beside(read, OTHERS, size)
    behind_ours, _ = _beside(read, OURS[1:], size)
    start = f"**Where we lose.** With {size} bytes per row, our word `{WORD}` is"
    text = _list(f"{start} behind the best method that is not ours in", behind)
    text = text or [f"{start} not behind a method that is not ours in any figure.", ""]
    text += _list("It is ahead of all methods that are not ours, or equal to the best of them, in", ahead)
    text += _list("Another recipe of ours is better in", behind_ours)
    return text[:-1]


def _list(start: str, found: list[str]) -> list[str]:
    """A sentence that ends in a list; nothing without items."""
    if not found:
        return []
    return [start, "", *(f"- {line}," for line in found[:-1]), f"- {found[-1]}.", ""]


def compared(read: Read, n_bytes: str = "8") -> list[str]:
    """MAP and precision@10 of all methods with some bytes, by dataset."""
    size, sets = int(n_bytes), measured_sets(read, int(n_bytes))
    rows = []
    scans = [read("quality").get(f"{data}, scan") for data in sets]
    if sets:
        cells = [f"{scan['MAP']:.3f}, {scan['precision@10']:.3f}" if scan else "" for scan in scans]
        rows.append(["scan of the vectors", *cells])
    for method in (*OURS, *OTHERS):
        pairs = [[values(read, data, method, size, key) for key in ("MAP", "precision@10")] for data in sets]
        cells = [", ".join(map(mean, pair)) if all(pair) else "" for pair in pairs]
        rows += [[f"`{method}`", *cells]] if any(cells) else []
    return table_or_note([f"{size} bytes: MAP, precision@10", *sets], rows if sets else [], COMMAND)


def compared_set(read: Read, data: str) -> list[str]:
    """All figures of a dataset: methods by bytes, mean ± standard deviation over seeds."""
    rows = []
    for method in (*OURS, *OTHERS):
        for figure in FIGURES:
            cells = [_cell(values(read, data, method, size, figure)) for size in BYTES]
            rows += [[f"`{method}`", figure, *cells]] if any(cells) else []
    return table_or_note(["", "", *(f"{size} bytes" for size in BYTES)], rows, COMMAND)


def _cell(found: list[float]) -> str:
    error = f" ± {statistics.stdev(found):.3f}" if len(found) > 1 else ""
    return mean(found) + error if found else ""


def compared_speed(read: Read) -> list[str]:
    """Times of encode and search as ratios, by bytes."""
    source = read("compared-speed")
    found = {size: source.get(f"{size} bytes") for size in BYTES}
    found = {size: own for size, own in found.items() if own}
    rows: list[list[str]] = []
    for title, key in (
        ("encode, products: ", "encode, products"),
        ("search, scans of float32: ", "search, scans"),
    ):
        names = dict.fromkeys(name for own in found.values() for name in own[key])
        for name in names:
            shown = f"`{name}`" if key.startswith("encode") else name
            rows.append(
                [
                    title + shown,
                    *(f"{own[key][name]:.3g}" if name in own[key] else "" for own in found.values()),
                ]
            )
    return table_or_note(["one thread", *(f"{size} bytes" for size in found)], rows, COMMAND)


COUNTS = {"10^6": 10**6, "10^8": 10**8, "10^9": 10**9}


def costs(read: Read) -> list[str]:
    """Memory, and the time of a scan and of encoding on one core, reckoned from the measured rates."""
    source, rows = read("compared-speed"), []
    for title, size, kind in _kinds(source):
        found = source[f"{size or 8} bytes"]
        scan = found["scan, ns per row and query"] * 1e-9
        columns = found["columns"]
        each = scan * (found["search, scans"][kind] if kind else 1)
        product = found["product, ms"] * 1e-3 / found["encoded rows"]
        encode = found["encode, products"].get(WORD if kind == "words" else "itq")
        cells = []
        for n in COUNTS.values():
            memory = _size(n * (size or 4 * columns))
            times = [_time(n * each)] + ([_time(n * product * encode)] if kind and encode else [])
            cells.append(", ".join([memory, *times]))
        rows.append([title, *cells])
    head = ["memory, one query, encoding all", *(f"{name} items" for name in COUNTS)]
    return table_or_note(head, rows, COMMAND)


def _kinds(source: Any) -> Iterator[tuple[str, int, str]]:
    """Title, bytes and kind of search of the rows about costs."""
    sizes = [size for size in (8, 16, 32, 64) if f"{size} bytes" in source.parts]
    if sizes and f"{8} bytes" in source.parts:
        columns = source["8 bytes"]["columns"]
        yield f"float32, {columns} numbers: {4 * columns:,} bytes", 0, ""
    for size in sizes:
        for kind, title in (("words", f"`{WORD}`"), ("bits, Hamming", "`itq`, Hamming distance")):
            if kind in source[f"{size} bytes"]["search, scans"]:
                yield f"{size} bytes, {title}", size, kind


def _size(n: float) -> str:
    for unit in ("kB", "MB", "GB", "TB"):
        n /= 1000
        if n < 1000:
            return f"{n:.3g} {unit}"
    return f"{n:.3g} TB"


def _time(seconds: float) -> str:
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (7200, 1 / 60, "min")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds / 3600:.3g} h"
