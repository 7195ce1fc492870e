"""manihash fit: learn a model from vectors and write it to a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options, _settings
from manihash.cli._output import (
    file_size,
    key_values,
    print_json,
    print_message,
    print_result,
    progress_shown,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fit(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Model file to write.")],
    vectors: Annotated[
        str | None,
        typer.Argument(
            metavar="VECTORS",
            help=f"File of vectors, one per row: {_options.VECTOR_FILES}.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="NAME",
            help="Learn from a dataset instead of a file; [bold]manihash data list[/] shows the names.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="File of labels, one per vector, for recipes that learn from labels.",
            show_default=False,
        ),
    ] = None,
    recipe: _options.Recipe = _options.DEFAULT_RECIPE,
    bits: _options.Bits = 64,
    seed: _options.Seed = 0,
    settings: _options.Settings = None,
    dask: _options.Dask = None,
    device: _options.Device = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Learn a model from vectors and write it to a file.

    The model encodes any vector of the same length, including vectors that it
    was not learned from. The file is written atomically: an existing file is
    replaced only when the new one is complete.

    Examples:

      manihash fit vectors.npy --recipe imh-hybrid --bits 64 -o model.mhash
      manihash fit --data mnist --set embedding__perplexity=30 -o mnist.mhash
      manihash fit vectors.npy --labels y.npy --recipe ksh -o model.mhash
      manihash fit vectors.npy --dask 4 -o model.mhash
      manihash fit vectors.npy --device cuda -o model.mhash
    """
    _inputs.check_inputs(vectors, labels)
    _inputs.check_model_output(out, vectors, labels)
    _inputs.check_device(device, dask)
    hasher = _settings.make_hasher(recipe, bits, seed, settings)
    with progress_shown(quiet) as bar:
        bar.start("reading vectors")
        with _training_rows(vectors, data, labels, dask) as (X, y):
            if labels is not None and not hasher.uses_labels:
                print_message("note", f"{recipe} does not use labels: {labels} is ignored", "bold yellow")
            bar.start(f"fitting {recipe}")
            start = perf_counter()
            hasher.fit(_inputs.on_device(X, device), y)
            seconds = perf_counter() - start
        hasher.save(out)
    loss = getattr(hasher, "loss_", None)
    learned = {
        "model": str(out),
        "recipe": recipe,
        "rows": int(X.shape[0]),
        "width": int(X.shape[1]),
        "bits": bits,
        "seed": seed,
        "seconds": round(seconds, 3),
        "file_bytes": out.stat().st_size,
        "loss": None if loss is None else float(loss),
        "neighbor_recall": getattr(hasher, "neighbor_recall_", None),
    }
    print_json(learned) if as_json else print_result(key_values(_as_text(learned)))


@contextmanager
def _training_rows(
    vectors: str | None, data: str | None, labels: str | None, dask: str | None
) -> Iterator[tuple[Any, "NDArray[Any] | None"]]:
    """Open the training vectors and read their labels, if there are any."""
    if (vectors is None) == (data is None):
        raise typer.BadParameter("give either a file of vectors or --data NAME: exactly one of the two")
    if vectors is not None:
        with _inputs.opened(vectors, dask) as X:
            yield X, None if labels is None else _inputs.read_labels(labels, X.shape[0])
        return
    if labels is not None or dask is not None:
        raise typer.BadParameter(
            "--labels and --dask cannot be used with --data: the dataset has its own labels and is small"
        )
    from manihash import load_dataset

    dataset = load_dataset(str(data))
    yield dataset.X_train, dataset.y_train


def _as_text(learned: dict[str, Any]) -> dict[str, str]:
    lines = {
        "model": f"{learned['model']} ({file_size(learned['file_bytes'])})",
        "recipe": f"{learned['recipe']}, {learned['bits']} bits, seed {learned['seed']}",
        "learned from": f"{learned['rows']:,} vectors of {learned['width']:,} columns "
        f"in {learned['seconds']:.2f} s",
    }
    if learned["loss"] is not None:
        lines["loss"] = f"{learned['loss']:.4f}"
    if learned["neighbor_recall"] is not None:
        lines["neighbor recall"] = f"{learned['neighbor_recall']:.1%} of the nearest base points are found"
    return lines
