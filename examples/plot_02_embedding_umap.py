"""
A 2-D map that places new points
================================

t-SNE has no ``transform``: it cannot place points that it has not seen.
:class:`~manihash.InductiveEmbedding` embeds a base set and places all other points at weighted means of it.
UMAP also has a ``transform``; here are both.
"""

# %%
# Both methods learn the map from 1,297 digits. The other 500 are placed by ``transform``.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from umap import UMAP

from manihash import InductiveEmbedding
from manihash.base import KMeansBase

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = X[:-500], X[-500:], y[:-500], y[-500:]

maps = {
    "InductiveEmbedding (t-SNE)": InductiveEmbedding(2, base=KMeansBase(600), random_state=0),
    "UMAP": UMAP(n_components=2, random_state=0, n_jobs=1),
}

# %%
# Gray points are the training rows; colored points are new. The title has the share of new points whose
# five nearest training rows on the map show the same digit by majority.

fig, axes = plt.subplots(1, 2, figsize=(9, 4.4))
for axis, (name, method) in zip(axes, maps.items(), strict=True):
    Y = method.fit(X).transform(X)
    Y_new = method.transform(X_new)
    accuracy = KNeighborsClassifier(5).fit(Y, y).score(Y_new, y_new)
    axis.scatter(*Y.T, c="lightgray", s=6)
    axis.scatter(*Y_new.T, c=y_new, cmap="tab10", s=9)
    axis.set_title(f"{name}: {accuracy:.1%}")
    axis.set(xticks=[], yticks=[])
fig.tight_layout()
plt.show()

# %%
# In manihash the place of a point does not depend on the points it is transformed with: one row gives the
# same numbers as a batch. UMAP optimizes the points of a batch together.

inductive, umap = maps.values()
for name, method in maps.items():
    moved = abs(method.transform(X_new)[:1] - method.transform(X_new[:1])).max()
    print(f"{name}: transformed alone, the first new point moves by {moved:.3g}")
