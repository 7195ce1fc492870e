"""
The two parts of a hybrid code
==============================

The code of ``imh-hybrid`` has a first part that says in which cluster a row lies, and a second part that
orders the rows inside the cluster.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manihash import recipe, unpack
from manihash.evaluation import nearest_euclidean, recall_at_k

X, y = load_digits(return_X_y=True)
X, Q, y, y_query = X[:-200], X[-200:], y[:-200], y[-200:]
hasher = recipe("imh-hybrid", n_bits=64, random_state=0).fit(X)
codes = hasher.encode(X)
print(hasher.layout_.described())

# %%
# Twelve rows of each digit, one code per line. In the first half the lines of a digit look the same; in the
# second half they differ.

order = np.concatenate([np.flatnonzero(y == digit)[:12] for digit in range(10)])
fig, axis = plt.subplots(figsize=(8, 5))
axis.imshow(unpack(codes[order], 64), cmap="gray_r", aspect="auto", interpolation="nearest")
axis.axvline(hasher.layout_.look_up_bits - 0.5, color="tab:red")
for digit in range(1, 10):
    axis.axhline(12 * digit - 0.5, color="tab:blue", linewidth=0.5)
axis.set_yticks(12 * np.arange(10) + 5.5, range(10))
axis.set(xlabel="bit", ylabel="digit", title="first part: cluster    |    second part: place in the cluster")
plt.show()

# %%
# The weight of the second part decides what the ranking favors. A weight of 0 uses the clusters only.

index = hasher.index(X)
nearest = nearest_euclidean(Q, X, k=10)
weights = [0, 0.25, 0.5, 0.75, 1, 2]
same_label, same_rows = [], []
for weight in weights:
    _, ids = index.search(Q, k=100, weight=weight)
    same_label.append((y[ids] == y_query[:, None]).mean())
    same_rows.append(recall_at_k(ids[:, :10], nearest).mean())
fig, axis = plt.subplots(figsize=(6, 3.5))
axis.plot(weights, same_label, "o-", label="right digit among the first 100")
axis.plot(weights, same_rows, "s-", label="true ten nearest among the first ten")
axis.set(xlabel="weight of the second part", ylim=(0, 1))
axis.legend()
plt.show()
