"""Embeddings of a base set, one file a method."""
