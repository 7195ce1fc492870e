"""Tables of times, tools and programs: each function returns the lines of one table; see ``figures``."""

import math
from typing import Any

from _results import INSTRUCTIONS
from tables_of_quality import Read, lines, table_or_note


def baseline_speed(read: Read) -> list[str]:
    """Times of the baselines as ratios."""
    found = read("baseline-speed")["2 threads"]
    return lines(["two threads", "ratio"], [[what, f"{value:.3g}"] for what, value in found.items()])


def search(read: Read, *sections: str) -> list[str]:
    """Sections of the search benchmark by threads."""
    source, rows = read("search"), []
    threads = [
        name for name in ("1 thread", "2 threads") if any(part.endswith(name) for part in source.parts)
    ]
    for section in sections:
        found = [source.get(f"{section}, {name}") or {} for name in threads]
        rows += [
            [what, *(own.get(what, "") for own in found)]
            for what in dict.fromkeys(k for own in found for k in own)
        ]
    return table_or_note(["work", *threads], rows, "make bench-search")


TARGETS = {
    "fit imh-tsne": "1.7 (two)",
    "encode imh-tsne": "1.3, 1.25",
    "fit imh-large": "45 (two)",
    "encode imh-large": "2.8 (two)",
    "encode imh-large-fast": "1.2 (two)",
    "k-means, m = 400": "1.15 (one)",
    "k-means 1M x 128, m = 1,000": "1.5 (one)",
}


def fit(read: Read) -> list[str]:
    """Times in products, by threads."""
    source = read("fit")
    found: dict[str, dict[int, float]] = {}
    for part in ("recipes", "k-means", "peers"):
        for threads, ending in ((1, "1 thread"), (2, "2 threads")):
            for name, value in (source.get(f"{part}, {ending}") or {}).items():
                found.setdefault(name, {})[threads] = value
    found.pop("one product, seconds", None)
    rows = [
        [name, *(f"{own[t]:.2f}" if t in own else "" for t in (1, 2)), TARGETS.get(name, "")]
        for name, own in found.items()
    ]
    return lines(["work, in products", "one thread", "two threads", "target"], rows)


def speed(read: Read) -> list[str]:
    """Times beside their targets, by maker of the processor and kernels of BLAS."""
    source = read("speed")
    found = [
        row | {"column": f"{part.split(', ')[0]}, {INSTRUCTIONS[row['kernels']]}"}
        for part in source.parts
        for row in source[part]["rows"]
    ]
    columns = sorted({row["column"] for row in found})
    rows = []
    for name, threads, unit in dict.fromkeys((row["name"], row["threads"], row["unit"]) for row in found):
        own = {row["column"]: row for row in found if (row["name"], row["threads"]) == (name, threads)}
        values = [f"{own[column]['value']:.2f}" if column in own else "" for column in columns]
        targets = dict.fromkeys(f"{row['target']:g}" for row in own.values() if row["target"] is not None)
        rows.append([name, str(threads), unit, *values, ", ".join(targets)])
    return lines(["work", "threads", "unit", *columns, "target"], rows)


def warm_start(read: Read) -> list[str]:
    """K-means that learns from a sample first."""
    found = read("fit")["warm, 2 threads"]
    titles = {
        "ten rounds": "ten iterations on all rows",
        "five rounds": "five iterations on all rows",
        "warm start": "ten on the sample, two on all rows",
    }
    rows = [
        [title, f"{found[f'k-means of 1M SIFT, {name}']:.1f}", f"{found[f'its sum of squares, {name}']:.4f}"]
        for name, title in titles.items()
    ]
    return lines(["", "products", "sum of squares / that of ten iterations"], rows)


def scale(read: Read) -> list[str]:
    """Time and memory of two and twenty million rows."""
    rows = []
    for work in ("fit", "encode"):
        found = read("scale")[work]
        seconds = [f"{run['seconds']:.1f} s" for run in found["runs"]]
        memory = [f"{run['anonymous_MiB']} MiB" for run in found["runs"]]
        rows += [[work, *seconds, f"{found['time_per_row_20M_over_2M']:.2f}"]]
        rows += [["its peak anonymous memory", *memory, ""]]
    return lines(["", "2M rows", "20M rows", "time per row, 20M over 2M"], rows)


def scale_checks(read: Read) -> list[str]:
    """Clusters and killed encodings: times, and whether the codes are the same."""
    source = read("scale")
    dask, kill = source["dask"], source["kill"]
    kills, ends = len(kill["rows_kept_after_each_kill"]), kill["identical_at_each_end"]
    same = dask["identical_codes"] and dask["identical_codes_with_one_killed"]
    times = f"{dask['one_worker_s']:.1f} s, {dask['two_workers_s']:.1f} s"
    rows = [
        [
            "local cluster: one worker, two workers, median of three",
            f"{times}, {dask['speed_up']:.2f} times faster",
        ],
        ["local cluster: one of two workers killed after five seconds", f"{dask['one_killed_s']:.1f} s"],
        ["local cluster: the same codes as one process in every run", "yes" if same else "no"],
        ["`kill -9` at random moments: times", str(kills)],
        ["encodings that ended in between, with the same bytes", f"{sum(ends)} of {len(ends)}"],
        ["other files left", str(len(kill["files_left"]))],
    ]
    return lines(["4M rows to encode", ""], rows)


def billion(read: Read) -> list[str]:
    """What a billion rows cost by the measured rates; both cores are taken as busy all the time."""
    source, n, cores = read("scale"), 1e9, 2
    encode = cores * source["encode"]["runs"][1]["seconds"] / 2e7 * n
    small, large = (run["seconds"] for run in source["fit"]["runs"])
    sigma = cores * (large - small) / 1.8e7 * n  # the rest of the fit does not depend on n
    sample = small - sigma / n * 2e6 / cores
    memory = max(run["anonymous_MiB"] for part in ("fit", "encode") for run in source[part]["runs"])

    def times(core_seconds: float) -> str:
        return f"{core_seconds / 120:.0f} minutes on 2 cores, {core_seconds / 64:.0f} s on 64"

    rows = [
        ["disk", "128 GB of vectors, 8 GB of codes", "512 GB as float32"],
        ["encode", f"1.28e14 multiplications and additions: {encode:,.0f} core-seconds", times(encode)],
        ["fit: k-means and t-SNE", "on 256,000 rows, for any n", f"{sample:.0f} s on 2 cores"],
        ["fit: σ", f"one pass: {sigma:,.0f} core-seconds, none with `bandwidth=`", times(sigma)],
        ["memory", f"{memory} MiB per machine, for any n", ""],
        [
            "network, if the vectors are on shared storage",
            "128 GB per pass: 102 s at 10 Gbit/s",
            f"the bottleneck of encode from about {encode / 102:.0f} cores on, of σ from {sigma / 102:.0f}",
        ],
        [
            "network, everything else",
            "0.8 MB of model to each worker; 8 GB of codes to the process that writes them; 1 MB per span "
            "and iteration of k-means",
            "",
        ],
    ]
    return lines(["", "a billion rows of 128 bytes", ""], rows)


def gpu_encode(read: Read) -> list[str]:
    """Times of encode on a GPU beside lower bounds."""
    found = read("h200")["encode"]
    floors = found["floors"]
    bounds = {
        "X read once": "read X",
        "product, half precision": "half product",
        "product, TF32": "TF32 product",
        "product, float32": "float32 product",
    }
    rows = [[f"*lower bound: {title}*", f"{floors[f'{key}, ms']:.2f}", ""] for title, key in bounds.items()]
    rows.append(["*torch's `topk` of 5 alone*", f"{floors['topk of 5, ms']:.1f}", ""])
    names = [name for name in found if isinstance(found[name], dict) and "ms" in found[name]]
    rows += [
        [name, f"{found[name]['ms']:.1f}", f"{found[name]['bits off']:.1e}".replace("0.0e+00", "0")]
        for name in names
    ]
    return lines(["", "ms", "bits off"], rows)


def gpu_rest(read: Read) -> list[str]:
    """Fit, search and streaming on a GPU."""
    source = read("h200")
    rows = []
    for part, title in (
        ("fit imh-tsne", "fit of `imh-tsne` on MNIST"),
        ("fit imh-large", "fit of `imh-large`"),
        (
            "fit imh-graph",
            "fit of `imh-graph`, 20,000 base points, a random walk of 4 steps, 1,000 iterations",
        ),
    ):
        found = source[part]
        measured = [name for name in ("MAP", "F1") if name in found]
        texts = [f"{name} " + ", ".join(f"{value:.3f}" for value in found[name]) for name in measured]
        rows.append([title, f"{found['fit, s']:.2f}", "; ".join(texts)])
    if found := source.get("embeddings"):
        title = f"elastic embedding of {found['points']:,} points, {found['iterations']} iterations"
        rows.append([title, f"{found['elastic embedding, s']:.2f}", f"t-SNE {found['t-SNE, s']:.2f}"])
    search, stream = source["search"], source["stream"]
    rows.append(
        [
            f"exact top {search['k']} of {search['codes']:,} codes of 64 bits, {search['queries']:,} queries",
            f"{search['search, all distinct, s']:.3f}",
            f"{search['search, 5,000 distinct, s']:.3f} if only 5,000 are distinct",
        ]
    )
    note = f"the copy from pinned memory alone takes {stream['copy from pinned memory, s']:.3f}"
    rows.append([f"encode a memory map of {stream['GB']:.1f} GB", f"{stream['encode, s']:.3f}", note])
    return lines(["", "s", ""], rows)


def gpu_same_bits(read: Read) -> list[str]:
    """The bits that differ between a GPU and the CPU, by set of rows."""
    found = read("h200")["same bits"]
    sets: dict[str, list[str]] = {}
    for name in found:
        rows, recipe = name.split(" ", 1)
        sets.setdefault(rows, []).append(recipe)
    rows = [
        [
            f"{found[f'{name} {recipes[0]}']['rows']:,} rows, {name}",
            ", ".join(f"`{recipe}`" for recipe in recipes),
            f"{sum(found[f'{name} {recipe}']['bits that differ'] for recipe in recipes):,}",
        ]
        for name, recipes in sets.items()
    ]
    return lines(["rows", "recipes", "bits that differ"], rows)


def same_bits(read: Read) -> list[str]:
    """The bits that differ between kernels of BLAS, threads, batches and libraries, by set and recipe."""
    source, rows = read("same-bits"), []
    for part in source.parts:
        found = source[part]
        kernels = found["differing bits"]
        ways = {way for counts in kernels.values() for way in counts}
        total = sum(count for counts in kernels.values() for count in counts.values())
        again = f"{found['computed again']:.1%}"
        rows.append([part, f"{found['rows']:,}", f"{len(kernels)} x {len(ways)}", again, f"{total:,}"])
    return lines(["set, recipe", "rows", "kernels x ways", "rows computed again", "bits that differ"], rows)


def onnx(read: Read) -> list[str]:
    """Bits of ONNX files that differ, and the time of one row."""
    source, rows = read("onnx"), []
    for name in source.parts:
        found = source[name]
        cells = [
            [f"{found[f'{kind}, bits that differ']:,}", f"{found[f'{kind}, one row in products']:.2f}"]
            for kind in ("float32", "float64")
        ]
        rows.append([name, *cells[0], *cells[1]])
    return lines(
        ["model, 64 bits", "float32: bits that differ", "one row", "float64: bits that differ", "one row"],
        rows,
    )


def explore(read: Read) -> list[str]:
    """Times of the page of ``manihash explore``."""
    found = read("explore")["page"]
    first, panning = found["first_picture"], found["panning"]
    seconds = (
        f"{first['seconds']:.2f} s in the median of {len(first['all'])}, {min(first['all']):.2f} s at best"
    )
    rows = [[f"first picture of {first['rows']:,} rows of MNIST, server ready", seconds]]
    kinds = {"pixels": panning["page"], "WebGL in software": panning["webgl"]}
    points = f"{panning['points']:,} points"
    rows += [
        [f"drawing {points} once, {kind}", f"{own['draw_milliseconds']:.1f} ms"]
        for kind, own in kinds.items()
    ]
    rows += [
        [f"frames per second when panning {points}, {kind}", f"{own['frames_per_second']:.1f}"]
        for kind, own in kinds.items()
    ]
    return lines(["", ""], rows)


def serve(read: Read) -> list[str]:
    """Requests per second and latencies of servers; a note before the first run."""
    found = read("serve").get("load")
    if found is None:
        return ["Not measured yet: `make bench-serve` does it."]
    forms = {"server": "", "queries": "", "clients": "", "per_second": ",.0f", "share_of_constant": ".2f"}
    forms |= {"p50_ms": ".2f", "p99_ms": ".2f", "p99_over_p50": ".1f"}
    found = sorted(found, key=lambda each: (each["queries"], each["clients"]))
    head = [
        "server",
        "queries",
        "clients",
        "requests / s",
        "share of constant",
        "p50, ms",
        "p99, ms",
        "ratio",
    ]
    return lines(head, [[format(each[key], form) for key, form in forms.items()] for each in found])


def databases(read: Read) -> list[str]:
    """Times of the databases, and the share of the nearest distances that they find."""
    source, rows = read("databases"), []
    for name in source.parts:
        found = source[name]
        first = found["first part within 2, ms"]
        rows.append(
            [
                name,
                f"{found['rows']:,}",
                f"{found['rows per second']:,.0f}",
                f"{found['10 nearest, ms']:.2f} ms",
                f"{found['within 2, ms']:.2f} ms",
                "" if first is None else f"{first:.2f} ms",
                f"{found['distances found']:.2f}",
            ]
        )
    head = ["", "rows", "rows loaded per second", "10 nearest", "within 2", "first part within 2", "found"]
    return lines(head, rows)


def database_limits(read: Read) -> list[str]:
    """What the databases can do with codes."""
    source, rows = read("databases"), []
    for name in source.parts:
        found = source[name]
        first = "yes" if found["first part within 2, ms"] is not None else "no"
        exact = "exact" if found["distances found"] == 1 else "approximate"
        rows.append([name, f"{found['longest codes']:,}", exact, first, found["filters"], found["library"]])
    head = ["", "longest codes tried, bits", "search", "column of first parts", "filters", "library"]
    return lines(head, rows)


def duplicates(read: Read) -> list[str]:
    """Planted copies found by codes and vectors, beside FAISS."""
    source = read("duplicates")
    keys = {
        "cosine": "cosine",
        "radius": "radius",
        "candidates": "candidate pairs",
        "copies found": "copies found",
        "precision": "precision",
        "seconds": "seconds",
        "seconds of FAISS range_search": "FAISS",
        "FAISS / ours": "FAISS / ours",
    }
    rows = [
        [part, *(f"{found[key]:,}" if isinstance(found[key], int) else f"{found[key]:.3g}" for key in keys)]
        for part in source.parts
        if not part.startswith("all pairs, ")
        for found in [source[part]]
    ]
    return lines(["set", *keys.values()], rows)


def duplicates_scale(read: Read) -> list[str]:
    """Groups among many codes: rows, bytes and times, with the growth of the time."""
    source = read("duplicates-scale")
    found = [source[part] for part in source.parts if part.endswith(" codes")]
    found.sort(key=lambda each: each["rows"])
    head = ["codes", "groups", "largest group", "wrong rows", "peak memory", "peak disk", "CPU time per code",
            "exponent"]  # fmt: skip
    rows = []
    for each in found:
        slower = math.log(each["CPU microseconds per row"] / found[0]["CPU microseconds per row"])
        exponent = 1 + slower / math.log(each["rows"] / found[0]["rows"]) if each is not found[0] else None
        counts = [f"{each[key]:,}" for key in ("rows", "groups", "largest group", "wrong rows")]
        sizes = [f"{each[f'peak {kind}, bytes'] / 1e9:.2f} GB" for kind in ("memory", "disk")]
        time = f"{each['CPU microseconds per row']:.2f} µs"
        rows.append([*counts, *sizes, time, "" if exponent is None else f"{exponent:.2f}"])
    return lines(head, rows)


def duplicates_checks(read: Read) -> list[str]:
    """What else was measured about groups among many codes."""
    source = read("duplicates-scale")
    rows = []
    if (faiss := source.get("FAISS")) is not None:
        for key in ("IndexBinaryFlat range_search", "IndexBinaryMultiHash add and range_search"):
            n = faiss["rows" if "Flat" in key else "rows of IndexBinaryMultiHash"]
            rows.append([f"{n:,} codes: CPU time of FAISS `{key}`, as a multiple of ours",
                         f"{faiss[f'FAISS {key} / ours']:,}"])  # fmt: skip
    if (new := source.get("one new row")) is not None:
        middle, high = (new[f"ms per row, {kind}"] for kind in ("median", "95th percentile"))
        name = f"one new row against {new['rows']:,} rows, from files: median and 95th percentile"
        rows.append([name, f"{middle:.2f} ms, {high:.2f} ms"])
    if (sift := source.get("SIFT words")) is not None:
        compared = sift["rows compared with all"]
        name = f"{sift['rows']:,} SIFT words with noise: near rows of {compared} of them in another group"
        rows.append([name, f"{sift['near rows in another group']:,} of {sift['near rows of these']:,}"])
        rows.append(["the same: copies outside the group of their original",
                     f"{sift['copies outside the group of their original']:,}"])  # fmt: skip
    if (kill := source.get("kill")) is not None:
        name = f"{kill['rows']:,} codes, runs killed with SIGKILL and run again"
        rows.append([f"{name}: identical groups", f"{kill['identical groups']} of {kill['killed']}"])
    if (dask := source.get("Dask")) is not None:
        name = f"{dask['rows']:,} codes on {dask['workers']} Dask workers, {dask['workers killed']} killed"
        rows.append([f"{name}: identical groups", "yes" if dask["identical groups"] else "no"])
    return lines(["measurement", "result"], rows)


def duplicate_thresholds(read: Read) -> list[str]:
    """Planted copies among all pairs of rows above each threshold, by comparing all vectors."""
    source = read("duplicates")
    rows = [
        [part.removeprefix("all pairs, "), threshold, f"{found['pairs']:,}", f"{found['copies found']:.3f}",
         f"{found['precision']:.3f}", f"{found['pairs of two original rows']:,}"]
        for part in source.parts
        if part.startswith("all pairs, ")
        for threshold, found in source[part].items()
    ]  # fmt: skip
    return lines(["set", "cosine", "pairs", "copies", "precision", "pairs of two real rows"], rows)


def bridge(read: Read) -> list[str]:
    """MAP and precision@10 of new queries on old codes, with their shares."""
    source = read("bridge")
    rows = []
    for part in (part for part in source.parts if " to " in part):
        found, (change, name) = source[part], part.rsplit(", ", 1)
        pairs = [" / ".join(f"{value:.3f}" for value in found[key]) for key in _BRIDGED]
        shares = [
            " / ".join(f"{found[f'share of {key}, {metric}']:.3f}" for metric in ("MAP", "precision@10"))
            for key in ("old queries", "re-encoding")
        ]
        low, high = found["interval"]
        expected = f"{found['expected share']:.3f} ({low:.3f} to {high:.3f})"
        rows.append([change, name, *pairs, *shares, found["map"], expected])
    headings = ["change", "recipe", "old", "re-encoded", "bridged", "share of old", "share of re-encoded"]
    return lines([*headings, "map", "expected share, recall@10"], rows)


_BRIDGED = ("old queries", "re-encoding", "bridged")


def bridge_widths(read: Read) -> list[str]:
    """Two changes of the model, and wrong pairs."""
    source = read("bridge")
    found, wrong = source.get("widths") or {}, source.get("wrong") or {}
    before = found.get("old queries")
    rows = []
    for key in (key for key in found if key.endswith("wrong pairs")):
        change, share = key.rsplit(", ", 1)
        kept = [f"{value / reference:.3f}" for value, reference in zip(found[key], before, strict=True)]
        rows.append([f"{change}, {share}", *kept, str(found[f"{key}, pairs left out"])])
    for change, each in wrong.items():
        kept = [f"{each[f'share of old queries, {metric}']:.3f}" for metric in ("MAP", "precision@10")]
        rows.append([f"{change}, 5% wrong pairs", *kept, f"{each['left out']} of {each['wrong']}"])
    return lines(["new vectors", "share of old, MAP", "share of old, precision@10", "pairs left out"], rows)


def bridge_pairs(read: Read) -> list[str]:
    """Expected and measured shares by the number of pairs."""
    rows = []
    for each in read("bridge").get("pairs") or ():
        low, high = each["interval"]
        expected = f"{each['expected share']:.3f} ({low:.3f} to {high:.3f})"
        measured = f"{each['measured share, MAP']:.3f}"
        rows.append([each["change"], f"{each['pairs']:,}", each["map"], expected, measured, each["advice"]])
    headings = ["change", "pairs", "map", "expected share, recall@10", "share of old, MAP", "verdict"]
    return lines(headings, rows)


def bridge_cost(read: Read) -> list[str]:
    """Microseconds of one row more."""
    rows = [
        [change, each["map"], *(f"{each[f'us per row, {what}']:.1f}" for what in _COSTS)]
        for change, each in (read("bridge-speed").get("cost") or {}).items()
    ]
    return lines(["change", "map", "encode of old rows, µs", "more, many rows", "more, one row"], rows)


_COSTS = ("encode of old rows", "many rows", "one row")


def maintenance(read: Read, name: str) -> list[str]:
    """Drift, update and refit of a recipe, and updates that were killed."""
    source = read("maintenance")
    drift, update = (source[f"{part}, {name}"] for part in ("drift", "update"))
    alarms = [
        drift[f"alarms in 50 draws {kind}"] for kind in ("with noise", "of rotated rows", "of new digits")
    ]
    rows = [
        [
            "alarms at level 1 % in 200 draws of 1,000 fresh rows",
            str(drift["alarms in 200 draws of fresh rows"]),
        ],
        [
            "alarms in 50 draws of 1,000 rows: noise of 0.2 per pixel / rotated by 20 degrees / new digits",
            " / ".join(map(str, alarms)),
        ],
        [
            "fit on digits 0 to 7, updated with 8 and 9: old rows whose code is unchanged",
            f"{update['old rows whose code is unchanged']:.1%}",
        ],
        [
            "MAP over all digits before / after the update, and of a full fit",
            f"{update['MAP before the update']:.3f} / {update['MAP after the update']:.3f}, "
            f"{update['MAP of a full fit']:.3f}",
        ],
    ]
    if f"refit, {name}" in source.parts:
        rows += _refit_and_kills(source[f"refit, {name}"], source["kills"])
    return lines(["", "result"], rows)


def false_alarms(read: Read) -> list[str]:
    """Alarms of drift in fresh rows, by shape of the data."""
    source = read("maintenance")
    rows = [[shape, str(alarms)] for shape, alarms in source["false alarms"].items()]
    return lines(["fresh rows", "alarms in 400 draws (4 expected at most)"], rows)


def base_sizes(read: Read) -> list[str]:
    """Every row as a base point, and one base point per six rows, by dataset and recipe."""
    source = read("base-sizes")
    found = {(part, size): own for part in source.parts for size, own in source[part].items()}
    names = [key for own in [*found.values()][:1] for key in own if key not in ("rows", "update", "fit, s")]
    rows = [[name, *(f"{own[name]:,}" for own in found.values())] for name in names]
    for name in [key for own in [*found.values()][:1] for key in own["update"] if key != "s"]:
        rows.append([f"update: {name}", *(f"{own['update'][name]:,}" for own in found.values())])
    return table_or_note(["", *(f"{part}: {size}" for part, size in found)], rows, "make bench-base-sizes")


def new_digits(read: Read) -> list[str]:
    """A refit with new digits beside a new fit, by recipe."""
    source, rows = read("maintenance"), []
    for part in [part for part in source.parts if part.startswith("new digits, ")]:
        found = source[part]
        cells = []
        for digits in ("all", "old", "new"):
            own, fresh = (found[f"MAP of {made}, {digits} digits"] for made in ("the refit", "a new fit"))
            cells.append(f"{own:.3f} / {fresh:.3f} ({own / fresh:.3f})")
        changed = found["bits that change, rows of old digits"]
        rows.append([f"`{part.removeprefix('new digits, ')}`", *cells, f"{changed:.1%}"])
    return lines(
        ["recipe", "MAP over all digits", "over queries 0 to 7", "over queries 8 and 9", "bits that change"],
        rows,
    )


def _refit_and_kills(refit: Any, kills: Any) -> list[list[str]]:
    return [
        [
            "refit with another seed: bits that change, against a fit from nothing",
            f"{refit['bits that change by the refit']:.1%}, {refit['bits that change by a fresh fit']:.0%}",
        ],
        [
            "MAP of the old model / after the refit / of a fit from nothing",
            f"{refit['MAP of the old model']:.3f} / {refit['MAP after the refit']:.3f} / "
            f"{refit['MAP of a fresh fit']:.3f}",
        ],
        [
            f"`manihash update` killed at {kills['runs']} random moments, then run again: identical results",
            str(kills["identical after the second run"]),
        ],
    ]


def choose_full(read: Read) -> list[str]:
    """The recommendation of a sample beside the best candidate on all rows."""
    source = read("choose")
    parts = [part for part in source.parts if part.startswith("full, ")]
    rows = [
        [
            f"{part.removeprefix('full, ')}, {source[part]['rows']:,}",
            own["labels"],
            own["goal"],
            own["recommended"],
            f"{own['score']:.3f}",
            own["best"],
            f"{own['best score']:.3f}",
            f"{own['share']:.3f}",
        ]
        for part in parts
        for own in source[part]["goals"]
    ]
    return lines(
        ["set, rows", "recommendation", "goal", "recommended", "score", "best", "its score", "share"], rows
    )


def choose_time(read: Read) -> list[str]:
    """The time of ``choose``."""
    found = read("choose")["time"]
    rows = [
        [
            f"{int(key.removesuffix(' rows')):,} x {found['columns']}",
            f"{found[key]['seconds']:.0f} s",
            f"{found[key]['CPU seconds']:.0f} s",
        ]
        for key in found
        if key.endswith("rows")
    ]
    return lines(["vectors", "time", "CPU time"], rows)


def choose_rules(read: Read) -> list[str]:
    """Rules that choose without labels."""
    found = read("choose")["without labels"]["left out"]
    keys = ("mean", "worst", "at least 0.93")
    rows = [
        [rule, *(str(found[goal][rule][key]) for goal in found for key in keys)] for rule in found["ranking"]
    ]
    return lines(["rule", *(f"{goal}: {key}" for goal in found for key in keys)], rows)


def word_search(read: Read) -> list[str]:
    """Times of the top 10 of a million words as multiples of FAISS, and the gain where first parts repeat."""
    source, rows = read("word-search"), []
    for part, title, bar in (
        ("fields of 8 bits", "random words, fields of 8 bits: time, `IndexPQ` 8x8 = 1", "1.0"),
        ("fields of 8 bits, half the spread", "the same, second part with half the spread of the first", ""),
        ("fields of 4 bits", "random words, fields of 4 bits: time, `IndexPQFastScan` 16x4 = 1", "1.1"),
        ("MNIST, words repeat", "words of 10,000 MNIST rows, repeated: times faster than `IndexPQ`", "5"),
        ("MNIST, first parts repeat", "their first parts, second parts at random: times faster", ""),
    ):
        if found := source.get(part):
            rows.append([title, bar, f"{found['50 at once']:.2f}", f"{found['one by one']:.2f}"])
    return lines(["top 10 of 1M words, one thread", "target", "50 queries at once", "one by one"], rows)
