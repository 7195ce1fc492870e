"""Triton kernels: induction of rows in one pass, and search among packed codes.

Triton is imported here and in ``triton_float64``, when a kernel is first needed.
"""

import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources

__all__ = ["OutOfResources", "induce", "nearer"]


@triton.jit
def _product(h, l, acc, C, L, first, kk, d_pad, N: tl.constexpr, BK: tl.constexpr, THREE: tl.constexpr):
    """acc + x Cᵀ of N base points, x = h + l in half precision; if THREE, with the low parts l and L too."""
    at = (first + tl.arange(0, N))[:, None] * d_pad + (kk + tl.arange(0, BK))[None, :]
    c = tl.load(C + at)
    acc = tl.dot(h, c.T, acc)
    if THREE:
        acc = tl.dot(l, c.T, acc)
        acc = tl.dot(h, tl.load(L + at).T, acc)
    return acc


@triton.jit
def _closeness(acc, factor, half, first, N: tl.constexpr):
    """x·c - |c|²/2 from the product of scaled numbers, (BM, N)."""
    return acc * factor[:, None] - tl.load(half + first + tl.arange(0, N))[None, :]


@triton.jit
def _keys(scores, best, OFFSET: tl.constexpr, N: tl.constexpr):
    """The difference to the best score as the bits of a float32, with the column in the lowest 9 bits."""
    bits = (best[:, None] - scores).to(tl.int32, bitcast=True)
    column = OFFSET + tl.arange(0, N)
    return ((bits & -512) | column[None, :]).to(tl.uint32, bitcast=True)


@triton.jit
def _steps(scores, best, per_step, OFFSET: tl.constexpr, N: tl.constexpr):
    """How many steps a score lies below the best one, in the high 23 bits, with the column in the low 9."""
    below = tl.minimum((best[:, None] - scores) * per_step[:, None], 8388607.0)
    column = OFFSET + tl.arange(0, N)
    return (below.to(tl.uint32) << 9) | column[None, :].to(tl.uint32)


@triton.jit
def _least(keys, above):
    """The smallest key that is at least ``above``, minus ``above``; smaller keys wrap around."""
    return tl.min(keys - above[:, None], axis=1)


@triton.jit
def _keep(values, places, j: tl.constexpr, value, place, slot, ONE: tl.constexpr):
    """Put a neighbor into slot j or, if there are several panels, into the slot of the worst neighbor."""
    if ONE:
        here = slot[None, :] == j
    else:
        worst = tl.min(values, axis=1)
        at = tl.min(tl.where(values == worst[:, None], slot[None, :], 2147483647), axis=1)
        here = (slot[None, :] == at[:, None]) & (value > worst)[:, None]
    return tl.where(here, value[:, None], values), tl.where(here, place[:, None], places)


@triton.jit
def _reserve(count, chosen):
    """Places for the chosen rows (BM,) in a list whose length is ``count``."""
    one = chosen.to(tl.int32)
    return tl.atomic_add(count, tl.sum(one, axis=0)) + tl.cumsum(one, axis=0) - 1


@triton.jit
def _append(rows_list, count, rows, chosen):
    """Append the chosen rows (BM,) to a list."""
    if tl.max(chosen.to(tl.int32), axis=0) > 0:
        tl.store(rows_list + _reserve(count, chosen), rows, mask=chosen)


@triton.jit(do_not_specialize=["n"])
def induce(
    X, largest, origin, C, L, half, Y, out, odd, hard, unsettled, near, counts,
    n, d, row_stride, d_pad, m_pad, r, r_pad, out_width, c_scale, slope, per_length, constant, quantum,
    BM: tl.constexpr, BK: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr, N3: tl.constexpr,
    K: tl.constexpr, HELD: tl.constexpr, KP: tl.constexpr, RB: tl.constexpr,
    THREE: tl.constexpr, NORMALIZE: tl.constexpr, SHIFT: tl.constexpr, ONE: tl.constexpr, PACK: tl.constexpr,
):  # fmt: skip
    """BM rows of X (n, d): distances to all base points, the K nearest, weights, Σ w y, sign, packed bytes.

    Base points are processed in panels of N1 + N2 + N3, whose scores stay in registers, and d in steps of BK.
    C and L are the high and low parts of the scaled base points (m_pad, d_pad), half is |c|²/2, and Y (m_pad,
    r_pad) is their embedding. Numbers of X are scaled by the power of two that brings ``largest`` below 2^9.
    With one product, neighbors are ordered by 14 bits of their distances. THREE products give the accuracy of
    float32: an error of a score is at most ``per_length`` |x| + ``constant``, and neighbors are ordered by
    their distances in steps of ``quantum`` times that error.

    The HELD best points are found, at least K. Rows that need more work are put into lists, whose lengths are
    in ``counts``: ``odd`` has rows whose numbers are out of range. With three products, ``hard`` has those
    whose neighbors are not certainly among the HELD best. ``unsettled`` has those whose neighbors or signs
    are not certain, with the HELD best points in ``near``: see ``triton_float64``. What an error means for
    signs is derived in ``manihash.base.induced``.
    """
    exponent = (tl.load(largest).to(tl.int32, bitcast=True) >> 23) & 255
    scale = ((262 - tl.minimum(tl.maximum(exponent, 40), 220)) << 23).to(tl.float32, bitcast=True)
    unscale = 1 / (scale * c_scale)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    start = rows.to(tl.int64)[:, None]
    slot = tl.arange(0, KP)
    values = tl.full([BM, KP], float("-inf"), tl.float32)
    values = tl.where(slot[None, :] < HELD, values, float("inf"))
    places = tl.zeros([BM, KP], tl.int32)
    norms = tl.zeros([BM], tl.float32)
    error = tl.zeros([BM], tl.float32)
    following = tl.full([BM], float("-inf"), tl.float32)  # the best score that is not held
    for p in range(0, m_pad, N1 + N2 + N3):
        a1 = tl.zeros([BM, N1], tl.float32)
        if N2:
            a2 = tl.zeros([BM, N2], tl.float32)
        if N3:
            a3 = tl.zeros([BM, N3], tl.float32)
        squares = tl.zeros([BM], tl.float32)
        for kk in range(0, d_pad, BK):
            ks = kk + tl.arange(0, BK)
            there = (rows[:, None] < n) & (ks[None, :] < d)
            x = tl.load(X + start * row_stride + ks[None, :], mask=there, other=0.0).to(tl.float32)
            if SHIFT:
                x = tl.where(there, x - tl.load(origin + ks, mask=ks < d, other=0.0)[None, :], 0.0)
            squares += tl.sum(x * x, axis=1)
            x = x * scale
            h = x.to(tl.float16)
            l = (x - h.to(tl.float32)).to(tl.float16)
            a1 = _product(h, l, a1, C, L, p, kk, d_pad, N1, BK, THREE)
            if N2:
                a2 = _product(h, l, a2, C, L, p + N1, kk, d_pad, N2, BK, THREE)
            if N3:
                a3 = _product(h, l, a3, C, L, p + N1 + N2, kk, d_pad, N3, BK, THREE)
        norms = squares
        factor = unscale * tl.rsqrt(squares) if NORMALIZE else tl.zeros([BM], tl.float32) + unscale
        s1 = _closeness(a1, factor, half, p, N1)
        best = tl.max(s1, axis=1)
        if N2:
            s2 = _closeness(a2, factor, half, p + N1, N2)
            best = tl.maximum(best, tl.max(s2, axis=1))
        if N3:
            s3 = _closeness(a3, factor, half, p + N1 + N2, N3)
            best = tl.maximum(best, tl.max(s3, axis=1))
        if THREE:
            length = tl.full([BM], 1.0, tl.float32) if NORMALIZE else tl.sqrt(norms)
            error = per_length * length + constant
            step = error * quantum
            error += 3 * step  # rounding to steps
            k1 = _steps(s1, best, 1 / step, 0, N1)
            if N2:
                k2 = _steps(s2, best, 1 / step, N1, N2)
            if N3:
                k3 = _steps(s3, best, 1 / step, N1 + N2, N3)
        else:
            k1 = _keys(s1, best, 0, N1)
            if N2:
                k2 = _keys(s2, best, N1, N2)
            if N3:
                k3 = _keys(s3, best, N1 + N2, N3)
        above = tl.zeros([BM], tl.uint32)
        for j in tl.static_range(HELD + 1 if THREE else HELD):
            key = _least(k1, above)
            if N2:
                key = tl.minimum(key, _least(k2, above))
            if N3:
                key = tl.minimum(key, _least(k3, above))
            key += above
            above = key + 1
            if THREE:
                value = best - (key >> 9).to(tl.float32) * step
            else:
                value = best - (key.to(tl.int32, bitcast=True) & -512).to(tl.float32, bitcast=True)
            if j < HELD:
                place = tl.minimum((key & 511).to(tl.int32), N1 + N2 + N3 - 1)
                if THREE and not ONE:
                    following = tl.maximum(following, tl.minimum(value, tl.min(values, axis=1)))
                values, places = _keep(values, places, j, value, place + p, slot, ONE)
            else:
                following = tl.maximum(following, value)
    kept = tl.broadcast_to((slot < HELD)[None, :], [BM, KP])
    following_k = following  # the best score that is not among the K best
    for _ in tl.static_range(HELD - K):
        following_k = tl.min(tl.where(kept, values, float("inf")), axis=1)
        spare = tl.max(tl.where(kept & (values == following_k[:, None]), slot[None, :], -1), axis=1)
        kept = kept & (slot[None, :] != spare[:, None])
    top = tl.max(tl.where(kept, values, float("-inf")), axis=1)
    w = tl.where(kept, tl.exp((values - top[:, None]) * slope), 0.0)
    w = w / tl.sum(w, axis=1)[:, None]
    longest = tl.minimum(
        60000 / scale, 6e18
    )  # half precision ends at 65,504; squares at an eighth of float32's largest
    shortest = 1 / scale if NORMALIZE else 0.0
    fits = (norms >= shortest * shortest) & (norms <= longest * longest)
    left = (rows < n) & ~fits
    lost = (rows < n) & fits & False
    open_ = lost
    if THREE:
        worst = tl.min(tl.where(kept, values, float("inf")), axis=1)
        lost = (rows < n) & fits & ~(worst - following > 2 * error)
        open_ = ~(worst - following_k > 2 * error)
        # The relative error of a weight, with that of the exponential; doubled beyond what is small.
        wrong = (error + (top - worst) * 1e-6) * slope + 4e-6
        wrong = wrong * (1 + wrong)
        open_ = open_ | ~(wrong < 0.5)
    for first in range(0, r, RB):
        column = first + tl.arange(0, RB)
        y = tl.zeros([BM, RB], tl.float32)
        size = tl.zeros([BM, RB], tl.float32)
        for j in tl.static_range(K if ONE else HELD):
            w_j = tl.sum(tl.where(slot[None, :] == j, w, 0.0), axis=1)
            c_j = tl.sum(tl.where(slot[None, :] == j, places, 0), axis=1)
            y_j = w_j[:, None] * tl.load(Y + c_j[:, None] * r_pad + column[None, :])
            y += y_j
            if THREE and PACK:
                size += tl.abs(y_j)
        if PACK:
            if THREE:
                near_zero = (size > 0) & (tl.abs(y) <= wrong[:, None] * size)
                open_ = open_ | (tl.max(near_zero.to(tl.int32), axis=1) > 0)
            bits = tl.reshape((y > 0).to(tl.int32), [BM, RB // 8, 8])
            byte = tl.sum(bits << (7 - tl.arange(0, 8))[None, None, :], axis=2).to(tl.uint8)
            at = first // 8 + tl.arange(0, RB // 8)
            tl.store(
                out + start * out_width + at[None, :], byte, (rows[:, None] < n) & (at[None, :] < out_width)
            )
        else:
            there = (rows[:, None] < n) & (column[None, :] < r)
            tl.store(out + start * out_width + column[None, :], y, there)
    open_ = open_ & (rows < n) & fits & ~lost
    if not PACK:
        left = left | lost | open_
    _append(odd, counts, rows, left)
    if THREE and PACK:
        _append(hard, counts + 1, rows, lost)
        if tl.max(open_.to(tl.int32), axis=0) > 0:
            at = _reserve(counts + 2, open_)
            tl.store(unsettled + at, rows, mask=open_)
            tl.store(near + at.to(tl.int64)[:, None] * KP + slot[None, :], places, mask=open_[:, None])


@triton.jit
def nearer(
    codes, width, start, stop, signs, limit, count, found, n_queries, room,
    BM: tl.constexpr, BQ: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """Store offset and agreement of the codes, start to stop, that agree with a query beyond its limit.

    ``signs`` (queries, KB) are the bits as +-1, padded with 0: a product is the number of bits that agree
    minus those that differ. ``count`` is the number found for each query; up to ``room`` are stored, in any
    order.
    """
    offset = tl.program_id(0) * BM + tl.arange(0, BM)
    row = start + offset.to(tl.int64)
    column = tl.arange(0, KB // 8)
    there = (row[:, None] < stop) & (column[None, :] < width)
    byte = tl.load(codes + row[:, None] * width + column[None, :], mask=there, other=0).to(tl.int32)
    bits = (byte[:, :, None] >> (7 - tl.arange(0, 8))[None, None, :]) & 1
    mine = tl.reshape(bits * 2 - 1, [BM, KB]).to(tl.int8)
    for first in range(0, n_queries, BQ):
        query = first + tl.arange(0, BQ)
        asked = tl.load(signs + query[:, None] * KB + tl.arange(0, KB)[None, :])
        agree = tl.dot(mine, asked.T, out_dtype=tl.int32)
        over = agree - tl.load(limit + query)[None, :]
        if tl.max(tl.max(over, axis=1), axis=0) > 0:
            hit = (over > 0) & (row[:, None] < stop)
            each = tl.zeros([BM, BQ], tl.int32)
            place = tl.atomic_add(count + query[None, :] + each, 1, mask=hit, sem="relaxed")
            at = found + (query.to(tl.int64)[None, :] * room + place) * 2
            hit = hit & (place < room)
            tl.store(at, offset[:, None] + each, mask=hit)
            tl.store(at + 1, agree, mask=hit)
