"""Ground truth, metrics, and the harness that evaluates codes and hashers."""
