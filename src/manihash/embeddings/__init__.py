"""Embeddings of a base set, one file per method."""
