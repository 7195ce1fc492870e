"""Induction on a card as one kernel: how the model is laid out for it, and what the kernel leaves over.

Products are taken in half precision of numbers scaled by powers of two. A half has the 11 significant bits of
TF32, rounded where TF32 cuts off, and is multiplied twice as fast; a number in two halves has 22 bits. Scaled
numbers lie below 2^9: halves end at 65,504, and the smallest are 2^-24 apart.
"""

import importlib.util
import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from manihash import codes
from manihash.compute import torch as torch_backend
from manihash.compute.torch import Tensor
from manihash.types import Floats

_log = logging.getLogger(__name__)

PRECISIONS = ("tf32", "tf32x3", "float32")
_MOST_NEIGHBORS = 16
_ROWS, _STEP, _COLUMNS = 128, 32, 64
# Base points whose scores are held at once: 200 registers a thread for one product, 128 for three.
_PANEL = {"tf32": 400, "tf32x3": 256}
_STAGES = {"tf32": 4, "tf32x3": 4}
# Rows that tell how large the numbers of X are.
_SAMPLE = 1024
# What a panel costs beyond its columns, in columns.
_OVERHEAD = 32
_KEPT = 8

_precision: ContextVar[str] = ContextVar("precision", default="tf32x3")
_laid_out: OrderedDict[tuple[Any, ...], "Layout"] = OrderedDict()


@contextmanager
def precision(name: str) -> Iterator[None]:
    """How exactly a card takes the products of ``encode`` inside this block.

    ``"tf32x3"``, the default, has float32's accuracy by three products; ``"tf32"`` takes one, with 11
    significant bits; ``"float32"`` leaves it to torch.

    >>> with manihash.precision("tf32"):
    ...     codes = hasher.encode(X)
    """
    if name not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {name!r}")
    token = _precision.set(name)
    try:
        yield
    finally:
        _precision.reset(token)


@cache
def has_kernels(device: Any) -> bool:
    """Whether a device runs our kernels: a card of Nvidia's since Ampere, and Triton installed."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return False
    torch = torch_backend.torch()
    return torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def kernel(
    B: Floats, Y_B: Floats, k: int, sigma: float, *, origin: Floats | None, normalize: bool, device: Any
) -> "Layout | None":
    """Induction of rows of at most float32 as one kernel; None where it does not apply, and torch must do.

    It needs a card, Triton, few neighbors, and an origin that is subtracted before anything else. What was
    laid out for the last few models is kept.
    """
    name = _precision.get()
    if name == "float32" or not has_kernels(device):
        return None
    if k > _MOST_NEIGHBORS or B.size >= 2**30 or (origin is not None and normalize):
        return None
    key = id(B), id(Y_B), k, sigma, str(device), name, id(origin), normalize
    held = _laid_out.get(key)
    if held is None or held.B is not B or held.Y_B is not Y_B or held.origin is not origin:
        held = Layout(B, Y_B, origin, k, sigma, normalize, name, device)
        _laid_out[key] = held
        if len(_laid_out) > _KEPT:
            _laid_out.popitem(last=False)
    return held if held.stages else None


class Layout:
    """Base points scaled and split in halves, padded to whole panels; and the launch of the kernel."""

    def __init__(
        self,
        B: Floats,
        Y_B: Floats,
        origin: Any,
        k: int,
        sigma: float,
        normalize: bool,
        name: str,
        device: Any,
    ) -> None:
        self.B, self.Y_B, self.origin = B, Y_B, origin
        self.k, self.sigma, self.normalize, self.name = k, sigma, normalize, name
        (m, self.d), self.r = B.shape, Y_B.shape[1]
        self.parts = parts(m, _PANEL[name])
        self.m_pad, self.d_pad = _whole(m, sum(self.parts)), _whole(self.d, _STEP)
        largest = np.clip(np.abs(B).max(), 1e-25, 1e25)
        self.scale = 2.0 ** (9 - int(np.frexp(largest)[1]))
        padded = np.zeros((self.m_pad, self.d_pad), np.float32)
        padded[:m, : self.d] = B * np.float32(self.scale)
        high = padded.astype(np.float16)
        half = np.full(self.m_pad, 1e38, np.float32)  # of padding: never among the nearest
        half[:m] = np.einsum("ij,ij->i", B.astype(np.float64), B) / 2
        embedded = np.zeros((self.m_pad, _whole(self.r, _COLUMNS)), np.float32)
        embedded[:m, : self.r] = Y_B
        torch = torch_backend.torch()
        shift = np.zeros(1, np.float32) if origin is None else origin.astype(np.float32)
        low = (padded - high).astype(np.float16)
        self.held = [torch.as_tensor(part).to(device) for part in (shift, high, low, half, embedded)]
        _log.info("the model was laid out on %s for precision %s", device, name)
        self.largest = torch.full((1,), float(largest), device=device)
        self.stages = _STAGES[name]
        self._try(torch.ones((1, self.d), device=device))

    def _try(self, X: Tensor) -> None:
        """Take as many stages as the card has shared memory for; none, where it has too little for one."""
        from manihash.compute import triton as kernels

        while self.stages:
            try:
                self(X, pack=True)
                return
            except kernels.OutOfResources:
                self.stages -= 1

    def __call__(self, X: Tensor, *, pack: bool) -> tuple[Tensor, Tensor | None]:
        """Codes or coordinates of the rows of X, and the rows, if any, that the kernel leaves to others."""
        from manihash.compute import triton as kernels

        torch = torch_backend.torch()
        n, width = len(X), codes.n_bytes(self.r) if pack else self.r
        out = torch.empty((n, width), dtype=torch.uint8 if pack else torch.float32, device=X.device)
        odd = torch.empty(n, dtype=torch.int8, device=X.device)
        left = torch.zeros(1, dtype=torch.int32, device=X.device)
        with torch.cuda.device(X.device):
            kernels.induce[(-(-n // _ROWS),)](
                X, self._largest(X), *self.held, out, odd, left,
                n, self.d, X.stride(0), self.d_pad, self.m_pad, self.r, self.held[-1].shape[1], width,
                self.scale, 2 / self.sigma**2,
                BM=_ROWS, BK=_STEP, N1=self.parts[0], N2=self.parts[1], N3=self.parts[2],
                K=self.k, KP=1 << (self.k - 1).bit_length(), RB=_COLUMNS,
                THREE=self.name == "tf32x3", NORMALIZE=self.normalize, SHIFT=self.origin is not None,
                ONE=self.m_pad == sum(self.parts), PACK=pack,
                num_warps=8, num_stages=self.stages,
            )  # fmt: skip
        return out, odd.nonzero()[:, 0] if int(left) else None

    def _largest(self, X: Tensor) -> Tensor:
        """How large the numbers of most rows of X are: as those of the base points, but for unit length."""
        if not self.normalize:
            return self.largest
        return X[:: max(1, len(X) // _SAMPLE)].to(self.largest.dtype).abs().amax(1).mean()


def parts(m: int, most: int) -> tuple[int, int, int]:
    """A panel of base points as up to three powers of two, such that few hold m with little padding."""
    sizes = [256, 128, 64, 32, 16]
    panels = [(a, b, c) for a, b, c in product(sizes, [*sizes, 0], [*sizes, 0]) if a >= b >= c]
    fitting = [panel for panel in panels if sum(panel) <= most]
    return min(fitting, key=lambda panel: (-(-m // sum(panel)) * (sum(panel) + _OVERHEAD), -panel[0]))


def _whole(number: int, step: int) -> int:
    return -(-number // step) * step
