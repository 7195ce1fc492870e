"""Rows that torch computes with: a tensor where it lies, or rows in main memory or a file sent to a card."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute import torch as torch_backend
from manihash.compute.torch import Tensor
from manihash.progress import advance
from manihash.rows import dask as dask_rows
from manihash.rows.local import KEEP_BYTES, Arrays, Result, Rows, joined, largest_square
from manihash.rows.places import Chosen, rows_at
from manihash.types import Floats, Ints

_log = logging.getLogger(__name__)

# Numbers in a block on a card, and in one that is sent there; rows at most; the fewest on a full card.
_BLOCK_NUMBERS, _SENT_NUMBERS, _BLOCK_ROWS, _LEAST_ROWS = 2**26, 2**24, 2**16, 64
# The part of a card's free memory that prepared rows may be kept in.
_KEEP = 0.5


class Streamed:
    """Rows (n, d) in main memory or a file that are computed with on a device, block after block."""

    def __init__(self, X: Any, device: Any) -> None:
        self.X, self.device = X, torch_backend.checked_device(device)
        self.shape, self.dtype = X.shape, X.dtype

    def __len__(self) -> int:
        return int(self.shape[0])


def on_device(X: Any, device: Any) -> Streamed:
    """Rows of an array or a memory map, however long, to be computed with on a device of torch.

    ``fit`` and ``encode`` take it as X. Blocks are copied while others are computed with, and results come
    back as numpy arrays.

    >>> codes = hasher.encode(on_device(np.load("vectors.npy", mmap_mode="r"), "cuda"))
    """
    array = X if hasattr(X, "dtype") and hasattr(X, "shape") else np.asarray(X)
    if torch_backend.is_tensor(array):
        raise TypeError(f"X is a tensor on {array.device}: give it to fit and encode as it is")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"X holds values of type {array.dtype}: give real numbers (float, int or bool)")
    return Streamed(array, device)


def is_on_torch(X: Any) -> bool:
    """Whether torch is to compute with X."""
    return isinstance(X, Streamed) or torch_backend.is_tensor(X)


def in_numpy(X: Any) -> Any:
    """The same rows for numpy to compute with."""
    return X.X if isinstance(X, Streamed) else torch_backend.to_numpy(X)


def rows_of(X: Any, *, normalize: bool = False, origin: Floats | None = None) -> Rows:
    """The rows of X, wherever they lie and whichever library is to compute with them."""
    make = TensorRows if is_on_torch(X) else dask_rows.rows_of
    return make(X, normalize=normalize, origin=origin)


class TensorRows(Rows):
    """As ``Rows``, in blocks that are torch_backend.

    What ``map`` and ``take`` give is copied to main memory; ``stack`` gives a tensor beside X, or an array
    where X is ``Streamed``. Where the card is full, a block is cut in two, and again.
    """

    def __init__(
        self, X: Any, *, normalize: bool = False, origin: Floats | None = None, numbers: int | Ints = 0
    ) -> None:
        held = X.detach() if torch_backend.is_tensor(X) else X
        super().__init__(held, normalize=normalize, origin=origin, numbers=numbers)
        self.device = X.device
        if held is not X and (X.is_complex() or X.is_quantized):
            raise ValueError(f"X holds values of type {X.dtype}: give real numbers (float, int or bool)")

    def map(self, f: Callable[[Tensor], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """f of each block of rows, in the order of the rows from row ``start`` on, as numpy arrays."""
        for _, result in self._visits(f, stage, start):
            yield torch_backend.to_numpy(result)

    in_turns = map

    def fold(self, f: Callable[[Tensor], tuple[Arrays, Arrays]], stage: str = "") -> tuple[Arrays, Arrays]:
        """As that of ``Rows``, over the blocks of a card."""
        return joined(self.map(f, stage))

    def stack(self, f: Callable[[Tensor], Tensor], width: int, dtype: Any, stage: str = "") -> Any:
        """f of each block, (b, width), one below the other: (n, width)."""
        out = self._empty((len(self), width), dtype)
        for first, piece in self._visits(f, stage):
            if len(piece) == len(self) and torch_backend.is_tensor(self.X) and piece.dtype == out.dtype:
                return piece
            out[first : first + len(piece)] = (
                piece if torch_backend.is_tensor(out) else torch_backend.to_numpy(piece)
            )
        return out

    def to_device(self, array: Any) -> Tensor:
        """The array, or tensor, as a tensor on the device of these rows."""
        return array if torch_backend.is_tensor(array) else torch_backend.on(self.device, array)

    def take(self, index: Any) -> Floats:
        """The rows at the given positions, prepared, as a numpy array."""
        return torch_backend.to_numpy(self._taken(np.asarray(index)))

    def only(self, index: Ints) -> Rows:
        """The rows at the given positions, which ascend, as rows to visit."""
        if torch_backend.is_tensor(self.X):
            X: Any = self.X[torch_backend.on(self.device, index)]
        else:
            X = Streamed(Chosen(self.X.X, index), self.device)
        return TensorRows(X, normalize=self.normalize, origin=self.origin, numbers=self._numbers_of(index))

    def block(self, start: int, stop: int) -> Tensor:
        """Rows start to stop, prepared."""
        if self._kept is not None:
            return self._kept[start:stop]
        part = self.X[start:stop] if torch_backend.is_tensor(self.X) else self._sent(slice(start, stop))
        return self._ready(part, range(start, stop))

    def kept(self) -> Rows:
        """Self, made ready to be visited many times: checked once, and the prepared rows held if they fit."""
        if self._kept is None and len(self) * self.width * self.dtype.itemsize <= self._room():
            shape, dtype = (len(self), self.width), torch_backend.tensor_type(self.dtype)
            kept = torch_backend.torch().empty(shape, dtype=dtype, device=self.device)
            for first, piece in self._visits(lambda block: block):
                kept[first : first + len(piece)] = piece
            self._kept = kept
        return self

    def _visits(
        self, f: Callable[[Tensor], Result], stage: str = "", start: int = 0
    ) -> Iterator[tuple[int, Result]]:
        """f of each block, or of its pieces, each with the place of its first row."""
        n, size = len(self), self._block_rows()
        starts = range(start, n, size)
        held = self.X if self._kept is None else self._kept
        blocks = (
            (held[i : i + size] for i in starts) if torch_backend.is_tensor(held) else self._arriving(starts)
        )
        for first, part in zip(starts, blocks, strict=True):
            yield from self._pieces(f, first, part, range(first, first + len(part)))
            if stage:
                advance(stage, min(first + size, n), n)

    def _pieces(
        self, f: Callable[[Tensor], Result], start: int, part: Tensor, places: Any
    ) -> Iterator[tuple[int, Result]]:
        """f of a part, prepared; of its halves, where the card is too full for the whole."""
        full = False
        try:
            result = f(part if self._kept is not None else self._ready(part, places))
        except torch_backend.out_of_memory():
            full = True
        if not full:
            yield start, result
            return
        b = len(part) // 2
        if b < _LEAST_ROWS:
            raise MemoryError(
                f"{self.device} has too little free memory for {len(part)} rows at once: free some, take a "
                "smaller base set, or another device"
            )
        _log.info("%s is full: blocks of %d rows are tried", self.device, b)
        torch_backend.torch().cuda.empty_cache()
        yield from self._pieces(f, start, part[:b], places[:b])
        yield from self._pieces(f, start + b, part[b:], places[b:])

    def _arriving(self, starts: range) -> Iterator[Tensor]:
        """Blocks of rows of main memory, the next read and copied while one is computed with."""
        sender = torch_backend.Sender(self.device)
        with ThreadPoolExecutor(1) as pool:
            waiting = None
            for start in starts:
                sent = pool.submit(sender.send, self.X.X, slice(start, min(start + starts.step, len(self))))
                if waiting is not None:
                    yield sender.receive(waiting.result())
                waiting = sent
            if waiting is not None:
                yield sender.receive(waiting.result())

    def _taken(self, index: Any) -> Tensor:
        held = self.X if self._kept is None else self._kept
        if torch_backend.is_tensor(held):
            taken = held[torch_backend.on(self.device, index)]
            return taken if self._kept is not None else self._ready(taken, index)
        order = np.argsort(index, kind="stable")
        part = self._ready(self._sent(index[order]), index[order])
        return part[torch_backend.on(self.device, np.argsort(order))]

    def _sent(self, which: Any) -> Tensor:
        part = self.X.X[which] if isinstance(which, slice) else rows_at(self.X.X, which)
        return torch_backend.on(self.device, torch_backend.dense(part))

    def _ready(self, part: Tensor, places: Any) -> Tensor:
        """Rows made ready; ``places`` are theirs in X, by which an error numbers them."""
        block = part.to(torch_backend.tensor_type(self.dtype)).contiguous()
        squared = torch_backend.squared_norms(block)
        most = largest_square(self.dtype)
        if not bool((squared <= most).all()):
            bad = int(torch_backend.to_numpy(~(squared <= most)).argmax())
            number = self._numbers_of(np.asarray([places[bad]]))
            checks.finite_block(torch_backend.to_numpy(block[bad : bad + 1]), numbers=number)
            raise checks.BadRowsError(
                f"the squares of some values overflow {self.dtype} (row {number[0]}): "
                "scale the vectors down, or give them as float64"
            )
        if self.normalize:
            block = torch_backend.unit_rows(block, squared)
        return block if self.origin is None else block - torch_backend.like(self.origin, block)

    def _block_rows(self) -> int:
        if self.device.type == "cpu":
            return numpy_backend.block_rows(self.width)
        numbers = _BLOCK_NUMBERS if torch_backend.is_tensor(self.X) else _SENT_NUMBERS
        return max(_LEAST_ROWS, min(_BLOCK_ROWS, numbers // self.width))

    def _room(self) -> float:
        """Bytes that prepared rows may be kept in."""
        if self.device.type != "cuda":
            return KEEP_BYTES
        return _KEEP * float(torch_backend.torch().cuda.mem_get_info(self.device)[0])

    def _empty(self, shape: tuple[int, int], dtype: Any) -> Any:
        if torch_backend.is_tensor(self.X):
            return torch_backend.torch().empty(
                shape, dtype=torch_backend.tensor_type(dtype), device=self.device
            )
        return np.empty(shape, dtype)


class FusedRows(TensorRows):
    """Rows that a kernel embeds or encodes as they lie, unprepared; f is asked for those that it leaves."""

    def __init__(self, rows: TensorRows, kernel: Any) -> None:
        super().__init__(rows.X, normalize=rows.normalize, origin=rows.origin, numbers=rows.numbers)
        self._kernel, self._rows = kernel, rows

    def _pieces(
        self, f: Callable[[Tensor], Any], start: int, part: Tensor, places: Any
    ) -> Iterator[tuple[int, Any]]:
        part = part if part.stride(1) == 1 else part.contiguous()
        out, left = self._kernel(part)
        if left is not None:
            for first, piece in self._rows._pieces(f, 0, part[left], start + torch_backend.to_numpy(left)):
                out[left[first : first + len(piece)]] = piece
        yield start, out

    def _block_rows(self) -> int:
        return max(1, len(self)) if torch_backend.is_tensor(self.X) else super()._block_rows()
