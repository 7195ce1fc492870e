"""The MAP that the public code of each method reaches on MNIST, and ours under the same protocol."""

import json
from pathlib import Path

from manihash import load_dataset
from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth

REFERENCES = json.loads(
    (Path(__file__).parents[1] / "docs" / "results" / "references.json").read_text("utf-8")
)


def released_map(method, n_bits):
    """MAP of the public code on MNIST."""
    mnist = REFERENCES["mnist"]
    return mnist[method][mnist["bits"].index(n_bits)] / 100


def mnist_map(hasher):
    """MAP of a hasher that is fitted on the 69,000 training images, for the 1,000 test images."""
    mnist = load_dataset("mnist")
    hasher.fit(mnist.X_train, mnist.y_train)
    truth = LabelTruth(mnist.y_test, mnist.y_train)
    return evaluate(hasher.encode(mnist.X_test), hasher.encode(mnist.X_train), truth, hasher.n_bits).map
