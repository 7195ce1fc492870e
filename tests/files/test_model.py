"""Model files: a loaded model equals the saved one, or the file is refused."""

import hashlib
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from command import full_disk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from public_names import public_names
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.manifold import Isomap

from manihash import IMH, Hybrid, InductiveEmbedding, load, recipe, recipe_names
from manihash.base import KMeansBase
from manihash.code_layout import FIRST_BITS
from manihash.embeddings import PCA, TSNE
from manihash.errors import ModelFileError
from manihash.estimator import RowEstimator
from manihash.files import model_format, registry
from manihash.files.model import ForeignPart
from manihash.hashers import E2LSH, ITQ, KLSH, LSH, ProductQuantizer


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture(scope="module")
def model(digits):
    return IMH(5, KMeansBase(8), PCA(), n_neighbors=3, random_state=0).fit(digits[:200, :10])


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "model.mhash")
    return tmp_path / "model.mhash"


def parts_of(folder):
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


def write_raw(path, document, arrays=None, **metadata):
    """Write a file with a correct checksum and any document, as an attacker could."""
    arrays = arrays or {"x": np.zeros(1)}
    text = document if isinstance(document, str) else json.dumps(document)
    known = {"version": 1, "document": text, "sha256": model_format._checksum(text, arrays)}
    save_file(arrays, path, {"manihash": json.dumps({**known, **metadata})})


@pytest.mark.parametrize("name", recipe_names())
def test_a_loaded_recipe_has_the_same_codes_and_options(digits, name, tmp_path):
    hasher = recipe(name, n_bits=16 if name in ("pq", "opq") else 9, random_state=3)
    options = {"base__size": 40, "embedding__n_iter": 5}
    hasher.set_params(**{key: value for key, value in options.items() if key in hasher.get_params()})
    digits = digits[:600]
    hasher.fit(digits, load_digits().target[:600])
    hasher.save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    assert type(loaded) is type(hasher)
    assert repr(loaded) == repr(hasher)
    for X in (digits, digits.astype(np.float32)):
        assert np.array_equal(loaded.embed(X), hasher.embed(X))
        assert np.array_equal(loaded.encode(X), hasher.encode(X))
    assert {name for name in vars(loaded) if name.endswith("_")} == {
        name for name in vars(hasher) if name.endswith("_")
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loaded_inductive_embedding_has_the_same_coordinates(digits, dtype, tmp_path):
    X = digits.astype(dtype)
    model = InductiveEmbedding(3, KMeansBase(40), TSNE(n_iter=5), bandwidth=9.5, random_state=0).fit(X)
    model.save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    assert repr(loaded) == repr(model)
    assert loaded.base_points_.dtype == dtype
    assert np.array_equal(loaded.transform(X), model.transform(X))
    assert loaded.loss_ == model.loss_


@pytest.mark.parametrize("given_type", [np.float64, np.float32, ">f8", np.uint8, list])
def test_a_base_given_as_an_array_is_loaded_and_can_be_fitted_again(digits, given_type, tmp_path):
    base = digits[:20].tolist() if given_type is list else digits[:20].astype(given_type)
    hasher = IMH(3, base, PCA(), random_state=0).fit(digits)
    hasher.save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    assert np.array_equal(np.asarray(loaded.base), base)
    assert np.array_equal(loaded.fit(digits).encode(digits), hasher.encode(digits))


def test_a_foreign_part_is_stored_as_text_and_only_needed_to_fit_again(digits, tmp_path):
    hasher = IMH(3, KMeansBase(40), Isomap(n_neighbors=7), random_state=0).fit(digits)
    hasher.save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    assert isinstance(loaded.embedding, ForeignPart)
    assert "Isomap(n_neighbors=7)" in repr(loaded.embedding)
    assert np.array_equal(loaded.encode(digits), hasher.encode(digits))
    with pytest.raises(ValueError, match=r"fitted with Isomap.*to fit again"):
        loaded.fit(digits)


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize("seed", [np.random.default_rng(0), np.random.RandomState(0), np.int64(3), None])
def test_any_random_state_can_be_saved(digits, seed, tmp_path):
    hasher = IMH(3, KMeansBase(10), PCA(), random_state=seed).fit(digits)
    hasher.save(tmp_path / "m.mhash")
    assert np.array_equal(load(tmp_path / "m.mhash").encode(digits), hasher.encode(digits))


def test_a_loaded_model_saved_again_has_the_same_content(saved, tmp_path):
    load(saved).save(tmp_path / "again.mhash")
    document, arrays = model_format.read_document(saved)
    again, arrays_again = model_format.read_document(tmp_path / "again.mhash")
    assert document == again
    assert arrays.keys() == arrays_again.keys()
    assert all(np.array_equal(arrays[name], arrays_again[name]) for name in arrays)


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        IMH().save(tmp_path / "m.mhash")
    assert list(tmp_path.iterdir()) == []


def loads_or_is_refused(path, model, X):
    """Whether the file gives the same model; a ModelFileError is the only other outcome."""
    try:
        loaded = load(path)
    except ModelFileError:
        return False
    assert np.array_equal(loaded.embed(X), model.embed(X))
    assert loaded.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert repr(loaded) == repr(model)
    return True


def test_every_flipped_bit_is_detected(saved, model, digits):
    content, X = saved.read_bytes(), digits[:5, :10]
    header = 8 + int.from_bytes(content[:8], "little")
    places = [*range(0, header, 3), *range(header, len(content), 97)]
    survived = 0
    for place in places:
        for bit in (0x01, 0x20, 0x80):
            damaged = bytearray(content)
            damaged[place] ^= bit
            saved.write_bytes(damaged)
            survived += loads_or_is_refused(saved, model, X)
    assert survived <= 2  # the version number can become a lower one


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_damage_is_detected(saved, model, digits, data):
    content = bytearray(saved.read_bytes())
    whole = bytes(content)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    other = saved.with_name("other.mhash")
    other.write_bytes(content)
    if loads_or_is_refused(other, model, digits[:5, :10]):
        differing = [i for i, (a, b) in enumerate(zip(whole, content, strict=True)) if a != b]
        assert len(differing) <= 1


def test_a_truncated_file_is_not_loaded(saved):
    content = saved.read_bytes()
    for length in [*range(200), *range(200, len(content), 37), len(content) - 1]:
        saved.write_bytes(content[:length])
        with pytest.raises(
            ModelFileError, match=r"model\.mhash .*(copy it again|fit the model again|give a file)"
        ):
            load(saved)


def test_a_file_with_extra_bytes_is_not_loaded(saved):
    saved.write_bytes(saved.read_bytes() + b"more")
    with pytest.raises(ModelFileError, match=r"model\.mhash"):
        load(saved)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300))
def test_random_bytes_are_not_loaded(tmp_path, content):
    (tmp_path / "m.mhash").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"m\.mhash"):
        load(tmp_path / "m.mhash")


def test_a_foreign_safetensors_file_is_named_as_such(tmp_path):
    save_file({"x": np.zeros(3)}, tmp_path / "a.safetensors")
    save_file({"x": np.zeros(3)}, tmp_path / "b.safetensors", {"format": "pt"})
    for name in "ab":
        with pytest.raises(ModelFileError, match=r"not a model file: give a file that save\(\) wrote"):
            load(tmp_path / f"{name}.safetensors")


@pytest.mark.parametrize("version", ["2", "10", "999999", "", "one", "-1", "1.5"])
def test_a_newer_format_asks_for_an_upgrade(tmp_path, version):
    write_raw(tmp_path / "m.mhash", {}, version=version)
    with pytest.raises(ModelFileError, match=r"reads up to 1: upgrade manihash"):
        load(tmp_path / "m.mhash")


@pytest.mark.parametrize(
    "name",
    ["os.system", "system", "eval", "load", "recipe", "KMeansBase", "TSNE", "HammingIndex", "__class__",
     "import_module", "_HOMES", "manihash.IMH", "", None, 3, ["IMH"], {"IMH": 1}],
)  # fmt: skip
def test_a_class_that_is_not_a_model_of_manihash_is_refused(tmp_path, name):
    write_raw(tmp_path / "m.mhash", {"class": name, "params": {"dict": {}}, "fitted": {"dict": {}}})
    with pytest.raises(ModelFileError):
        load(tmp_path / "m.mhash")


def test_every_public_estimator_is_known_under_its_name():
    named = {name.rpartition(".")[2]: value for name, value in public_names().items()}
    estimators = {name: value for name, value in named.items() if isinstance(value, type)}
    estimators = {name: value for name, value in estimators.items() if issubclass(value, BaseEstimator)}
    del estimators["Hasher"]  # which has no method
    assert registry.own_classes() == estimators
    models = {name for name, value in estimators.items() if registry.is_model(value)}
    assert models == {name for name, value in estimators.items() if issubclass(value, RowEstimator)}


def test_the_old_name_of_a_class_can_be_kept_for_files(saved, digits, monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "_registered", {})
    document, arrays = model_format.read_document(saved)
    model_format.write_document(tmp_path / "old.mhash", document | {"class": "OldName"}, arrays)
    with pytest.raises(ModelFileError, match="names the class 'OldName', which is not registered"):
        load(tmp_path / "old.mhash")
    registry.register_class("OldName", IMH)
    assert type(load(tmp_path / "old.mhash")) is IMH


class Subclass(LSH):
    """A hasher of a user."""


def test_a_class_that_could_not_be_loaded_is_not_saved(digits, tmp_path):
    with pytest.raises(ValueError, match="Subclass cannot be saved"):
        Subclass(random_state=0).fit(digits).save(tmp_path / "m.mhash")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["os.system", "load", "Popen", None])
def test_a_part_that_is_not_a_class_of_manihash_is_refused(tmp_path, part):
    params = {"dict": {"embedding": {"part": part, "params": {"dict": {}}}}}
    write_raw(tmp_path / "m.mhash", {"class": "IMH", "params": params, "fitted": {"dict": {}}})
    with pytest.raises(ModelFileError):
        load(tmp_path / "m.mhash")


@pytest.mark.parametrize(
    "name", ["encode", "fit", "__class__", "_embed", "__dict__", "n_bits", "_x_", "save", ""]
)
def test_nothing_but_fitted_values_is_set_on_a_model(tmp_path, name):
    document = {"class": "IMH", "params": {"dict": {}}, "fitted": {"dict": {name: 1}}}
    write_raw(tmp_path / "m.mhash", document)
    with pytest.raises(ModelFileError, match="not a fitted value"):
        load(tmp_path / "m.mhash")


@pytest.mark.parametrize(
    "document",
    ["", "{", "[]", "3", "null", "{}", '"text"', '{"class": "IMH"}', '{"class": "IMH", "params": 3}',
     '{"class": "IMH", "params": {"dict": {"nonsense": 1}}, "fitted": {"dict": {}}}',
     '{"class": "IMH", "params": {"dict": {}}, "fitted": []}',
     '{"class": "IMH", "params": {"dict": {"base": {"array": "missing"}}}, "fitted": {"dict": {}}}',
     '{"class": "IMH", "params": {"dict": {"base": {"array": ["x"]}}}, "fitted": {"dict": {}}}',
     '{"class": "IMH", "params": {"dict": {"base": {"list": 3}}}, "fitted": {"dict": {}}}',
     "[" * 100_000],
    ids=lambda text: text[:60],
)  # fmt: skip
def test_a_document_that_does_not_describe_a_model_is_refused(tmp_path, document):
    write_raw(tmp_path / "m.mhash", document)
    with pytest.raises(ModelFileError, match=r"m\.mhash"):
        load(tmp_path / "m.mhash")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model file at .*nowhere\.mhash: give the path"):
        load(tmp_path / "nowhere.mhash")
    with pytest.raises(FileNotFoundError):
        load(tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError])
def test_an_interrupted_save_keeps_the_old_file_and_no_other(saved, model, monkeypatch, error):
    before = saved.read_bytes()

    def fail(self, content):
        with open(self, "wb") as file:
            file.write(content[: len(content) // 2])
        raise error

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    with pytest.raises(error):
        model.save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_full_disk_raises_an_error_and_keeps_the_old_file(saved, model):
    before = saved.read_bytes()
    with (
        full_disk(1000),
        pytest.raises(OSError, match=r"cannot write .*\.mhash: File too large. Free disk space"),
    ):
        model.save(saved)
    assert saved.read_bytes() == before
    assert not parts_of(saved.parent)


def test_a_target_that_cannot_be_written_is_named_with_a_remedy(model, tmp_path):
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "missing" / "m.mhash", tmp_path / "file" / "m.mhash"):
        with pytest.raises(
            OSError, match=r"cannot write .*m\.mhash.*Choose a target in a folder you can write to"
        ):
            model.save(target)


def test_a_folder_is_not_a_target(model, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        model.save(tmp_path / "folder")
    assert parts_of(tmp_path) == []


def test_a_model_file_has_the_permissions_of_any_new_file(saved):
    other = saved.with_name("other")
    other.touch()
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_the_checksum_covers_names_types_shapes_and_values():
    zeros = {"x": np.zeros((2, 3))}
    others = [
        {"y": np.zeros((2, 3))},
        {"x": np.zeros((3, 2))},
        {"x": np.zeros((2, 3), np.int64)},
        {"x": np.ones((2, 3))},
    ]
    sums = {model_format._checksum("{}", arrays) for arrays in (zeros, *others)} | {
        model_format._checksum("{ }", zeros)
    }
    assert len(sums) == 6
    assert hashlib.sha256(b"{}").hexdigest() == model_format._checksum("{}", {})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    document=st.dictionaries(
        st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=9)
    ),
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    dtype=st.sampled_from(["f4", "f8", ">f8", ">i4", "u1", "i8", "?"]),
)
def test_any_document_and_arrays_are_read_back(tmp_path, document, shape, dtype):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    model_format.write_document(tmp_path / "m", document, {"a": array, "b": array.T})
    read, arrays = model_format.read_document(tmp_path / "m")
    assert read == document
    assert np.array_equal(arrays["a"], array)
    assert np.array_equal(arrays["b"], array.T)
    assert arrays["a"].dtype == array.dtype.newbyteorder("=")


def test_equal_models_are_equal_files(digits, tmp_path):
    for name in ("a", "b"):
        recipe("lsh", n_bits=16, random_state=0).fit(digits).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def shorter(array):
    return array[:-1]


def out_of_range(array):
    return array + 10**6


@pytest.mark.parametrize(
    ("name", "value", "change"),
    [
        ("imh-pca", "base_embedding_", shorter),
        ("agh", "projection_", shorter),
        ("imh-supervised", "base_embedding_", shorter),
        ("imh-large", "finder_.fitted.neighbors_.fitted.bounds_", out_of_range),
        ("imh-large-fast", "finder_.fitted.neighbors_.fitted.members_", out_of_range),
        ("imh-large-fast", "finder_.fitted.neighbors_.fitted.ends_", shorter),
    ],
)
def test_fitted_values_that_do_not_fit_together_are_refused(name, value, change, tmp_path):
    document, arrays = model_format.read_document(Path(__file__).parent / "v0.1.0" / f"{name}.mhash")
    place = f"fitted.{value}"
    write_raw(tmp_path / "m.mhash", document, {**arrays, place: change(arrays[place])})
    with pytest.raises(ModelFileError, match=r"cannot load a model from .*m\.mhash"):
        load(tmp_path / "m.mhash")


def test_fitted_values_of_a_part_that_do_not_fit_together_are_refused(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 8))
    hasher = Hybrid(IMH(4, KMeansBase(20), PCA()), ITQ(4), random_state=0).fit(X)
    hasher.save(tmp_path / "whole.mhash")
    document, arrays = model_format.read_document(tmp_path / "whole.mhash")
    (place,) = [name for name in arrays if name.endswith("base_embedding_")]
    write_raw(tmp_path / "m.mhash", document, {**arrays, place: arrays[place][:5]})
    with pytest.raises(ModelFileError, match=r"base_embedding_ has shape \(5, 4\)"):
        load(tmp_path / "m.mhash")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((f"{FIRST_BITS}_", value) for value in (0, 5, 16, -3, 8.5, "8", None)),
        *(("weight_", value) for value in (-1, 1e300, "auto", None, True)),
        *(("n_bits_", value) for value in (15, 17, 40, 0, None)),
        ("n_features_in_", 9),
        ("first_", None),
    ],
)
def test_a_hybrid_with_an_impossible_layout_is_refused(name, value, digits, tmp_path):
    hasher = Hybrid(IMH(8, KMeansBase(20), PCA()), ITQ(8), random_state=0).fit(digits[:200, :10])
    hasher.save(tmp_path / "m.mhash")
    document, arrays = model_format.read_document(tmp_path / "m.mhash")
    document["fitted"]["dict"][name] = value
    model_format.write_document(tmp_path / "bad.mhash", document, arrays)
    with pytest.raises(ModelFileError, match="fit the model again"):
        load(tmp_path / "bad.mhash")


@pytest.mark.parametrize("origin", [0, 2**40, [1.0], "x"])
@pytest.mark.parametrize("part", [None, "second_"])
def test_an_origin_that_is_no_vector_is_refused(origin, part, digits, tmp_path):
    hasher = Hybrid(LSH(4), ITQ(4), random_state=0).fit(digits[:200, :10])
    (hasher if part is None else hasher.second_).origin_ = None
    hasher.save(tmp_path / "m.mhash")
    document, arrays = model_format.read_document(tmp_path / "m.mhash")
    fitted = document["fitted"]["dict"]
    (fitted if part is None else fitted[part]["fitted"]["dict"])["origin_"] = origin
    model_format.write_document(tmp_path / "bad.mhash", document, arrays)
    with pytest.raises(ModelFileError, match="origin_ is not a vector of the width of the rows"):
        load(tmp_path / "bad.mhash")


@pytest.mark.parametrize("n_bits", [9, 12, 16])
def test_a_length_that_is_not_that_of_the_codes_is_refused(n_bits, digits, tmp_path):
    """Codes of 13 bits have as many bytes as codes of 9 to 16 bits."""
    LSH(13, random_state=0).fit(digits[:200]).save(tmp_path / "m.mhash")
    document, arrays = model_format.read_document(tmp_path / "m.mhash")
    document["fitted"]["dict"]["n_bits_"] = n_bits
    model_format.write_document(tmp_path / "bad.mhash", document, arrays)
    with pytest.raises(ModelFileError, match="fit the model again"):
        load(tmp_path / "bad.mhash")


@pytest.mark.parametrize(
    ("hasher", "name", "value"),
    [
        *((IMH(8, KMeansBase(20), PCA()), "bandwidth_", value) for value in (0, -1.5, True, "x", 10**400)),
        (KLSH(8), "gamma_", -1),
        (E2LSH(8), "width_", 0),
        (ITQ(8), "normalize_", "x"),
        (ITQ(8), "in_float64_", [1, 2]),
        (ProductQuantizer(16, bits_per_field=4), "codebooks_", None),
    ],
)
def test_values_that_no_fit_gives_are_refused(hasher, name, value, digits, tmp_path):
    hasher.set_params(random_state=0).fit(digits[:200, :10]).save(tmp_path / "m.mhash")
    document, arrays = model_format.read_document(tmp_path / "m.mhash")
    if value is None:  # one center less than the bits of a field can name
        arrays[f"fitted.{name}"] = arrays[f"fitted.{name}"][:, :-1]
    else:
        document["fitted"]["dict"][name] = value
    model_format.write_document(tmp_path / "bad.mhash", document, arrays)
    with pytest.raises(ModelFileError, match="fit the model again"):
        load(tmp_path / "bad.mhash")
