"""The numbers of the report against brute force, and the page for images and texts."""

import re
from dataclasses import replace
from datetime import date
from itertools import pairwise

import numpy as np
import pytest

from manihash import LabelTruth
from manihash.web.explore.exploration import prepare
from manihash.web.explore.measure import answers_by_code, first_answers, radius_counts
from manihash.web.explore.report import _lead, report_page
from manihash.web.explore.rows import explored_rows


@pytest.fixture(scope="module")
def labeled(exploration, digits):
    """The digits where every row has a label."""
    rows = explored_rows("digits", digits[0], labels=digits[1], pictures=exploration.rows.pictures)
    return prepare(rows, [("imh", exploration.models[0].hasher)], seed=0)


def test_answers_within_a_radius_are_counted_as_by_brute_force(labeled, digits):
    model, y = labeled.models[0], digits[1]
    queries = np.array([0, 17, 30])
    counts = radius_counts(labeled, model, queries)
    bits = np.unpackbits(model.codes, axis=1)[:, :20].astype(int)
    for radius in (0, 2, 5, 20):
        found, precision, recall = [], [], []
        for row in queries:
            near = np.flatnonzero(np.abs(bits - bits[row]).sum(axis=1) <= radius)
            near = near[near != row]
            right = (y[near] == y[row]).sum()
            found.append(len(near))
            precision += [right / len(near)] if len(near) else []
            recall.append(right / ((y == y[row]).sum() - 1))
        assert counts.answers[radius] == pytest.approx(np.mean(found))
        assert counts.recall[radius] == pytest.approx(np.mean(recall))
        assert counts.precision[radius] == pytest.approx(np.mean(precision))


def test_first_answers_are_counted_as_by_brute_force(labeled, digits):
    X, y = digits[0].astype(np.float64), digits[1]
    queries = np.arange(0, 400, 40)
    found = first_answers(labeled, labeled.models[0], queries)
    assert found.depths == (10, 50, 100)
    expected = []
    for row in queries:
        distance = np.square(X - X[row]).sum(axis=1)
        distance[row] = np.inf
        expected.append((y[np.argsort(distance, kind="stable")[:10]] == y[row]).mean())
    assert found.right_by_vectors[0] == pytest.approx(np.mean(expected))


def test_the_headline_has_an_interval_and_says_whether_the_queries_were_held_out(labeled):
    model = labeled.models[0]
    queries = np.arange(0, 400, 40)
    found = first_answers(labeled, model, queries)
    shares = [found_share(labeled, model, int(row)) for row in queries]
    assert found.errors[0] == pytest.approx(1.96 * np.std(shares, ddof=1) / np.sqrt(10))
    known = _lead(labeled, model, found, 10)
    assert "10 queries, which the model may have been fitted to," in known
    held_out = _lead(replace(labeled, held_out=queries), model, found, 10)
    interval = rf"{100 * np.mean(shares):.1f} ± {100 * found.errors[0]:.1f} % have the label"
    assert f"answers to 10 held-out queries {interval}" in held_out


def found_share(exploration, model, row):
    """The share of the first ten answers by code that have the label of a row."""
    numbers = exploration.rows.labels.numbers
    return (numbers[answers_by_code(model, row, 10)] == numbers[row]).mean()


def test_a_query_is_not_among_its_answers(labeled):
    for row in range(0, 400, 57):
        ids = answers_by_code(labeled.models[0], row, 10)
        assert len(ids) == 10
        assert row not in ids


def test_answers_within_a_radius_are_those_of_the_index(labeled, digits):
    model, y = labeled.models[0], digits[1]
    truth = LabelTruth(y[:50], y)
    within = model.index.within(model.codes[:50], 2)
    right = [(y[within[2][a:b]] == y[i]).sum() for i, (a, b) in enumerate(pairwise(within[0]))]
    counts = radius_counts(labeled, model, np.arange(50))
    assert counts.answers[2] == pytest.approx(np.diff(within[0]).mean() - 1)
    assert counts.recall[2] == pytest.approx(np.mean((np.array(right) - 1) / (truth.counts - 1)))


def test_the_page_has_every_section_and_requests_nothing(exploration):
    page = report_page(exploration, date(2026, 1, 2), "manihash report <X>")
    for section in ("map", "answers", "radius", "statistics", "bits", "buckets", "duplicates", "facts"):
        assert f'<section id="{section}">' in page
    assert set(re.findall(r'(?:src|href)="(?!data:|#)([^"]*)"', page)) == {"explore.html"}
    assert "manihash report &lt;X&gt;" in page
    assert page.count("<article>") == 20


def test_texts_and_rows_without_labels_have_a_page(exploration, digits):
    texts = [f"<i>text {i}" for i in range(400)]
    rows = explored_rows("digits", digits[0], texts=texts)
    page = report_page(prepare(rows, [("lsh", exploration.models[1].hasher)], seed=0), date.today(), "x")
    assert "&lt;i&gt;text 0" in page
    assert "<i>text" not in page
    assert "there are no labels" in page


def test_rows_without_pictures_are_shown_by_number_label_and_values(exploration, digits):
    X, y = digits
    rows = explored_rows("digits", X, labels=y)
    page = report_page(prepare(rows, [("lsh", exploration.models[1].hasher)], seed=0), date.today(), "x")
    values = ", ".join(f"{value:.3g}" for value in X[0, :6])
    assert f"<h3>row 0, label {y[0]}: {values}, …</h3>" in page
    assert "data:image/png" not in page
