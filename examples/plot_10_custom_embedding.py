"""
UMAP inside IMH
===============

The embedding of the base set is a part that you can exchange: any object with ``fit_transform`` and
``n_components`` works. Here UMAP takes the place of t-SNE.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.manifold import SpectralEmbedding
from umap import UMAP

from manihash import IMH, LabelTruth, evaluate
from manihash.embeddings import TSNE

X, y = load_digits(return_X_y=True)
X, Q, y, y_query = X[:-300], X[-300:], y[:-300], y[-300:]
truth = LabelTruth(y_query, y)

# %%
# ``n_components`` of the embedding is set to the number of bits.

embeddings = {
    "t-SNE of manihash": TSNE(perplexity=10),
    "UMAP": UMAP(n_neighbors=10, random_state=0, n_jobs=1),
    "SpectralEmbedding of scikit-learn": SpectralEmbedding(n_neighbors=10, random_state=0),
}
lengths = [8, 16, 32]
fig, axis = plt.subplots(figsize=(6.5, 3.8))
for name, embedding in embeddings.items():
    scores = []
    for n_bits in lengths:
        hasher = IMH(n_bits, embedding=embedding, normalize=True, random_state=0).fit(X)
        scores.append(evaluate(hasher, X, Q, truth).map_ties)
    axis.plot(lengths, scores, "o-", label=name)
axis.set(xlabel="bits", ylabel="MAP", xticks=lengths, ylim=(0, 1))
axis.legend()
plt.show()

# %%
# Induction, the sign, packing, search and evaluation are the same for every embedding. UMAP is not part of
# manihash, so a fitted hasher keeps only the embedded base set: it is saved and loaded without UMAP.
