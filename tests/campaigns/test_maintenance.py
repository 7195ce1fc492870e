"""Generated models that are updated, refitted, saved and loaded several times, in any order.

After each step the codes, the layout, the lineage and the file agree, the rows of the step are no drift, and
a step that fails leaves the model as it was. ``MANIHASH_CASES=10000`` runs more cases than ``make fuzz``; the
seed of a case is its number, from MANIHASH_FIRST on.
"""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import manihash as mh
from manihash.files.lineage import accepts_codes_of, content_id

N_CASES = int(os.environ.get("MANIHASH_CASES", "24"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))


def pick(rng: np.random.Generator, *values: object) -> object:
    """One of the values."""
    return values[rng.integers(len(values))]


class Source:
    """Rows of a growing number of clusters; some are equal, and some sources are far from zero."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, d = rng, int(rng.integers(3, 20))
        self.centers = 3 * rng.normal(size=(12, d))
        self.offset = float(rng.choice([0, 0, 0, 30, 1e4]))
        self.equal = float(rng.choice([0, 0, 0.3]))
        self.type = pick(rng, np.float32, np.float64)

    def rows(self, n: int, first: int, last: int) -> np.ndarray:
        """n rows of the clusters from ``first`` to ``last``."""
        X = self.centers[self.rng.integers(first, last, n)] + self.rng.normal(size=(n, self.centers.shape[1]))
        X[self.rng.random(n) < self.equal] = X[0]
        return (X + self.offset).astype(self.type)


def imh(rng: np.random.Generator, d: int) -> mh.IMH:
    """An IMH of a few bits, which can be updated and refitted unless its embedding is PCA."""
    size = int(rng.integers(12, 40))
    affinity = pick(rng, None, mh.base.GraphAffinity(n_neighbors=3, n_kept=6))
    short = {"n_iter": 12, "perplexity": 3.0}
    base = pick(
        rng,
        mh.base.KMeansBase(size),
        mh.base.RandomBase(size),
        mh.base.LargeBase(size),
        mh.base.ReducedBase(mh.base.LargeBase(size, neighbors=mh.base.CoarseNeighbors()), min(3, d)),
        mh.base.LargeBase(size, neighbors=mh.base.ListedNeighbors()),
    )
    embedding = pick(
        rng,
        mh.embeddings.TSNE(affinity=affinity, **short),
        mh.embeddings.ElasticEmbedding(**short),
        mh.embeddings.SNE(**short),
        mh.embeddings.PCA(),
    )
    return mh.IMH(
        int(rng.integers(2, 8)), base, embedding, n_neighbors=3,
        rotation=pick(rng, None, mh.rotation.ITQRotation(3)), normalize=bool(rng.integers(2)),
    )  # fmt: skip


def hasher(rng: np.random.Generator, d: int, depth: int = 0) -> mh.Hasher:
    """A hasher, or a hybrid of any two, to a depth of two."""
    kind = rng.integers(6 if depth < 2 else 4)
    if kind >= 4:
        weight = pick(rng, 0.25, 0.5, "auto")
        return mh.Hybrid(hasher(rng, d, depth + 1), hasher(rng, d, depth + 1), weight=weight)
    if kind == 3:
        return pick(rng, mh.hashers.LSH(5), mh.hashers.PCAH(min(3, d)), mh.hashers.SignQuantizer(min(3, d)))
    return mh.hashers.ITQ(int(rng.integers(1, min(d, 8) + 1))) if kind == 2 else imh(rng, d)


def state(model: mh.Hasher, X: np.ndarray) -> tuple[object, ...]:
    layout = model.layout_
    return model.encode(X).tobytes(), model.lineage_, layout


def check_layout(model: mh.Hasher, X: np.ndarray) -> None:
    """Raise unless the codes are those of the parts, in the split that the model states."""
    bits = model.transform(X)
    assert bits.shape[1] == model.n_bits_
    np.testing.assert_array_equal(mh.pack(bits), model.encode(X))
    if isinstance(model, mh.Hybrid):
        assert model.layout_.look_up_bits == model.first_.n_bits_
        assert model.n_bits_ == model.first_.n_bits_ + model.second_.n_bits_
        parts = [model.first_.transform(X), model.second_.transform(X)]
        np.testing.assert_array_equal(bits, np.hstack(parts))
        check_layout(model.first_, X)
        check_layout(model.second_, X)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + N_CASES))
def test_a_model_that_changes_several_times_stays_consistent(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    source = Source(rng)
    X = source.rows(int(rng.integers(100, 300)), 0, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.hashers.CollapsedCodesWarning)
        model = hasher(rng, X.shape[1]).set_params(random_state=seed)
        try:
            model.fit(X)
        except ValueError:
            return  # rows that this hasher cannot be fitted to, as tests/campaigns/test_arrays.py checks
        model.save(tmp_path / "m.mhash")
        split = model.layout_.look_up_bits
        for step in range(int(rng.integers(2, 6))):
            X, model = changed(rng, source, model, X, 3 + step, tmp_path)
            assert model.layout_.look_up_bits == split


def changed(
    rng: np.random.Generator, source: Source, model: mh.Hasher, X: np.ndarray, last: int, folder: Path
) -> tuple[np.ndarray, mh.Hasher]:
    """One step: an update or a refit of the model in ``m.mhash``, checked, and saved and loaded again."""
    new = source.rows(int(rng.integers(30, 120)), last, last + 2)
    both = np.vstack([X, new])
    before, parent, updates = state(model, both), model.lineage_, bool(rng.integers(2))
    try:
        result = model.update(new, pick(rng, X, None)) if updates else model.refit(both)
    except ValueError:
        assert state(model, both) == before
        return X, model
    check_layout(model, both)
    after = state(model, both)
    assert model.lineage_["id"] == content_id(model)
    if updates and not result.n_added:
        assert model.lineage_ == parent
    else:
        assert model.lineage_["parent"] == parent["id"]
        assert accepts_codes_of(model.lineage_, parent["id"]) is updates
    asked = new if updates else both
    found = model.drift(asked)
    assert not found.drifted, found
    assert found.advice == "nothing"
    if not updates:  # a model from a file learns the same
        twin = mh.load(folder / "m.mhash")
        twin.refit(both)
        assert twin.encode(both).tobytes() == after[0]
    model.save(folder / "m.mhash")
    loaded = mh.load(folder / "m.mhash")
    assert state(loaded, both) == after
    assert loaded.drift(asked) == found
    return both, loaded
