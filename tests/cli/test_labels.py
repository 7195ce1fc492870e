"""Files of labels: which line belongs to which row, and which labels are the same class."""

import json

import numpy as np
import pytest
from command import run, stderr_line

LDA = ["--recipe=ldahash", "--bits=8", "-o", "model.mhash"]


@pytest.fixture(autouse=True)
def _in_folder(folder):
    """Work in the folder of vectors."""


def fitted(labels: str) -> bytes:
    """Return the codes of a model that was fitted with labels."""
    run("fit", "X.npy", "--labels", labels, *LDA)
    run("encode", "model.mhash", "X.npy", "-o", "codes.npy")
    return np.load("codes.npy").tobytes()


@pytest.fixture
def y():
    return np.load("y.npy")


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n \n"])
@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_blank_last_lines_do_not_shift_the_labels(folder, y, end, suffix):
    (folder / f"y.{suffix}").write_text("\n".join(map(str, y)) + end)
    assert fitted(f"y.{suffix}") == fitted("y.npy")


def test_a_blank_last_line_does_not_change_an_evaluation(folder, y):
    (folder / "y.csv").write_text("\n".join(map(str, y)) + "\n\n")
    options = ["--queries=20", "--recipe=lsh", "--bits=16", "--json"]
    a, b = (
        json.loads(run("evaluate", "--vectors=X.npy", f"--labels={name}", *options).stdout)["rows"][0]["map"]
        for name in ("y.npy", "y.csv")
    )
    assert a == b


@pytest.mark.parametrize("first", ["3", "7", "3.0"])
def test_one_label_too_many_is_refused_if_the_first_line_can_be_a_label(folder, y, first):
    (folder / "y.csv").write_text("\n".join([first, *map(str, y)]))
    assert "301 labels for 300 rows" in stderr_line(run("fit", "X.npy", "--labels=y.csv", *LDA, code=2))


def test_a_header_of_string_labels_must_be_a_usual_name_or_given(folder, y):
    names = [f"class {label}" for label in y]
    (folder / "y.csv").write_text("\n".join(["animal", *names]))
    assert "--header" in stderr_line(run("fit", "X.npy", "--labels=y.csv", *LDA, code=2))
    run("fit", "X.npy", "--labels=y.csv", "--header", *LDA)
    (folder / "y.csv").write_text("\n".join(["label", *names]))
    run("fit", "X.npy", "--labels=y.csv", *LDA)


def test_numbers_with_and_without_decimal_point_and_quotes_are_one_class(folder, y):
    forms = ("{}", "{}.0", '"{}"', '"{}.0"', " {} ")
    (folder / "y.csv").write_text("\n".join(forms[i % 5].format(label) for i, label in enumerate(y)))
    assert fitted("y.csv") == fitted("y.npy")


@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_quoted_and_plain_names_are_one_class(folder, y, suffix):
    names = np.array(list("abcdef"))[y]
    np.save("names.npy", names)
    quoted = [f'"{name}"' if i % 2 else name for i, name in enumerate(names)]
    (folder / f"names.{suffix}").write_text("\n".join(quoted))
    assert fitted(f"names.{suffix}") == fitted("names.npy") == fitted("y.npy")


@pytest.mark.parametrize("missing", ["-1", "-1.0", '""', "nan"])
def test_minus_one_in_text_is_no_label(folder, y, missing):
    hidden = np.where(np.arange(300) % 3 == 0, -1, y)
    np.save("hidden.npy", hidden)
    (folder / "y.csv").write_text("\n".join(missing if label == -1 else str(label) for label in hidden))
    assert fitted("y.csv") == fitted("hidden.npy")


def test_minus_one_beside_names_is_no_label(folder, y):
    names = np.where(np.arange(300) % 3 == 0, "-1", np.array(list("abcdef"))[y])
    (folder / "names.csv").write_text("\n".join(names))
    np.save("names.npy", names)
    np.save("hidden.npy", np.where(np.arange(300) % 3 == 0, -1, y))
    assert fitted("names.csv") == fitted("names.npy") == fitted("hidden.npy")


def test_queries_are_drawn_from_the_rows_with_a_label(folder, y):
    np.save("hidden.npy", np.where(np.arange(300) < 250, -1, y))
    result = run("evaluate", "--vectors=X.npy", "--labels=hidden.npy", "--recipe=lsh", "--bits=8")
    assert "5 random queries" in result.stdout
    assert "no relevant row" not in result.stderr


def test_queries_without_a_label_are_left_out(folder):
    np.save("yq.npy", np.where(np.arange(20) < 5, -1, np.load("yq.npy")))
    files = ["--train=X.npy", "--labels=y.npy", "--test=Q.npy", "--test-labels=yq.npy"]
    result = run("evaluate", *files, "--recipe=lsh", "--bits=8")
    assert "5 queries have no label" in stderr_line(result)
    assert "15 queries" in result.stdout


def test_the_index_that_pandas_writes_beside_labels_is_ignored(folder, y):
    (folder / "y.csv").write_text(",label\n" + "\n".join(f"{i},{label}" for i, label in enumerate(y)))
    assert fitted("y.csv") == fitted("y.npy")


def test_labels_that_are_not_utf8_are_refused(folder):
    (folder / "y.csv").write_bytes(b"caf\xe9\n" * 300)
    assert "not UTF-8" in stderr_line(run("fit", "X.npy", "--labels=y.csv", *LDA, code=2))
