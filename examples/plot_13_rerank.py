"""
Short codes first, vectors second
=================================

If you need the ten nearest rows by distance, use codes to find a shortlist, and rank the shortlist by the
vectors. This example shows how long the shortlist must be.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from manihash import recipe
from manihash.evaluation import nearest_euclidean, recall_at_k
from manihash.search import ByteVectors

# %%
# 20,000 made-up vectors of 32 dimensions in 200 overlapping groups.

X, _ = make_blobs(20_200, n_features=32, centers=200, cluster_std=3.0, random_state=0)
X = X.astype(np.float32)
X, Q = X[:-200], X[-200:]
nearest = nearest_euclidean(Q, X, k=10)

# %%
# Three kinds of codes of 32 bits (4 bytes instead of 128), and shortlists of 10 to 2,000 rows.

shortlists = [10, 30, 100, 300, 1000, 2000]
fig, axis = plt.subplots(figsize=(6.5, 3.8))
for name in ["itq", "lsh", "imh-tsne"]:
    index = recipe(name, n_bits=32, random_state=0, normalize=False).fit(X).index(X)
    recalls = []
    for shortlist in shortlists:
        _, ids = index.search(Q, k=10, rerank=X, candidates=shortlist)
        recalls.append(recall_at_k(ids, nearest).mean())
    axis.semilogx(shortlists, recalls, "o-", label=name)
axis.set(xlabel="rows ranked by their vectors", ylabel="recall of the ten nearest", ylim=(0, 1.02))
axis.legend()
plt.show()

# %%
# Manifold codes find groups. Many rows of a group share one code, and a shortlist takes all rows of a code
# together, so the number of rows that are read can be larger than the shortlist.

for name in ["itq", "imh-tsne"]:
    index = recipe(name, n_bits=32, random_state=0, normalize=False).fit(X).index(X)
    print(f"{name}: largest bucket {index.stats().largest_bucket} rows")

# %%
# The vectors need not be as precise as those that the codes were learned from. With one byte per value they
# take a quarter of the memory, and almost all answers stay the same.

index = recipe("itq", n_bits=32, random_state=0, normalize=False).fit(X).index(X)
for kind, vectors in {"float32": X, "one byte per value": ByteVectors.of(X)}.items():
    _, ids = index.search(Q, k=10, rerank=vectors, candidates=1000)
    print(f"{kind}: recall {recall_at_k(ids, nearest).mean():.3f}")
