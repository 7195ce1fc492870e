"""Results have short texts, tables in notebooks, data frames and plots."""

import re
import sys

import numpy as np
import pytest

import manihash as mh
from manihash import display
from manihash.base import KMeansBase
from manihash.embeddings import PCA
from manihash.evaluation import evaluate_codes
from manihash.hashers import ITQ, LSH
from manihash.maintenance import Update


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.7461234567890123, "0.746"),
        (0.84, "0.84"),
        (1.0, "1"),
        (0, "0"),
        (0.0, "0"),
        (3.28e-15, "3.3e-15"),
        (0.0004, "0.0004"),
        (38.234, "38.2"),
        (145.0, "145"),
        (69000, "69000"),
        (1234567.89, "1234568"),
        (np.float32(0.123456), "0.123"),
        (np.int64(7), "7"),
        (True, "True"),
        (float("nan"), "nan"),
        (-0.7461, "-0.746"),
    ],
)
def test_numbers_have_the_digits_that_matter(value, text):
    assert display.number(value) == text


def test_long_lists_are_shortened_and_texts_are_escaped():
    assert display.shown(list(range(9))) == "[0, 1, 2, 3, 4, … 4 more]"
    assert display.shown(np.zeros((3, 4))) == "array of shape (3, 4)"
    assert "<b>" not in display.html("x", {"<b>": "<b>"}, ["<b>"], [{"<b>": "<b>"}])
    assert "… 8 more rows" in display.html("x", {}, table=[{"a": i} for i in range(20)])


@pytest.fixture(scope="module")
def results():
    """One result of each kind."""
    rng = np.random.default_rng(0)
    centers = 4 * rng.normal(size=(8, 12))
    y = rng.integers(8, size=600)
    X = centers[y] + rng.normal(size=(600, 12))
    X[590:] = X[:10]
    hasher = mh.IMH(n_bits=12, base=KMeansBase(40), embedding=PCA(), random_state=0).fit(X[50:])
    codes = hasher.encode(X)
    index = hasher.index(X)
    truth = mh.LabelTruth(y[:50], y[50:])
    return {
        "Choice": mh.choose(X[:200], n_bits=8, goal="ranking", labels=y[:200]),
        "Evaluation": evaluate_codes(codes[:50], codes[50:], truth, 12, curves=True),
        "IndexStats": index.stats(),
        "Drift": hasher.drift(X[:50] + 2),
        "Refit": ITQ(n_bits=4, random_state=0).fit(X[:300]).refit(X),
        "Duplicates": mh.dedup(codes, 12),
        "VerifiedDuplicates": mh.verified_duplicates(codes, 12, X, cosine=0.999),
        "HammingIndex": mh.HammingIndex(codes, 12),
        "Index": index,
        "Update": Update(200, 20, 1, 0.0123456789),
    }


NAMES = ["Choice", "Evaluation", "IndexStats", "Drift", "Refit", "Duplicates", "VerifiedDuplicates"]
NAMES += ["HammingIndex", "Index", "Update"]


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_short_text_and_a_table(results, name):
    text, html = repr(results[name]), results[name]._repr_html_()
    assert re.fullmatch(rf"{name}\(\w+=.*\)", text)
    assert len(text) < 330
    assert not re.search(r"\d\.0*[1-9]\d{3}", text + html)  # three digits that matter
    assert f"<strong>{name}</strong>" in html
    assert "<table>" in html


def test_the_text_of_an_index_names_its_parts(results):
    assert repr(results["HammingIndex"]).startswith("HammingIndex(rows=600, n_bits=12, distinct_codes=")
    assert repr(results["Index"]).endswith("hasher='IMH')")
    assert repr(results["Update"]) == "Update(n_rows=200, n_added=20, n_removed=1, changed=0.012)"


def test_data_frames_have_the_values_of_the_results(results):
    pytest.importorskip("pandas")
    found, evaluation = results["Duplicates"], results["Evaluation"]
    frame = found.to_frame()
    assert frame.groupby("group")["id"].apply(list).tolist() == [group.tolist() for group in found]
    assert evaluation.to_frame().loc["ranking", "map"] == evaluation.map
    assert results["Drift"].to_frame()["p_value"].to_dict() == results["Drift"].tests
    assert len(results["Choice"].to_frame()) == len(results["Choice"].table)
    curves = evaluation.curves.to_frame("radius")
    assert curves.loc[2, "recall"] == evaluation.curves.recall_within[2]
    assert evaluation.curves.to_frame().index[0] == 1
    with pytest.raises(ValueError, match='by must be "rank" or "radius"'):
        evaluation.curves.to_frame("bits")


def test_without_pandas_the_error_says_what_to_install(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'manihash\[notebook\]'"):
        results["Drift"].to_frame()


@pytest.fixture
def plt():
    """pyplot without a window."""
    matplotlib = pytest.importorskip("matplotlib")
    before = matplotlib.get_backend()
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")
    matplotlib.use(before)


def test_plots_draw_the_curves_of_the_results(results, plt):
    ax = results["Evaluation"].plot(label="ranking")
    assert np.array_equal(ax.lines[0].get_ydata(), results["Evaluation"].curves.precision_at)
    assert results["Evaluation"].plot("radius", ax=ax) is ax
    assert len(ax.lines) == 2
    assert np.array_equal(results["Drift"].plot().lines[1].get_xdata(), results["Drift"].quantiles[1])
    assert {line.get_label() for line in results["Choice"].plot().lines} >= {results["Choice"].recipe}
    assert len(results["VerifiedDuplicates"].plot().lines[0].get_xdata()) == len(
        results["VerifiedDuplicates"].curve
    )


def test_a_result_without_a_curve_says_how_to_get_one():
    codes = mh.pack([[0, 0], [0, 1]])
    with pytest.raises(ValueError, match="curves=True"):
        evaluate_codes(codes, codes, mh.LabelTruth([0, 1], [0, 1]), 2).plot()
    X = np.array([[1.0, 0], [1, 0.001]])
    with pytest.raises(ValueError, match="the radius was given"):
        mh.verified_duplicates(codes, 2, X, cosine=0.9, radius=2).plot()


def test_codes_of_two_parts_show_both_rankings():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 8)), rng.integers(3, size=200)
    hasher = mh.Hybrid(LSH(n_bits=8), ITQ(n_bits=8), random_state=0).fit(X)
    codes = hasher.encode(X)
    found = evaluate_codes(codes[:20], codes[20:], mh.LabelTruth(y[:20], y[20:]), 16, layout=hasher.layout_)
    assert "plain" in found._repr_html_()
    assert list(found.to_frame().index) == ["ranking", "plain"]
