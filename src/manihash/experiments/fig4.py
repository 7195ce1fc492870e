"""Figure 4: MAP and F1 of nine methods on CIFAR-10, from 16 to 128 bits."""

from manihash.experiments.scope import NINE, Scope
from manihash.experiments.trial import Trial

DATA = "cifar10-gist"


def trials(scope: Scope) -> list[Trial]:
    """Nine methods at every length; figure 5 draws its curves from the same."""
    return [
        t for bits in scope.bits for method in NINE for t in scope.seeded("retrieval", DATA, method, bits)
    ]
