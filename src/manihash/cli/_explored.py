"""Read what explore and report show: vectors or a dataset, labels, pictures or texts, and models."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options, _settings, _tables
from manihash.cli._indexes import is_index, open_index_of
from manihash.cli._output import print_message

if TYPE_CHECKING:
    from manihash import Hasher
    from manihash.cli._output import ProgressBar
    from manihash.pages.thumbnails import Thumbnails
    from manihash.types import Codes, Ids
    from manihash.web.explore.exploration import Exploration
    from manihash.web.explore.rows import ExploredRows

Vectors = Annotated[
    str | None,
    typer.Argument(
        metavar="VECTORS",
        help=f"File of vectors, one per row: {_options.VECTOR_FILES}. Or an index file "
        f"(*{_options.INDEX_SUFFIX}) of [bold]manihash build[/], with --vectors.",
        show_default=False,
    ),
]
IndexVectors = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        metavar="FILE",
        help="File of the vectors of an index file; row i is the vector of id i, or of the i-th of --ids.",
        show_default=False,
    ),
]
IndexIds = Annotated[
    str | None,
    typer.Option(
        "--ids",
        metavar="FILE",
        help="File of the ids of --vectors, integers or strings, as given to [bold]manihash build[/].",
        show_default="row numbers, from 0",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="NAME",
        help="Use a dataset instead of a file, with its labels and images; [bold]manihash data list[/] shows "
        "the names.",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="FILE",
        help="Model file written by [bold]manihash fit[/].",
        show_default="fit a model of --recipe and --bits",
    ),
]
LabelFile = Annotated[
    str | None,
    typer.Option("--labels", metavar="FILE", help="File of labels, one per vector.", show_default=False),
]
Images = Annotated[
    str | None,
    typer.Option(
        "--images",
        metavar="FILE",
        help="Array of images, one per vector: (n, height, width) or (n, height, width, 3).",
        show_default=False,
    ),
]
ImageFolder = Annotated[
    Path | None,
    typer.Option(
        "--image-dir",
        metavar="FOLDER",
        help="Folder of images, one per vector, in the order of their names.",
        show_default=False,
    ),
]
Texts = Annotated[
    Path | None,
    typer.Option(
        "--texts", metavar="FILE", help="Text file, one line per vector, in UTF-8.", show_default=False
    ),
]


@dataclass(frozen=True)
class Subject:
    """The options that say what is explored."""

    index: str | None  # an index file with its model, of the vectors
    vectors: str | None
    ids: str | None  # of the vectors of the index
    data: str | None
    model: Path | None
    compare: Path | None
    labels: str | None
    images: str | None
    image_dir: Path | None
    texts: Path | None
    recipe: str
    bits: int
    seed: int

    def check(self) -> None:
        """Raise if options contradict each other or files do not exist, before anything is read."""
        self._check_index()
        if (self.vectors is None) == (self.data is None):
            raise typer.BadParameter("give either a file of vectors or --data NAME: exactly one of the two")
        shown = {"--images": self.images, "--image-dir": self.image_dir, "--texts": self.texts}
        given = [name for name, value in shown.items() if value is not None]
        if len(given) > 1:
            raise typer.BadParameter(f"got {' and '.join(given)}: give one of them")
        if self.data is not None and (given or self.labels is not None):
            raise typer.BadParameter(f"{(*given, '--labels')[0]} cannot be used with --data")
        _inputs.check_inputs(self.index, self.vectors, self.ids, self.labels, self.images)
        for model in (self.model, self.compare):
            _inputs.check_inputs(model=model)
        if self.texts is not None:
            _inputs.check_inputs(str(self.texts))

    def _check_index(self) -> None:
        if self.index is None:
            if self.ids is not None:
                raise typer.BadParameter(
                    "--ids has the ids of the rows of an index file: give one, or omit it"
                )
            return
        if self.data is not None or self.model is not None:
            given = "--data" if self.data is not None else "--model"
            raise typer.BadParameter(f"{self.index} holds its model and belongs to its vectors: omit {given}")
        if self.vectors is None:
            raise typer.BadParameter(
                f"{self.index} holds codes and their model, not the vectors: give their file with --vectors"
            )


def subject_of(given: str | None, vectors: str | None, *others: Any) -> Subject:
    """The subject of a command whose argument is a file of vectors, or an index file with --vectors."""
    if given is not None and is_index(given):
        return Subject(given, vectors, *others)
    if vectors is not None:
        text = f"--vectors belongs to an index file (*{_options.INDEX_SUFFIX}), got"
        raise typer.BadParameter(f"{text} {given or 'none'}: give the vectors as the only file, or an index")
    return Subject(None, given, *others)


@contextmanager
def prepared(subject: Subject, bar: "ProgressBar", *, hold_out: bool = False) -> Iterator["Exploration"]:
    """Read the rows, fit or load the models, encode all rows and draw the map.

    With ``hold_out``, a model is fitted to all rows but some, which are honest queries.
    """
    from manihash.web.explore.exploration import prepare
    from manihash.web.explore.fitting import rows_to_hold_out

    bar.start("reading vectors")
    with _rows(subject) as rows:
        given = subject.model is not None or subject.index is not None
        held_out = rows_to_hold_out(rows) if hold_out and not given else None
        models: list[Any] = [
            _of_index(subject, rows) if subject.index is not None else _model(subject, rows, held_out, bar)
        ]
        if subject.compare is not None:
            models.append((subject.compare.name, _inputs.load_hasher(subject.compare)))
        bar.start("encoding rows and drawing the map")
        exploration = prepare(rows, models, seed=subject.seed, held_out=held_out)
        for doubt in (doubt for model in exploration.models for doubt in model.doubts):
            print_message("warning", doubt, "yellow")
        yield exploration


@contextmanager
def _rows(subject: Subject) -> Iterator["ExploredRows"]:
    """The rows with their labels and what is shown of them."""
    from manihash.files.csv import read_lines
    from manihash.web.explore.rows import explored_rows

    if subject.vectors is None:
        yield _dataset_rows(str(subject.data))
        return
    with _inputs.opened(subject.vectors, None) as X:
        labels = None if subject.labels is None else _inputs.read_labels(subject.labels, X.shape[0])
        yield explored_rows(
            Path(subject.vectors).name,
            X,
            labels=labels,
            known=None if labels is None else _inputs.known_labels(labels),
            pictures=read_pictures(subject.images, subject.image_dir),
            texts=None if subject.texts is None else read_lines(subject.texts),
        )


def _dataset_rows(name: str) -> "ExploredRows":
    """The database of a dataset of the catalog; its gray images are drawn as ink on white."""
    from manihash import load_dataset
    from manihash.pages.thumbnails import ArrayImages
    from manihash.web.explore.rows import explored_rows

    data = load_dataset(name)
    pictures = None
    if data.image_shape is not None:
        pictures = ArrayImages(data.X_train.reshape(-1, *data.image_shape), ink=True)
    return explored_rows(name, data.X_train, labels=data.y_train, pictures=pictures)


def read_pictures(images: str | None, folder: Path | None) -> "Thumbnails | None":
    """Return the images of an array file or of a folder, or None if neither is given."""
    from manihash.pages.thumbnails import ArrayImages, FolderImages

    if folder is not None:
        return FolderImages(folder)
    return None if images is None else ArrayImages(_tables.read(images))


def _of_index(subject: Subject, rows: "ExploredRows") -> "tuple[str, Hasher, Codes]":
    """The model of an index file, and its codes in the order of the vectors, which must have its ids."""
    import numpy as np

    from manihash.search.ids import check_ids

    path, vectors = Path(str(subject.index)), str(subject.vectors)
    hasher = _inputs.load_hasher(path)
    index = open_index_of(hasher, str(path), path)
    if subject.ids is None and index.id_type is str:
        raise ValueError(f"the ids of {path} are strings: give --ids, a file of the ids of {vectors}")
    n = len(rows)
    ids = (
        np.arange(n)
        if subject.ids is None
        else check_ids(_inputs.read_ids(subject.ids), id_type=index.id_type)
    )
    if len(ids) != n:
        raise ValueError(
            f"got {len(ids):,} ids in {subject.ids} for the {n:,} vectors of {vectors}: give one per row"
        )
    order = np.argsort(ids)
    if not np.array_equal(ids[order], index.ids):
        raise ValueError(
            f"{path} has {_described(index.ids)}, but {vectors} has {_described(ids[order])}: give the "
            "vectors of exactly these rows, and their ids with --ids"
        )
    codes = np.empty_like(index.codes)
    codes[order] = index.codes
    return path.name, hasher, codes


def _described(ids: "Ids") -> str:
    """The number of ascending ids, and the first and last of them."""
    from manihash.search.ids import shown_id

    return f"{len(ids):,} rows" + (f" (ids {shown_id(ids[0])} to {shown_id(ids[-1])})" if len(ids) else "")


def _model(
    subject: Subject, rows: "ExploredRows", held_out: "Ids | None", bar: "ProgressBar"
) -> "tuple[str, Hasher]":
    """The model of --model, or one that is fitted, with its name."""
    name = subject.recipe if subject.model is None else subject.model.name
    return name, _hasher(subject, rows, held_out, bar)


def _hasher(subject: Subject, rows: "ExploredRows", held_out: "Ids | None", bar: "ProgressBar") -> "Hasher":
    """The model of the file, or one that is fitted to the rows that are not held out."""
    from manihash.web.explore.fitting import fitted

    if subject.model is not None:
        return _inputs.load_hasher(subject.model)
    hasher = _settings.make_hasher(subject.recipe, subject.bits, subject.seed, None)
    bar.start(f"fitting {subject.recipe}")
    return fitted(hasher, rows, held_out)
