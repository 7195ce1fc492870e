"""
Radius against precision and recall
===================================

A look-up returns all rows within a radius of the query's code. A larger radius finds more of the relevant
rows, and more rows that are not relevant. This example shows how to choose the radius from labeled rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manihash import LabelTruth, evaluate, recipe

X, y = load_digits(return_X_y=True)
X, Q, y, y_query = X[:-300], X[-300:], y[:-300], y[-300:]
truth = LabelTruth(y_query, y)

# %%
# ``evaluate(..., curves=True)`` returns precision and recall at every radius.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
for axis, name in zip(axes, ["imh-tsne", "imh-tsne-rotated", "itq"], strict=True):
    hasher = recipe(name, n_bits=32, random_state=0).fit(X)
    curves = evaluate(hasher, X, Q, truth, curves=True).curves
    radius = np.arange(17)
    precision, recall = curves.precision_within[:17], curves.recall_within[:17]
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    axis.plot(radius, precision, label="precision")
    axis.plot(radius, recall, label="recall")
    axis.plot(radius, f1, "k--", label="F1")
    axis.axvline(f1.argmax(), color="lightgray", zorder=0)
    axis.set(title=f"{name}: best radius {f1.argmax()}", xlabel="radius in bits")
axes[0].legend()
fig.tight_layout()
plt.show()

# %%
# The bits of ``itq`` are spread evenly over all rows, so a small radius holds almost nothing and the best
# radius is large: a slow look-up. The manifold codes put a class into a small ball, in which a look-up is
# fast.
