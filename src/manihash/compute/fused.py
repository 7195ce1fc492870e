"""Induction on a GPU as one fused kernel: the model in the layout of the kernel, and the call of the kernel.

Products are computed in half precision, on numbers scaled by powers of two. A half-precision number has the
11 significant bits of TF32, but is rounded where TF32 truncates, and its products are twice as fast. Two
half-precision numbers, a high and a low part, hold 22 bits. Scaled numbers are below 2^9: half precision ends
at 65,504, and its smallest numbers are 2^-24 apart.
"""

import importlib.util
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import product
from typing import Any, Protocol

import numpy as np

from manihash import codes
from manihash.compute import torch as torch_backend
from manihash.compute.rounding import sum_error
from manihash.compute.torch import Tensor
from manihash.types import Floats

_log = logging.getLogger(__name__)

PRECISIONS = ("filtered", "tf32", "float32")
_MAX_NEIGHBORS = 16
_ROWS, _STEP, _COLUMNS = 128, 32, 64
# Base points in a panel, whose scores are held at once: 200 registers per thread.
_PANEL = {"tf32": 400, "filtered": 400}
# Points beyond the k nearest that are kept for the second computation in float64.
_SPARE = 1
# The second computation, in programs: numbers of a row at once, and rows and base points in a search.
_PROGRAMS, _PIECE, _SEARCHED_ROWS, _SEARCHED_POINTS = 4224, 64, 4, 32
# Scores differ by at most 2^22 steps: 23 bits hold them.
_STEPS = 2**21
_STAGES = {"tf32": 4, "filtered": 3}
# Rows from which the magnitude of X is estimated.
_SAMPLE = 1024
# Roundings besides those of a sum of d products: of the two parts of each number, of the length of a row.
_OTHER_ROUNDINGS = 48
# The fixed cost of a panel, in columns.
_OVERHEAD = 32
_CACHED_MODELS = 8

_precision: ContextVar[str] = ContextVar("gpu_precision", default="filtered")
_cache: OrderedDict[tuple[Any, ...], "InductionKernel"] = OrderedDict()


@contextmanager
def gpu_precision(name: str) -> Iterator[None]:
    """Set the precision of matrix products on a GPU in ``encode`` and ``embed``.

    A context manager: the precision holds inside the ``with`` block, in the current thread. It does not
    affect ``fit``, computation on the CPU, or rows of type float64.

    Parameters
    ----------
    name : {"filtered", "tf32", "float32"}
        ``"filtered"``, the setting outside any block, gives the codes that the CPU gives: three products in
        half precision reach the accuracy of float32, and rows that this does not decide are computed again
        in float64. ``"tf32"`` computes one product, with 11 significant bits: faster, and about one bit
        of the codes in a thousand differs. ``"float32"`` leaves the computation to torch, in float32.

    Yields
    ------
    None
        Nothing; the setting is restored at the end of the block.

    Raises
    ------
    ValueError
        If the name is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import gpu_precision
    >>> from manihash.hashers import LSH
    >>> X = np.eye(8, dtype=np.float32)
    >>> hasher = LSH(n_bits=16, random_state=0).fit(X)
    >>> with gpu_precision("tf32"):
    ...     codes = hasher.encode(X)
    >>> codes.shape
    (8, 2)
    """
    if name not in PRECISIONS:
        raise ValueError(f"gpu_precision must be one of {', '.join(PRECISIONS)}, not {name!r}")
    token = _precision.set(name)
    try:
        yield
    finally:
        _precision.reset(token)


class CenteredPoints(Protocol):
    """Points c (m, d) and numbers h (m,) in float64, such that z·c - h is largest for the nearest point."""

    c: Floats
    h: Floats
    longest: float  # the largest |c|
    highest: float  # the largest |h|


def is_filtered() -> bool:
    """Whether codes on a GPU are those of the CPU: what float32 does not decide is computed in float64."""
    return _precision.get() == "filtered"


@cache
def has_kernels(device: Any) -> bool:
    """Whether a device can run the Triton kernels: an Nvidia GPU since Ampere, with Triton installed."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return False
    torch = torch_backend.torch()
    return torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def kernel(
    B: Floats,
    Y_B: Floats,
    k: int,
    sigma: float,
    *,
    centered: Callable[[Floats], CenteredPoints],
    origin: Floats | None,
    normalize: bool,
    device: Any,
) -> "InductionKernel | None":
    """The kernel for induction of float32 rows from base points B (m, d) embedded at Y_B (m, r), or None.

    ``centered`` returns the points relative to their middle, whose scores have the smallest errors.
    It is None if torch has to compute: without a GPU or Triton, with many neighbors, or with both an origin
    and unit length, since the kernel subtracts the origin first. The last few kernels are cached.
    """
    name = _precision.get()
    if name == "float32" or not has_kernels(device):
        return None
    if k > _MAX_NEIGHBORS or B.size >= 2**30 or (origin is not None and normalize):
        return None
    key = id(B), id(Y_B), k, sigma, str(device), name, id(origin), normalize
    cached = _cache.get(key)
    if cached is None or cached.B is not B or cached.Y_B is not Y_B or cached.origin is not origin:
        cached = InductionKernel(B, Y_B, centered(B), origin, k, sigma, normalize, name, device)
        _cache[key] = cached
        if len(_cache) > _CACHED_MODELS:
            _cache.popitem(last=False)
    return cached if cached.stages else None


class InductionKernel:
    """Base points on the device, scaled, split into high and low parts and padded; a call runs the kernel."""

    def __init__(
        self,
        B: Floats,
        Y_B: Floats,
        points: CenteredPoints,
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
        self.m, columns = m, max(m, k + _SPARE + 1)  # a panel holds all that are sought
        self.parts = panel_parts(columns, _PANEL[name])
        self.m_pad, self.d_pad = _round_up(columns, sum(self.parts)), _round_up(self.d, _STEP)
        largest = np.clip(np.abs(B).max(), 1e-25, 1e25)
        self.scale = 2.0 ** (9 - int(np.frexp(np.clip(np.abs(points.c).max(), 1e-25, 1e25))[1]))
        padded = np.zeros((self.m_pad, self.d_pad), np.float32)
        padded[:m, : self.d] = points.c * self.scale
        high = padded.astype(np.float16)
        half = np.full(self.m_pad, 1e38, np.float32)  # padding is never among the nearest
        half[:m] = points.h
        # A tensor core may cut numbers off where others round them, so twice the bound of a rounded sum.
        relative = 2 * sum_error(self.d + _OTHER_ROUNDINGS, np.float32)
        self.error = relative * points.longest, relative * points.highest + 1e-37, 1 / (relative * _STEPS)
        embedded = np.zeros((self.m_pad, _round_up(self.r, _COLUMNS)))
        embedded[:m, : self.r] = Y_B
        shift = np.zeros(1) if origin is None else origin.astype(np.float64)
        low = (padded - high).astype(np.float16)
        single = shift.astype(np.float32), high, low, half, embedded.astype(np.float32)
        heights = np.square(B, dtype=np.float64).sum(axis=1) / 2
        self.arguments = [torch_backend.on(device, part) for part in single]
        self.searched = [torch_backend.on(device, part) for part in (shift, B, heights)]
        self.values = [torch_backend.on(device, part) for part in (embedded, np.array([2 / sigma**2]))]
        _log.info("the model was copied to %s for precision %s", device, name)
        torch = torch_backend.torch()
        self.largest = torch.full((1,), float(largest), device=device)
        self.stages = _STAGES[name]
        self._fit_stages(torch.ones((1, self.d), device=device))

    def _fit_stages(self, X: Tensor) -> None:
        """Lower the number of pipeline stages until the shared memory of the GPU suffices, down to 0."""
        from manihash.compute import triton as kernels

        while self.stages:
            try:
                self(X, pack=True)
                return
            except kernels.OutOfResources:
                self.stages -= 1

    def __call__(self, X: Tensor, *, pack: bool) -> tuple[Tensor, Tensor | None]:
        """Codes or coordinates of the rows of X (n, d); the ascending positions of rows left out, or None."""
        torch = torch_backend.torch()
        n, width = len(X), codes.n_bytes(self.r) if pack else self.r
        out = torch.empty((n, width), dtype=torch.uint8 if pack else torch.float32, device=X.device)
        odd, hard, unsettled = torch.empty((3, n), dtype=torch.int32, device=X.device)
        counts = torch.zeros(3, dtype=torch.int32, device=X.device)
        with torch.cuda.device(X.device):
            self._launch(X, out, odd, hard, unsettled, counts, pack)
        left, searched, settled = counts.tolist()
        _log.debug("of %d rows %d were searched and %d settled in float64", n, searched, settled)
        return out, odd[:left].sort().values.long() if left else None

    def _launch(
        self, X: Tensor, out: Tensor, odd: Tensor, hard: Tensor, unsettled: Tensor, counts: Tensor, pack: bool
    ) -> None:
        """Run the kernels; the lists and their lengths are those of ``triton.induce``."""
        from manihash.compute import triton as kernels
        from manihash.compute import triton_float64 as in_float64

        n, three = len(X), self.name == "filtered"
        held = self.k + _SPARE if three else self.k
        k_pad = 1 << (held - 1).bit_length()
        near = torch_backend.torch().empty((n, k_pad), dtype=counts.dtype, device=X.device)
        shape, sizes = (self.d, X.stride(0)), (self.r, self.arguments[-1].shape[1], out.shape[1])
        scales = self.scale, 2 / self.sigma**2, *self.error
        kept = {"HELD": held, "KP": k_pad, "NORMALIZE": self.normalize, "SHIFT": self.origin is not None}
        kernels.induce[(-(-n // _ROWS),)](
            X, self._largest(X), *self.arguments, out, odd, hard, unsettled, near, counts,
            n, *shape, self.d_pad, self.m_pad, *sizes, *scales,
            BM=_ROWS, BK=_STEP, N1=self.parts[0], N2=self.parts[1], N3=self.parts[2], K=self.k, RB=_COLUMNS,
            THREE=three, ONE=self.m_pad == sum(self.parts), PACK=pack, **kept,
            num_warps=8, num_stages=self.stages,
        )  # fmt: skip
        if three and pack:
            in_float64.search[(_PROGRAMS,)](
                X, *self.searched, hard, unsettled, near, counts, *shape, self.m,
                R=_SEARCHED_ROWS, BD=_PIECE, BN=_SEARCHED_POINTS, **kept, num_warps=4,
            )  # fmt: skip
            in_float64.settle[(_PROGRAMS,)](
                X, *self.searched, *self.values, out, unsettled, near, counts, *shape, self.m, *sizes,
                BD=_PIECE, K=self.k, RB=_COLUMNS, **kept, num_warps=1,
            )  # fmt: skip

    def _largest(self, X: Tensor) -> Tensor:
        """The magnitude of most numbers of X: as in the base points or, for unit length, in a sample of X."""
        if not self.normalize:
            return self.largest
        return X[:: max(1, len(X) // _SAMPLE)].to(self.largest.dtype).abs().amax(1).mean()


def panel_parts(m: int, most: int) -> tuple[int, int, int]:
    """The size of a panel, as up to three powers of two: few panels hold m points, with little padding."""
    sizes = [256, 128, 64, 32, 16]
    panels = [(a, b, c) for a, b, c in product(sizes, [*sizes, 0], [*sizes, 0]) if a >= b >= c]
    allowed = [panel for panel in panels if sum(panel) <= most]
    return min(allowed, key=lambda panel: (-(-m // sum(panel)) * (sum(panel) + _OVERHEAD), -panel[0]))


def _round_up(number: int, step: int) -> int:
    """The smallest multiple of step that is at least the number."""
    return -(-number // step) * step
