"""Generated hashers and rows: the codes of a float64 reference, or an error that names the remedy.

``MANIHASH_CASES=10000 python -m pytest tests/campaigns/test_arrays.py`` runs more cases than ``make fuzz``.
The seed of a case is its number, from MANIHASH_FIRST on.
"""

import os
import re
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from encoding_reference import reference

import manihash as mh

N_CASES = int(os.environ.get("MANIHASH_CASES", "120"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
TYPES = [np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.longdouble, ">f4", ">i2"]
REMEDY = re.compile(r"scale|give|lower|raise|remove|use|must be|needs|fit a", re.IGNORECASE)


def pick(rng: np.random.Generator, *values: object) -> object:
    """One of the values."""
    return values[rng.integers(len(values))]


def generated_rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to encode, of random types and one offset and scale; some are equal."""
    n, d = int(pick(rng, rng.integers(2, 40), *rng.integers(40, 120, 3))), int(rng.integers(1, 16))
    of_fit, of_encode = (np.dtype(given) for given in rng.choice(np.array(TYPES, object), 2))
    of_encode = of_fit if rng.random() < 0.6 else of_encode
    wide = of_fit.kind == "f" and of_fit.itemsize > 2
    X = rng.standard_normal((n + 20, d)) + rng.choice([0, 0, 1, 1e3, 1e6])
    X = X * 10.0 ** rng.choice([0, 0, *range(-30, 31)] if wide else [0, 1, 2, 3])
    X[rng.random(len(X)) < rng.choice([0, 0, 0.2, 0.5])] = X[0]
    X[:, rng.random(d) < rng.choice([0, 0.3])] = X[0, 0]
    return typed(X[:n], of_fit, rng), typed(X[-40:], of_encode, rng)


def typed(X: np.ndarray, given: np.dtype, rng: np.random.Generator) -> np.ndarray | sp.csr_array:
    """The rows in a type, in a random order in memory, or sparse."""
    if given.kind in "iu":
        X = np.clip(X, np.iinfo(given).min // 2, np.iinfo(given).max // 2)
    with np.errstate(over="ignore"):
        X = np.asarray(X.astype(given), order=rng.choice(["C", "F"]))
    if rng.random() < 0.2:
        X = np.repeat(X, 2, axis=0)[::2]  # not contiguous
    return sp.csr_array(X) if rng.random() < 0.2 and given in (np.float32, np.float64) else X


def embedding(rng: np.random.Generator) -> object:
    """An embedding with few iterations."""
    k = int(rng.integers(2, 6))
    n_rotations = int(pick(rng, 0, 0, 3))
    iterative = {"perplexity": float(rng.choice([2, 3, 30])), "n_iter": 12, "n_rotations": n_rotations}
    graph = mh.base.GraphAffinity(n_neighbors=int(pick(rng, 2, 3)), n_kept=6)
    return pick(
        rng,
        mh.embeddings.PCA(),
        mh.embeddings.LaplacianEigenmaps(n_neighbors=k, normalized=bool(rng.integers(2))),
        mh.embeddings.RelaxedLE(n_neighbors=k, coupling_neighbors=2),
        mh.embeddings.LLE(n_neighbors=k),
        mh.embeddings.Isomap(n_neighbors=k),
        mh.embeddings.DiffusionMaps(n_neighbors=k),
        mh.embeddings.TSNE(**iterative),
        mh.embeddings.TSNE(**iterative, affinity=graph, annealed=True, exaggeration=(4.0, "auto")),
        mh.embeddings.SNE(**iterative),
        mh.embeddings.ElasticEmbedding(**iterative),
    )


def base(rng: np.random.Generator) -> object:
    """A base set of a few points."""
    m = int(rng.integers(6, 30))
    cells = {"probes": int(rng.integers(1, 4)), "cells": pick(rng, None, 2, 4)}
    chosen = pick(
        rng,
        mh.base.KMeansBase(m, max_iter=3),
        mh.base.RandomBase(m),
        mh.base.LargeBase(m, mh.base.ExactNeighbors(), max_iter=3),
        mh.base.LargeBase(m, mh.base.CoarseNeighbors(**cells), max_iter=3),
        mh.base.LargeBase(m, mh.base.ListedNeighbors(**cells), max_iter=3),
    )
    return mh.base.ReducedBase(chosen, int(rng.integers(1, 8))) if rng.random() < 0.3 else chosen


def on_base(rng: np.random.Generator) -> dict[str, object]:
    """Options of the methods with base points."""
    return {"base": base(rng), "n_neighbors": int(pick(rng, 1, 2, 3, 3, 5))}


def imh(bits: int, rng: np.random.Generator, **options: object) -> mh.IMH:
    """An IMH with random parts."""
    rotation = pick(rng, None, None, mh.rotation.ITQRotation(5))
    sigma = pick(rng, None, None, 0.5)
    return mh.IMH(
        bits, embedding=embedding(rng), rotation=rotation, bandwidth=sigma, **on_base(rng), **options
    )


def hybrid(bits: int, rng: np.random.Generator, **options: object) -> mh.Hybrid:
    """Two hashers side by side."""
    second = pick(
        rng,
        mh.hashers.ITQ(n_iter=5),
        mh.hashers.LSH(),
        mh.hashers.SpH(max_iter=5),
        mh.hashers.KLSH(n_train=10),
    )
    n_bits = pick(rng, None, bits + 1)
    first = pick(rng, imh(bits, rng), mh.hashers.AGH(bits, **on_base(rng)), mh.hashers.PCAH(bits))
    return mh.Hybrid(first, second.set_params(n_bits=bits), n_bits=n_bits, **options)


def kernel(rng: np.random.Generator) -> dict[str, object]:
    """Options of the methods with a kernel."""
    return {"kernel": pick(rng, "rbf", "linear"), "gamma": pick(rng, None, None, 0.1)}


METHODS: dict[str, Callable[..., object]] = {
    "imh": imh,
    "imh again": imh,
    "hybrid": hybrid,
    "supervised": lambda r, rng, **o: mh.hashers.SupervisedIMH(
        r, embedding=embedding(rng), **on_base(rng), **o
    ),
    "agh": lambda r, rng, **o: mh.hashers.AGH(r, layers=int(rng.integers(1, 3)), **on_base(rng), **o),
    "lsh": lambda r, rng, **o: mh.hashers.LSH(r, center=bool(rng.integers(2)), **o),
    "pcah": lambda r, rng, **o: mh.hashers.PCAH(r, **o),
    "itq": lambda r, rng, **o: mh.hashers.ITQ(r, n_iter=5, **o),
    "mahalanobis": lambda r, rng, **o: mh.hashers.MahalanobisLSH(r, center=bool(rng.integers(2)), **o),
    "sh": lambda r, rng, **o: mh.hashers.SH(r, **o),
    "sph": lambda r, rng, **o: mh.hashers.SpH(r, max_iter=10, **o),
    "bre": lambda r, rng, **o: mh.hashers.BRE(r, n_train=20, n_anchors=3, max_iter=3, **o),
    "sth": lambda r, rng, **o: mh.hashers.STH(r, n_neighbors=int(rng.integers(1, 6)), **o),
    "sklsh": lambda r, rng, **o: mh.hashers.SKLSH(r, gamma=pick(rng, None, None, 0.5), **o),
    "klsh": lambda r, rng, **o: mh.hashers.KLSH(r, n_train=20, n_summed=5, **kernel(rng), **o),
    "e2lsh": lambda r, rng, **o: mh.hashers.E2LSH(
        r, p=int(rng.integers(1, 3)), width=pick(rng, None, None, 2.0), **o
    ),
    "rmmh": lambda r, rng, **o: mh.hashers.RMMH(r, n_train=8, **kernel(rng), **o),
    "cgh": lambda r, rng, **o: mh.hashers.CGH(
        r, 30, 60, n_neighbors=3, supervised=bool(rng.integers(2)), **o
    ),
    "ksh": lambda r, rng, **o: mh.hashers.KSH(r, n_anchors=10, n_iter=5, **o),
    "ssh": lambda r, rng, **o: mh.hashers.SSH(r, step=pick(rng, None, 1.0), **o),
    "ldahash": lambda r, rng, **o: mh.hashers.LDAHash(r, alpha=pick(rng, None, 1.0), **o),
    "sign": lambda r, rng, **o: mh.hashers.SignQuantizer(r, center=bool(rng.integers(2)), **o),
}
NUMBERS = ("n_bits", "n_neighbors", "n_train", "gamma", "width", "C", "max_iter", "n_iter", "bandwidth")


def generated_hasher(rng: np.random.Generator, d: int) -> object:
    """A hasher with random options; in one case of ten, one of them may be out of range."""
    name = list(METHODS)[rng.integers(len(METHODS))]
    limited = name in ("pcah", "itq", "ldahash", "ssh")
    bits = int(rng.integers(1, d + 1 if limited else 7))
    normalize = bool(rng.random() < 0.3)
    hasher = METHODS[name](bits, rng, normalize=normalize, random_state=int(rng.integers(1000)))
    if rng.random() < 0.1:
        option = pick(rng, *(option for option in NUMBERS if option in hasher.get_params(deep=False)))
        hasher.set_params(**{option: pick(rng, 0, -1, 1, 40, 1e-9, 1e9, "5", np.nan)})
    return hasher


def labels(rng: np.random.Generator, n: int) -> np.ndarray | None:
    """Labels of some of the rows, or none at all."""
    y = rng.integers(0, int(rng.integers(1, 5)) + 1, n)
    y[rng.random(n) < rng.choice([0, 0.3])] = -1
    return y if rng.random() < 0.95 else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + N_CASES))
def test_codes_are_those_of_the_reference_or_the_error_names_the_remedy(seed):
    rng = np.random.default_rng(seed)
    X, Q = generated_rows(rng)
    hasher = generated_hasher(rng, X.shape[1])
    try:
        hasher.fit(X, labels(rng, X.shape[0]))
        bits = hasher.transform(Q)
    except ValueError as error:
        assert REMEDY.search(str(error)), error  # noqa: PT017
        return
    Y, bound = reference(hasher, Q.toarray() if sp.issparse(Q) else Q)
    decided = np.abs(Y) > bound
    assert np.array_equal(bits[decided], (Y > 0)[decided])
    assert np.array_equal(hasher.encode(Q), np.packbits(bits, axis=1))
    assert np.array_equal(hasher.embed(Q) > 0, bits)
    part = slice(1, 1 + int(rng.integers(1, Q.shape[0])))
    assert np.array_equal(hasher.transform(Q[part]), bits[part])
