"""The error of a damaged index file."""


class DamagedIndexError(ValueError):
    """Raised for an index file that is damaged, incomplete or not an index file.

    ``HammingIndex.load`` raises it for an invalid header, ``HammingIndex.verify`` for any changed byte.
    Queries raise it if the row lists of a file that was not verified point to rows that do not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from manihash import DamagedIndexError, HammingIndex
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "codes.mhx"
    ...     _ = path.write_text("some other text")
    ...     try:
    ...         index = HammingIndex.load(path)
    ...     except DamagedIndexError:
    ...         print("build the index again")
    build the index again
    """
