"""Ground truth, and metrics of codes against it."""
