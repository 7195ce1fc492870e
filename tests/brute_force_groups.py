"""Groups of near rows by comparing all pairs."""

import numpy as np

from manihash.codes import hamming


def brute_force_groups(codes, radius, ids):
    near = hamming(codes, codes) <= radius
    left, groups = set(range(len(codes))), []
    while left:
        group, waiting = set(), [left.pop()]
        while waiting:
            i = waiting.pop()
            group.add(i)
            found = {j for j in np.flatnonzero(near[i]).tolist() if j in left}
            left -= found
            waiting += found
        groups.append(sorted(ids[i] for i in group))
    return sorted(groups)
