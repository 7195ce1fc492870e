"""The distance tables of an ONNX file: a program without manihash ranks codes as the index does."""

import json
from functools import cache

import numpy as np
import pytest
from command import run
from sklearn.datasets import load_digits

from manihash import Hybrid
from manihash.export import compare_onnx
from manihash.hashers import ITQ, LSH, ProductQuantizer
from manihash.search import asymmetric_distances

pytestmark = pytest.mark.extra
pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

X = load_digits().data.astype(np.float32)[:700]
HASHERS = {
    "signs": LSH(13),
    "two parts of signs": Hybrid(ITQ(8), ITQ(12), weight=0.3),
    "pq": ProductQuantizer(32, rotation=False, max_iter=3),
    "opq": ProductQuantizer(16, max_iter=3),
    "fields of 4 bits": ProductQuantizer(20, bits_per_field=4, max_iter=3),
    "signs and fields": Hybrid(ITQ(16), ProductQuantizer(16, max_iter=3), weight=0.5),
    "a byte of both": Hybrid(ITQ(12), ProductQuantizer(12, bits_per_field=4, max_iter=3), weight=2.0),
}


@cache
def fitted(name):
    return HASHERS[name].set_params(random_state=0).fit(X)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", HASHERS)
def test_sums_of_table_entries_are_the_distances_of_the_index(name, double, tmp_path):
    hasher = fitted(name)
    hasher.to_onnx(tmp_path / "e.onnx", tables=True, double=double)
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx")
    codes = session.run(["codes"], {"rows": X})[0]
    tables = session.run(["tables"], {"rows": X[:20]})[0]
    split = hasher.layout_.split(codes)
    assert tables.dtype == np.float32
    assert tables.shape == (20, split.shape[1], 256)
    found = sum(tables[:, j, split[:, j]] for j in range(split.shape[1]))
    expected = asymmetric_distances(hasher.embed(X[:20]), codes, hasher.n_bits_, layout=hasher.layout_)
    np.testing.assert_allclose(found, expected, rtol=1e-5 if double else 2e-4, atol=2e-5 * expected.max())
    if double:
        assert compare_onnx(tmp_path / "e.onnx", hasher, X).acceptable


def test_files_without_the_option_have_no_tables(tmp_path):
    fitted("opq").to_onnx(tmp_path / "e.onnx")
    outputs = onnxruntime.InferenceSession(tmp_path / "e.onnx").get_outputs()
    assert [output.name for output in outputs] == ["codes", "values"]


def test_the_command_writes_tables_and_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted("signs and fields").save("model.mhash")
    text = " ".join(run("onnx", "model.mhash", "-o", "e.onnx", "--tables").stdout.split())
    assert "tables: float32 (batch, bytes, 256)" in text
    found = json.loads(run("onnx", "model.mhash", "-o", "e.onnx", "--json").stdout)
    assert (found["tables"], found["values"], found["bits"]) == (False, 16 + 64, 32)
