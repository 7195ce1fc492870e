"""manihash fit: learn codes from vectors and write a model file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _settings
from manihash.cli._output import facts, file_size, say, show, show_json
from manihash.cli._progress import watched

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fit(
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    vectors: Annotated[
        str | None, typer.Argument(help=f"Vectors, one a row: {_inputs.FILES_HELP}.", show_default=False)
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="Instead of a file: the training rows of a set of `manihash data list`."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Labels of the vectors, for a recipe that learns from them."),
    ] = None,
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="The method, by name; [bold]manihash info[/] lists them.")
    ] = "imh-tsne",
    bits: _inputs.Bits = 64,
    seed: _inputs.Seed = 0,
    settings: _settings.Settings = None,
    dask: _inputs.Dask = None,
    device: _inputs.Device = None,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Learn codes from vectors and write a model file.

    The model holds all that is needed to encode any vector of the same kind,
    seen or not. A file that stands at the target is replaced when the new one
    is whole, and not before.

    Examples:

      manihash fit vectors.npy --recipe imh-tsne --bits 64 -o model.mhash
      manihash fit --data mnist --set embedding__perplexity=30 -o mnist.mhash
      manihash fit vectors.npy --labels y.npy --recipe ksh -o model.mhash
      manihash fit vectors.npy --dask 4 -o model.mhash
      manihash fit vectors.npy --device cuda -o model.mhash
    """
    from sklearn.utils import get_tags

    _inputs.check_target(out, vectors)
    _inputs.check_device(device, dask)
    hasher = _settings.make_hasher(recipe, bits, seed, settings)
    with watched(quiet) as watch:
        watch.begin("reading")
        with _training_rows(vectors, data, labels, dask) as (X, y):
            if labels is not None and not get_tags(hasher).target_tags.required:
                say("note", f"{recipe} learns without labels: those of {labels} are not used", "bold yellow")
            watch.begin(f"fitting {recipe}")
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
    show_json(learned) if as_json else show(facts(_in_words(learned)))


@contextmanager
def _training_rows(
    vectors: str | None, data: str | None, labels: str | None, dask: str | None
) -> Iterator[tuple[Any, "NDArray[Any] | None"]]:
    """Rows and their labels, if there are any."""
    if (vectors is None) == (data is None):
        raise typer.BadParameter("give a file of vectors, or --data with the name of a set: one of the two")
    if vectors is not None:
        with _inputs.opened(vectors, dask) as X:
            yield X, None if labels is None else _inputs.read_labels(labels, X.shape[0])
        return
    if labels is not None or dask is not None:
        raise typer.BadParameter(
            "a set of --data brings its own labels and is small: leave --labels and --dask out"
        )
    from manihash import load_dataset

    held = load_dataset(str(data))
    yield held.X_train, held.y_train


def _in_words(learned: dict[str, Any]) -> dict[str, str]:
    lines = {
        "model": f"{learned['model']} ({file_size(learned['file_bytes'])})",
        "recipe": f"{learned['recipe']}, {learned['bits']} bits, seed {learned['seed']}",
        "learned from": f"{learned['rows']:,} rows of {learned['width']:,} numbers "
        f"in {learned['seconds']:.2f} s",
    }
    if learned["loss"] is not None:
        lines["loss"] = f"{learned['loss']:.4f}"
    if learned["neighbor_recall"] is not None:
        lines["recall"] = f"{learned['neighbor_recall']:.1%} of a row's nearest base points are found"
    return lines
