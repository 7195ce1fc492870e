"""Triton kernels in float64, for the few rows that the kernel in half precision does not decide.

B (m, d) are the base points, as they are stored, and half is |c|²/2. Numbers in float64 come in tensors: a
kernel takes a Python number as float32.
"""

import triton
import triton.language as tl

__all__ = ["search", "settle"]


@triton.jit
def _numbers(X, origin, start, ks, there, d, SHIFT: tl.constexpr):
    """Numbers ``ks`` (BD,) of rows that begin at ``start`` (R,), in float64; zero if the row is not there."""
    inside = there[:, None] & (ks < d)[None, :]
    x = tl.load(X + start[:, None] + ks[None, :], mask=inside, other=0.0).to(tl.float64)
    if SHIFT:
        x = x - tl.load(origin + ks, mask=ks < d, other=0.0)[None, :]
    return x


@triton.jit
def _lengths(
    X, origin, start, there, d,
    R: tl.constexpr, BD: tl.constexpr, NORMALIZE: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """The lengths (R,) by which rows are divided, in float64."""
    lengths = tl.full([R], 1.0, tl.float64)
    if NORMALIZE:
        squares = tl.zeros([R, BD], tl.float64)
        for kk in range(0, d, BD):
            x = _numbers(X, origin, start, kk + tl.arange(0, BD), there, d, SHIFT)
            squares += x * x
        lengths = tl.sqrt(tl.sum(squares, axis=1))
    return lengths


@triton.jit
def search(
    X, origin, B, half, hard, unsettled, near, counts, d, row_stride, m,
    R: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr, HELD: tl.constexpr, KP: tl.constexpr,
    NORMALIZE: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """The HELD nearest of all base points of the rows in ``hard``, R at a time; they become ``unsettled``."""
    slot = tl.arange(0, KP)
    end = tl.load(counts + 1)
    for i in range(tl.program_id(0) * R, end, tl.num_programs(0) * R):
        which = i + tl.arange(0, R)
        there = which < end
        row = tl.load(hard + which, mask=there, other=0)
        start = row.to(tl.int64) * row_stride
        lengths = _lengths(X, origin, start, there, d, R, BD, NORMALIZE, SHIFT)
        values = tl.zeros([R, KP], tl.float64) + tl.where(slot < HELD, float("-inf"), float("inf"))[None, :]
        places = tl.zeros([R, KP], tl.int32) + m
        for p in range(0, m, BN):
            place = p + tl.arange(0, BN)
            products = tl.zeros([R, BN, BD], tl.float64)
            for kk in range(0, d, BD):
                ks = kk + tl.arange(0, BD)
                x = _numbers(X, origin, start, ks, there, d, SHIFT)
                inside = (place < m)[:, None] & (ks < d)[None, :]
                c = tl.load(B + place.to(tl.int64)[:, None] * d + ks[None, :], mask=inside, other=0.0)
                products += x[:, None, :] * c.to(tl.float64)[None, :, :]
            h = tl.load(half + place, mask=place < m, other=float("inf"))
            scores = tl.sum(products, axis=2) / lengths[:, None] - h[None, :]
            for _ in tl.static_range(HELD):
                best = tl.max(scores, axis=1)
                at = tl.min(tl.where(scores == best[:, None], place[None, :], 2147483647), axis=1)
                scores = tl.where(place[None, :] == at[:, None], float("-inf"), scores)
                worst = tl.min(values, axis=1)
                spare = tl.max(tl.where(values == worst[:, None], slot[None, :], -1), axis=1)
                here = (slot[None, :] == spare[:, None]) & (best > worst)[:, None]
                values = tl.where(here, best[:, None], values)
                places = tl.where(here, at[:, None], places)
        one = there.to(tl.int32)
        to = tl.atomic_add(counts + 2, tl.sum(one, axis=0)) + tl.cumsum(one, axis=0) - 1
        tl.store(unsettled + to, row, mask=there)
        tl.store(near + to.to(tl.int64)[:, None] * KP + slot[None, :], places, mask=there[:, None])


@triton.jit
def settle(
    X, origin, B, half, Y, slope, out, unsettled, near, counts, d, row_stride, m, r, r_pad, out_width,
    BD: tl.constexpr, K: tl.constexpr, HELD: tl.constexpr, KP: tl.constexpr, RB: tl.constexpr,
    NORMALIZE: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """The codes of the rows in ``unsettled``, whose K nearest points are among HELD points, in ``near``.

    Y (m, r_pad) is the embedding of the base points, and ``slope`` is 2 / sigma². Of equally distant points,
    the last is left out.
    """
    slot = tl.arange(0, KP)
    for i in range(tl.program_id(0), tl.load(counts + 2), tl.num_programs(0)):
        row = tl.load(unsettled + i).to(tl.int64)
        place = tl.load(near + i.to(tl.int64) * KP + slot, mask=slot < HELD, other=2147483647)
        there = place < m
        start = row * row_stride + tl.zeros([1], tl.int64)
        products = tl.zeros([KP, BD], tl.float64)
        squares = tl.zeros([1, BD], tl.float64)
        for kk in range(0, d, BD):
            ks = kk + tl.arange(0, BD)
            x = _numbers(X, origin, start, ks, start >= 0, d, SHIFT)
            inside = there[:, None] & (ks < d)[None, :]
            c = tl.load(B + place.to(tl.int64)[:, None] * d + ks[None, :], mask=inside, other=0.0)
            products += x * c.to(tl.float64)
            squares += x * x
        scores = tl.sum(products, axis=1)
        if NORMALIZE:
            scores = scores / tl.sqrt(tl.sum(squares, axis=1))
        scores = scores - tl.load(half + place, mask=there, other=0.0)
        scores = tl.where(there, scores, float("-inf"))
        kept = there
        for _ in tl.static_range(HELD - K):
            worst = tl.min(tl.where(kept, scores, float("inf")), axis=0)
            spare = tl.max(tl.where(kept & (scores == worst), place, -1), axis=0)
            enough = tl.sum(kept.to(tl.int32), axis=0) > K
            kept = kept & ~((place == spare) & enough)
        best = tl.max(scores, axis=0)
        w = tl.where(kept, tl.exp((scores - best) * tl.load(slope)), 0.0)
        for first in range(0, r, RB):
            column = first + tl.arange(0, RB)
            at = place.to(tl.int64)[:, None] * r_pad + column[None, :]
            y = tl.load(Y + at, mask=kept[:, None], other=0.0)
            bits = tl.reshape((tl.sum(w[:, None] * y, axis=0) > 0).to(tl.int32), [RB // 8, 8])
            byte = tl.sum(bits << (7 - tl.arange(0, 8))[None, :], axis=1).to(tl.uint8)
            at = first // 8 + tl.arange(0, RB // 8)
            tl.store(out + row * out_width + at, byte, at < out_width)
