"""Masked arrays are refused, as NaN is: the number behind a mask, such as -9999, is not data."""

import numpy as np
import pytest

from manihash import (
    EuclideanTruth,
    HammingIndex,
    LabelTruth,
    choose,
    dedup,
    evaluate,
    known_rows,
    pack,
    recipe,
    unpack,
    verified_duplicates,
)
from manihash.codes import from_vespa
from manihash.errors import BadRowsError
from manihash.evaluation import evaluate_codes
from manihash.hashers import ITQ, LSH
from manihash.search import Rerank, asymmetric_distances

X = np.random.default_rng(0).normal(size=(300, 6))
CODES = np.zeros((300, 1), np.uint8)


@pytest.fixture
def masked():
    """Rows with a gap in row 17."""
    rows = np.ma.masked_array(X.copy(), mask=np.zeros(X.shape, bool))
    rows[17, 2] = -9999
    rows[17, 2] = np.ma.masked
    return rows


class Reader:
    """Rows that are read in slices, as masked arrays: a variable of a netCDF file."""

    def __init__(self, rows):
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, part):
        return self.rows[part]


CALLS = {
    "fit": lambda rows: LSH(8, random_state=0).fit(rows),
    "encode": lambda rows: ITQ(4, random_state=0).fit(X).encode(rows),
    "encode few": lambda rows: ITQ(4, random_state=0).fit(X).encode(rows[15:20]),
    "drift": lambda rows: recipe("imh-pca", n_bits=4, base__size=20, random_state=0).fit(X).drift(rows),
    "choose": lambda rows: choose(rows, n_bits=4),
    "truth": lambda rows: EuclideanTruth(X[:3], rows),
    "duplicates": lambda rows: verified_duplicates(CODES, 4, rows, cosine=0.9, radius=0),
    "known rows": lambda rows: known_rows(ITQ(4, random_state=0).fit(X).index(X), rows, 1),
    "bits": lambda rows: pack(rows > 0),
    "rerank": lambda rows: HammingIndex(CODES, 4).search(CODES[:1], 3, rerank=Rerank(X[:1], rows)),
}


@pytest.mark.parametrize("call", CALLS)
def test_masked_rows_are_refused(masked, call):
    with pytest.raises(BadRowsError, match=r"masked values: the first such row is (17|2)\. Remove"):
        CALLS[call](masked)


@pytest.mark.parametrize("call", ["fit", "encode"])
def test_masked_rows_of_a_reader_and_of_lists_are_refused(masked, call):
    for rows in (Reader(masked), list(masked)):
        with pytest.raises(BadRowsError, match=r"masked values: the first such row is 17"):
            CALLS[call](rows)


def test_masked_labels_and_ids_are_refused():
    y = np.ma.masked_array(np.arange(300) % 3, mask=np.arange(300) == 5)
    with pytest.raises(ValueError, match="y contains masked values: the first such row is 5"):
        recipe("ksh", n_bits=4).fit(X, y)
    with pytest.raises(ValueError, match="masked values: the first such row is 5"):
        LabelTruth(y, y)
    with pytest.raises(ValueError, match="ids contains masked values"):
        HammingIndex(CODES, 4, ids=np.ma.masked_array(np.arange(300), mask=np.arange(300) == 5))


def test_masked_codes_are_refused():
    codes = np.ma.masked_array(CODES, mask=np.arange(300)[:, None] == 5)
    truth = LabelTruth(np.zeros(300), np.zeros(300))
    calls = [
        lambda: HammingIndex(codes, 4),
        lambda: HammingIndex(CODES, 4).search(codes, 3),
        lambda: dedup(codes, 4),
        lambda: evaluate(codes, CODES, truth, 4),
        lambda: unpack(codes, 4),
    ]
    for call in calls:
        with pytest.raises(BadRowsError, match="masked values: the first such row is 5"):
            call()


def test_masked_values_of_queries_are_refused():
    values = np.ma.masked_array(np.ones((3, 4)), mask=np.arange(12).reshape(3, 4) == 5)
    index, truth = HammingIndex(CODES, 4), LabelTruth(np.zeros(3), np.zeros(300))
    masked_code = np.ma.masked_array(CODES[0], mask=True)
    calls = [
        lambda: index.search(CODES[:3], 3, asymmetric=values),
        lambda: asymmetric_distances(values, CODES, 4),
        lambda: evaluate_codes(CODES[:3], CODES, truth, 4, values=values),
        lambda: from_vespa(values.astype(np.int8)[:, 1:2], 4),
        lambda: index.bucket(masked_code),
        lambda: ITQ(4, random_state=0).fit(X).index(X).bucket(masked_code),
    ]
    for call in calls:
        with pytest.raises(BadRowsError, match="masked values"):
            call()


def test_a_masked_array_without_masked_values_is_an_array(masked):
    whole = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    model = LSH(8, random_state=0).fit(whole)
    assert np.array_equal(model.encode(whole), LSH(8, random_state=0).fit(X).encode(X))
    assert np.array_equal(model.encode(whole[:3]), model.encode(X[:3]))
