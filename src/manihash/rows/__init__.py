"""Rows of X, wherever they are, visited in blocks: numpy arrays and files, dask arrays, torch tensors."""
