"""How far the codes of an ONNX file differ from those of ``encode``, measured with onnxruntime."""

import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from manihash import checks
from manihash.display import Shown
from manihash.export.graph import read_metadata
from manihash.hashers._hasher import Hasher
from manihash.hashers.bridged import BridgedHasher
from manihash.hashers.collapse import CollapsedCodesWarning
from manihash.rows import rows_of
from manihash.types import Codes, Floats

# The largest share of bits in which a graph in float32 may differ from ``encode``.
LIMIT = 1e-5
# Rows are drawn until there are this many bits, and rows are compared in batches of this size.
_BITS, _LEAST_ROWS, _MOST_ROWS, _BATCH = 1_000_000, 1_000, 20_000, 1_024
# Combinations of centers that stand for the points of a product quantizer.
_DRAWN_POINTS = 1_000


@dataclass(frozen=True, repr=False)
class OnnxComparison(Shown):
    """The result of ``compare_onnx``.

    Parameters
    ----------
    rows : int
        Number of rows that were compared.
    bits : int
        Number of their bits.
    different_rows : int
        Number of rows whose codes differ.
    different_bits : int
        Number of bits that differ.
    precision : str
        Type in which the graph computes, ``"float32"`` or ``"float64"``.

    Examples
    --------
    >>> from manihash.export import OnnxComparison
    >>> OnnxComparison(10_000, 640_000, different_rows=1, different_bits=1, precision="float32").acceptable
    True
    """

    rows: int
    bits: int
    different_rows: int
    different_bits: int
    precision: str

    @property
    def acceptable(self) -> bool:
        """Whether at most 1 bit in 100,000 differs, none if the graph computes in float64."""
        return self.different_bits <= (0 if self.precision == "float64" else LIMIT * self.bits)


def compare_onnx(
    path: str | os.PathLike[str], hasher: Hasher, X: Any = None, *, random_state: Any = 0
) -> OnnxComparison:
    """Compare the codes of an ONNX file, computed by onnxruntime, with those of ``encode``.

    Parameters
    ----------
    path : str or path-like
        A file that ``to_onnx`` wrote.
    hasher : Hasher
        The fitted hasher of which the file was written.
    X : array-like of shape (n, d), default=None
        Rows to encode, as float32; ``encode`` gets them in the precision of the graph. None draws rows near
        the points that the model holds, about a million bits in all.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the rows that are drawn.

    Returns
    -------
    OnnxComparison
        The number of rows and bits that differ.

    Raises
    ------
    ValueError
        If the file holds another model.
    ImportError
        If onnxruntime is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.export import compare_onnx
    >>> from manihash.hashers import LSH
    >>> X = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    >>> hasher = LSH(n_bits=16, random_state=0).fit(X)
    >>> hasher.to_onnx("encoder.onnx")  # doctest: +SKIP
    >>> compare_onnx("encoder.onnx", hasher, X)  # doctest: +SKIP
    OnnxComparison(rows=100, bits=1600, different_rows=0, different_bits=0, precision='float32')
    """
    facts = read_metadata(path)
    _check_model(path, facts, hasher)
    X = sample_near(hasher, checks.generator(random_state)) if X is None else X
    rows = rows_of(hasher._rows_to_map(X).X, dtype=np.float32)
    session = _session(path)
    dtype = np.dtype(facts["precision"])
    differ = [_differing_bits(session, hasher, block, dtype) for block in _batches(rows)]
    per_row = np.concatenate(differ)
    return OnnxComparison(
        rows=len(per_row),
        bits=len(per_row) * hasher.n_bits_,
        different_rows=int(np.count_nonzero(per_row)),
        different_bits=int(per_row.sum()),
        precision=facts["precision"],
    )


def _check_model(path: Any, facts: dict[str, str], hasher: Hasher) -> None:
    """Raise unless the file was written for codes of this class, length and width."""
    expected = {"class": type(hasher).__name__, "n_bits": hasher.n_bits_, "n_features": hasher.n_features_in_}
    found = {name: facts.get(name, "") for name in expected}
    if found != {name: str(value) for name, value in expected.items()}:
        raise ValueError(f"{path} holds another model: got {found}, expected {expected}")


def _session(path: Any) -> Any:
    """The file, to be run on the CPU."""
    ort = checks.extra("onnxruntime", "onnx")
    return ort.InferenceSession(os.fspath(path), providers=["CPUExecutionProvider"])


def _batches(rows: Any) -> Any:
    """The rows as float32 blocks (b, d)."""
    return (rows.block(start, min(start + _BATCH, len(rows))) for start in range(0, len(rows), _BATCH))


def _differing_bits(session: Any, hasher: Hasher, block: Floats, dtype: np.dtype[Any]) -> Codes:
    """The number of bits of each row of a block (b, d) that differ from ``encode`` in a precision, (b,)."""
    (found,) = session.run(["codes"], {"rows": block})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedCodesWarning)  # drawn rows need not be told apart
        codes = hasher.encode(block.astype(dtype))
    return np.bitwise_count(found ^ codes).sum(axis=1)


def sample_near(hasher: Any, rng: np.random.Generator) -> Floats:
    """Rows (n, d) in float32 where the model was fitted: between its points, or around its thresholds."""
    n, parts = int(np.clip(_BITS // hasher.n_bits_, _LEAST_ROWS, _MOST_ROWS)), _parts(hasher)
    return np.concatenate([_near_part(part, -(-n // len(parts)), rng) for part in parts]).astype(np.float32)


def _parts(hasher: Any) -> list[Any]:
    """The hashers that a code is made of: several if it has parts."""
    if hasattr(hasher, "first_"):
        return [*_parts(hasher.first_), *_parts(hasher.second_)]
    return [hasher]


def _near_part(part: Any, n: int, rng: np.random.Generator) -> Floats:
    """Rows (n, d) where a hasher without parts was fitted."""
    points = _points(part, rng)
    if points is None:
        center, spread = _center(part)
        X = center + spread * rng.standard_normal((n, part.n_features_in_))
    else:
        i, j = rng.integers(len(points), size=(2, n))
        X = points[i] + rng.uniform(0, 0.5, (n, 1)) * (points[j] - points[i])
        X += 0.1 * points.std(axis=0) * rng.standard_normal(X.shape)
    return X if part.origin_ is None else X + part.origin_


def _points(part: Any, rng: np.random.Generator) -> Floats | None:
    """The points (m, d) that a model holds, in float64; None if it holds none.

    Those of a product quantizer are combinations of its centers, drawn at random.
    """
    if isinstance(part, BridgedHasher):
        return np.asarray(part.statistics_["landmarks"], np.float64)
    if (books := getattr(part, "codebooks_", None)) is not None:
        drawn = rng.integers(books.shape[1], size=(_DRAWN_POINTS, len(books)))
        Z = books[np.arange(len(books)), drawn].reshape(len(drawn), -1) + part.offset_
        return Z[:, : part.n_features_in_] if part.projection_ is None else Z @ part.projection_.T
    for name in ("base_points_", "points_", "centers_"):
        points = getattr(part, name, None)
        if points is not None:
            directions = getattr(getattr(part, "finder_", None), "directions_", None)
            return np.asarray(points if directions is None else points @ directions, np.float64)
    return None


def _center(part: Any) -> tuple[Floats, float]:
    """A vector (d,) at which a model without points has values near zero, and a spread around it."""
    d = part.n_features_in_
    if getattr(part, "gamma_", None) is not None:  # SKLSH: some periods of its cosines
        return np.zeros(d), 3 * (part.gamma_ * d) ** -0.5
    if hasattr(part, "width_"):  # E2LSH: some bins
        return np.zeros(d), part.width_ / d ** (1 / part.p)
    if hasattr(part, "mean_"):
        center = part.mean_
    else:
        projection = part.projection_ if hasattr(part, "projection_") else part.weights_
        center = np.linalg.lstsq(projection.T, part.offset_, rcond=None)[0]
    return center, float(np.sqrt(np.mean(center**2))) or 1.0
