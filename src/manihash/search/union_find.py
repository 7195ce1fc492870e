"""Union-find in one compact array, for edges that arrive in large blocks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.types import Ints

Nodes = NDArray[np.uint32]

# Nodes whose roots are looked up at once.
_BLOCK = 2**20


class UnionFind:
    """Groups of n nodes, four bytes each. The root of a group is its lowest node.

    ``parent`` (n,) may be given: the state of an earlier run, or a file mapped into memory.
    """

    def __init__(self, n: int, parent: Nodes | None = None) -> None:
        self.parent: Nodes = np.arange(n, dtype=np.uint32) if parent is None else parent

    def join(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Merge the groups of the nodes a[i] and b[i] for each i."""
        for start in range(0, len(a), _BLOCK):
            self._join(self.roots(a[start : start + _BLOCK]), self.roots(b[start : start + _BLOCK]))

    def _join(self, a: Nodes, b: Nodes) -> None:
        """Merge the groups of the roots a[i] and b[i]: each root gets the lowest root beside it as parent."""
        parent = self.parent
        while len(a := a[differ := a != b]):
            b = b[differ]
            low, high = np.minimum(a, b), np.maximum(a, b)
            np.minimum.at(parent, high, low)
            # Roots that became the parent of each other form chains: each round halves their length.
            up = parent[high]
            while not np.array_equal(next_up := parent[up], up):
                parent[high] = next_up
                up = parent[high]
            a, b = self.roots(low), up

    def roots(self, nodes: NDArray[Any]) -> Nodes:
        """The root of each node."""
        root = self.parent[nodes]
        while not np.array_equal(up := self.parent[root], root):
            root = up
        self.parent[nodes] = root
        return root

    def labels(self) -> Nodes:
        """The lowest node of the group of each node: (n,)."""
        for start in range(0, len(self.parent), _BLOCK):
            self.roots(np.arange(start, min(start + _BLOCK, len(self.parent))))
        return self.parent

    def stars(self) -> tuple[Ints, Nodes]:
        """The nodes that are not the lowest of their group, and the lowest node of each."""
        label = self.labels()
        rest = np.flatnonzero(label != np.arange(len(label), dtype=np.uint32))
        return rest, label[rest]
