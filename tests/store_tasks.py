"""A process that changes a store and writes down what was acknowledged; light to import."""

import numpy as np

from manihash.stores import open_store

N_BITS = 64


def codes_of(ids):
    """The code of each id, the same in every process."""
    return np.stack([np.random.default_rng(int(i)).integers(0, 256, N_BITS // 8, np.uint8) for i in ids])


def change_often(address, log, seed, first):
    """Add batches of new rows, delete some of them, and write each change to a file when it has returned.

    A line is written before a change as well: a killed change may be there in full, or not at all.
    """
    rng = np.random.default_rng(seed)
    next_id, held = first, []
    with open(log, "a", buffering=1) as file, open_store(address) as store:
        while True:
            if len(held) > 30 and rng.random() < 0.3:
                ids = rng.choice(held, 5, replace=False).tolist()
                kind = "delete"
            else:
                n = int(rng.integers(1, 12))
                ids, kind = list(range(next_id, next_id + n)), "add"
                next_id += n
            file.write(f"begin {kind} {' '.join(map(str, ids))}\n")
            if kind == "add":
                store.add(codes_of(ids), ids)
                held += ids
            else:
                store.remove(ids)
                held = [i for i in held if i not in ids]
            file.write("end\n")
