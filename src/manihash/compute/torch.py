"""The torch backend: operations on a block of rows held in a tensor.

``__all__`` is the interface that ``manihash.compute.numpy`` has too; what is not in it is for torch alone.
Functions compute in float32 (TF32 only if torch is set to it) or float64. Small arrays (base points, sums)
stay in numpy; ``like`` copies them to the device of a tensor.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.compute.numpy import SHARED
from manihash.compute.torch_arrays import Tensor, copy_like, like, on, to_numpy, torch
from manihash.compute.torch_arrays import is_tensor as is_tensor

__all__ = [
    "add_product",
    "closeness",
    "copy_like",
    "coupling",
    "exp",
    "float_type",
    "k_closest",
    "k_largest",
    "k_nearest",
    "like",
    "nearest_sums",
    "out_of_memory",
    "pack",
    "pair_matrix",
    "principal_components",
    "product",
    "replayed",
    "signs",
    "squared_distances",
    "squared_norms",
    "sum_of_roots",
    "to_float64",
    "to_numpy",
    "unit_rows",
    "wait",
    "weight_matrix",
    "weighted_sums",
]

# Updates of an embedding are not split into chunks that fit into a cache.
CACHE_ROWS = 2**40

# Up to so many largest numbers of a row are found one after the other on a GPU: faster than its sorting.
_FEW_LARGEST = 8


def __getattr__(name: str) -> Any:
    """The function of torch, for a name in ``SHARED``."""
    if name in SHARED:
        return getattr(torch(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def out_of_memory() -> type[Exception]:
    """The class of the error that a GPU without free memory raises."""
    error: type[Exception] = torch().OutOfMemoryError
    return error


def float_type(X: Tensor) -> np.dtype[Any]:
    """As ``compute.numpy.float_type``."""
    wide = {getattr(torch(), name, None) for name in ("float64", "int32", "int64", "uint32", "uint64")}
    return np.dtype(np.float64 if X.dtype in wide else np.float32)


def add_product(total: Tensor, A: Tensor, B: Tensor, factor: float) -> None:
    """As ``compute.numpy.add_product``."""
    total.addcmul_(A, B, value=factor)


def pair_matrix(X: Tensor) -> Tensor:
    """As ``compute.numpy.pair_matrix``."""
    return X.new_empty((len(X), len(X)))


def principal_components(X: Tensor, r: int) -> tuple[Tensor, Tensor]:
    """As ``compute.numpy.principal_components``, in ascending order of variance; not rotated if r is d."""
    centered = X - X.mean(0)
    if r == X.shape[1]:
        return centered, torch().eye(r, dtype=X.dtype, device=X.device)
    V = torch().linalg.eigh(centered.T @ centered).eigenvectors[:, -r:]
    return centered @ V, V.T


def squared_norms(X: Tensor) -> Tensor:
    """As ``compute.numpy.squared_norms``."""
    return torch().linalg.vecdot(X, X)


def unit_rows(X: Tensor, squared: Tensor, out: Tensor | None = None) -> Tensor:
    """As ``compute.numpy.unit_rows``."""
    limits = torch().finfo(X.dtype)
    faint = squared < limits.tiny / limits.eps
    if bool(faint.any()):
        largest = X[faint].abs().amax(1, keepdim=True)
        X, squared = X.clone(), squared.clone()
        X[faint] = X[faint] / largest.where(largest > 0, 1)
        squared[faint] = squared_norms(X[faint])
    length = squared.sqrt()
    return torch().div(X, length.where(length > 0, 1)[:, None], out=out)


def product(X: Tensor, C: Tensor) -> Tensor:
    """As ``compute.numpy.product``."""
    return X @ C.T


def closeness(X: Tensor, C: Tensor) -> Tensor:
    """As ``compute.numpy.closeness``."""
    return torch().addmm(-squared_norms(C) / 2, X, C.T)


def k_nearest(X: Tensor, C: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """As ``compute.numpy.k_nearest``; ties are in any order."""
    best, index = k_closest(X, C, k)
    return (squared_norms(X)[:, None] - 2 * best).clamp_min_(0), index


def k_closest(X: Tensor, C: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """As ``compute.numpy.k_closest``."""
    return k_largest(closeness(X, C), k)


def k_largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """As ``compute.numpy.k_largest``; ties are in any order."""
    if scores.device.type == "cpu" or k > _FEW_LARGEST:
        best, index = scores.topk(k, dim=1)
        return best, index
    found = [scores.max(dim=1, keepdim=True)]
    rest = scores if k == 1 else scores.scatter(1, found[0].indices, -np.inf)
    for _ in range(1, k):
        found.append(rest.max(dim=1, keepdim=True))
        rest.scatter_(1, found[-1].indices, -np.inf)
    return torch().cat([part.values for part in found], 1), torch().cat([part.indices for part in found], 1)


def squared_distances(X: Tensor, C: Tensor) -> Tensor:
    """As ``compute.numpy.squared_distances``."""
    distances = closeness(X, C).mul_(-2)
    distances += squared_norms(X)[:, None]
    return distances.clamp_min_(0)


def nearest_sums(X: Tensor, C: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As ``compute.numpy.nearest_sums``; computed as a product, so that two runs give the same bits."""
    best, label = closeness(X, C).max(dim=1)
    one_hot = torch().zeros((len(X), len(C)), dtype=X.dtype, device=X.device)
    one_hot.scatter_(1, label[:, None], 1)
    return label.int(), best, one_hot.T @ X, one_hot.sum(0)


def k_nearest_listed(
    X: Tensor, B: Tensor, cells: Tensor, members: NDArray[Any], ends: NDArray[Any], probes: int, k: int
) -> tuple[Tensor, Tensor]:
    """As ``k_nearest`` among the points that are listed for the ``probes`` cells nearest to each row.

    The list of cell i is members[ends[i]:ends[i + 1]]. All scores are computed, and those of other points are
    ignored: on a GPU that is faster than to group the rows by cell.
    """
    near = closeness(X, cells).topk(probes, dim=1).indices
    asked = X.new_zeros((len(X), len(cells))).scatter_(1, near, 1)
    owners = np.repeat(np.arange(len(cells)), np.diff(ends))
    listed = X.new_zeros((len(cells), len(B)))
    listed[on(X.device, owners), on(X.device, members)] = 1
    best, index = k_largest(closeness(X, B).masked_fill_(asked @ listed == 0, -np.inf), k)
    return (squared_norms(X)[:, None] - 2 * best).clamp_min_(0), index


def weighted_sums(w: Tensor, index: Tensor, Y: Tensor) -> Tensor:
    """As ``compute.numpy.weighted_sums``."""
    sums = w[:, :1] * Y[index[:, 0]]
    for j in range(1, index.shape[1]):
        sums += w[:, j : j + 1] * Y[index[:, j]]
    return sums


def coupling(w: Tensor, w_bar: Tensor, index: Tensor, m: int) -> Tensor:
    """As ``compute.numpy.coupling``."""
    W = weight_matrix(w, index, m)
    return W.sum(0).diag() - weight_matrix(w_bar, index, m).T @ W


def weight_matrix(w: Tensor, index: Tensor, m: int) -> Tensor:
    """As ``compute.numpy.weight_matrix``."""
    return torch().zeros((len(index), m), dtype=w.dtype, device=w.device).scatter_(1, index, w)


def exp(X: Tensor) -> Tensor:
    """As ``compute.numpy.exp``."""
    return X.exp()


def to_float64(X: Tensor) -> Tensor:
    """As ``compute.numpy.to_float64``."""
    return X.double()


def sum_of_roots(squared: Tensor) -> Tensor:
    """As ``compute.numpy.sum_of_roots``."""
    return squared.sqrt().sum(dtype=torch().float64)


def signs(V: Tensor) -> Tensor:
    """As ``compute.numpy.signs``."""
    return (V > 0).to(V.dtype).mul_(2).sub_(1)


def pack(bits: Tensor) -> Tensor:
    """As ``compute.numpy.pack``."""
    n, r = bits.shape
    whole = torch().nn.functional.pad(bits.to(torch().uint8), (0, -r % 8)).view(n, -1, 8)
    powers = 2 ** torch().arange(7, -1, -1, device=bits.device, dtype=torch().uint8)
    return (whole * powers).sum(2, dtype=torch().uint8)


def unpack(codes: Tensor, r: int) -> Tensor:
    """The bits (n, r) of packed codes."""
    places = torch().arange(7, -1, -1, device=codes.device, dtype=torch().uint8)
    return ((codes[:, :, None] >> places) & 1).view(len(codes), -1)[:, :r]


def replayed(step: Callable[[], None], X: Tensor) -> Callable[[], None]:
    """As ``compute.numpy.replayed``."""
    device = X.device
    if device.type != "cuda":
        return step
    side_stream = torch().cuda.Stream(device)
    side_stream.wait_stream(torch().cuda.current_stream(device))
    graph, steps = torch().cuda.CUDAGraph(), [step]

    def once() -> None:
        if not steps:
            graph.replay()
            return
        with torch().cuda.stream(side_stream):
            steps.pop()()
        torch().cuda.current_stream(device).wait_stream(side_stream)
        with torch().cuda.graph(graph):
            step()

    return once


def wait(X: Tensor) -> None:
    """As ``compute.numpy.wait``."""
    if X.device.type == "cuda":
        torch().cuda.synchronize(X.device)
