"""Communities of neighbor graphs: known partitions, and modularity by its definition."""

import numpy as np
import pytest
import scipy.sparse as sp

from manihash.advice.communities import communities, modularity, neighbor_graph

nx = pytest.importorskip("networkx")


def random_graph(seed, n=60, p=0.1):
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < p, 1)
    return sp.csr_array((upper | upper.T).astype(float))


@pytest.mark.parametrize("seed", range(3))
def test_modularity_is_that_of_networkx(seed):
    graph = random_graph(seed)
    label = np.random.default_rng(seed).integers(5, size=60)
    parts = [set(np.flatnonzero(label == c).tolist()) for c in range(5)]
    expected = nx.community.modularity(nx.from_scipy_sparse_array(graph), parts)
    assert modularity(graph, label) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_communities_are_as_good_as_those_of_networkx(seed):
    graph = random_graph(seed)
    found = communities(graph, np.random.default_rng(0))
    parts = nx.community.louvain_communities(nx.from_scipy_sparse_array(graph), seed=0)
    label = np.empty(60, int)
    for c, members in enumerate(parts):
        label[list(members)] = c
    assert found.modularity > 0.9 * modularity(graph, label)


def test_separate_cliques_are_the_communities():
    graph = sp.csr_array(np.kron(np.eye(4), np.ones((6, 6)) - np.eye(6)))
    found = communities(graph, np.random.default_rng(0))
    assert found.number == 4
    assert (found.label == np.repeat(found.label[::6], 6)).all()
    assert found.modularity == pytest.approx(0.75)


def test_a_neighbor_graph_is_symmetric_and_counts_mutual_neighbors_twice():
    graph = neighbor_graph(np.array([[1], [0], [0]])).toarray()
    assert graph.tolist() == [[0, 2, 1], [2, 0, 0], [1, 0, 0]]


def test_a_higher_resolution_finds_smaller_communities():
    pairs = np.kron(np.eye(8), np.ones((2, 1)) @ np.ones((1, 2)))  # 8 pairs of cliques, joined by few edges
    graph = np.kron(pairs, 0.1 * np.ones((5, 5))) + 0.9 * np.kron(np.eye(16), np.ones((5, 5)))
    graph = sp.csr_array(graph - np.eye(80))
    large, small = (communities(graph, np.random.default_rng(0), scale) for scale in (1, 16))
    assert (large.number, small.number) == (8, 16)
    nx_graph = nx.from_scipy_sparse_array(graph)
    assert len(nx.community.louvain_communities(nx_graph, resolution=16, seed=0)) == 16
