"""docs/guide/model-format.md: its decoder works, and it lists every fitted value of every class."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from test_estimators import SMALL

from manihash import IMH
from manihash.base import CoarseNeighbors, KMeansBase, LargeBase, ListedNeighbors
from manihash.embeddings import PCA
from manihash.estimator import RowEstimator
from manihash.files import model_format
from manihash.rotation import ITQRotation

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "model-format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("normalize", "far"), [(False, 0), (True, 0), (False, 1000)])
def test_the_decoder_gives_the_codes_of_encode(normalize, far, dtype, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = (load_digits().data + far).astype(dtype)
    hasher = IMH(
        20, KMeansBase(80), PCA(), rotation=ITQRotation(n_iter=3), normalize=normalize, random_state=0
    )
    hasher.fit(X[:1000]).save("model.mhash")
    assert (hasher.origin_ is not None) == bool(far)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {"X": X}
    exec(code, names)
    assert np.array_equal(names["codes"], hasher.encode(X))


def fields(value):
    """The names in the fitted values of a document, of its parts too."""
    if not isinstance(value, dict):
        return set()
    inner = value.get("fitted", value).get("dict", {})
    return set(inner).union(*(fields(item) for item in inner.values()))


def test_every_fitted_value_of_every_class_is_listed(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)) + 3 * rng.integers(2, size=(60, 1)), rng.integers(3, size=60)
    finders = [
        IMH(2, LargeBase(6, neighbors=part), PCA(), n_neighbors=2, random_state=0)
        for part in (CoarseNeighbors(), ListedNeighbors())
    ]
    missing = {}
    for model in [*(part for part in SMALL if isinstance(part, RowEstimator)), *finders]:
        model.fit(X, y).save(tmp_path / "m.mhash")
        document, _ = model_format.read_document(tmp_path / "m.mhash")
        absent = {name for name in fields(document) if f"`{name}`" not in PAGE}
        absent |= set() if f"`{document['class']}`" in PAGE else {document["class"]}
        if absent:
            missing[document["class"]] = absent
    assert missing == {}
