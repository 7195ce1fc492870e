"""Rows that torch computes with: a tensor, or rows in main memory or a file that are copied to a device."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute import torch as torch_backend
from manihash.compute.cuda import Sender, checked_device
from manihash.compute.torch_arrays import Tensor, dense, tensor_type
from manihash.progress import advance
from manihash.rows.local import Subset, read_rows
from manihash.rows.rows import CACHE_BYTES, Arrays, Result, Rows, combine, largest_square, overflow_error
from manihash.types import Floats, Ints

_log = logging.getLogger(__name__)

# Numbers in a block of a tensor on a GPU, and in a block copied to it; the most and the fewest rows.
_BLOCK_NUMBERS, _COPIED_NUMBERS, _MAX_ROWS, _MIN_ROWS = 2**26, 2**24, 2**16, 64
# The part of a GPU's free memory in which prepared rows may be cached.
_CACHE_PART = 0.5


class Streamed:
    """Rows (n, d) in main memory or a file, to be copied to a device block by block: see ``on_device``."""

    def __init__(self, X: Any, device: Any) -> None:
        self.X, self.device = X, checked_device(device)
        self.shape, self.dtype = X.shape, X.dtype

    def __len__(self) -> int:
        return int(self.shape[0])


def on_device(X: Any, device: Any) -> Streamed:
    """Mark rows in main memory or a file to be computed with on a torch device.

    The result is passed to ``fit`` or ``encode`` in place of X. Rows are copied block by block while earlier
    blocks are computed with, so X can be larger than the memory of the device. Results come back as numpy
    arrays.

    Parameters
    ----------
    X : array-like of shape (n, d)
        An array, a memory map, or rows of a file as ``open_vectors`` gives them. A tensor is an error: it is
        computed with on its own device.
    device : str or torch.device
        The device, such as ``"cuda"``, ``"cuda:1"`` or ``"cpu"``.

    Returns
    -------
    Streamed
        X with its device, accepted as X by hashers and embeddings.

    Raises
    ------
    ValueError
        If the device is not available, or X does not hold real numbers.
    TypeError
        If X is a tensor.
    ImportError
        If torch is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import on_device
    >>> from manihash.hashers import LSH
    >>> X = np.eye(8, dtype=np.float32)
    >>> hasher = LSH(n_bits=16, random_state=0).fit(X)
    >>> hasher.encode(on_device(X, "cpu")).shape  # doctest: +SKIP
    (8, 2)
    """
    array = X if hasattr(X, "dtype") and hasattr(X, "shape") else np.asarray(X)
    if torch_backend.is_tensor(array):
        raise TypeError(f"X is a tensor on {array.device}: pass it to fit and encode as it is")
    if array.dtype.kind not in "fiub":
        raise checks.not_numbers(array.dtype)
    return Streamed(array, device)


def uses_torch(X: Any) -> bool:
    """Whether torch computes with X: a tensor, or what ``on_device`` returned."""
    return isinstance(X, Streamed) or torch_backend.is_tensor(X)


def without_torch(X: Any) -> Any:
    """The same rows, for numpy to compute with."""
    return X.X if isinstance(X, Streamed) else torch_backend.to_numpy(X)


def is_on_gpu(rows: Rows) -> bool:
    """Whether the blocks of rows are tensors on a GPU."""
    return isinstance(rows, TorchRows) and rows.device.type != "cpu"


class TorchRows(Rows):
    """Rows of a tensor, or of ``Streamed``, visited in blocks that are tensors on its device.

    ``map`` and ``take`` return numpy arrays. ``stack`` returns a tensor on the device of X, or a numpy array
    if X is ``Streamed``. If the GPU has too little memory for a block, the block is halved, repeatedly.
    """

    _cache: Tensor | None = None
    _limit_type: Any = None  # the type in which squares must not overflow, if it is not that of the rows

    def __init__(
        self,
        X: Any,
        *,
        normalize: bool = False,
        origin: Floats | None = None,
        row_numbers: int | Ints = 0,
        dtype: Any = None,
    ) -> None:
        self._in_tensor = torch_backend.is_tensor(X)
        if self._in_tensor and (X.is_complex() or X.is_quantized):
            raise checks.not_numbers(X.dtype)
        X = X.detach() if self._in_tensor else X
        super().__init__(X, normalize=normalize, origin=origin, row_numbers=row_numbers, dtype=dtype)
        self.device = X.device

    def map(self, f: Callable[[Tensor], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """f(block) of each block, in row order, from row ``start`` on, as numpy arrays."""
        for _, result in self._visit(f, stage, start):
            yield torch_backend.to_numpy(result)

    def fold(self, f: Callable[[Tensor], tuple[Arrays, Arrays]], stage: str = "") -> tuple[Arrays, Arrays]:
        """As ``Rows.fold``, over the larger blocks of a GPU."""
        return combine(self.map(f, stage))

    def stack(self, f: Callable[[Tensor], Tensor], width: int, dtype: Any, stage: str = "") -> Any:
        """The blocks f(block), (b, width), concatenated: (n, width)."""
        out = self._empty((len(self), width), dtype)
        for first, piece in self._visit(f, stage):
            if len(piece) == len(self) and self._in_tensor and piece.dtype == out.dtype:
                return piece
            out[first : first + len(piece)] = piece if self._in_tensor else torch_backend.to_numpy(piece)
        return out

    def to_device(self, array: Any) -> Tensor:
        """The array, or tensor, as a tensor on the device of these rows."""
        return array if torch_backend.is_tensor(array) else torch_backend.on(self.device, array)

    def take(self, index: Any) -> Floats:
        """The prepared rows at the given positions, as a numpy array."""
        return torch_backend.to_numpy(self._take(np.asarray(index)))

    def in_float64(self) -> "TorchRows":
        """The same rows, prepared in float64; what overflows in their own type is an error there, too."""
        rows = TorchRows(self.X, **self.prepared_as | {"dtype": np.float64}, row_numbers=self.row_numbers)
        rows._limit_type = self.dtype
        return rows

    def subset(self, index: Ints) -> "TorchRows":
        """The rows at the given ascending positions."""
        if self._in_tensor:
            X: Any = self.X[torch_backend.on(self.device, index)]
        else:
            X = Streamed(Subset(self.X.X, index), self.device)
        numbers = self._numbers_at(index)
        return TorchRows(X, **self.prepared_as, row_numbers=numbers)

    def block(self, start: int, stop: int) -> Tensor:
        """The prepared rows from start to stop."""
        if self._cache is not None:
            return self._cache[start:stop]
        part = self.X[start:stop] if self._in_tensor else self._copied(slice(start, stop))
        return self._prepare(part, range(start, stop))

    def cached(self) -> "TorchRows":
        """Self, after all rows were checked once and, if the device has the memory, cached."""
        if self._cache is None and len(self) * self.width * self.dtype.itemsize <= self._cache_bytes():
            shape, dtype = (len(self), self.width), tensor_type(self.dtype)
            cache = torch_backend.torch().empty(shape, dtype=dtype, device=self.device)
            for first, piece in self._visit(lambda block: block):
                cache[first : first + len(piece)] = piece
            self._cache = cache
        return self

    def _visit(
        self, f: Callable[[Tensor], Result], stage: str = "", start: int = 0
    ) -> Iterator[tuple[int, Result]]:
        """f of each block, or of its pieces, each with the position of its first row."""
        n, size = len(self), self._block_rows()
        starts = range(start, n, size)
        X = self.X if self._cache is None else self._cache
        blocks = (X[i : i + size] for i in starts) if torch_backend.is_tensor(X) else self._copies(starts)
        for first, part in zip(starts, blocks, strict=True):
            yield from self._pieces(f, first, part, range(first, first + len(part)))
            if stage:
                advance(stage, min(first + size, n), n)

    def _pieces(
        self, f: Callable[[Tensor], Result], start: int, part: Tensor, positions: Any
    ) -> Iterator[tuple[int, Result]]:
        """f of a part after preparing it; if the GPU has too little memory, f of its halves."""
        if self.raw:
            numbers = self._numbers_at(np.asarray(positions))
            array = torch_backend.to_numpy(part.to(tensor_type(self.dtype)))
            yield start, torch_backend.on(self.device, f((array, numbers)))
            return
        full = False
        try:
            result = f(part if self._cache is not None else self._prepare(part, positions))
        except torch_backend.out_of_memory():
            full = True
        if not full:
            yield start, result
            return
        b = len(part) // 2
        if b < _MIN_ROWS:
            raise MemoryError(
                f"{self.device} has too little free memory for {len(part)} rows at once: free some memory, "
                "use a smaller base set, or use another device"
            )
        _log.info("%s is out of memory: trying blocks of %d rows", self.device, b)
        torch_backend.torch().cuda.empty_cache()
        yield from self._pieces(f, start, part[:b], positions[:b])
        yield from self._pieces(f, start + b, part[b:], positions[b:])

    def _copies(self, starts: range) -> Iterator[Tensor]:
        """Blocks of rows copied from main memory; the next is read and copied while one is computed with."""
        sender = Sender(self.device)
        with ThreadPoolExecutor(1) as pool:
            waiting = None
            for start in starts:
                sent = pool.submit(sender.send, self.X.X, slice(start, min(start + starts.step, len(self))))
                if waiting is not None:
                    yield sender.receive(waiting.result())
                waiting = sent
            if waiting is not None:
                yield sender.receive(waiting.result())

    def _take(self, index: Any) -> Tensor:
        X = self.X if self._cache is None else self._cache
        if torch_backend.is_tensor(X):
            taken = X[torch_backend.on(self.device, index)]
            return taken if self._cache is not None else self._prepare(taken, index)
        order = np.argsort(index, kind="stable")
        part = self._prepare(self._copied(index[order]), index[order])
        return part[torch_backend.on(self.device, np.argsort(order))]

    def _copied(self, which: Any) -> Tensor:
        """Rows of main memory, by a slice or ascending positions, on the device."""
        part = self.X.X[which] if isinstance(which, slice) else read_rows(self.X.X, which)
        return torch_backend.on(self.device, dense(part))

    def _prepare(self, part: Tensor, positions: Any) -> Tensor:
        """A part of X, prepared; an error names its rows by their positions in X."""
        dtype = np.dtype(np.float64) if self.exact_until_shifted else self.dtype
        block = part.to(tensor_type(dtype)).contiguous()
        squared = torch_backend.squared_norms(block)
        limit_type = dtype if self._limit_type is None else self._limit_type
        most = largest_square(limit_type)
        if not bool((squared <= most).all()):
            bad = int(torch_backend.to_numpy(~(squared <= most)).argmax())
            number = self._numbers_at(np.asarray([positions[bad]]))
            checks.finite_block(torch_backend.to_numpy(block[bad : bad + 1]), row_numbers=number)
            raise overflow_error(limit_type, int(number[0]))
        if self.normalize:
            block = torch_backend.unit_rows(block, squared)
        if self.origin is None:
            return block
        return (block - torch_backend.like(self.origin, block)).to(tensor_type(self.dtype))

    def _block_rows(self) -> int:
        if self.device.type == "cpu":
            return numpy_backend.block_rows(self.width)
        numbers = _BLOCK_NUMBERS if self._in_tensor else _COPIED_NUMBERS
        return max(_MIN_ROWS, min(_MAX_ROWS, numbers // self.width))

    def _cache_bytes(self) -> float:
        """The memory in which prepared rows may be cached."""
        if self.device.type != "cuda":
            return CACHE_BYTES
        return _CACHE_PART * float(torch_backend.torch().cuda.mem_get_info(self.device)[0])

    def _empty(self, shape: tuple[int, int], dtype: Any) -> Any:
        if self._in_tensor:
            dtype = tensor_type(dtype)
            return torch_backend.torch().empty(shape, dtype=dtype, device=self.device)
        return np.empty(shape, dtype)
