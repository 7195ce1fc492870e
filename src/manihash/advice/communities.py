"""Communities of a neighbor graph: groups of rows with many edges inside and few between them."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manihash.types import Ids, Ints

_VISITS = 20  # of all nodes of one level, at most
_MOVED = 1e-3  # share of the nodes that must move for another visit


@dataclass(frozen=True, eq=False)
class Communities:
    """The community of each row, (n,), from 0 on, and the modularity of the partition (at most 1)."""

    label: Ints
    modularity: float

    @property
    def number(self) -> int:
        """Number of communities."""
        return int(self.label.max()) + 1


def neighbor_graph(nearest: Ids) -> sp.csr_array:
    """The graph (n, n) that joins each row to its nearest rows (n, k): 1, or 2 if each is near the other."""
    n, k = nearest.shape
    one = sp.csr_array((np.ones(n * k), nearest.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    return sp.csr_array(one + one.T)


def communities(graph: sp.csr_array, rng: np.random.Generator, resolution: float = 1.0) -> Communities:
    """Partition a symmetric graph (n, n) so that its modularity is high, by the method of Louvain [1]_.

    Nodes move to the neighboring community with the largest gain until few move. Then each community becomes
    one node, and the same is done with these nodes. With a higher resolution [2]_ communities are smaller.

    References
    ----------
    .. [1] V. D. Blondel, J.-L. Guillaume, R. Lambiotte and E. Lefebvre, "Fast unfolding of communities in
       large networks", J. Stat. Mech. P10008, 2008.
    .. [2] J. Reichardt and S. Bornholdt, "Statistical mechanics of community detection", Phys. Rev. E 74,
       016110, 2006.
    """
    label = np.arange(graph.shape[0])
    level = graph
    while True:
        moved = _moved(level, rng, resolution)
        number, moved = np.unique(moved, return_inverse=True)
        label = moved[label]
        if len(number) == level.shape[0]:
            return Communities(label, modularity(graph, label))
        member = sp.csr_array((np.ones(len(moved)), (np.arange(len(moved)), moved)))
        level = sp.csr_array(member.T @ level @ member)


def modularity(graph: sp.csr_array, label: Ints) -> float:
    """Q = Σ_c (e_c / 2m - (d_c / 2m)²), for edges e_c inside and degrees d_c of each community c."""
    degree, total = _degrees(graph)
    edges = graph.tocoo()
    inside = edges.data[label[edges.row] == label[edges.col]].sum() / total
    return float(inside - np.square(np.bincount(label, degree) / total).sum())


def _moved(graph: sp.csr_array, rng: np.random.Generator, resolution: float) -> Ints:
    """The community of each node after single nodes have moved to better communities."""
    degrees, total = _degrees(graph)
    degree = degrees.tolist()
    starts, others, weights = graph.indptr.tolist(), graph.indices.tolist(), graph.data.tolist()
    label = list(range(len(degree)))
    size = degree.copy()  # total degree of each community
    for _ in range(_VISITS):
        moves = 0
        for i in rng.permutation(len(degree)).tolist():
            old = label[i]
            links = {old: 0.0}
            for e in range(starts[i], starts[i + 1]):
                if others[e] != i:
                    near = label[others[e]]
                    links[near] = links.get(near, 0.0) + weights[e]
            size[old] -= degree[i]
            scale = resolution * degree[i] / total
            best, most = old, links[old] - size[old] * scale
            for near, weight in links.items():
                if (gain := weight - size[near] * scale) > most + 1e-12:
                    best, most = near, gain
            size[best] += degree[i]
            label[i] = best
            moves += best != old
        if moves <= _MOVED * len(degree):
            break
    return np.array(label)


def _degrees(graph: sp.csr_array) -> tuple[Ints, float]:
    """The degree of each node, (n,), and their sum."""
    degree = np.asarray(graph.sum(axis=1)).ravel()
    return degree, float(degree.sum())
