"""Trials: values that say what to measure, the processes that run them, and their result files."""
