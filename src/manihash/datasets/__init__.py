"""Data: sets by name, files by extension, GIST descriptors of images."""

from manihash.datasets.catalog import CATALOG, Dataset, dataset_names, load_dataset
from manihash.datasets.gist import gist
from manihash.files.errors import DataFileError, MissingDataError
from manihash.files.formats import open_vectors, read, read_rows, split_key, write

__all__ = [
    "CATALOG",
    "DataFileError",
    "Dataset",
    "MissingDataError",
    "dataset_names",
    "gist",
    "load_dataset",
    "open_vectors",
    "read",
    "read_rows",
    "split_key",
    "write",
]
