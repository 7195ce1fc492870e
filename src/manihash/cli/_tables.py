"""The options about CSV and Parquet tables, which every command that reads tables has."""

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli._output import print_message

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TableOptions:
    """Whether the first line is a header, and whether the first column numbers the rows; None: decide."""

    header: bool | None = None
    index_column: bool | None = None


_DECIDE = TableOptions()
_chosen: ContextVar[TableOptions] = ContextVar("table options", default=_DECIDE)

_PANEL = "CSV and Parquet tables"
_DECIDED = "decided from the file, with a note"
_Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of CSV files is a header.",
        show_default=_DECIDED,
        rich_help_panel=_PANEL,
    ),
]
_IndexColumn = Annotated[
    bool | None,
    typer.Option(
        "--index-column/--no-index-column",
        help="Whether the first column of tables is an index, which is not a feature.",
        show_default=_DECIDED,
        rich_help_panel=_PANEL,
    ),
]


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options ``--header`` and ``--index-column``, which `options` returns."""

    @wraps(command)
    def with_options(*, header: bool | None, index_column: bool | None, **given: Any) -> None:
        before = _chosen.set(TableOptions(header, index_column))
        try:
            command(**given)
        finally:
            _chosen.reset(before)

    added = {"header": _Header, "index_column": _IndexColumn}
    own = inspect.signature(command)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword, default=None, annotation=a) for name, a in added.items()]
    with_options.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), *parameters]
    )
    with_options.__annotations__ = {**command.__annotations__, **added}
    return with_options


def options() -> TableOptions:
    """Return the table options of the running command."""
    return _chosen.get()


def keywords() -> dict[str, Any]:
    """Return the table options of the running command as keywords of ``read`` and ``open_vectors``."""
    return asdict(options())


def read(path: str) -> "NDArray[Any]":
    """Return the array of a data file, read with the table options of the running command."""
    from manihash import datasets

    return datasets.read(path, **keywords())


def say(text: str) -> None:
    """Print what was decided about a table."""
    print_message("note", text, "bold yellow")
