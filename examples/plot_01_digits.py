"""
Find similar digits
===================

Learn codes of handwritten digits without labels, search them, and look at the answers.
"""

# %%
# The digits of scikit-learn are 1,797 images of 8 × 8 pixels. The last 200 are queries, the others the
# database.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manihash import HammingIndex, recipe

X, y = load_digits(return_X_y=True)
X, Q, y, y_query = X[:-200], X[-200:], y[:-200], y[-200:]

# %%
# A recipe is a method with its settings. ``imh-tsne`` is the method of the paper.

hasher = recipe("imh-tsne", n_bits=64, random_state=0).fit(X)
codes = hasher.encode(X)
print(f"a row has {X[0].nbytes} bytes, its code {codes[0].nbytes}")

# %%
# The index returns Hamming distances and row numbers, nearest first.

index = HammingIndex(codes, n_bits=64)
distances, ids = index.search(hasher.encode(Q), k=10)
right = (y[ids] == y_query[:, None]).mean()
print(f"{right:.1%} of the first ten answers show the digit of the query")

# %%
# One query per row, on the left; wrong answers have a red frame.

queries = [int(np.flatnonzero(y_query == digit)[0]) for digit in range(6)]
fig, axes = plt.subplots(len(queries), 11, figsize=(8, 4.6))
for row, query in zip(axes, queries, strict=True):
    row[0].imshow(Q[query].reshape(8, 8), cmap="gray_r")
    row[0].set_title("query" if query == queries[0] else "", fontsize=9)
    for axis, answer, bits in zip(row[1:], ids[query], distances[query], strict=True):
        axis.imshow(X[answer].reshape(8, 8), cmap="gray_r")
        axis.set_xlabel(f"{bits} bits", fontsize=7)
        if y[answer] != y_query[query]:
            for spine in axis.spines.values():
                spine.set(color="tab:red", linewidth=2)
for axis in axes.flat:
    axis.set(xticks=[], yticks=[])
fig.tight_layout(pad=0.3)
plt.show()
