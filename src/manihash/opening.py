"""Open files that manihash wrote: models, and indexes with or without their model."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manihash.files import kinds
from manihash.files.model import load as load_model

if TYPE_CHECKING:
    from manihash.search.hamming_index import HammingIndex


def load(path: str | os.PathLike[str]) -> Any:
    """Open a model file or an index file.

    The file is verified first: its format version and, for a model, its checksum. Loading executes no code
    from the file.

    Parameters
    ----------
    path : str or path-like
        A file that ``save`` of a hasher, an ``InductiveEmbedding`` or an index wrote.

    Returns
    -------
    Hasher, InductiveEmbedding, Index or HammingIndex
        The fitted model, which gives the same codes as the one that was saved; or the index, an ``Index`` if
        the file holds the hasher, too.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError, DamagedIndexError
        If the file is damaged, is of another kind, or was written by a newer version of manihash.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from manihash import load
    >>> from manihash.hashers import LSH
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> hasher = LSH(n_bits=16, random_state=0).fit(X)
    >>> with TemporaryDirectory() as folder:
    ...     hasher.index(X).save(Path(folder) / "items.mhx")
    ...     index = load(Path(folder) / "items.mhx")
    >>> bool(np.array_equal(index.hasher.encode(X), hasher.encode(X)))
    True
    """
    if Path(path).is_file() and kinds.is_index(path):
        return load_index(path)
    return load_model(path)


def load_index(path: str | os.PathLike[str], *, mmap: bool = True) -> "HammingIndex":
    """Open an index file: an ``Index`` if it holds the hasher of its codes."""
    from manihash.search import files
    from manihash.search.hamming_index import HammingIndex
    from manihash.search.index import Index

    has_model = files.read(path, mmap=True).model is not None
    return (Index if has_model else HammingIndex).load(path, mmap=mmap)
