"""
What each bit sees
==================

A bit divides the rows in two. The mean image of each half shows what the bit has learned.
"""

# %%
# Sixteen bits of the digits. ``transform`` returns bits as 0 and 1, one column per bit.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manihash import InductiveEmbedding, recipe

X, y = load_digits(return_X_y=True)
hasher = recipe("imh-tsne-rotated", n_bits=16, random_state=0).fit(X)
bits = hasher.transform(X)

# %%
# The difference of the two means, bit by bit: red pixels are darker where the bit is 1, blue where it is 0.
# The digits above are those of which most rows have the bit.

fig, axes = plt.subplots(2, 8, figsize=(9, 3.2))
for bit, axis in enumerate(axes.flat):
    on = bits[:, bit] == 1
    difference = X[on].mean(axis=0) - X[~on].mean(axis=0)
    axis.imshow(difference.reshape(8, 8), cmap="RdBu_r", vmin=-9, vmax=9)
    digits = [str(digit) for digit in range(10) if on[y == digit].mean() > 0.5]
    axis.set_title(" ".join(digits), fontsize=8)
    axis.set(xticks=[], yticks=[], xlabel=f"bit {bit}")
fig.tight_layout()
plt.show()

# %%
# The same bits on a map: the regions in which a bit is 1 (dark) follow the clusters.

Y = InductiveEmbedding(2, random_state=0).fit(X).transform(X)
fig, axes = plt.subplots(1, 4, figsize=(9, 2.5))
for bit, axis in enumerate(axes):
    axis.scatter(*Y.T, c=np.where(bits[:, bit] == 1, "tab:blue", "lightgray"), s=3)
    axis.set(xticks=[], yticks=[], title=f"bit {bit}")
fig.tight_layout()
plt.show()

# %%
# Bits of one hasher should be balanced and should not repeat each other. The rotation of
# ``imh-tsne-rotated`` lets bits agree on whole clusters, so that a look-up within a small radius finds
# them; some bits then say nearly the same.

for name in ["imh-tsne", "imh-tsne-rotated"]:
    bits = recipe(name, n_bits=16, random_state=0).fit_transform(X)
    correlation = abs(np.corrcoef(bits.T))[np.triu_indices(16, 1)]
    low, high = bits.mean(axis=0).min(), bits.mean(axis=0).max()
    print(f"{name}: share of ones {low:.2f} to {high:.2f}, mean correlation {correlation.mean():.2f}")
