"""
Do new vectors still fit the model?
===================================

A model is fitted once, and vectors keep arriving. ``hasher.drift`` compares new rows with statistics of the
training rows that are kept in the model, and says whether they differ, how, and what to do.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manihash import recipe

rng = np.random.default_rng(0)
X = rng.permutation(load_digits().data)
X, stream = X[:1000], X[1000:]
hasher = recipe("imh-tsne", n_bits=32, random_state=0).fit(X)

# %%
# Four weeks of new digits. In the first week nothing has changed. Then a part of the images is blurred by a
# dirty scanner: each pixel is mixed with its neighbors.


def blurred(rows):
    """The rows with each pixel replaced by the mean of its neighborhood."""
    images = np.pad(rows.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)), mode="edge")
    shifts = [images[:, i : i + 8, j : j + 8] for i in range(3) for j in range(3)]
    return np.mean(shifts, axis=0).reshape(-1, 64)


shares = [0, 0.1, 0.4, 1]
weeks = []
for share in shares:
    rows = stream[rng.choice(len(stream), 400, replace=False)].copy()
    dirty = rng.random(400) < share
    rows[dirty] = blurred(rows[dirty])
    weeks.append(rows)
found = [hasher.drift(rows) for rows in weeks]
for share, drift in zip(shares, found, strict=True):
    print(f"{share:.0%} blurred: drift {drift.drifted}, p-value {drift.p_value:.2g}, advice: {drift.advice}")

# %%
# What changed: the distance of the rows to the nearest landmark, as quantiles. Without drift the points lie
# on the diagonal.

fig, axes = plt.subplots(1, 4, figsize=(10, 2.9), sharex=True, sharey=True)
for axis, share, drift in zip(axes, shares, found, strict=True):
    before, now = drift.quantiles
    axis.plot(before, now, ".", color="tab:red" if drift.drifted else "tab:green", markersize=3)
    axis.plot(before, before, color="gray", linewidth=0.8)
    axis.set(title=f"{share:.0%} blurred, p = {drift.p_value:.2g}", xlabel="training rows")
axes[0].set_ylabel("new rows")
fig.tight_layout()
plt.show()

# %%
# The reason in words.

for share, drift in zip(shares, found, strict=True):
    print(f"{share:.0%} blurred: {drift.reason}")
