"""The errors that the library raises, with one root: ``except ManihashError`` catches all of them."""

__all__ = [
    "BadRowsError",
    "DamagedIndexError",
    "DataFileError",
    "ManihashError",
    "MissingDataError",
    "ModelFileError",
    "StoreConnectionError",
    "StoreError",
    "StoreNotFoundError",
]


class ManihashError(Exception):
    """The root of the errors that manihash defines.

    Each of them is also a ``ValueError``, ``FileNotFoundError`` or ``ConnectionError``, whichever describes
    it. An invalid argument of a call raises a plain ``ValueError``.

    Examples
    --------
    >>> from manihash import ManihashError
    >>> from manihash.errors import ModelFileError
    >>> issubclass(ModelFileError, ManihashError), issubclass(ModelFileError, ValueError)
    (True, True)
    """


class BadRowsError(ManihashError, ValueError):
    """Raised for rows that cannot be computed with: NaN, infinity, or values whose squares overflow.

    The message names the first such row.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.errors import BadRowsError
    >>> from manihash.hashers import LSH
    >>> X = np.ones((4, 3))
    >>> X[2, 1] = np.nan
    >>> try:
    ...     LSH(n_bits=8, random_state=0).fit(X)
    ... except BadRowsError as error:
    ...     print(error)
    Input X contains NaN: the first such row is 2. Remove these rows or fill their gaps before hashing
    """


class ModelFileError(ManihashError, ValueError):
    """A model file is damaged, is not a model file, or was written by a newer version.

    Raised by `manihash.load`. The message says which file it is and what to do.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manihash import load
    >>> from manihash.errors import ModelFileError
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.mhash"
    ...     _ = path.write_bytes(b"not a model")
    ...     try:
    ...         load(path)
    ...     except ModelFileError:
    ...         print("refused")
    refused
    """


class MissingFunctionError(ManihashError, ValueError):
    """A model was fitted with a function, which its file does not contain."""


class DataFileError(ManihashError, ValueError):
    """A data file is damaged, truncated, in another format, or not the published file.

    Raised when vectors, labels, codes or datasets are read. The message says which file it is, what was
    found and what was expected.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manihash import open_vectors
    >>> from manihash.errors import DataFileError
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vectors.npy"
    ...     _ = path.write_bytes(b"not an array")
    ...     try:
    ...         open_vectors(path)
    ...     except DataFileError:
    ...         print("refused")
    refused
    """


class MissingDataError(ManihashError, FileNotFoundError):
    """A dataset is not on this machine and could not be downloaded.

    Raised by `manihash.load_dataset`. The message says which file is missing, where it can be downloaded
    and where to put it.

    Examples
    --------
    >>> from manihash.errors import MissingDataError
    >>> issubclass(MissingDataError, FileNotFoundError)
    True
    """


class ResumeError(ManihashError, ValueError):
    """A part file cannot be resumed: it was made from something else, or it is damaged."""


class DamagedIndexError(ManihashError, ValueError):
    """Raised for an index file that is damaged, incomplete or not an index file.

    ``HammingIndex.load`` raises it for an invalid header, ``HammingIndex.verify`` for any changed byte.
    Queries raise it if the row lists of a file that was not verified point to rows that do not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from manihash import HammingIndex
    >>> from manihash.errors import DamagedIndexError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "codes.mhx"
    ...     _ = path.write_text("some other text")
    ...     try:
    ...         index = HammingIndex.load(path)
    ...     except DamagedIndexError:
    ...         print("build the index again")
    build the index again
    """


class UnknownIdError(ManihashError, ValueError):
    """Raised for an id that is not in the index."""


class KnownIdError(ManihashError, ValueError):
    """Raised for an id that is already in the index."""


class StoreError(ManihashError, ValueError):
    """The store rejected a request.

    Raised when an id is unknown or already stored, when the codes have another length than those in the
    store, when a file is damaged, and when the database itself reports an error.

    See Also
    --------
    StoreNotFoundError : The file, table or collection does not exist.
    StoreConnectionError : The database does not respond.

    Examples
    --------
    >>> import manihash
    >>> try:
    ...     manihash.open_store("missing.faiss")
    ... except StoreError as error:
    ...     print(type(error).__name__)
    StoreNotFoundError
    """


class StoreNotFoundError(StoreError):
    """The file, table or collection does not exist.

    `open_store` raises it when it is called without `n_bits`; with `n_bits` it creates the store instead.

    Examples
    --------
    >>> import manihash
    >>> try:
    ...     store = manihash.open_store("missing.faiss")
    ... except StoreNotFoundError:
    ...     print("there is no such file")
    there is no such file
    """


class StoreExistsError(StoreError):
    """A store cannot be created, because there is one already."""


class StoreConnectionError(ManihashError, ConnectionError):
    """The database does not respond, or the connection was lost.

    Nothing is wrong with the request: repeat it when the database is available again.

    Examples
    --------
    >>> import manihash
    >>> def count(url):
    ...     try:
    ...         with manihash.open_store(url) as store:
    ...             return store.count()
    ...     except StoreConnectionError:
    ...         return None
    """
