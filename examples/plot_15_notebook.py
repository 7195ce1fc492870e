"""
Results in a notebook
=====================

Results of manihash are tables in a notebook, data frames and plots. ``manihash.explore`` shows a page with a
map of all rows inside the notebook, and returns the rows that you mark there: see
:doc:`/guide/notebook`, with a notebook to run in Jupyter.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import manihash as mh

X, y = load_digits(return_X_y=True)
hasher = mh.recipe("imh-tsne", n_bits=32, random_state=0).fit(X[200:])
index = hasher.index(X[200:])
index

# %%
# The measures of an evaluation, and its curve: precision against recall, for the ranking and for look-ups.

truth = mh.LabelTruth(y[:200], y[200:])
found = mh.evaluate(hasher, X[200:], X[:200], truth, curves=True)
found

# %%

ax = found.plot(label="ranking")
found.plot("radius", ax=ax, label="look-ups, one point per radius")
ax.legend()
plt.show()

# %%
# Every table is a data frame, too.

found.curves.to_frame("radius").head()

# %%
# Statistics of the codes, with warnings if there are any.

index.stats()

# %%
# New rows that are brighter than the training rows: is this drift?

drift = hasher.drift(X[:200] + 2)
drift

# %%

drift.plot()
plt.show()
