"""A file of another kind is named in the message, with the call that opens it."""

import pickle

import numpy as np
import pytest

from manihash import HammingIndex, load, open_vectors
from manihash.errors import ModelFileError
from manihash.hashers import LSH
from manihash.search import DamagedIndexError

X = np.random.default_rng(0).normal(size=(50, 8))


@pytest.fixture
def files(tmp_path):
    hasher = LSH(n_bits=16, random_state=0).fit(X)
    hasher.save(tmp_path / "model.mhash")
    HammingIndex(hasher.encode(X), 16).save(tmp_path / "codes.mhx")
    np.save(tmp_path / "codes.npy", hasher.encode(X))
    np.savez(tmp_path / "codes.npz", codes=hasher.encode(X))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(hasher))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("codes.npy", "codes.npy is an npy file, not a model file: give a file that save"),
        ("codes.npz", "codes.npz is a zip or npz file, not a model file"),
        ("model.pkl", "model.pkl is a pickle file, not a model file"),
    ],
)
def test_load_names_what_the_file_is(files, name, message):
    with pytest.raises(ModelFileError, match=message):
        load(files / name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.mhash", "model.mhash is a model file, not an index file: open it with manihash.load"),
        ("codes.npy", r"codes.npy is an npy file, not an index file.*HammingIndex\(codes, n_bits\) builds"),
    ],
)
def test_an_index_names_what_the_file_is(files, name, message):
    with pytest.raises(DamagedIndexError, match=message):
        HammingIndex.load(files / name)


@pytest.mark.parametrize(("name", "call"), [("model.mhash", "manihash.load"), ("codes.mhx", "manihash.load")])
def test_a_model_or_an_index_in_place_of_vectors_is_named(files, name, call):
    with pytest.raises(ValueError, match=f"not a file of vectors or codes: open it with {call}"):
        open_vectors(files / name)


def test_the_extension_decides_about_other_files(files):
    (files / "model.pkl").rename(files / "model.bin")
    with pytest.raises(ValueError, match=r"unknown format of .*model.bin: the extension must be"):
        open_vectors(files / "model.bin")
