"""Devices of torch: which are available, and copies to a GPU that overlap with its computation."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from manihash.compute import torch as torch_backend
from manihash.compute.torch_arrays import Tensor, dense, supported, tensor_type

# Threads that copy a block into pinned memory: one thread alone is slower than the transfer to the GPU.
_COPY_THREADS = 4


def checked_device(name: Any) -> Any:
    """The device of a name such as ``"cuda"``, ``"cuda:1"`` or ``"cpu"``; raise if it is not available."""
    library = torch_backend.torch()
    try:
        device = library.device(name)
        library.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        have = [f"cuda:{i}" for i in range(library.cuda.device_count())]
        raise ValueError(
            f"the device {str(name)!r} cannot be used with this torch {library.__version__} "
            f"({str(error).splitlines()[0].rstrip('.')}): "
            + (f"give one of {', '.join(have)}, or cpu" if have else "no GPU was found, give cpu")
        ) from error
    return device


def _cuda() -> Any:
    return torch_backend.torch().cuda


class Sender:
    """Copies blocks to a GPU on a separate stream, through two buffers of pinned memory."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.stream = _cuda().Stream(device) if device.type == "cuda" else None
        self.buffers: list[Tensor] = [None, None]
        self.copied: list[Any] = [None, None]
        self.turn = 0
        self.pool = ThreadPoolExecutor(_COPY_THREADS)

    def send(self, X: Any, which: slice) -> tuple[Tensor, Any]:
        """The rows X[which] on the device, and the event that marks the end of the copy, None on the CPU."""
        block = supported(dense(X[which]))
        if self.stream is None:
            return torch_backend.on(self.device, block), None
        i, self.turn = self.turn, 1 - self.turn
        if self.copied[i] is not None:
            self.copied[i].synchronize()
        dtype = tensor_type(block.dtype)
        if self.buffers[i] is None or self.buffers[i].dtype != dtype:
            self.buffers[i] = torch_backend.torch().empty(block.size, dtype=dtype, pin_memory=True)
        buffer = self.buffers[i][: block.size].view(block.shape)
        pinned, rows = buffer.numpy(), max(1, -(-len(block) // _COPY_THREADS))
        cuts = [slice(start, start + rows) for start in range(0, len(block), rows)]
        list(self.pool.map(lambda cut: np.copyto(pinned[cut], block[cut]), cuts))
        with _cuda().stream(self.stream):
            there = buffer.to(self.device, non_blocking=True)
            self.copied[i] = _cuda().Event()
            self.copied[i].record(self.stream)
        return there, self.copied[i]

    def receive(self, sent: tuple[Tensor, Any]) -> Tensor:
        """The rows that were sent; later work on the current stream waits for the copy."""
        block, event = sent
        if event is not None:
            current = _cuda().current_stream(self.device)
            current.wait_event(event)
            block.record_stream(current)
        return block
