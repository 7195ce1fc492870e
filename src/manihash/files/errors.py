"""Errors of files, by kind."""


class ModelFileError(ValueError):
    """A model file is damaged, is not a model file, or was written by a newer version.

    Raised by `manihash.load`. The message says which file it is and what to do.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manihash import ModelFileError, load
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.mhash"
    ...     _ = path.write_bytes(b"not a model")
    ...     try:
    ...         load(path)
    ...     except ModelFileError:
    ...         print("refused")
    refused
    """


class MissingFunctionError(ValueError):
    """A model was fitted with a function, which its file does not contain."""


class DataFileError(ValueError):
    """A data file is damaged, truncated, in another format, or not the published file.

    Raised when vectors, labels, codes or data sets are read. The message says which file it is, what was
    found and what was expected.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from manihash import DataFileError, open_vectors
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vectors.npy"
    ...     _ = path.write_bytes(b"not an array")
    ...     try:
    ...         open_vectors(path)
    ...     except DataFileError:
    ...         print("refused")
    refused
    """


class MissingDataError(FileNotFoundError):
    """A data set is not on this machine and could not be downloaded.

    Raised by `manihash.load_dataset`. The message says which file is missing, where it can be downloaded
    and where to put it.

    Examples
    --------
    >>> from manihash import MissingDataError
    >>> issubclass(MissingDataError, FileNotFoundError)
    True
    """
