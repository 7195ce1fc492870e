"""Fitted models and rows that arrive later: training statistics, drift, updates and refits."""
