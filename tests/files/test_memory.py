"""A full memory is reported as such, never as a damaged file."""

import errno
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from manihash import load, open_vectors
from manihash.files.formats import read, write
from manihash.hashers import LSH

X = np.random.default_rng(0).normal(size=(20, 4))


def no_memory(*args: object, **options: object) -> None:
    raise MemoryError("Unable to allocate 8 GiB")


@pytest.mark.parametrize(
    ("name", "parser"),
    [
        ("X.npy", "numpy.lib.format.open_memmap"),
        ("X.npz", "zipfile.ZipFile"),
        ("X.hdf5", "h5py.File"),
        ("X.parquet", "pyarrow.parquet.ParquetFile"),
        ("X.csv", "numpy.loadtxt"),
        ("X.idx", "numpy.memmap"),
        ("X.idx.gz", "gzip.open"),
    ],
)
def test_a_full_memory_is_not_a_damaged_file(name: str, parser: str, tmp_path: Path) -> None:
    pytest.importorskip(parser.partition(".")[0])
    write(tmp_path / name, X)
    for function in (read, open_vectors):
        with patch(parser, no_memory), pytest.raises(MemoryError, match="Unable to allocate"):
            function(tmp_path / name)


def test_a_file_that_cannot_be_mapped_is_not_a_damaged_file(tmp_path: Path) -> None:
    write(tmp_path / "X.npy", X)
    error = OSError(errno.ENOMEM, "Cannot allocate memory")
    with patch("numpy.lib.format.open_memmap", side_effect=error), pytest.raises(MemoryError, match="map"):
        read(tmp_path / "X.npy")


def test_a_model_that_does_not_fit_in_memory_is_not_a_damaged_file(tmp_path: Path) -> None:
    LSH(8, random_state=0).fit(X).save(tmp_path / "m.mhash")
    with (
        patch("manihash.files.model_format.load_file", side_effect=MemoryError()),
        pytest.raises(MemoryError),
    ):
        load(tmp_path / "m.mhash")
