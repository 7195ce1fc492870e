"""
Bytes against quality
=====================

How many bytes does a row need? This example compares codes of 2 to 16 bytes on the digits: product quantizers
(PQ, OPQ) and RaBitQ, which approximate distances, linear codes (ITQ), manifold codes (IMH), and the word of
``imh-hybrid``, which has manifold bits and a product quantizer.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from manihash import LabelTruth, evaluate, recipe
from manihash.evaluation.harness import evaluate_codes, measure
from manihash.search import FaissQuantizer

X, y = load_digits(return_X_y=True)
X, Q, y, y_query = X[:-300], X[-300:], y[:-300], y[-300:]
truth = LabelTruth(y_query, y)

# %%
# Queries are not rounded to codes: their real values are compared with the codes of the rows, as in a search
# with vectors.

found = {}
for name in ["pq", "opq", "itq", "imh-tsne", "imh-hybrid"]:
    for n_bits in [16, 32, 64] if name == "itq" else [16, 32, 64, 128]:
        hasher = recipe(name, n_bits=n_bits, random_state=0).fit(X)
        result = evaluate(hasher, X, Q, truth)
        found.setdefault(name, []).append((n_bits // 8, result.map, result.precision_at_10))

# %%
# RaBitQ stores two numbers of four bytes per row beside its bits, and they count.

for n_bits in [16, 32, 64]:
    baseline = FaissQuantizer("rabitq", n_bits=n_bits, normalize=True, random_state=0)
    result = measure(baseline, X, Q, truth, metric=evaluate_codes).result
    found.setdefault("RaBitQ (FAISS)", []).append(
        (baseline.bytes_per_row_, result.map, result.precision_at_10)
    )

# %%
# Left: the whole ranking by class. Right: the first ten answers.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8))
for name, points in found.items():
    sizes, whole, first = zip(*points, strict=True)
    style = {"linewidth": 2.5} if name == "imh-hybrid" else {"alpha": 0.8}
    axes[0].semilogx(sizes, whole, "o-", base=2, label=name, **style)
    axes[1].semilogx(sizes, first, "o-", base=2, label=name, **style)
for axis, title in zip(axes, ("MAP of the ranking", "precision@10"), strict=True):
    axis.set(title=title, xlabel="bytes per row")
    axis.grid(alpha=0.3)
axes[1].legend(fontsize=8)
fig.tight_layout()
plt.show()

# %%
# Quantizers need bytes to come closer to the vectors, and cannot rank classes better than the vectors do.
# Manifold bits rank whole classes with two bytes, and lose among the first ten. The word has both.
for name, points in found.items():
    print(f"{name:15s}", "  ".join(f"{n:3d} bytes: {m:.3f} / {p:.3f}" for n, m, p in points))
