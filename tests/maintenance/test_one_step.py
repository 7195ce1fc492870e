"""Updates, refits and fits change a model in one step: an error or an interrupt leaves the old one."""

import sys
from copy import deepcopy

import numpy as np
import pytest

from manihash import IMH, Hybrid
from manihash.base import KMeansBase, LargeBase
from manihash.embeddings import PCA, TSNE
from manihash.hashers import ITQ, LSH, ProductQuantizer
from manihash.hashers._hasher import Hasher
from manihash.rotation import ITQRotation

SHORT = {"n_iter": 60, "perplexity": 5}


def rows(n, seed, centers=slice(0, 4)):
    rng = np.random.default_rng(seed)
    points = 3 * np.random.default_rng(99).normal(size=(6, 10))[centers]
    return points[rng.integers(len(points), size=n)] + rng.normal(size=(n, 10))


OLD, NEW = rows(500, 0), rows(150, 1, slice(4, 6))
BOTH = np.vstack([OLD, NEW])


def imh(**options):
    return IMH(8, KMeansBase(40), TSNE(**SHORT), **options)


HASHERS = {
    "imh": imh,
    "rotated": lambda: imh(rotation=ITQRotation()),
    "hybrid": lambda: Hybrid(imh(), ITQ(4)),
    "two of them": lambda: Hybrid(imh(), imh()),
    "nested": lambda: Hybrid(Hybrid(imh(), ITQ(4)), imh()),
}
CHANGES = {
    "update": lambda hasher: hasher.update(NEW, OLD),
    "refit": lambda hasher: hasher.refit(BOTH),
    "fit": lambda hasher: hasher.set_params(random_state=1).fit(BOTH[:, :9]),
    "record": lambda hasher: hasher.record_statistics(BOTH),
}


def everything(hasher):
    """All fitted values of a hasher and its parts, to be compared by identity."""
    values = {name: value for name, value in vars(hasher).items() if name.endswith("_")}
    parts = [everything(value) for value in values.values() if isinstance(value, Hasher)]
    return [{name: id(value) for name, value in values.items()}, *parts]


def interrupted_at(call, change, hasher):
    """Change a hasher, and raise KeyboardInterrupt at a call of a function, as Ctrl-C would; return calls."""
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        if event == "call" and "manihash" in frame.f_code.co_filename:
            calls += 1
            if calls == call:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        change(hasher)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", HASHERS)
def test_an_interrupt_leaves_the_model_as_it_was(name, change):
    hasher = HASHERS[name]().set_params(random_state=0).fit(OLD)
    total = interrupted_at(0, CHANGES[change], deepcopy(hasher))
    before, codes, lineage = everything(hasher), hasher.encode(BOTH), hasher.lineage_
    first = hasher.random_state
    interrupts = 0
    for call in np.random.default_rng(0).integers(1, total, 6):
        try:
            interrupted_at(call, CHANGES[change], hasher)
        except KeyboardInterrupt:
            interrupts += 1
        else:
            break  # Python ignores what a callback of a weak reference raises
        assert everything(hasher) == before
        np.testing.assert_array_equal(hasher.encode(BOTH), codes)
        assert hasher.lineage_ == lineage
        hasher.set_params(random_state=first)
    assert interrupts


class Failing(IMH):
    """An IMH that cannot be changed."""

    def _update(self, *args):
        raise RuntimeError("no memory")

    def _fit_near(self, *args):
        raise RuntimeError("no memory")


@pytest.mark.parametrize("change", ["update", "refit"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_part_that_fails_leaves_the_other_as_it_was(change, order):
    parts = [imh(), Failing(4, KMeansBase(40), TSNE(**SHORT))][::order]
    hasher = Hybrid(*parts, random_state=0).fit(OLD)
    before, codes = everything(hasher), hasher.encode(BOTH)
    with pytest.raises(RuntimeError, match="no memory"):
        CHANGES[change](hasher)
    assert everything(hasher) == before
    np.testing.assert_array_equal(hasher.encode(BOTH), codes)


def test_a_fit_that_fails_leaves_a_fitted_model_as_it_was():
    hasher = ITQ(8, random_state=0).fit(OLD)
    before, codes = everything(hasher), hasher.encode(OLD)
    with pytest.raises(ValueError, match="n_bits=8 exceeds the 5 columns"):
        hasher.fit(1000 + OLD[:, :5])
    assert everything(hasher) == before
    np.testing.assert_array_equal(hasher.encode(OLD), codes)


def test_a_refit_forgets_how_the_old_rows_were_prepared():
    far = OLD.astype(np.float32) * np.float32(1e-15)
    hasher = ITQ(4, random_state=0).fit(far)
    assert hasher.in_float64_
    hasher.refit(OLD.astype(np.float32))
    assert not hasher.in_float64_


@pytest.mark.parametrize(
    "parts",
    [
        (imh(), ITQ(4)),
        (imh(), LSH(9)),
        (LSH(9), imh()),
        (IMH(4, KMeansBase(40), PCA()), ITQ(4)),
        (ITQ(5), ITQ(4)),
        (imh(), ProductQuantizer(8, bits_per_field=4, max_iter=3)),
        (Hybrid(imh(), ITQ(4)), LSH(3)),
    ],
)
def test_a_hybrid_of_any_two_parts_keeps_a_true_layout(parts):
    hasher = Hybrid(*parts, random_state=0).fit(OLD)
    split = hasher.layout_.look_up_bits, hasher.n_bits_, hasher.weight_, hasher.layout_
    updatable = any(
        isinstance(part, Hybrid) or isinstance(getattr(part, "embedding", 0), TSNE) for part in parts
    )
    for change in ["update", "refit", "update"] if updatable else ["refit", "refit"]:
        CHANGES[change](hasher)
        assert (hasher.layout_.look_up_bits, hasher.n_bits_, hasher.weight_, hasher.layout_) == split
        assert hasher.first_.n_bits_ == hasher.layout_.look_up_bits
        bits = [part.transform(BOTH) for part in (hasher.first_, hasher.second_)]
        np.testing.assert_array_equal(hasher.transform(BOTH), np.hstack(bits))
        assert not hasher.drift(NEW if change == "update" else BOTH).drifted


def test_a_refit_on_more_rows_keeps_the_split_of_the_old_model():
    """A new fit on more rows may split the bits in another way than few rows allowed."""
    first = IMH(base=LargeBase(40), embedding=TSNE(perplexity=2, n_iter=20), n_neighbors=3)
    hasher = Hybrid(first, ITQ(), n_bits=14, random_state=0).fit(OLD[:40])
    split = hasher.layout_.look_up_bits
    hasher.refit(BOTH)
    assert hasher.layout_.look_up_bits == hasher.first_.n_bits_ == split
    assert hasher.n_bits_ == 14
    np.testing.assert_array_equal(hasher.transform(OLD)[:, :split], hasher.first_.transform(OLD))


def test_a_refit_fits_each_part_once(monkeypatch):
    hasher = Hybrid(imh(), ITQ(4), random_state=0).fit(OLD)
    fits = []
    for kind in (IMH, ITQ):
        chosen = kind._fit_graph if kind is IMH else kind._fit
        name = chosen.__name__
        monkeypatch.setattr(kind, name, lambda *args, f=chosen: fits.append(f) or f(*args))
    hasher.refit(BOTH)
    assert len(fits) == 2
