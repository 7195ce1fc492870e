"""Datasets by name, GIST descriptors of images, and reading and writing of data files."""

from manihash.datasets.catalog import CATALOG, dataset_names
from manihash.datasets.gist import gist
from manihash.datasets.loading import Dataset, load_dataset
from manihash.files.formats import read, write

__all__ = ["CATALOG", "Dataset", "dataset_names", "gist", "load_dataset", "read", "write"]
