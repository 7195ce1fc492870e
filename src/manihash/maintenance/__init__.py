"""Fitted models and rows that arrive later: training statistics, drift, updates and refits."""

from manihash.maintenance.bridge_quality import BridgeQuality
from manihash.maintenance.drift import Drift
from manihash.maintenance.refit import Refit
from manihash.maintenance.update import Update

__all__ = ["BridgeQuality", "Drift", "Refit", "Update"]
