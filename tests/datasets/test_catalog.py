"""Datasets by name: their splits, their files, and the error if a file is missing."""

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from manihash.datasets import CATALOG, dataset_names, gist, load_dataset, read, write
from manihash.datasets.loading import balanced_split
from manihash.errors import DataFileError, MissingDataError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["photo-sift1m", "tiny-gist960", "bigann10k"])
def test_the_error_of_a_private_data_set_says_what_to_put_where(name: str, empty_home: Path) -> None:
    assert not CATALOG[name].is_public
    with pytest.raises(MissingDataError, match="no public address") as caught:
        load_dataset(name)
    assert str(empty_home / CATALOG[name].files[0].path) in str(caught.value)


def test_without_a_data_folder_the_error_says_how_to_set_one(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MANIHASH_DATA")
    with pytest.raises(MissingDataError, match="in a folder that the environment variable MANIHASH_DATA"):
        load_dataset("bigann10k")


def _texmex_files(folder: Path, stem: str) -> dict[str, np.ndarray]:
    """Small files in the layout of corpus-texmex, with true nearest rows."""
    base, query = RNG.normal(size=(50, 8)).astype("f4"), RNG.normal(size=(7, 8)).astype("f4")
    nearest = np.argsort(((query[:, None] - base) ** 2).sum(axis=2), axis=1)[:, :10].astype("i4")
    (folder / stem).mkdir(parents=True)
    write(folder / stem / f"{stem}_base.fvecs", base)
    write(folder / stem / f"{stem}_query.fvecs", query)
    write(folder / stem / f"{stem}_groundtruth.ivecs", nearest)
    return {"base": base, "query": query, "nearest": nearest}


def _nearest(X: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(((queries[:, None] - X) ** 2).sum(axis=2), axis=1)[:, :k]


@pytest.mark.parametrize(("name", "stem"), [("sift1m", "sift"), ("gist1m", "gist")])
def test_unpacked_files_of_corpus_texmex_are_memory_mapped(name: str, stem: str, empty_home: Path) -> None:
    made = _texmex_files(empty_home, stem)
    dataset = load_dataset(name, shuffle=False)
    assert isinstance(dataset.X_train, np.memmap)
    assert dataset.y_train is dataset.y_test is None
    np.testing.assert_array_equal(dataset.X_train, made["base"])
    np.testing.assert_array_equal(dataset.X_test, made["query"])
    np.testing.assert_array_equal(dataset.neighbors, made["nearest"])


def test_nearest_rows_are_renumbered_in_the_random_order(empty_home: Path) -> None:
    _texmex_files(empty_home, "sift")
    dataset = load_dataset("sift1m", n_queries=4)
    assert dataset.neighbors is not None
    np.testing.assert_array_equal(dataset.neighbors, _nearest(dataset.X_train, dataset.X_test, 10))
    assert dataset.X_test.shape == (4, 8)
    other = load_dataset("sift1m", seed=1)
    assert not np.array_equal(other.X_train, dataset.X_train)
    part = load_dataset("sift1m", n_train=20)
    np.testing.assert_array_equal(part.X_train, dataset.X_train[:20])
    assert part.neighbors is None


def test_nearest_rows_beyond_the_database_are_refused(empty_home: Path) -> None:
    _texmex_files(empty_home, "sift")
    write(empty_home / "sift/sift_groundtruth.ivecs", np.array([[50]] * 7))
    with pytest.raises(DataFileError, match="beyond its 50 rows"):
        load_dataset("sift1m")


def test_cifar10_gist_is_computed_from_the_public_archive_once(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = RNG.integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    y = np.arange(60, dtype=np.uint8) % 10
    records = np.concatenate([y[:, None], images.transpose(0, 3, 1, 2).reshape(60, -1)], axis=1)
    folder = empty_home / "cifar-10-batches-bin"
    folder.mkdir()
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    for i, name in enumerate(names):
        records[10 * i : 10 * i + 10].tofile(folder / name)
    first = load_dataset("cifar10-gist", n_queries=10)
    queries, database = balanced_split(y, 10, 2013)
    expected = gist(images).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(first.X_train, expected[database])
    np.testing.assert_array_equal(first.y_test, y[queries])
    shutil.rmtree(folder)
    np.testing.assert_array_equal(load_dataset("cifar10-gist", n_queries=10).X_test, first.X_test)


def test_a_truncated_batch_of_cifar10_is_refused(empty_home: Path) -> None:
    folder = empty_home / "cifar-10-batches-bin"
    folder.mkdir()
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        (folder / name).write_bytes(bytes(3073 + 10))
    with pytest.raises(DataFileError, match=r"data_batch_1\.bin is truncated.*3083 bytes"):
        load_dataset("cifar10-gist")


def test_the_split_of_mnist_is_the_split_of_the_authors(data_folder: Path) -> None:
    golden = data_folder / "imh-golden/imh_golden.npz"
    y = np.concatenate([read(data_folder / f"mnist/{p}-labels-idx1-ubyte.gz") for p in ("train", "t10k")])
    queries, database = balanced_split(y, 1000, 2013)
    np.testing.assert_array_equal(queries, read(golden, key="test_idx"))
    np.testing.assert_array_equal(database, read(golden, key="train_idx"))


def test_the_split_does_not_depend_on_the_version_of_numpy() -> None:
    queries, database = balanced_split(np.arange(1000) % 10, 100, 2013)
    assert queries[:5].tolist() == [285, 970, 381, 514, 361]
    assert database[:5].tolist() == [939, 429, 903, 367, 951]


def test_mnist_has_69000_rows_and_1000_queries_in_the_order_of_imh_golden(data_folder: Path) -> None:
    dataset = load_dataset("mnist")
    golden = data_folder / "imh-golden/imh_golden.npz"
    assert dataset.X_train.shape == (69000, 784)
    assert dataset.X_train.dtype == dataset.X_test.dtype == np.uint8
    np.testing.assert_array_equal(dataset.y_train, read(golden, key="train_label"))
    np.testing.assert_array_equal(dataset.y_test, read(golden, key="test_label"))
    assert dataset.image_shape == (28, 28)
    assert dataset.is_papers_own


def test_cifar10_gist_has_59000_rows_and_1000_queries_in_float32(data_folder: Path) -> None:
    dataset = load_dataset("cifar10-gist")
    assert dataset.X_train.shape == (59000, 512)
    assert dataset.X_train.dtype == np.float32
    assert np.bincount(dataset.y_test).tolist() == [100] * 10
    assert "lost" in dataset.note


def test_bigann10k_has_the_true_nearest_rows(data_folder: Path) -> None:
    dataset = load_dataset("bigann10k", n_queries=5)
    assert dataset.neighbors is not None
    squares = ((dataset.X_test.astype(int)[:, None] - dataset.X_train) ** 2).sum(axis=2)
    brought = np.take_along_axis(squares, dataset.neighbors, axis=1)
    np.testing.assert_array_equal(brought, np.sort(squares, axis=1)[:, :100])


def test_data_sets_with_queries_keep_them(data_folder: Path) -> None:
    photo = load_dataset("photo-sift1m", n_train=1000)
    assert (photo.X_train.shape, photo.X_test.shape, photo.y_train) == ((1000, 128), (10000, 128), None)
    tiny = load_dataset("tiny-gist960", n_queries=100)
    assert tiny.y_train is not None
    assert tiny.y_test is not None
    assert (tiny.X_train.shape, len(tiny.y_train)) == ((20000, 960), 20000)
    assert (tiny.X_test.shape, len(tiny.y_test)) == ((100, 960), 100)


def test_digits_are_split_by_class(empty_home: Path) -> None:
    dataset = load_dataset("digits")
    assert (dataset.X_train.shape, dataset.X_test.shape) == ((1597, 64), (200, 64))
    assert dataset.y_test is not None
    assert np.bincount(dataset.y_test).tolist() == [20] * 10
    assert dataset.image_shape == (8, 8)
    again = load_dataset("digits")
    np.testing.assert_array_equal(again.X_train, dataset.X_train)


def test_every_row_is_a_query_or_in_the_database() -> None:
    y = RNG.integers(0, 7, 500)
    queries, database = balanced_split(y, 70, 3)
    np.testing.assert_array_equal(np.sort(np.concatenate([queries, database])), np.arange(500))
    assert np.bincount(y[queries]).tolist() == [10] * 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_queries": 15}, "multiple of 10"),
        ({"n_queries": 1790}, "smallest has 174 rows"),
        ({"n_queries": 0}, "at least 1"),
        ({"n_train": 1600}, r"1,600 exceeds the 1,597 rows"),
        ({"n_train": 0}, "at least 1"),
        ({"seed": -1}, "at least 0"),
    ],
)
def test_an_impossible_split_is_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset("digits", **options)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="choose among digits, mnist, cifar10-gist"):
        load_dataset("minst")
    assert set(dataset_names()) == set(CATALOG)


def test_the_catalog_has_the_checksums_of_the_data_folder(data_folder: Path) -> None:
    sums = dict(line.split()[::-1] for line in (data_folder / "SHA256SUMS").read_text().splitlines())
    listed = {file.path: file.sha256 for entry in CATALOG.values() for file in entry.files}
    assert len(listed.keys() & sums.keys()) == 8
    assert all(listed[path] == sums[path] for path in listed.keys() & sums.keys())


def test_importing_datasets_loads_no_heavy_library() -> None:
    heavy = {"sklearn", "h5py", "pooch", "requests", "platformdirs"}
    program = f"import sys, manihash.datasets; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_damaged_file_of_mnist_is_refused_before_it_is_read(empty_home: Path) -> None:
    (empty_home / "mnist").mkdir()
    (empty_home / CATALOG["mnist"].files[0].path).write_bytes(gzip.compress(b"not these"))
    with pytest.raises(DataFileError, match="not the published file"):
        load_dataset("mnist")


def test_the_text_of_a_dataset_is_one_line():
    text = repr(load_dataset("digits"))
    assert text == "Dataset(name='digits', rows=1597, queries=200, columns=64, classes=10)"
