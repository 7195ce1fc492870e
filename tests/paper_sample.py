"""A report in all its items, from made-up values: what the tests of the page and a look at it are made of."""

from math import exp

import numpy as np
from numpy.typing import NDArray

from manihash.hashers.recipe_table import RECIPES
from manihash.pages.curves import Curve, Plot, Value
from reproduction.paper.section import Cell, Claim, Pictures, Row, Section, Strip, Table

MADE_UP = "Made-up values, to look at the page: nothing here was measured."
METHODS = ("imh-tsne", "imh-le", "agh", "sth", "itq", "bre", "sph", "sh", "pcah")
EMBEDDINGS = (
    "imh-tsne",
    "imh-sne",
    "imh-ee",
    "imh-le",
    "imh-le-b",
    "imh-lle",
    "imh-isomap",
    "imh-dm",
    "imh-pca",
)
LENGTHS = (16, 24, 32, 48, 64, 96, 128)
ABOUT = {
    "Processor": "Example Processor 9000 at 2.1 GHz, 2 cores, 8 GiB of memory",
    "Date": "2026-01-02",
    "Commit": "0123456789abcdef0123456789abcdef01234567",
    "Seeds": "0, 1, 2",
    "Data": "MNIST (69,000 / 1,000), CIFAR-10 as 512-D GIST (59,000 / 1,000), photo-sift1m for SIFT1M. "
    + MADE_UP,
}


def _value(mean: float, i: int) -> Value:
    return Value(round(mean, 3), round(0.04 * mean, 3), 3) if i % 3 else Value(round(mean, 3))


def _rising(methods: tuple[str, ...], top: float, lengths: tuple[int, ...] = LENGTHS) -> tuple[Curve, ...]:
    """The first method highest; some rise and some fall with length."""
    return tuple(
        Curve(
            RECIPES[method].title,
            method,
            lengths,
            tuple(
                _value(top * exp(-0.16 * i) * (1 + (0.1 - 0.05 * (i % 3)) * np.log2(bits / 16)), i)
                for bits in lengths
            ),
        )
        for i, method in enumerate(methods)
    )


def _falling(methods: tuple[str, ...], top: float) -> tuple[Curve, ...]:
    """All end near zero, as F1 does; one method stops early."""
    curves = []
    for i, method in enumerate(methods):
        points = [_value(top * exp(-0.1 * i - bits / (70 - 6 * i)), i) for bits in LENGTHS]
        y = tuple(
            None if method == "sh" and bits > 64 else v for bits, v in zip(LENGTHS, points, strict=True)
        )
        curves.append(Curve(RECIPES[method].title, method, LENGTHS, y))
    return tuple(curves)


def _retrieved(methods: tuple[str, ...], top: float) -> tuple[Curve, ...]:
    n = tuple(float(x) for x in np.linspace(100, 60_000, 60).round())
    return tuple(
        Curve(
            RECIPES[method].title,
            method,
            n,
            tuple(Value(round(10 + (top - 5 * i) * exp(-x / (30_000 - 2_500 * i)), 3)) for x in n),
        )
        for i, method in enumerate(methods)
    )


def _picture(seed: int, *shape: int) -> NDArray[np.uint8]:
    """A blot: a ring or a bar of ink, and some noise."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    middle = shape[0] / 2 + rng.normal(0, 1, 2)
    radius = np.hypot(rows - middle[0], columns - middle[1])
    ink = np.exp(-((radius - shape[0] * rng.uniform(0.15, 0.35)) ** 2) / 4)
    gray = 255 * (1 - ink) - rng.uniform(0, 20, shape[:2])
    if len(shape) == 2:
        return gray.clip(0, 255).astype(np.uint8)
    return (gray[:, :, None] * rng.uniform(0.4, 1, 3)).clip(0, 255).astype(np.uint8)


def _strip(title: str, seed: int, *shape: int, answers: int = 10) -> Strip:
    right = (None, *((seed + i) % 4 != 0 for i in range(answers)))
    return Strip(title, tuple(_picture(seed + i, *shape) for i in range(answers + 1)), right)


def _claims(id: str, place: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{id}-best",
            place,
            "IMH-LE and IMH-tSNE perform best in all cases, and IMH-tSNE performs above IMH-LE.",
            "IMH-tSNE 19.2, 19.4 and 19.6 %, IMH-LE 17.0, 17.4 and 17.8 %, the best of the others "
            "(ITQ) 16.9 % at 32, 64 and 96 bits.",
            True,
        ),
        Claim(
            f"{id}-worst",
            place,
            "PCAH and SH perform worst in both MAP and F1 at every code length.",
            "PCAH is last at 6 of 7 lengths; at 16 bits STH (12.1 %) is below it (12.4 %).",
            False,
            "A made-up reason that is as long as real ones are: STH learns from 5,000 rows, and at 16 bits "
            "the median thresholds leave codes that are nearly equal, so its ranking is decided by ties.",
        ),
        Claim(
            f"{id}-time",
            "Section 4.3",
            "Training is linear in n.",
            "",
            None,
            "Run without --quick to measure it.",
        ),
    )


def _table1() -> Table:
    rows = []
    for i, (title, method) in enumerate((("IMH-LE", "imh-le"), ("IMH-tSNE", "imh-tsne"), ("AGH", "agh"))):
        cells = tuple(
            Cell(Value(17.04 + 1.2 * i + 0.3 * j, 0.21, 3), 17.4 + 1.1 * i + 0.3 * j) for j in range(6)
        )
        rows.append(Row(title, cells, method))
    columns = tuple(f"{base}, {bits}" for bits in (32, 64, 96) for base in ("random", "k-means"))
    return Table(
        "tab1", "MAP of two ways to choose the base set, by code length in bits", columns, tuple(rows), "%"
    )


def _table2() -> Table:
    rows = [
        Row(
            RECIPES[method].title,
            (
                Cell(Value(8.412 - i, 0.07, 3)) if method in ("imh-tsne", "imh-le", "agh") else Cell(None),
                Cell(Value(3.1 + 11.7 * i, 0.2, 3), 20.1 + i),
                Cell(None, 26.1 + i) if method == "bre" else Cell(Value(3.4 + 22 * i, 0.2, 3), 26.1 + i),
                Cell(Value(0.00042 * (1 + i), None, 1), 0.00013),
                Cell(Value(1.06 + i)),
                f"{1.1 + i:.1f} products",
            ),
            method,
        )
        for i, method in enumerate(METHODS)
    ]
    columns = ("k-means", "training, 64", "training, 128", "query, 64", "per product", "note")
    return Table(
        "tab2", "Times on MNIST, by code length in bits", columns, tuple(rows), "seconds", (1, 1, 1, 6, 1, 0)
    )


def sections() -> tuple[Section, ...]:
    """Every kind of part: tables with and without the paper's numbers, curves, pictures, claims, gaps."""
    bits, map_label = "code length, bits", "MAP, %"
    scan = (("l2 scan", 13.4),)
    m = (100.0, 200.0, 400.0, 800.0, 1600.0)
    by_m = tuple(
        Curve(title, method, m, tuple(Value(level + 0.002 * x**0.9, 0.3, 3) for x in m))
        for title, method, level in (
            ("IMH-tSNE", "imh-tsne", 19),
            ("IMH-LE", "imh-le", 17),
            ("AGH", "agh", 15),
        )
    )
    theorem = (
        Curve("error", "", m, tuple(Value(3 / x) for x in m)),
        Curve("bound of Theorem 1", "", m, tuple(Value(40 / x) for x in m)),
    )
    ours = ("imh-tsne", "imh-tsne-rotated", "agh2", "imh-supervised", "ksh", "itq", "sign", "mahalanobis-lsh")
    cifar = "GIST descriptors (512-D) of CIFAR-10, 59,000 rows to learn from and search, 1,000 queries."
    return (
        Section(
            "fig1",
            "Figure 1: neighbors before and after the embedding",
            MADE_UP,
            "300 digits of MNIST.",
            (
                Pictures(
                    "fig1",
                    "The first answers to four queries by four ways of searching.",
                    tuple(
                        _strip(f"query {q}: {way}", 40 * q + 7 * w, 28, 28)
                        for q in range(1, 5)
                        for w, way in enumerate(
                            ("l2 on 784-D", "LSH, 128 bits", "l2 on 48-D", "Hamming, 48 bits")
                        )
                    ),
                ),
            ),
        ),
        Section(
            "fig2",
            "Figure 2: embeddings compared within IMH",
            MADE_UP,
            cifar,
            (
                Plot(
                    "fig2",
                    "MAP of nine embeddings.",
                    bits,
                    map_label,
                    _rising((*EMBEDDINGS, "pcah"), 20),
                    scan,
                ),
            ),
            _claims("fig2", "Section 4.1.1, Figure 2"),
        ),
        Section(
            "fig3",
            "Figure 3: base size and neighbors",
            MADE_UP,
            cifar,
            (
                Plot(
                    "fig3-m",
                    "MAP against the base size at 64 bits.",
                    "base size m",
                    map_label,
                    by_m,
                    log_x=True,
                ),
            ),
        ),
        Section(
            "tab1",
            "Table 1: random against k-means bases",
            MADE_UP,
            cifar,
            (_table1(),),
            _claims("tab1", "Table 1"),
        ),
        Section(
            "fig4",
            "Figure 4: nine methods on CIFAR-10",
            MADE_UP,
            cifar,
            (
                Plot("fig4-map", "MAP of nine methods.", bits, map_label, _rising(METHODS, 20), scan),
                Plot(
                    "fig4-f1",
                    "F1 within Hamming radius 2.",
                    bits,
                    "F1 within radius 2, %",
                    _falling(METHODS, 30),
                ),
            ),
            _claims("fig4", "Section 4.1.2, Figure 4"),
        ),
        Section(
            "fig5",
            "Figure 5: precision and recall at 64 bits",
            MADE_UP,
            cifar,
            (
                Plot(
                    "fig5-precision",
                    "Precision.",
                    "points retrieved",
                    "precision, %",
                    _retrieved(METHODS, 60),
                ),
                Plot(
                    "fig5-recall",
                    "Recall.",
                    "points retrieved",
                    "recall, %",
                    _retrieved(METHODS[::-1], 80),
                ),
            ),
        ),
        Section(
            "fig6",
            "Figure 6: a query's results",
            MADE_UP,
            "MNIST images stand in for those of CIFAR-10.",
            (
                Pictures(
                    "fig6",
                    "ResultFolder at 32 bits.",
                    tuple(
                        _strip(RECIPES[method].title, 300 + 50 * i, 32, 32, 3, answers=24)
                        for i, method in enumerate(("imh-tsne", "sh", "agh", "sth"))
                    ),
                ),
            ),
        ),
        Section(
            "tab2",
            "Table 2: training and test times",
            MADE_UP,
            "MNIST.",
            (_table2(),),
            _claims("tab2", "Table 2"),
        ),
        Section(
            "fig8",
            "Figure 8: SIFT1M",
            MADE_UP,
            "photo-sift1m stands in for SIFT1M.",
            missing=(
                "SIFT1M is not at hand: put sift_base.fvecs and sift_query.fvecs into the folder that "
                "MANIHASH_DATA names, then run manihash paper --only fig8.",
            ),
        ),
        Section(
            "thm1",
            "Theorem 1: the prototype algorithm",
            MADE_UP,
            "MNIST.",
            (
                Plot(
                    "thm1",
                    "Error and bound.",
                    "prototypes n'",
                    "mean squared error of the embedding, and the theorem's bound for it",
                    theorem,
                    log_x=True,
                    log_y=True,
                ),
            ),
        ),
        Section(
            "ours",
            "Beyond the paper",
            MADE_UP,
            "MNIST.",
            (
                Plot(
                    "ours-map",
                    "MAP of what goes beyond the paper.",
                    bits,
                    map_label,
                    _rising(ours, 80),
                    (("l2 scan, raw pixels", 41.1), ("l2 scan, unit length", 42.6)),
                ),
            ),
        ),
    )
