"""Exact search among packed codes in a torch tensor: a scan on the device that holds them."""

import logging
from typing import Any

from manihash.checks import positive_int
from manihash.codes import n_bytes
from manihash.compute import fused
from manihash.compute import torch as torch_backend
from manihash.compute.torch import Tensor

_log = logging.getLogger(__name__)

# An answer is one integer, distance << 40 | id: sorted integers are answers sorted by distance, ties by id.
_ID_BITS = 40
_QUERIES = 1024
# The first codes are compared with all queries. From each later range, as long as all before it, only codes
# nearer than the k-th found so far are kept, at most _ROOM per query.
_FIRST, _ROOM, _LONGEST = 2**14, 2**12, 2**30
# Pairs held at once if the kernel is not used.
_PAIRS = 2**26
_KERNEL_BITS = 256
_BM, _BQ = 128, 64


class TensorIndex:
    """Search packed codes in a torch tensor exactly, on the device of the tensor.

    On a GPU a scan of all codes is faster than the buckets of ``HammingIndex``, so the index stores only the
    codes. The id of a row is its position.

    Parameters
    ----------
    codes : torch.Tensor of shape (n, ceil(n_bits / 8)), uint8
        Packed codes, as ``encode`` returns them for tensors; at least one.
    n_bits : int
        Length of a code.

    Attributes
    ----------
    n_bits : int
        Length of a code.
    codes : torch.Tensor of shape (n, ceil(n_bits / 8)), uint8
        The codes, contiguous.

    Examples
    --------
    >>> import torch
    >>> from manihash import pack
    >>> from manihash.search import TensorIndex
    >>> codes = torch.as_tensor(pack([[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]))
    >>> distances, ids = TensorIndex(codes, n_bits=4).search(codes[2:], k=2)
    >>> ids.tolist(), distances.tolist()
    ([[2, 1]], [[0, 1]])
    """

    def __init__(self, codes: Tensor, n_bits: int) -> None:
        self.n_bits = positive_int(n_bits, "n_bits")
        self.codes = self._checked(codes, "codes").contiguous()
        if not len(self.codes):
            raise ValueError("codes are empty: an index needs at least one code, as encode() returns them")

    def __len__(self) -> int:
        return len(self.codes)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Find the k nearest rows of each query, nearest first, ties by id.

        If the index has fewer than k rows, all of them are returned with a warning.

        Parameters
        ----------
        queries : torch.Tensor of shape (q, ceil(n_bits / 8)), uint8
            Packed codes of the queries; they are copied to the device of the index if needed.
        k : int
            Number of rows to return per query.

        Returns
        -------
        distances : torch.Tensor of shape (q, k), int32
            Hamming distances.
        ids : torch.Tensor of shape (q, k), int64
            Ids of the rows.
        """
        k, asked = positive_int(k, "k"), self._checked(queries, "queries")
        if asked.device != self.codes.device:
            _log.info("queries were copied from %s to %s", asked.device, self.codes.device)
            asked = asked.to(self.codes.device)
        if k > len(self):
            _log.warning(
                "k=%d exceeds the %d rows of the index: all %d are returned", k, len(self), len(self)
            )
            k = len(self)
        torch = torch_backend.torch()
        found = [self._nearest(some, k) for some in asked.split(_QUERIES)]
        keys = torch.cat(found) if found else torch.empty((0, k), dtype=torch.int64, device=asked.device)
        return (keys >> _ID_BITS).int(), keys & ((1 << _ID_BITS) - 1)

    def _nearest(self, queries: Tensor, k: int) -> Tensor:
        """The k smallest keys (q, k) of each query, sorted."""
        n, signs = len(self), self._signs(queries)
        start = min(n, max(_FIRST, k))
        best = self._scan(signs, None, 0, start, k)
        if self.n_bits > _KERNEL_BITS or not fused.has_kernels(self.codes.device):
            return self._scan(signs, best, start, n, k)
        size = start
        while start < n:
            stop = min(n, start + min(size, _LONGEST))
            nearer = self._nearer(signs, best[:, -1] >> _ID_BITS, start, stop)
            if nearer is None:  # more than _ROOM: the codes are not in random order
                size = max(_ROOM, (stop - start) // 8)
                continue
            best = self._least(best, nearer, k)
            start, size = stop, stop
        return best

    def _scan(self, signs: Tensor, best: Tensor | None, start: int, stop: int, k: int) -> Tensor:
        """The k smallest keys (q, k) among ``best`` and codes start to stop, by products of all pairs."""
        step = max(k, _PAIRS // len(signs))
        for i in range(start, stop, step):
            agree = signs @ self._signs(self.codes[i : min(i + step, stop)]).T
            ids = torch_backend.torch().arange(i, i + agree.shape[1], device=agree.device)
            best = self._least(best, self._keys(agree, ids), k)
        assert best is not None
        return best

    def _nearer(self, signs: Tensor, distance: Tensor, start: int, stop: int) -> Tensor | None:
        """Keys (q, most) of codes start to stop nearer than ``distance`` (q,); None if they exceed _ROOM."""
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
        """Keys for products of signs and ids, of the same shape."""
        return ((self.n_bits - agree.long()) // 2 << _ID_BITS) | ids

    def _least(self, best: Tensor | None, keys: Tensor, k: int) -> Tensor:
        """The k smallest keys of each row of ``best`` and ``keys`` together, sorted."""
        keys = keys if best is None else torch_backend.torch().cat([best, keys], 1)
        return keys.topk(min(k, keys.shape[1]), dim=1, largest=False, sorted=True).values

    def _signs(self, codes: Tensor) -> Tensor:
        """Bits as +-1 (n, n_bits), in float32."""
        torch = torch_backend.torch()
        places = torch.arange(7, -1, -1, device=codes.device, dtype=torch.uint8)
        bits = (codes[:, :, None] >> places & 1).reshape(len(codes), -1)[:, : self.n_bits]
        return bits.float().mul_(2).sub_(1)

    def _checked(self, codes: Any, name: str) -> Tensor:
        """The codes if they are packed codes of n_bits in a tensor; otherwise an error."""
        if not torch_backend.is_tensor(codes):
            raise TypeError(
                f"{name} must be a torch tensor, got {type(codes).__name__}: use HammingIndex for arrays"
            )
        if codes.dtype != torch_backend.torch().uint8 or codes.dim() != 2:
            raise ValueError(
                f"{name} must be a 2-D tensor of bytes (uint8) as encode() returns it, "
                f"got {codes.dim()}-D of {codes.dtype}"
            )
        if codes.shape[1] != n_bytes(self.n_bits):
            raise ValueError(
                f"{name} have {codes.shape[1]} bytes per row, but codes of {self.n_bits} bits have "
                f"{n_bytes(self.n_bits)}: pass the n_bits of the model that made the codes"
            )
        if self.n_bits % 8 and bool((codes[:, -1] & (0xFF >> self.n_bits % 8)).any()):
            raise ValueError(
                f"{name} have bits set beyond the first {self.n_bits}: the codes are longer or have another "
                "bit order"
            )
        return codes
