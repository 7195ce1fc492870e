"""Tables of quality: each function returns the lines of one table, from the results of ``read(name)``."""

import csv
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from _results import FOLDER

Read = Callable[[str], Any]
REFERENCES = json.loads((FOLDER / "references.json").read_text("utf-8"))


def lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    titles, *body = [f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|" for row in (header, *rows)]
    return [titles, "|---" * len(header) + "|", *body]


def mean(values: Sequence[float], digits: int = 3) -> str:
    return f"{statistics.mean(values):.{digits}f}"


def deviation(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± standard deviation over seeds."""
    error = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return mean(values, digits) + error


def spread(values: Sequence[float], scale: float = 1, digits: int = 3) -> str:
    """Mean (smallest – largest) over seeds."""
    own = [scale * value for value in values]
    if min(own) == max(own):
        return mean(own, digits)
    return f"{mean(own, digits)} ({min(own):.{digits}f} – {max(own):.{digits}f})"


def code(name: str) -> str:
    """The name of a recipe in the style of code; words after it stay as they are."""
    recipe, comma, rest = name.partition(",")
    return f"`{recipe}`{comma}{rest}"


def reference(method: str, bits: int, kind: str = "mnist") -> float:
    """What the public code of a method reaches, as a fraction."""
    table = REFERENCES[kind]
    return table[method][table["bits"].index(bits)] / 100


def fits(read: Read, start: str) -> list[Any]:
    """The results of all seeds of a fit of the recipes, such as "mnist, imh-graph, 64 bits"."""
    source = read("recipes")
    return [source[name] for name in source.parts if name.startswith(f"{start}, seed ")]


def words(read: Read, start: str) -> list[Any]:
    """The results of all seeds of a fit of the word, such as "mnist, imh-hybrid, 64 bits"."""
    source = read("word")
    found = [source[name] for name in source.parts if name.startswith(f"{start}, seed ")]
    return [own for own in found if "refused" not in own]


def word(read: Read, *names: str) -> list[str]:
    """MAP and precision@10 of the word and of quantizers of its size, mean over seeds, for datasets."""
    rows = []
    for name in names:
        scan = read("word")[f"{name}, scan"]
        cells = [f"{scan['MAP']:.3f}, {scan['precision@10']:.3f}"]
        for method in ("pq", "opq", "imh-hybrid"):
            found = [own["asymmetric"] for own in words(read, f"{name}, {method}, 64 bits")]
            pair = [mean([own[key] for own in found]) for key in ("MAP", "precision@10")] if found else []
            cells.append(", ".join(pair))
        look_up = [own["asymmetric"]["F1"] for own in words(read, f"{name}, imh-hybrid, 64 bits")]
        rows.append([name, *cells, mean(look_up), str(len(look_up))])
    head = [
        "MAP, precision@10",
        "scan of the vectors",
        "`pq`",
        "`opq`",
        "`imh-hybrid`",
        "F1, radius 2",
        "seeds",
    ]
    return lines(head, rows)


def rerank(read: Read, *names: str) -> list[str]:
    """Recall@10 of the Euclidean ten against the number of candidates, by float32 / one byte per value."""
    source, rows, counts = read("word-search"), [], ("10", "50", "100", "500", "1000")
    for name in names:
        for method in ("imh-hybrid", "opq", "itq"):
            if (part := f"rerank, {name}, {method}") not in source.parts:
                continue
            found = source[part]
            cells = [f"{found['float32'][n]:.3f} / {found['one byte per value'][n]:.3f}" for n in counts]
            rows.append([name, f"`{method}`", f"{found['codes alone']:.3f}", *cells])
    head = ["recall@10, 64 bits", "recipe", "codes alone", *(f"{int(n):,} candidates" for n in counts)]
    return lines(head, rows)


def overview(read: Read) -> list[str]:
    """README: the recipes beside the paper's method and a scan."""
    rows = []
    for name, of, ranking in (("imh-hybrid", words, "asymmetric"), ("imh-graph", fits, "Hamming")):
        found = [own[ranking] for own in of(read, f"mnist, {name}, 64 bits")]
        figures = [deviation([own[key] for own in found]) for key in ("MAP", "F1", "precision@10")]
        rows.append([f"`{name}`", "8", *figures, str(len(found))])
    for name, title, source, part in (
        ("imh-tsne", "`imh-tsne`, the paper's method", "seeds", "imh-tsne, 64 bits"),
        ("authors", "code of the paper's authors", "", ""),
        ("itq", "`itq`", "seeds", "itq, 64 bits"),
    ):
        if name == "authors":
            f1 = reference("imh-tsne", 64, "mnist, F1 within radius 2")
            rows.append([title, "8", f"{reference('imh-tsne', 64):.3f}", f"{f1:.3f}", "", "5"])
            continue
        found = read(source)[part]
        figures = [deviation(found[key]) if key in found else "" for key in ("MAP", "F1", "precision@10")]
        rows.append([title, "8", *figures, str(len(found["MAP"]))])
    scan = read("seeds")["scan of the pixels"]
    rows.append(["scan of the pixels", "784", f"{scan['MAP']:.3f}", "", f"{scan['precision@10']:.3f}", ""])
    return lines(["", "bytes", "MAP", "F1", "precision@10", "seeds"], rows)


def seeds(read: Read, *names: str) -> list[str]:
    """MAP and F1 of some recipes by code length, mean ± standard deviation over seeds."""
    lengths, source = (16, 32, 64, 128), read("seeds")
    rows = []
    for name in names:
        found = [source[f"{name}, {bits} bits"] for bits in lengths]
        rows.append([f"MAP, `{name}`", *(deviation(each["MAP"]) for each in found)])
        if name in REFERENCES["mnist"]:
            rows.append(["MAP, the authors' code", *(f"{reference(name, bits):.3f}" for bits in lengths)])
        rows.append([f"F1 within radius 2, `{name}`", *(deviation(each["F1"]) for each in found)])
    return lines(["", *(f"{bits} bits" for bits in lengths)], rows)


def kernels(read: Read) -> list[str]:
    """The MAP of each seed with two instruction sets."""
    source = read("seeds")
    rows = []
    for title, part in (("AVX-512", "imh-tsne, 64 bits"), ("AVX2", "imh-tsne, 64 bits, AVX2")):
        values = source[part]["MAP"]
        rows.append([title, *(f"{value:.3f}" for value in values), mean(values)])
    return lines(["MAP, 64 bits", *(f"seed {seed}" for seed in range(len(rows[0]) - 2)), "mean"], rows)


def baselines(read: Read, data: str, *names: str) -> list[str]:
    """MAP in percent of methods by length; in parentheses that of their public code."""
    table, source = REFERENCES[data], read(f"{data}-baselines")

    def cell(name: str, bits: int) -> str:
        found = source.get(f"{name}, {bits} bits")
        ours = deviation([100 * value for value in found["MAP"]], 1) if found else ""
        return f"{ours} ({100 * reference(name, bits, data):.1f})".strip() if name in table else ours

    names = names or tuple(name for name in table if name != "bits")
    measured = {bits: sum(f"{name}, {bits} bits" in source.parts for name in names) for bits in table["bits"]}
    lengths = [bits for bits, found in measured.items() if 2 * found >= len(names)]
    return lines(
        ["MAP, %", *(f"{bits} bits" for bits in lengths)],
        [[code(name), *(cell(name, bits) for bits in lengths)] for name in names],
    )


def large(read: Read, data: str, *names: str) -> list[str]:
    """MAP, F1 and recall of large base sets, mean and range over seeds."""
    keys = {
        "MAP": "MAP",
        "F1": "F1, radius 2",
        "precision@10": "precision@10",
        "recall": "recall of base points",
    }
    found = {name: read("large")[f"{data}, {name}"] for name in names}
    shown = [key for key in keys if any(key in own for own in found.values())]
    rows = [
        [code(name), *(spread(own[key]) if key in own else "" for key in shown)]
        for name, own in found.items()
    ]
    return lines(["64 bits", *(keys[key] for key in shown)], rows)


def svm(read: Read) -> list[str]:
    source = read("large")
    parts = [part for part in source.parts if part.startswith("svm, ")]
    rows = [[part.removeprefix("svm, "), spread(source[part]["accuracy"], 100, 1)] for part in parts]
    return lines(["", "accuracy, %"], rows)


def recipes(read: Read, *starts: str) -> list[str]:
    """Every ranking of some fits, mean (smallest – largest) over seeds."""
    rows = []
    for start in starts:
        found = fits(read, start)
        for ranking in [key for key in ("weighted", "Hamming", "asymmetric") if key in found[0]]:
            figures = [
                spread([own[ranking][key] for own in found]) if key in found[0][ranking] else ""
                for key in ("MAP", "F1", "precision@10", "recall@10")
            ]
            weights = sorted({own["weight"] for own in found}) if ranking == "weighted" else []
            name = f"{ranking}, {' / '.join(f'{weight:g}' for weight in weights)}" if weights else ranking
            rows.append([code_in(start), name, *figures, str(len(found))])
    return lines(["", "ranking", "MAP", "F1, radius 2", "precision@10", "recall@10", "seeds"], rows)


def code_in(start: str) -> str:
    """A fit with the name of its recipe in the style of code."""
    name, recipe, rest = start.split(", ", 2)
    return f"{name}, `{recipe}`, {rest}"


def weights(read: Read) -> list[str]:
    """MAP and precision@10 of hybrid codes for each weight, beside the weight chosen without labels."""
    source, names = read("hybrid"), ("0.25", "0.5", "1", "2")
    rows = []
    for part in source.parts:
        found = source[part]
        figures = [f"{found[w]['MAP']:.3f}, {found[w]['precision@10']:.3f}" for w in names]
        about = [part.removesuffix(", seed 0"), f"{found['rows']:,}", f"{found['redundancy']:.1f}"]
        rows.append([*about, f"{found['chosen weight']:g}", *figures])
    head = ["MAP, precision@10", "rows", "redundancy", "chosen weight", *(f"weight {w}" for w in names)]
    return lines(head, rows)


def quantizers(read: Read) -> list[str]:
    """Relative reconstruction errors of product quantizers, ours and FAISS's."""
    source = read("quantizers")
    rows = []
    for part in source.parts:
        found = source[part]
        cells = [f"{found[f'{method}, {library}']:.3f}" for method in ("pq", "opq") for library in _LIBRARIES]
        rows.append([part, f"{found['columns']:,}", *cells])
    return lines(["relative error", "columns", "`pq`", "FAISS PQ", "`opq`", "FAISS OPQ"], rows)


_LIBRARIES = ("manihash", "faiss")


def paper(read: Read, name: str) -> list[str]:
    """A table of the report of ``manihash paper``; the printed values of the paper in parentheses."""
    with (FOLDER / "paper" / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        cells = {(row["row"], row["column"]): row for row in csv.DictReader(file)}
    columns = dict.fromkeys(column for _, column in cells)
    rows = [
        [
            title,
            *(
                f"{float(cells[title, c]['ours']):.2f} ({float(cells[title, c]['paper']):.2f})"
                for c in columns
            ),
        ]
        for title in dict.fromkeys(row for row, _ in cells)
    ]
    return lines(["MAP, %", *columns], rows)
