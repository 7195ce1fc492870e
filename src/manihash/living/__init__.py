"""Fitted models and rows that arrive later: training statistics, drift, updates and refits."""

from manihash.living.bridge_quality import BridgeQuality
from manihash.living.drift import Drift
from manihash.living.refit import Refit
from manihash.living.update import Update

__all__ = ["BridgeQuality", "Drift", "Refit", "Update"]
