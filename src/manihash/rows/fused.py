"""Rows of torch that a fused kernel of a GPU maps, with a second computation of those it does not decide."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from manihash.compute import torch as torch_backend
from manihash.compute.torch import Tensor
from manihash.rows.mapping import Result
from manihash.rows.torch import TorchRows

_log = logging.getLogger(__name__)


class FusedRows(TorchRows):
    """Rows that a kernel embeds or encodes unprepared; f computes those that the kernel does not decide.

    ``exact`` are the same rows, prepared for f.
    """

    def __init__(self, rows: TorchRows, exact: TorchRows, kernel: Any, result: Result) -> None:
        super().__init__(rows.X, **rows.prepared_as, row_numbers=rows.row_numbers)
        self._kernel, self._exact, self._result = kernel, exact, result

    def _pieces(
        self, f: Callable[[Tensor], Any], start: int, part: Tensor, positions: Any
    ) -> Iterator[tuple[int, Any]]:
        part = part if part.stride(1) == 1 else part.contiguous()
        out, left = self._kernel(part, pack=self._result != "values")
        if self._result == "bits":
            out = torch_backend.unpack(out, self._kernel.r)
        if left is not None:
            _log.debug("%d of %d rows were computed again", len(left), len(part))
            for first, piece in self._exact._pieces(f, 0, part[left], start + torch_backend.to_numpy(left)):
                out[left[first : first + len(piece)]] = piece.to(out.dtype)
        yield start, out

    def _block_rows(self) -> int:
        return max(1, len(self)) if self._in_tensor else super()._block_rows()
