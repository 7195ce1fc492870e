"""Tables of quality: each function returns the lines of one table, from the results of ``read(name)``."""

import csv
import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from _results import FOLDER, INSTRUCTIONS

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
    """The results of all seeds of a fit, such as "mnist, imh-graph, 64 bits"; none if not measured."""
    source = read("quality")
    names = [f"{start}, seed {seed}" for seed in range(10)]
    found = [source[name] for name in names if name in source.parts]
    return [own for own in found if "refused" not in own]


def over_seeds(found: list[Any], *keys: str, form: Callable[..., str] = deviation) -> str:
    """A figure of all seeds that have it, "" if none has."""
    values = []
    for own in found:
        for key in keys:
            own = own.get(key) if isinstance(own, dict) else None
        values += [own] if own is not None else []
    return form(values) if values else ""


def table_or_note(header: Sequence[str], rows: Sequence[Sequence[str]], command: str) -> list[str]:
    """A table, or a note before its first measurement."""
    return lines(header, rows) if rows else [f"Not measured yet: `{command}` does it."]


def ranking_of(found: list[Any], ranking: str = "asymmetric") -> str:
    """MAP and precision@10 of a ranking, "" if it was not measured."""
    return ", ".join(filter(None, (over_seeds(found, ranking, key, form=mean) for key in _TWO)))


_TWO = ("MAP", "precision@10")


def word(read: Read, *names: str) -> list[str]:
    """MAP and precision@10 of the word and of quantizers of its size, mean over seeds, for datasets."""
    rows = []
    for name in names:
        scan = read("quality").get(f"{name}, scan")
        found = {method: fits(read, f"{name}, {method}, 64 bits") for method in ("pq", "opq", "imh-hybrid")}
        if not scan or not all(found.values()):
            continue
        cells = [f"{scan['MAP']:.3f}, {scan['precision@10']:.3f}", *map(ranking_of, found.values())]
        own = found["imh-hybrid"]
        rows.append([name, *cells, over_seeds(own, "F1", form=mean), str(len(own))])
    head = ["MAP, precision@10", "scan of the vectors", "`pq`", "`opq`", "`imh-hybrid`"]
    return table_or_note([*head, "F1, radius 2", "seeds"], rows, "make bench-quality")


def word_lengths(read: Read, *names: str) -> list[str]:
    """The word less the scan of the vectors and less `pq` of its size, by bytes: means over datasets."""
    rows = []
    for size, first, whole in ((4, -0.01, 0.08), (8, 0.005, 0.08), (16, 0.01, 0.08), (32, 0.015, 0.08)):
        gains = []
        for name in names:
            scan = read("quality").get(f"{name}, scan")
            own, peer = (fits(read, f"{name}, {method}, {8 * size} bits") for method in ("imh-hybrid", "pq"))
            if not scan or not own or not peer or any("asymmetric" not in part for part in (*own, *peer)):
                continue
            ranked = {
                key: [statistics.mean(part["asymmetric"][key] for part in found) for found in (own, peer)]
                for key in _TWO
            }
            precision, (mean_ap, of_peer) = ranked["precision@10"][0], ranked["MAP"]
            gains.append((precision - scan["precision@10"], mean_ap - scan["MAP"], mean_ap - of_peer))
        if gains:
            means = [f"{statistics.mean(each):+.3f}" for each in zip(*gains, strict=True)]
            targets = f"{first:+.3f}, {whole:+.2f}"
            rows.append([str(size), str(len(gains)), *means, targets])
    head = [
        "bytes",
        "datasets",
        "precision@10 less the scan's",
        "MAP less the scan's",
        "MAP less that of `pq`",
    ]
    return table_or_note([*head, "targets (precision@10, MAP to `pq`)"], rows, "make bench-word")


def rerank(read: Read, *names: str) -> list[str]:
    """Recall@10 of the Euclidean ten against the number of candidates, by float32 / one byte per value."""
    source, rows, counts = read("quality"), [], ("10", "50", "100", "500", "1000")
    for name in names:
        for method in ("imh-hybrid", "opq", "itq"):
            found = source.get(f"{name}, {method}, 64 bits, seed 0") or {}
            if "candidates, float32" not in found:
                continue
            pairs = [found[f"candidates, {kind}"] for kind in ("float32", "one byte per value")]
            cells = [" / ".join(f"{own[n]:.3f}" for own in pairs) for n in counts]
            rows.append([name, f"`{method}`", f"{found['asymmetric']['recall@10']:.3f}", *cells])
    head = ["recall@10, 64 bits", "recipe", "codes alone", *(f"{int(n):,} candidates" for n in counts)]
    return table_or_note(head, rows, "make bench-quality")


def overview(read: Read) -> list[str]:
    """README: recipes, quantizers, the paper's method and a scan, with the ranking of each."""
    source, rows = read("quality"), []
    rankings = {"asymmetric": "real values", "codes": "Hamming"}
    for name, title, ranking in (
        ("imh-hybrid", "`imh-hybrid`", "asymmetric"),
        ("imh-graph", "`imh-graph`", "asymmetric"),
        ("pq", "`pq`", "asymmetric"),
        ("opq", "`opq`", "asymmetric"),
        ("itq", "`itq`", "asymmetric"),
        ("imh-tsne", "`imh-tsne`, the paper's method", "codes"),
    ):
        found = fits(read, f"mnist, {name}, 64 bits")
        means = [over_seeds(found, *keys) for keys in ((ranking, "MAP"), ("F1",), (ranking, "precision@10"))]
        rows.append([title, "8", rankings[ranking], *means, str(len(found))])
    f1 = reference("imh-tsne", 64, "mnist, F1 within radius 2")
    authors = ["code of the paper's authors", "8", rankings["codes"]]
    rows.append([*authors, f"{reference('imh-tsne', 64):.3f}", f"{f1:.3f}", "", "5"])
    scan = source["mnist, scan"]
    figures = [f"{scan['MAP']:.3f}", "", f"{scan['precision@10']:.3f}", ""]
    rows.append(["scan of the pixels", "784", "", *figures])
    return lines(["", "bytes", "ranking", "MAP", "F1", "precision@10", "seeds"], rows)


def seeds(read: Read, *names: str) -> list[str]:
    """MAP and F1 of some recipes by code length on MNIST, mean ± standard deviation over seeds."""
    lengths = (16, 32, 64, 128)
    rows = []
    for name in names:
        found = [fits(read, f"mnist, {name}, {bits} bits") for bits in lengths]
        rows.append([f"MAP, `{name}`", *(over_seeds(each, "codes", "MAP") for each in found)])
        if name in REFERENCES["mnist"]:
            rows.append(["MAP, the authors' code", *(f"{reference(name, bits):.3f}" for bits in lengths)])
        rows.append([f"F1 within radius 2, `{name}`", *(over_seeds(each, "F1") for each in found)])
    return lines(["", *(f"{bits} bits" for bits in lengths)], rows)


def kernels(read: Read) -> list[str]:
    """MAP and precision@10 of the same recipes and seeds by maker of the processor and kernels of BLAS."""
    source, rows = read("quality"), list[list[str]]()
    found: dict[tuple[str, str], dict[int, Any]] = {}
    for part in source.parts:
        if named := re.fullmatch(r"(.+), seed (\d+), (\w+), (\w+)", part):
            own, machine = source[part], f"{named[3]}, {INSTRUCTIONS[named[4]]}"
            found.setdefault((named[1], machine), {})[int(named[2])] = own.get("asymmetric") or own["codes"]
    for (fit, machine), own in sorted(found.items()):
        values = [f"{own[seed]['MAP']:.3f}" if seed in own else "" for seed in range(5)]
        means = [mean([each[key] for each in own.values()]) for key in _TWO]
        rows.append([fit, machine, *values, *means])
    head = ["", "processor, kernels", *(f"seed {seed}" for seed in range(5)), "mean", "precision@10, mean"]
    return table_or_note(head, rows, "make bench-all ONLY=quality")


def baselines(read: Read, data: str, *names: str) -> list[str]:
    """MAP in percent of methods by length; in parentheses that of their public code."""
    table = REFERENCES[data]

    def cell(name: str, bits: int) -> str:
        found = [100 * own["codes"]["MAP"] for own in fits(read, f"{data}, {name}, {bits} bits")]
        ours = deviation(found, 1) if found else ""
        return f"{ours} ({100 * reference(name, bits, data):.1f})".strip() if name in table else ours

    measured = {
        bits: sum(bool(fits(read, f"{data}, {name}, {bits} bits")) for name in names)
        for bits in table["bits"]
    }
    lengths = [bits for bits, found in measured.items() if 2 * found >= len(names)]
    return lines(
        ["MAP, %", *(f"{bits} bits" for bits in lengths)],
        [[code(name), *(cell(name, bits) for bits in lengths)] for name in names],
    )


def large(read: Read, data: str, *names: str) -> list[str]:
    """MAP, F1 and recall of large base sets, mean and range over seeds."""
    keys = {
        "MAP": ("codes", "MAP"),
        "F1, radius 2": ("F1",),
        "precision@10": ("codes", "precision@10"),
        "recall of base points": ("recall of base points",),
    }
    found = {name: fits(read, f"{data}, {name}, 64 bits") for name in names}
    rows = [
        [code(name), *(over_seeds(own, *path, form=spread) for path in keys.values())]
        for name, own in found.items()
        if own
    ]
    shown = [i for i in range(len(keys) + 1) if any(row[i] for row in rows)]
    return lines(
        [["64 bits", *keys][i] for i in shown],
        [[row[i] for i in shown] for row in rows],
    )


def svm(read: Read) -> list[str]:
    source = read("svm")
    rows = [[part, spread(source[part]["accuracy"], 100, 1)] for part in source.parts]
    return lines(["", "accuracy, %"], rows)


def recipes(read: Read, *starts: str) -> list[str]:
    """Every ranking of some fits, mean (smallest – largest) over seeds."""
    rows = []
    for start in starts:
        found = fits(read, start)
        for ranking, f1 in (("codes", "F1"), ("Hamming of all bits", "F1 of all bits"), ("asymmetric", "")):
            if not any(ranking in own for own in found):
                continue
            paths = ((ranking, "MAP"), (f1,), (ranking, "precision@10"), (ranking, "recall@10"))
            figures = [over_seeds(found, *path, form=spread) for path in paths]
            weights = (
                sorted({own["weight"] for own in found if "weight" in own}) if ranking == "codes" else []
            )
            name = f"weighted, {' / '.join(f'{weight:g}' for weight in weights)}" if weights else ranking
            rows.append([code_in(start), "Hamming" if name in ("codes", "Hamming of all bits") else name,
                         *figures, str(len(found))])  # fmt: skip
    return lines(["", "ranking", "MAP", "F1, radius 2", "precision@10", "recall@10", "seeds"], rows)


def code_in(start: str) -> str:
    """A fit with the name of its recipe in the style of code."""
    name, recipe, rest = start.split(", ", 2)
    return f"{name}, `{recipe}`, {rest}"


def weights(read: Read) -> list[str]:
    """MAP and precision@10 of hybrid codes for each weight, beside the weight chosen without labels."""
    source, names, rows = read("quality"), ("0.25", "0.5", "1", "2"), []
    ending = ", imh-hybrid-hamming, 64 bits, seed 0"
    for part in [part for part in source.parts if part.endswith(ending)]:
        if "weights" not in source.parts[part]["results"]:
            continue
        found = source[part]
        figures = [f"{own['MAP']:.3f}, {own['precision@10']:.3f}" for own in map(found["weights"].get, names)]
        count = f"{found['rows']:,}" if "rows" in found else ""
        about = [part.removesuffix(ending), count, f"{found['redundancy']:.1f}"]
        rows.append([*about, f"{found['weight']:g}", *figures])
    head = ["MAP, precision@10", "rows", "redundancy", "chosen weight", *(f"weight {w}" for w in names)]
    return lines(head, rows)


def asymmetric(read: Read) -> list[str]:
    """MAP of the rankings by codes and by the real values of the queries, by length."""
    lengths, rows = (32, 64, 128, 256), []
    for data in ("mnist", "photo-sift1m"):
        for method in ("imh-tsne", "imh-graph", "itq"):
            cells = []
            for bits in lengths:
                found = fits(read, f"{data}, {method}, {bits} bits")
                pair = [over_seeds(found, ranking, "MAP", form=mean) for ranking in ("codes", "asymmetric")]
                cells.append(" / ".join(pair) if all(pair) else "")
            rows += [[f"{data}, `{method}`", *cells]] if any(cells) else []
    head = ["MAP by codes / asymmetric", *(f"{bits} bits" for bits in lengths)]
    return table_or_note(head, rows, "make bench-quality")


EMBEDDINGS = {"imh-ee": "EE", "imh-tsne": "tSNE", "imh-sne": "SNE", "imh-le": "LE", "imh-dm": "DM",
              "imh-pca": "PCA", "imh-le-b": "LE_B", "imh-lle": "LLE", "imh-isomap": "Isomap"}  # fmt: skip


def embeddings(read: Read) -> list[str]:
    """MAP in percent of IMH with each embedding on CIFAR-10, the paper's figure 2."""
    lengths, rows = (32, 64, 96), []
    for name, title in EMBEDDINGS.items():
        found = [fits(read, f"cifar10-gist, {name}, {bits} bits") for bits in lengths]
        cells = [over_seeds(own, "codes", "MAP", form=_percent) for own in found]
        rows += [[title, *cells]] if any(cells) else []
    scan = read("quality").get("cifar10-gist, scan")
    rows += [["scan of the GIST vectors", *[f"{100 * scan['MAP']:.2f}"] * 3]] if rows and scan else []
    head = ["MAP, %", *(f"{bits} bits" for bits in lengths)]
    return table_or_note(head, rows, "make bench-quality")


def random_bases(read: Read) -> list[str]:
    """MAP in percent with base points of k-means and random ones on CIFAR-10."""
    rows = []
    for name in ("imh-tsne", "imh-le", "imh-le-b"):
        cells = []
        for own in (name, f"{name}-random"):
            found = [fits(read, f"cifar10-gist, {own}, {bits} bits") for bits in (32, 64, 96)]
            values = [over_seeds(each, "codes", "MAP", form=_percent) for each in found]
            cells.append(" / ".join(values) if all(values) else "")
        rows += [[EMBEDDINGS[name], *cells]] if all(cells) else []
    return table_or_note(["MAP, %, 32 / 64 / 96 bits", "k-means", "random"], rows, "make bench-quality")


def _percent(values: Sequence[float]) -> str:
    return f"{100 * statistics.mean(values):.2f}"


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


_PAPER = "all experiments, one seed"


def paper(read: Read, name: str) -> list[str]:
    """A table of the report of ``manihash paper``; the printed values of the paper in parentheses."""
    read("paper").get(_PAPER)  # names the origin
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


def paper_claims(read: Read, result: str) -> list[str]:
    """The claims of the paper that hold or do not hold, with our figures and, if known, the reason."""
    read("paper").get(_PAPER)
    with (FOLDER / "paper" / "claims.csv").open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["result"] == result]
    why = any(row["why"] for row in found)
    rows = [
        [f"{row['claim']} ({row['place']})", row["ours"], *([row["why"]] if why else [])] for row in found
    ]
    return lines(["claim", "ours", *(["why"] if why else [])], rows)
