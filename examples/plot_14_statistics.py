"""
Are the codes healthy?
======================

Codes can collapse: too many rows share one code, or bits carry no information. ``HammingIndex.stats``
measures this without labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manihash import HammingIndex, recipe

X, _ = load_digits(return_X_y=True)
names = ["imh-tsne", "imh-tsne-rotated", "itq", "pcah"]

# %%
# Rows per code, sorted. A steep start means that few codes hold many rows: good for finding whole clusters,
# bad for telling their rows apart.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
for name in names:
    hasher = recipe(name, n_bits=32, random_state=0).fit(X)
    index = HammingIndex(hasher.encode(X), 32)
    stats = index.stats()
    sizes = np.sort(np.unique(index.codes, axis=0, return_counts=True)[1])[::-1]
    left.loglog(1 + np.arange(len(sizes)), sizes, label=name)
    right.barh(name, stats.effective_bits, color="C0")
    print(f"{name}: {stats.distinct_codes} distinct codes, largest bucket {stats.largest_bucket}")
left.set(xlabel="code, largest bucket first", ylabel="rows with this code")
left.legend()
right.set(xlabel="effective bits of 32")
fig.tight_layout()
plt.show()

# %%
# A code that has collapsed is reported with advice.

collapsed = np.zeros((1000, 4), dtype=np.uint8)
collapsed[:100, 0] = np.arange(100)
for warning in HammingIndex(collapsed, 32).stats().warnings:
    print("-", warning)
