"""Exact search among packed codes in a torch tensor: a scan on the card that holds them."""

import logging
from typing import Any

from manihash.checks import positive_int
from manihash.codes import n_bytes
from manihash.compute import fused
from manihash.compute import torch as torch_backend
from manihash.compute.torch import Tensor

_log = logging.getLogger(__name__)

# An answer is one number, distance << 40 | id: in order of it, ties are in order of id.
_ID_BITS = 40
_QUERIES = 1024
# The first codes are compared with all queries; of each later stretch, as long as all before it, only what is
# nearer than the k-th found so far is kept, and so much of it at most.
_FIRST, _ROOM, _LONGEST = 2**14, 2**12, 2**30
# Pairs held at once without the kernel.
_PAIRS = 2**26
_KERNEL_BITS = 256
_BM, _BQ = 128, 64


class TensorIndex:
    """Codes (n, ceil(n_bits / 8)) in a tensor, as ``encode`` gives them on a card; ids are positions.

    ``HammingIndex`` keeps distinct codes with lists of their rows, in main memory and in files. On a card a
    plain scan of all codes is faster than any such order, so this keeps the codes and nothing else.

    >>> index = TensorIndex(hasher.encode(X), n_bits=64)
    >>> distances, ids = index.search(hasher.encode(Q), k=100)
    """

    def __init__(self, codes: Tensor, n_bits: int) -> None:
        self.n_bits = positive_int(n_bits, "n_bits")
        self.codes = self._checked(codes, "codes").contiguous()
        if not len(self.codes):
            raise ValueError("no codes came: an index needs at least one, give it the output of encode()")

    def __len__(self) -> int:
        return len(self.codes)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Distances and ids of the k nearest codes of each query, nearest first, ties by id: two (q, k).

        Where there are fewer than k codes, there are as many columns as codes.
        """
        k, asked = positive_int(k, "k"), self._checked(queries, "queries")
        if asked.device != self.codes.device:
            _log.info("queries were copied from %s to %s", asked.device, self.codes.device)
            asked = asked.to(self.codes.device)
        if k > len(self):
            _log.warning(
                "%d nearest asked of an index of %d codes: all %d are given", k, len(self), len(self)
            )
            k = len(self)
        torch = torch_backend.torch()
        found = [self._nearest(part, k) for part in asked.split(_QUERIES)]
        keys = torch.cat(found) if found else torch.empty((0, k), dtype=torch.int64, device=asked.device)
        return (keys >> _ID_BITS).int(), keys & ((1 << _ID_BITS) - 1)

    def _nearest(self, queries: Tensor, k: int) -> Tensor:
        """The k least keys of each query, in order."""
        n, signs = len(self), self._signs(queries)
        start = min(n, max(_FIRST, k))
        best = self._scan(signs, None, 0, start, k)
        if self.n_bits > _KERNEL_BITS or not fused.has_kernels(self.codes.device):
            return self._scan(signs, best, start, n, k)
        size = start
        while start < n:
            stop = min(n, start + min(size, _LONGEST))
            nearer = self._nearer(signs, best[:, -1] >> _ID_BITS, start, stop)
            if nearer is None:  # more than there is room for: such codes stand in no random order
                size = max(_ROOM, (stop - start) // 8)
                continue
            best = self._least(best, nearer, k)
            start, size = stop, stop
        return best

    def _scan(self, signs: Tensor, best: Tensor | None, start: int, stop: int, k: int) -> Tensor:
        """The k least keys among ``best`` and those of codes start to stop, by products of all pairs."""
        step = max(k, _PAIRS // len(signs))
        for i in range(start, stop, step):
            agree = signs @ self._signs(self.codes[i : min(i + step, stop)]).T
            ids = torch_backend.torch().arange(i, i + agree.shape[1], device=agree.device)
            best = self._least(best, self._keys(agree, ids), k)
        assert best is not None
        return best

    def _nearer(self, signs: Tensor, distance: Tensor, start: int, stop: int) -> Tensor | None:
        """Keys (q, most) of codes start to stop that are nearer than a query's distance, by the kernel."""
        from manihash.compute import triton as kernels

        torch, device, q = torch_backend.torch(), self.codes.device, len(signs)
        rows, width = -(-q // _BQ) * _BQ, max(32, 1 << (self.n_bits - 1).bit_length())
        asked = torch.zeros((rows, width), dtype=torch.int8, device=device)
        asked[:q, : self.n_bits] = signs
        limit = torch.full((rows,), 2**30, dtype=torch.int32, device=device)
        limit[:q] = self.n_bits - 2 * distance
        count = torch.zeros(rows, dtype=torch.int32, device=device)
        found = torch.empty((q, _ROOM, 2), dtype=torch.int32, device=device)
        with torch.cuda.device(device):
            kernels.nearer[(-(-(stop - start) // _BM),)](
                self.codes, self.codes.shape[1], start, stop, asked, limit, count, found, q, _ROOM,
                BM=_BM, BQ=_BQ, KB=width, num_warps=4, num_stages=3, maxnreg=128,
            )  # fmt: skip
        most = int(count.max())
        if most > _ROOM:
            return None
        offset, agree = found[:, :most].long().unbind(2)
        filled = torch.arange(most, device=device) < count[:q, None]
        return self._keys(agree, start + offset).where(filled, 2**62)

    def _keys(self, agree: Tensor, ids: Tensor) -> Tensor:
        return ((self.n_bits - agree.long()) // 2 << _ID_BITS) | ids

    def _least(self, best: Tensor | None, keys: Tensor, k: int) -> Tensor:
        keys = keys if best is None else torch_backend.torch().cat([best, keys], 1)
        return keys.topk(min(k, keys.shape[1]), dim=1, largest=False, sorted=True).values

    def _signs(self, codes: Tensor) -> Tensor:
        """Bits as +-1 (n, n_bits), in float32."""
        torch = torch_backend.torch()
        places = torch.arange(7, -1, -1, device=codes.device, dtype=torch.uint8)
        bits = (codes[:, :, None] >> places & 1).reshape(len(codes), -1)[:, : self.n_bits]
        return bits.float().mul_(2).sub_(1)

    def _checked(self, codes: Any, name: str) -> Tensor:
        if not torch_backend.is_tensor(codes):
            raise TypeError(
                f"{name} must be a torch tensor, not {type(codes).__name__}: HammingIndex takes arrays"
            )
        if codes.dtype != torch_backend.torch().uint8 or codes.dim() != 2:
            raise ValueError(
                f"{name} must be a 2-D tensor of bytes (uint8) as encode() makes it, "
                f"not {codes.dim()}-D of {codes.dtype}"
            )
        if codes.shape[1] != n_bytes(self.n_bits):
            raise ValueError(
                f"{name} have {codes.shape[1]} bytes per row, but codes of {self.n_bits} bits have "
                f"{n_bytes(self.n_bits)}: give the n_bits that the codes were made with"
            )
        if self.n_bits % 8 and bool((codes[:, -1] & (0xFF >> self.n_bits % 8)).any()):
            raise ValueError(
                f"{name} have bits set beyond the first {self.n_bits}: they are longer codes, or in another "
                "bit order"
            )
        return codes
