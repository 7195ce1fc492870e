"""manihash serve: answer encode and search requests over HTTP."""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _explored, _inputs, _options
from manihash.cli._indexes import is_index, open_index_of
from manihash.cli._output import print_message

if TYPE_CHECKING:
    from manihash import HammingIndex, Hasher
    from manihash.search.durable import DurableIndex
    from manihash.types import Ids
    from manihash.web.api.attachments import Attachments
    from manihash.web.api.keys import ApiKeys


def serve(
    model: _options.Model,
    codes: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODES]",
            help=f"Index file (*{_options.INDEX_SUFFIX}) of [bold]manihash index[/], or a file of codes; "
            "omit it if MODEL is an index file that holds its model.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen on. The default is reachable from this machine only."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="Port to listen on; 0 for any free port.")] = 8080,
    ids: Annotated[
        str | None,
        typer.Option(
            "--ids",
            metavar="FILE",
            help="File of the ids of CODES, unless it is an index file, and of the entries of --vectors, "
            "--labels, --images and --texts: integers or strings.",
            show_default="row numbers, from 0",
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            metavar="VECTORS",
            help="Original vectors, so that requests can re-rank; row i is the vector of id i, or of the "
            "i-th of --ids.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="File of labels, which searches return; label i is that of id i.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(
            "--images",
            metavar="FILE",
            help="Array of images for /v1/images/ID: (n, height, width) or (n, height, width, 3).",
            show_default=False,
        ),
    ] = None,
    image_dir: Annotated[
        Path | None,
        typer.Option(
            "--image-dir",
            metavar="FOLDER",
            help="Folder of images for /v1/images/ID, in the order of their names.",
            show_default=False,
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts",
            metavar="FILE",
            help="Text file, one line per id, in UTF-8, which searches return.",
            show_default=False,
        ),
    ] = None,
    writable: Annotated[
        bool,
        typer.Option(
            "--writable",
            help="Let requests add, update and delete rows of the index file. Their vectors are stored, too, "
            "with --vectors; labels, images and texts if requests have them.",
        ),
    ] = False,
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
    max_connections: Annotated[
        int,
        typer.Option("--max-connections", help="Most connections; further ones end those that wait longest."),
    ] = 1000,
    open_page: Annotated[bool, typer.Option("--open", help="Open the server's page in the browser.")] = False,
) -> None:
    """Answer encode and search requests over HTTP.

    The server listens on this machine only, unless --host gives another address.
    /docs describes the API. A new index file put in place of the old one is used
    without a restart. With --writable, changes are stored in a journal beside the
    index file before they are acknowledged, and are written into the file at the
    end; vectors, labels, images and texts of rows into a file beside it. Ctrl-C
    and SIGTERM end the server after open requests are answered.

    Examples:

      manihash serve items.mhx
      manihash serve model.mhash codes.mhx
      manihash serve model.mhash codes.mhx --port 8080 --vectors vectors.npy
      manihash serve model.mhash codes.mhx --labels labels.npy --images images.npy
      manihash serve items.mhx --writable --vectors vectors.npy
      manihash serve model.mhash codes.mhx --host 0.0.0.0 --api-key-file keys.txt
      curl localhost:8080/v1/info
    """
    from manihash.checks import positive_int, positive_number
    from manihash.files.atomic import identity_of
    from manihash.search.durable import DurableIndex
    from manihash.web.api.application import search_application
    from manihash.web.api.messages import Limits
    from manihash.web.api.service import Service
    from manihash.web.api.watcher import Watcher
    from manihash.web.server import run

    limits = Limits(
        positive_int(max_body, "--max-body") * 1_000_000,
        positive_int(max_rows, "--max-rows"),
        positive_int(max_k, "--max-k"),
        positive_int(max_radius, "--max-radius", least=0),
        seconds=positive_number(timeout, "--timeout"),
    )
    codes = _codes(model, codes)
    _inputs.check_inputs(codes, ids, vectors, labels, images, model=model)
    files = AttachedFiles(ids, vectors, labels, images, image_dir, texts)
    files.check()
    if writable:
        _check_writable(codes, key_file, host)
    keys = _keys(key_file, host)
    hasher = _inputs.load_hasher(model)
    seen = identity_of(codes)
    attached = files.read(hasher, partial(open_index_of, hasher, codes, model))
    load = partial(_opened, codes, ids, hasher, model)

    def attached_index() -> "HammingIndex":
        index = load()
        attach(attached, index, codes, hasher)
        return index

    durable = DurableIndex(codes, load) if writable else None
    with nullcontext() if durable is None else closing(durable):  # also after an error
        if durable is not None:
            attach(attached, durable.index, codes, hasher)
            _record_model(durable, hasher)
        service = Service(hasher, attached_index() if durable is None else durable.index, limits, attached)
        watcher = None if writable else Watcher(service, codes, attached_index, seen)
        app = search_application(
            service, keys=keys, durable=durable, watcher=watcher, host=host, allowed_hosts=allow_host or ()
        )
        with _without_warnings("manihash.search"):  # they are about single requests
            run(
                app,
                host,
                port,
                announce=partial(_announce, len(service.index)),
                open_page=open_page,
                connections=positive_int(max_connections, "--max-connections"),
                seconds=limits.seconds,
            )


def _codes(model: Path, codes: str | None) -> str:
    """Return the file of codes; without one, the model is an index file that holds it."""
    if codes is None and not is_index(str(model)):
        raise typer.BadParameter(f"got no codes: give the index of {model}, or one that manihash build wrote")
    return str(model) if codes is None else codes


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
    from manihash.web.api.keys import others_can_read, read_keys
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


def _opened(path: str, ids: str | None, hasher: "Hasher", model: Path) -> "HammingIndex":
    """Return the index of a file, read into memory and checked; raise if it belongs to another model.

    A memory map would crash the server if the file were overwritten in place.
    """
    index = open_index_of(hasher, path, model, mmap=False, ids=ids)
    if is_index(path):
        index.verify()
    return index


def _record_model(durable: "DurableIndex", hasher: "Hasher") -> None:
    """Write into the index file that this model makes its codes, before requests add some."""
    from manihash.files.lineage import model_id

    if durable.index.made_by != model_id(hasher):
        durable.index.made_by = model_id(hasher)
        durable.save()


def _check_writable(codes: str, key_file: Path | None, host: str) -> None:
    """Raise if these rows cannot be changed, or if anyone could change them."""
    from manihash.web.server import is_local

    if not is_index(codes):
        raise ValueError(f"--writable needs an index file (*{_options.INDEX_SUFFIX}), got {codes}")
    if key_file is None and not is_local(host):
        raise typer.BadParameter(f"everyone who can reach {host} could change rows: give --api-key-file")


@dataclass(frozen=True)
class AttachedFiles:
    """The options that name files; ``ids`` has the ids of their entries."""

    ids: str | None
    vectors: str | None
    labels: str | None
    images: str | None
    image_dir: Path | None
    texts: Path | None

    def check(self) -> None:
        """Raise if options contradict each other."""
        if self.images is not None and self.image_dir is not None:
            raise typer.BadParameter("got --images and --image-dir: give one of them")
        if self.texts is not None:
            _inputs.check_inputs(str(self.texts))

    def read(self, hasher: "Hasher", opened: "Callable[[], HammingIndex]") -> "Attachments":
        """Return what the files hold; ``opened`` returns the index that it belongs to."""
        from manihash.files.csv import read_lines
        from manihash.web.api.attachments import Attachments

        places = _places(self.ids)
        return Attachments(
            None if self.vectors is None else _vectors(self.vectors, hasher),
            None if self.labels is None else _label_list(self.labels, _n_entries(places, opened)),
            _explored.read_pictures(self.images, self.image_dir),
            places,
            None if self.texts is None else read_lines(self.texts),
        )


def attach(attached: "Attachments", index: "HammingIndex", path: str, hasher: "Hasher") -> None:
    """Use the fields of rows beside an index file; raise unless each other id has an entry in each file.

    Vectors must also have the codes of their ids.
    """
    rows = index._stored.fields()
    for name in ("vectors", "labels", "images", "texts"):
        if (entries := getattr(attached, name)) is not None:
            _check_entries(name, len(entries), attached.places, _ids_without(name, index), path)
    if attached.vectors is not None:
        _check_order(attached, index, path, hasher)
    attached.rows = rows


def _check_order(attached: "Attachments", index: "HammingIndex", path: str, hasher: "Hasher") -> None:
    """Raise if most of some vectors do not have the codes of the ids that they stand for."""
    import numpy as np

    from manihash.search.ids import shown_id
    from manihash.search.rerank import first_misplaced, some_of

    ids = _ids_without("vectors", index)
    ids = ids[some_of(len(ids))]
    places = np.array([attached.place(identity) for identity in ids.tolist()], np.int64)
    codes = index.codes[np.searchsorted(index.ids, ids)]
    wrong = first_misplaced(hasher, attached.vectors, places, codes)
    if wrong is not None:
        raise ValueError(
            f"vector {places[wrong]} is not that of id {shown_id(ids[wrong])} of {path}: its code differs. "
            "Give the vectors in the order of the ids, or their ids with --ids"
        )


def _ids_without(name: str, index: "HammingIndex") -> "Ids":
    """Return the ids of an index whose field of this name is not beside its file."""
    rows, ids = index._stored.fields(), index.ids
    return ids[[not rows.knows(identity, name) for identity in ids.tolist()]] if len(rows) else ids


def _check_entries(name: str, n: int, places: "dict[int | str, int] | None", found: "Ids", path: str) -> None:
    """Raise unless each of the ids of an index has one of n entries of a file."""
    from manihash.search.ids import are_strings, shown_id

    if places is not None:
        if n != len(places):
            raise ValueError(f"got {n:,} {name} and {len(places):,} ids in --ids: give one id per entry")
        missing = next((identity for identity in found.tolist() if identity not in places), None)
        if missing is not None:
            raise ValueError(f"id {shown_id(missing)} of {path} is not in --ids: give the ids of the {name}")
        return
    if are_strings(found):
        raise ValueError(f"the ids of {path} are strings: give --ids, a file of the ids of the {name}")
    if len(found) and not 0 <= found[0] <= found[-1] < n:
        raise ValueError(
            f"got {n:,} {name}, but {path} has ids from {found[0]} to {found[-1]}: entry i must belong to "
            "id i, or to the i-th of --ids"
        )


def _places(path: str | None) -> "dict[int | str, int] | None":
    """Return the place of each id of a file."""
    from manihash.search.ids import check_ids

    if path is None:
        return None
    return {identity: i for i, identity in enumerate(check_ids(_inputs.read_ids(path)).tolist())}


def _n_entries(places: "dict[Any, int] | None", opened: "Callable[[], HammingIndex]") -> int:
    """Return the number of entries that a file must have: one per id of --ids, or from 0 to the last id."""
    if places is not None:
        return len(places)
    index = opened()
    ids = _ids_without("labels", index)
    return 1 + int(ids[-1]) if len(ids) and index.id_type is int else len(ids)


def _label_list(path: str, n: int) -> list[Any]:
    """Return at least n labels, as rows may have been deleted; None for rows without a label."""
    labels = _inputs.read_labels(path, n, at_least=True)
    known = _inputs.known_labels(labels).tolist()
    return [label if is_known else None for label, is_known in zip(labels.tolist(), known, strict=True)]


def _vectors(path: str, hasher: "Hasher") -> Any:
    """Return the vectors to re-rank by; raise unless they have the model's width."""
    from manihash.checks import shape_of_rows

    vectors = _inputs.read_stored_vectors(path)
    shape_of_rows(vectors.shape, 1, hasher._stored_width, type(hasher).__name__, path)
    return vectors
