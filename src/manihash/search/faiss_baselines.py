"""Quantizers of FAISS with as many bytes per row as our codes, to compare with: PQ, OPQ and RaBitQ."""

from importlib.util import find_spec
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash import checks
from manihash.codes import n_bytes
from manihash.compute.largest import query_block
from manihash.search.scanners import faiss_threads, installed_faiss
from manihash.types import Codes, Ids

# FAISS learns 256 centers per byte.
_MOST_BITS = 2**16 - 1  # as of an index; FAISS cannot allocate much longer codes
_LARGEST = 1e15  # the largest value whose squares, summed over many columns, fit into float32
_CENTERS = 256
# OPQ learns its rotation on a sample, in at most this many principal dimensions: its time grows with their
# cube. On MNIST (784 columns, 8 bytes, 300 queries) recall@10 is 0.50 in 64 dimensions, 0.52 in 128 and 0.54
# in all of them, which take 3.6 times as long as 128.
_OPQ_ROWS, _OPQ_ROUNDS, _OPQ_DIMENSIONS = 20_000, 25, 128

BASELINES = {"faiss-pq": "pq", "faiss-opq": "opq", "faiss-rabitq": "rabitq"}  # names in tables: methods
BASELINE_TITLES = {"faiss-pq": "FAISS PQ", "faiss-opq": "FAISS OPQ", "faiss-rabitq": "FAISS RaBitQ"}


def installed_baselines() -> tuple[str, ...]:
    """The names of the quantizers; none if FAISS is not installed."""
    return tuple(BASELINES) if find_spec("faiss") else ()


class FaissQuantizer:
    """A quantizer of FAISS: compressed vectors that are ranked by estimated Euclidean distance.

    This class is for comparison: it fits, compresses and searches with FAISS, so that our codes can be
    measured beside codes of the same size. Queries are not compressed (asymmetric distance). It needs FAISS:
    ``pip install 'manihash[faiss]'``.

    Parameters
    ----------
    method : {"pq", "opq", "rabitq"}, default="pq"
        Product quantization (one of 256 centers per byte), product quantization after a learned rotation, or
        RaBitQ (one bit per rotated principal component).
    n_bits : int, default=64
        Number of bits per row; PQ and OPQ use whole bytes. RaBitQ stores two numbers of 4 bytes per row
        beside its bits, which ``bytes_per_row_`` includes.
    normalize : bool, default=False
        Whether to scale rows and queries to unit length.
    random_state : int, Generator, RandomState or None, default=None
        Seed of k-means.

    Attributes
    ----------
    bytes_per_row_ : int
        Size of a compressed row.
    n_features_in_ : int
        Number of columns of the training rows.

    Raises
    ------
    ImportError
        If FAISS is not installed, or is too old for RaBitQ.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.search import FaissQuantizer
    >>> X = np.random.default_rng(0).normal(size=(1000, 16))
    >>> quantizer = FaissQuantizer("pq", n_bits=64, random_state=0).fit(X)
    >>> codes = quantizer.encode(X)
    >>> codes.shape
    (1000, 8)
    >>> distances, ids = quantizer.index(codes).search(X[:3], k=5)
    >>> ids.shape
    (3, 5)
    """

    def __init__(
        self, method: str = "pq", n_bits: int = 64, *, normalize: bool = False, random_state: Any = None
    ) -> None:
        if method not in BASELINES.values():
            raise ValueError(f"method must be 'pq', 'opq' or 'rabitq', got {method!r}")
        self.method = method
        self.n_bits = checks.positive_int(n_bits, "n_bits")
        if self.n_bits > _MOST_BITS:
            raise ValueError(f"n_bits={n_bits} exceeds the limit of {_MOST_BITS:,}: use shorter codes")
        self.normalize = checks.flag(normalize, "normalize")
        self.random_state = random_state
        self._faiss = installed_faiss()
        if method == "rabitq" and not hasattr(self._faiss, "IndexRaBitQ"):
            raise ImportError(
                f"RaBitQ needs FAISS 1.11 or newer, got {self._faiss.__version__}: "
                "pip install -U 'manihash[faiss]'"
            )

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the quantizer from rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training rows; for PQ and OPQ at least 256.
        y : object, default=None
            Ignored, as by hashers that use no labels.

        Returns
        -------
        FaissQuantizer
            The fitted quantizer itself.
        """
        checks.check_unmasked(X)
        rows = np.asarray(X)
        checks.shape_of_rows(rows.shape, least=2 if self.method == "rabitq" else _CENTERS)
        self.n_features_in_ = rows.shape[1]
        rows = self._prepared(rows)
        seed = checks.seed(checks.generator(self.random_state))
        # Its k-means of few rows starts threads for tiny steps: OPQ of the digits took 9 times the CPU time.
        with faiss_threads(self._faiss, 1):
            self._transform, self._quantizer = _MAKERS[self.method](self._faiss, rows, self.n_bits, seed)
            self._quantizer.train(self._transformed(rows))
        self.bytes_per_row_ = int(self._quantizer.sa_code_size())
        return self

    def encode(self, X: ArrayLike) -> Codes:
        """Compress rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows with as many columns as those of ``fit``.

        Returns
        -------
        ndarray of shape (n, bytes_per_row_) and dtype uint8
            The compressed rows.
        """
        codes = self._quantizer.sa_encode(self._transformed(self._prepared(np.asarray(X))))
        return np.asarray(codes, np.uint8)

    def index(self, codes: Codes) -> "FaissIndex":
        """Return an index of compressed rows, to search with the vectors of queries.

        Parameters
        ----------
        codes : ndarray of shape (n, bytes_per_row_) and dtype uint8
            Compressed rows, as ``encode`` returns them.

        Returns
        -------
        FaissIndex
            An index with ``search(Q, k)`` and ``distances(Q)``.
        """
        if codes.ndim != 2 or codes.shape[1] != self.bytes_per_row_ or codes.dtype != np.uint8:
            raise ValueError(
                f"codes must be bytes (uint8) of shape (n, {self.bytes_per_row_}), as encode() returns "
                f"them, got shape {codes.shape} and type {codes.dtype}"
            )
        index = self._faiss.clone_index(self._quantizer)
        index.add_sa_codes(np.ascontiguousarray(codes))
        return FaissIndex(self, index)

    def _queries(self, Q: ArrayLike) -> NDArray[np.float32]:
        return self._transformed(self._prepared(np.asarray(Q)))

    def _prepared(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """The rows as FAISS expects them (n, d), scaled to unit length if ``normalize`` is set."""
        checks.shape_of_rows(X.shape, 1, self.n_features_in_, type(self).__name__)
        checks.finite_block(X)
        if not self.normalize:
            largest = float(np.abs(X).max(initial=0))
            if largest > _LARGEST:
                raise ValueError(
                    f"FAISS computes in float32, and the squares of values up to {largest:.1e} overflow it, "
                    f"expected at most {_LARGEST:.0e}: scale the vectors down, or set normalize=True"
                )
            return np.ascontiguousarray(X, np.float32)
        rows = X.astype(np.float64)
        largest_of_row = np.abs(rows).max(axis=1, keepdims=True)
        rows /= np.where(largest_of_row > 0, largest_of_row, 1)  # squares do not overflow
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.ascontiguousarray(rows / np.where(lengths > 0, lengths, 1), np.float32)

    def _transformed(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(self._transform.apply(rows), np.float32)


class FaissIndex:
    """Compressed rows of a ``FaissQuantizer`` that can be searched; made by its ``index``.

    Parameters
    ----------
    quantizer : FaissQuantizer
        The fitted quantizer.
    index : faiss.Index
        Index of FAISS that holds the compressed rows.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.search import FaissQuantizer
    >>> X = np.random.default_rng(0).normal(size=(300, 8))
    >>> quantizer = FaissQuantizer("rabitq", n_bits=32, random_state=0).fit(X)
    >>> index = quantizer.index(quantizer.encode(X))
    >>> index.distances(X[:2]).shape
    (2, 300)
    """

    def __init__(self, quantizer: FaissQuantizer, index: Any) -> None:
        self._owner, self._index = quantizer, index

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def search(self, Q: ArrayLike, k: int = 10) -> tuple[NDArray[np.float32], Ids]:
        """Find the nearest rows of queries by estimated distance.

        Parameters
        ----------
        Q : array-like of shape (q, d)
            Vectors of the queries.
        k : int, default=10
            Number of answers per query, at most the number of rows.

        Returns
        -------
        distances : ndarray of shape (q, k), float32
            Estimated squared Euclidean distances.
        ids : ndarray of shape (q, k), int64
            Positions of the rows.
        """
        k = checks.positive_int(k, "k")
        if k > len(self):
            raise ValueError(f"k={k} exceeds the {len(self)} rows: lower k to {len(self)} or less")
        distances, ids = self._index.search(self._owner._queries(Q), k)
        return distances, ids

    def distances(self, Q: ArrayLike) -> NDArray[np.float32]:
        """Estimate the squared Euclidean distances of queries to all rows.

        Parameters
        ----------
        Q : array-like of shape (q, d)
            Vectors of the queries.

        Returns
        -------
        ndarray of shape (q, n), float32
            Estimated squared distances.
        """
        queries, n = self._owner._queries(Q), len(self)
        found = np.empty((len(queries), n), np.float32)
        step = query_block(n)
        for start in range(0, len(queries), step):
            block = found[start : start + step]
            lims, distances, ids = self._index.range_search(queries[start : start + step], float("inf"))
            query = np.repeat(np.arange(len(block)), np.diff(lims.astype(np.int64)))
            block[query, ids] = distances
        return found


def _pq(faiss: ModuleType, rows: NDArray[np.float32], n_bits: int, seed: int) -> tuple[Any, Any]:
    """No transform but zeros up to a multiple of the number of bytes, and a product quantizer."""
    m, d = n_bytes(n_bits), rows.shape[1]
    width = -(-d // m) * m
    return faiss.RemapDimensionsTransform(d, width, False), _quantizer(faiss, width, m, seed)


def _opq(faiss: ModuleType, rows: NDArray[np.float32], n_bits: int, seed: int) -> tuple[Any, Any]:
    """A learned rotation of the rows, and a product quantizer."""
    m, d = n_bytes(n_bits), rows.shape[1]
    width = max(1, min(d, max(_OPQ_DIMENSIONS, 4 * m)) // m) * m
    if width > len(rows):  # FAISS ended the process
        raise ValueError(f"OPQ of {n_bits} bits needs at least {width} rows, got {len(rows)}: lower n_bits")
    transform = faiss.OPQMatrix(d, m, width)
    transform.niter, transform.max_train_points = _OPQ_ROUNDS, _OPQ_ROWS
    quantizer = _quantizer(faiss, width, m, seed)
    inner = faiss.ProductQuantizer(width, m, 8)
    inner.cp.seed, inner.cp.min_points_per_centroid = quantizer.pq.cp.seed, 1
    transform.pq = inner
    transform.train(rows)
    transform.pq = None
    return transform, quantizer


def _rabitq(faiss: ModuleType, rows: NDArray[np.float32], n_bits: int, seed: int) -> tuple[Any, Any]:
    """Principal components in a random rotation, one bit each; a rotation alone if n_bits >= d."""
    d = rows.shape[1]
    if n_bits < d:
        transform = faiss.PCAMatrix(d, n_bits, 0, True)
        transform.train(rows)
    else:
        transform = faiss.RandomRotationMatrix(d, n_bits)
        transform.init(seed)
    quantizer = faiss.IndexRaBitQ(n_bits)
    quantizer.qb = 0  # queries are not quantized
    return transform, quantizer


def _quantizer(faiss: ModuleType, width: int, m: int, seed: int) -> Any:
    quantizer = faiss.IndexPQ(width, m, 8)
    quantizer.pq.cp.seed, quantizer.pq.cp.min_points_per_centroid = seed % 2**31, 1
    return quantizer


_MAKERS = {"pq": _pq, "opq": _opq, "rabitq": _rabitq}
