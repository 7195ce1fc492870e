"""What goes wrong with data files, by kind."""


class DataFileError(ValueError):
    """A data file that is damaged, cut short, of another format, or not the one that was published."""


class MissingDataError(FileNotFoundError):
    """A data set that is not here and could not be fetched; the message says what to put where."""
