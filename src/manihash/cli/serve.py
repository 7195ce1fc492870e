"""manihash serve: answer encode and search requests over HTTP."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._indexes import is_index, open_index_of
from manihash.cli._output import print_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import HammingIndex, Hasher
    from manihash.web.keys import ApiKeys


def serve(
    model: _options.Model,
    codes: Annotated[
        str,
        typer.Argument(
            metavar="CODES",
            help=f"Index file (*{_options.INDEX_SUFFIX}) of [bold]manihash index[/], or a file of codes.",
        ),
    ],
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen on. The default is reachable from this machine only."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="Port to listen on; 0 for any free port.")] = 8080,
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            metavar="VECTORS",
            help="Original vectors, so that requests can rescore; row i is the vector of id i.",
            show_default=False,
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--api-key-file",
            metavar="FILE",
            help="Require one of the keys in this file, one per line.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Accept requests with this host name, too, such as that of a proxy; repeatable.",
            show_default=False,
        ),
    ] = None,
    max_body: Annotated[int, typer.Option("--max-body", help="Largest body of a request, in MB.")] = 16,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Most rows per request.")] = 1000,
    max_k: Annotated[int, typer.Option("--max-k", help="Largest k of a search.")] = 1000,
    max_radius: Annotated[int, typer.Option("--max-radius", help="Largest radius of a search.")] = 16,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that a request may take.")] = 30.0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the server's page in the browser.")] = False,
) -> None:
    """Answer encode and search requests over HTTP.

    The server listens on this machine only, unless --host gives another address.
    It ends at Ctrl-C or SIGTERM, after open requests are answered.

    Examples:

      manihash serve model.mhash codes.mhx
      manihash serve model.mhash codes.mhx --port 8080 --vectors vectors.npy
      manihash serve model.mhash codes.mhx --host 0.0.0.0 --api-key-file keys.txt
      curl localhost:8080/v1/info
    """
    from manihash.checks import positive_int, positive_number
    from manihash.web.api import Api
    from manihash.web.application import application
    from manihash.web.messages import Limits
    from manihash.web.server import run
    from manihash.web.service import Service

    limits = Limits(
        positive_int(max_body, "--max-body") * 1_000_000,
        positive_int(max_rows, "--max-rows"),
        positive_int(max_k, "--max-k"),
        positive_int(max_radius, "--max-radius", least=0),
        seconds=positive_number(timeout, "--timeout"),
    )
    _inputs.check_inputs(codes, vectors, model=model)
    keys = _keys(key_file, host)
    hasher = _inputs.load_hasher(model)
    index = _opened(codes, hasher, model)
    rows = None if vectors is None else _vectors(vectors, hasher, index)
    api = Api(Service(hasher, index, limits, rows), keys)
    app = application(api.routes(), host=host, allowed_hosts=allow_host or (), lifespan=api.lifespan)
    with _without_warnings("manihash.search"):  # they are about single requests
        run(app, host, port, announce=partial(_announce, len(index)), open_page=open_page)


@contextmanager
def _without_warnings(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _announce(n: int, url: str) -> None:
    print_message("serving", f"{n:,} codes at {url} (Ctrl-C stops the server)", "green")


def _keys(path: Path | None, host: str) -> "ApiKeys | None":
    """Return the keys of a file, with a warning if others can use them or if there are none."""
    from manihash.web.keys import others_can_read, read_keys
    from manihash.web.server import is_local

    if path is None:
        if not is_local(host):
            text = f"everyone who can reach {host} can search: require a key with --api-key-file"
            print_message("warning", text, "yellow")
        return None
    keys = read_keys(path)
    if others_can_read(path):
        print_message("warning", f"other users can read {path}: run chmod 600 {path}", "yellow")
    return keys


def _opened(path: str, hasher: "Hasher", model: Path) -> "HammingIndex":
    """Return the index of a file, read into memory and checked; raise if another model made its codes.

    A memory map would crash the server if the file were overwritten in place.
    """
    index = open_index_of(hasher, path, model, mmap=False)
    if is_index(path):
        index.verify()
    return index


def _vectors(path: str, hasher: "Hasher", index: "HammingIndex") -> "NDArray[Any]":
    """Return the vectors to rescore with; raise unless they have the model's width, and a row for each id."""
    vectors = _inputs.read_vectors(path)
    if vectors.shape[1] != hasher.n_features_in_:
        raise ValueError(
            f"{path} has vectors of {vectors.shape[1]} numbers, but the model expects "
            f"{hasher.n_features_in_}: give the vectors that were encoded"
        )
    ids = index.ids
    if len(ids) and not 0 <= ids[0] <= ids[-1] < len(vectors):
        raise ValueError(
            f"{path} has {len(vectors):,} rows, but the index has ids from {ids[0]} to {ids[-1]}: row i must "
            "be the vector of id i"
        )
    return vectors
