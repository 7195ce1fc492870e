"""Advice about vectors: which encoder suits them."""

from manihash.advice.choice import Choice

__all__ = ["Choice"]
