"""The prototype algorithm on real rows: its error and the bound of theorem 1, as n' grows."""

import numpy as np

from manihash.base.graph import weights
from manihash.compute.numpy import squared_distances, squared_norms, unit_rows
from manihash.embeddings.tsne import TSNE
from reproduction.paper.run.cache import TrialCache
from reproduction.paper.run.trial import Outcome, Trial
from reproduction.paper.theory.prototype import k_center, prototype

ROWS = 1000
CLUSTERS = (4, 8, 16, 32, 64, 128)
QUERIES, DRAWS = 10, 50
_NEAR = 30  # sigma of a query is its distance to its 30th nearest row


def prototypes(trial: Trial, cache: TrialCache) -> Outcome:
    """For each number m of clusters: n', the root mean square error, and its bound sqrt(2 / n') ε_(n'/2).

    Y is t-SNE's embedding of 1,000 rows into ``bits`` dimensions. The theorem bounds Pr[error >= t] by
    2 ε² / (n' t²), which is Chebyshev's for that mean square; ε is from the greedy cover, so at least itself.
    ``violations`` is the largest share of draws beyond t, less its bound, over t.
    """
    rng = np.random.default_rng(trial.seed)
    data = cache.dataset(trial)
    X = data.X_train[:ROWS].astype(np.float64)
    X = unit_rows(X, squared_norms(X))
    Q = data.X_test[:QUERIES].astype(np.float64)
    Q = unit_rows(Q, squared_norms(Q))
    Y = TSNE(n_components=trial.bits, random_state=trial.seed).fit_transform(X)
    squared = squared_distances(Q, X)
    sigma = np.sqrt(np.partition(squared, _NEAR, axis=1)[:, _NEAR])
    alphas = np.stack([weights(row, float(s)) for row, s in zip(squared, sigma, strict=True)])
    alphas /= alphas.sum(axis=1, keepdims=True)
    centers, radii = k_center(Y, max(CLUSTERS))
    error, bound, used, violations = [], [], [], []
    for m in CLUSTERS:
        nearest = squared_distances(Y, Y[centers[:m]]).argmin(axis=1)
        clusters = np.unique(nearest, return_inverse=True)[1]
        found = [
            (float(np.linalg.norm(draw.estimate - alpha @ Y)), draw.n_used)
            for alpha in alphas
            for draw in (prototype(alpha, Y, clusters, rng) for _ in range(DRAWS))
        ]
        errors, n_used = np.array(found).T
        # ε_(n'/2) of each draw's own n', by the cover with as many balls
        limits = np.sqrt(2 / n_used) * radii[np.maximum(n_used.astype(int) // 2, 1) - 1]
        t = np.quantile(limits, 0.5) * np.array([0.5, 1, 1.5, 2, 3, 4])
        beyond = np.array(
            [(errors >= step).mean() - np.minimum(1, (limits / step) ** 2).mean() for step in t]
        )
        error.append(float(np.sqrt(np.mean(errors**2))))
        bound.append(float(np.sqrt(np.mean(limits**2))))
        used.append(float(n_used.mean()))
        violations.append(float(beyond.max()))
    return Outcome(
        {"clusters": list(CLUSTERS), "n_used": used, "error": error, "bound": bound, "violations": violations}
    )
