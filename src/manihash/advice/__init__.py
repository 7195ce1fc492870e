"""Advice about vectors: which encoder suits them."""
