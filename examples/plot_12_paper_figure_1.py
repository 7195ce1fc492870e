"""
Figure 1 of the paper
=====================

The first figure of *Inductive Hashing on Manifolds* shows the answers to a few digits: by Euclidean
distance of the pixels, by LSH, and after the nonlinear embedding, by Euclidean and by Hamming distance.
Here it is drawn with the small digits of scikit-learn; ``manihash paper`` draws it with MNIST.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manihash import IMH, HammingIndex
from manihash.base import KMeansBase
from manihash.evaluation import nearest_euclidean
from manihash.hashers import LSH

X, y = load_digits(return_X_y=True)
X /= np.linalg.norm(X, axis=1, keepdims=True)
X, Q, y, y_query = X[:-300], X[-300:], y[:-300], y[-300:]

# %%
# Four searches: two in the original space, two in an embedding of 48 dimensions.


def by_code(hasher):
    """The rows with the nearest codes."""
    return HammingIndex(hasher.encode(X), hasher.n_bits).search(hasher.encode(Q), k=100)[1]


imh = IMH(48, base=KMeansBase(400), random_state=0).fit(X)
answers = {
    "pixels": nearest_euclidean(Q, X, k=100),
    "LSH, 128 bits": by_code(LSH(128, random_state=0).fit(X)),
    "embedding, 48-D": nearest_euclidean(imh.embed(Q), imh.embed(X), k=100),
    "IMH, 48 bits": by_code(imh),
}

# %%
# The query at which pixels and embedding differ most, for each of four digits: answers 1, 11, 21, … 91.

wrong = {name: (y[ids] != y_query[:, None]).sum(axis=1) for name, ids in answers.items()}
gain = wrong["pixels"] - wrong["IMH, 48 bits"]
queries = [max(np.flatnonzero(y_query == digit), key=lambda q: gain[q]) for digit in (1, 3, 8, 9)]
fig = plt.figure(figsize=(10, 7.6))
grids = fig.subfigures(4, 1)
for grid, query in zip(grids, queries, strict=True):
    axes = grid.subplots(2, 24, gridspec_kw={"wspace": 0.05, "hspace": 0.35})
    for axis in axes.flat:
        axis.axis("off")
    axes[0, 0].imshow(Q[query].reshape(8, 8), cmap="Blues")
    axes[0, 0].set_title("query", fontsize=8)
    for number, (name, ids) in enumerate(answers.items()):
        row, start = number // 2, 2 + 11 * (number % 2)
        right = (y[ids[query]] == y_query[query]).sum()
        axes[row, start].set_title(f"{name}: {right} of 100 right", loc="left", fontsize=8)
        for axis, answer in zip(axes[row, start : start + 10], ids[query][::10], strict=False):
            good = y[answer] == y_query[query]
            axis.imshow(X[answer].reshape(8, 8), cmap="gray_r" if good else "Reds")
plt.show()

# %%
# These queries were chosen where the codes help. Over all queries:

for name, ids in answers.items():
    share = (y[ids] == y_query[:, None]).mean(axis=0)
    print(f"{name:16} {share[:10].mean():.1%} of the first 10 right, {share.mean():.1%} of the first 100")
