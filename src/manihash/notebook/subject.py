"""What a page shows, made of the arguments of ``explore`` and ``report``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from manihash.hashers._hasher import Hasher
from manihash.hashers.recipes import recipe as hasher_of
from manihash.opening import load

if TYPE_CHECKING:
    from manihash.pages.thumbnails import Thumbnails
    from manihash.web.explore.exploration import Exploration


def exploration_of(
    X: Any,
    *,
    labels: Any,
    images: Any,
    texts: Any,
    models: list[Any],
    recipe: str,
    n_bits: int,
    random_state: int,
    name: str,
    verbose: bool,
    hold_out: bool = False,
) -> "Exploration":
    """Fit or load the models, encode all rows and draw the map; see ``rows_to_hold_out``."""
    from manihash.web.explore.exploration import prepare
    from manihash.web.explore.fitting import fitted, rows_to_hold_out
    from manihash.web.explore.rows import explored_rows

    if images is not None and texts is not None:
        raise ValueError("got images and texts: give one of them, as a row is shown by one")
    given = None if labels is None else np.asarray(labels)
    rows = explored_rows(
        name,
        X if hasattr(X, "dtype") else np.asarray(X),
        labels=given,
        known=None if given is None else _known(given),
        pictures=None if images is None else _pictures(images),
        texts=None if texts is None else [str(text) for text in texts],
    )
    hashers, held_out = [_named(model) for model in models], None
    if not hashers:
        unfitted = hasher_of(recipe, n_bits=n_bits, random_state=random_state)
        held_out = rows_to_hold_out(rows) if hold_out else None
        hashers = [(recipe, fitted(unfitted, rows, held_out, verbose=verbose))]
    return prepare(rows, hashers, seed=random_state, held_out=held_out)


def _known(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows have a label: not None, NaN or -1."""
    if labels.ndim != 1:
        raise ValueError(f"labels have the shape {labels.shape}: give one label per row")
    if labels.dtype.kind == "O":
        return np.array([label is not None and label == label for label in labels], np.bool_)
    if labels.dtype.kind == "f":
        return ~np.isnan(labels) & (labels != -1)
    return labels != -1 if labels.dtype.kind == "i" else np.ones(len(labels), np.bool_)


def _pictures(images: Any) -> "Thumbnails":
    """The images of an array, of a folder, or of a list of files."""
    from manihash.pages.thumbnails import ArrayImages, FolderImages

    if isinstance(images, str | os.PathLike):
        return FolderImages(Path(images))
    if hasattr(images, "dtype"):
        return ArrayImages(images)
    images = list(images)
    if images and isinstance(images[0], str | os.PathLike):
        return FolderImages([Path(image) for image in images])
    return ArrayImages(np.asarray(images))


def _named(model: Any) -> tuple[str, Hasher]:
    """A model with its name: a fitted hasher, an index, or the file of either."""
    name = type(model).__name__
    if isinstance(model, str | os.PathLike):
        name, model = Path(model).name, load(model)
    hasher = getattr(model, "hasher", model)
    if not isinstance(hasher, Hasher):
        raise TypeError(
            f"got a model of type {type(model).__name__}: expected a fitted hasher, an index with its "
            "hasher, or the path of their file"
        )
    return type(hasher).__name__ if hasher is not model else name, hasher
