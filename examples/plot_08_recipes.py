"""
Compare recipes on your data
============================

No method is best on all data. This example measures several recipes and code lengths on the digits, by
three questions: how good is the whole ranking, how good is a look-up within two bits, and how many of the
first ten answers are right? On the command line, ``manihash evaluate`` prints such a table.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manihash import LabelTruth, evaluate, recipe

X, y = load_digits(return_X_y=True)
X, Q, y, y_query = X[:-300], X[-300:], y[:-300], y[-300:]
truth = LabelTruth(y_query, y)

names = ["imh-tsne", "imh-graph", "imh-hybrid", "imh-le", "agh2", "itq", "pcah", "lsh"]
lengths = [16, 32, 64]

# %%
# ``evaluate`` encodes rows and queries, and ranks as a search with vectors does.

results = {}
for name in names:
    for n_bits in lengths:
        hasher = recipe(name, n_bits=n_bits, random_state=0).fit(X)
        results[name, n_bits] = evaluate(hasher, X, Q, truth)

# %%
# The same in three pictures.

measures = {"map_ties": "MAP of the ranking", "f1": "F1 within radius 2", "precision_at_10": "precision@10"}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
width = 0.8 / len(lengths)
for axis, (measure, title) in zip(axes, measures.items(), strict=True):
    for number, n_bits in enumerate(lengths):
        values = [getattr(results[name, n_bits], measure) for name in names]
        places = np.arange(len(names)) + (number - 1) * width
        axis.barh(places, values, width, label=f"{n_bits} bits", color=f"C{number}")
    axis.set(title=title, xlim=(0, 1))
axes[0].set_yticks(range(len(names)), names)
axes[0].invert_yaxis()
axes[2].legend(loc="lower left")
fig.tight_layout()
plt.show()

# %%
# Manifold codes win the ranking and the look-up, because the digits form clusters. Look at the last picture
# before you conclude that they are always better: among the first ten answers, linear codes are as good or
# better.
