"""Read what explore and report show: vectors or a data set, labels, pictures or texts, and models."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _labels, _options, _settings, _tables
from manihash.cli._output import print_message

if TYPE_CHECKING:
    from manihash import Hasher
    from manihash.cli._progress import ProgressBar
    from manihash.report.thumbnails import Thumbnails
    from manihash.web.explore.exploration import Exploration
    from manihash.web.explore.rows import ExploredRows

_LEAST_BASE_SHARE = 4  # a smaller base set is used if there are fewer rows per base point

Vectors = Annotated[
    str | None,
    typer.Argument(
        metavar="VECTORS",
        help=f"File of vectors, one per row: {_options.VECTOR_FILES}.",
        show_default=False,
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

    vectors: str | None
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
        if (self.vectors is None) == (self.data is None):
            raise typer.BadParameter("give either a file of vectors or --data NAME: exactly one of the two")
        shown = {"--images": self.images, "--image-dir": self.image_dir, "--texts": self.texts}
        given = [name for name, value in shown.items() if value is not None]
        if len(given) > 1:
            raise typer.BadParameter(f"got {' and '.join(given)}: give one of them")
        if self.data is not None and (given or self.labels is not None):
            raise typer.BadParameter(f"{(*given, '--labels')[0]} cannot be used with --data")
        _inputs.check_inputs(self.vectors, self.labels, self.images)
        for model in (self.model, self.compare):
            _inputs.check_inputs(model=model)
        if self.texts is not None:
            _inputs.check_inputs(str(self.texts))


@contextmanager
def prepared(subject: Subject, bar: "ProgressBar") -> Iterator["Exploration"]:
    """Read the rows, fit or load the models, encode all rows and draw the map."""
    from manihash.web.explore.exploration import prepare

    bar.start("reading vectors")
    with _rows(subject) as rows:
        hashers = [(_model_name(subject.model, subject.recipe), _hasher(subject, rows, bar))]
        if subject.compare is not None:
            hashers.append((subject.compare.name, _inputs.load_hasher(subject.compare)))
        bar.start("encoding rows and drawing the map")
        exploration = prepare(rows, hashers, seed=subject.seed)
        for doubt in (doubt for model in exploration.models for doubt in model.doubts):
            print_message("warning", doubt, "yellow")
        yield exploration


@contextmanager
def _rows(subject: Subject) -> Iterator["ExploredRows"]:
    """The rows with their labels and what is shown of them."""
    from manihash.files.lines import read_lines
    from manihash.web.explore.rows import explored_rows

    if subject.vectors is None:
        yield _dataset_rows(str(subject.data))
        return
    with _inputs.opened(subject.vectors, None) as X:
        labels = None if subject.labels is None else _labels.read_labels(subject.labels, X.shape[0])
        yield explored_rows(
            Path(subject.vectors).name,
            X,
            labels=labels,
            known=None if labels is None else _labels.known(labels),
            pictures=read_pictures(subject.images, subject.image_dir),
            texts=None if subject.texts is None else read_lines(subject.texts),
        )


def _dataset_rows(name: str) -> "ExploredRows":
    """The database of a data set of the catalog; its gray images are drawn as ink on white."""
    from manihash import load_dataset
    from manihash.report.thumbnails import ArrayImages
    from manihash.web.explore.rows import explored_rows

    data = load_dataset(name)
    pictures = None
    if data.image_shape is not None:
        pictures = ArrayImages(data.X_train.reshape(-1, *data.image_shape), ink=True)
    return explored_rows(name, data.X_train, labels=data.y_train, pictures=pictures)


def read_pictures(images: str | None, folder: Path | None) -> "Thumbnails | None":
    """Return the images of an array file or of a folder, or None if neither is given."""
    from manihash.report.thumbnails import ArrayImages, FolderImages

    if folder is not None:
        return FolderImages(folder)
    return None if images is None else ArrayImages(_tables.read(images))


def _model_name(model: Path | None, recipe: str) -> str:
    return recipe if model is None else model.name


def _hasher(subject: Subject, rows: "ExploredRows", bar: "ProgressBar") -> "Hasher":
    """The model of the file, or one that is fitted to the rows."""
    if subject.model is not None:
        return _inputs.load_hasher(subject.model)
    hasher = _settings.make_hasher(subject.recipe, subject.bits, subject.seed, None)
    size: Any = hasher.get_params().get("base__size")
    if isinstance(size, int) and size > len(rows) // _LEAST_BASE_SHARE:
        hasher.set_params(base__size=max(len(rows) // _LEAST_BASE_SHARE, min(len(rows), subject.bits + 1)))
    bar.start(f"fitting {subject.recipe}")
    return hasher.fit(rows.X, None if rows.labels is None else rows.labels.for_fit())
