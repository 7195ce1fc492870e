"""Files whose entries belong to the rows of an index: vectors, labels, images and texts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from manihash.cli import _explored, _inputs, _labels

if TYPE_CHECKING:
    from manihash import HammingIndex, Hasher
    from manihash.types import Ids
    from manihash.web.api.attachments import Attachments


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
        from manihash.files.lines import read_lines
        from manihash.web.api.attachments import Attachments

        places = _places(self.ids)
        return Attachments(
            None if self.vectors is None else _vectors(self.vectors, hasher),
            None if self.labels is None else _label_list(self.labels, _n_entries(places, opened)),
            _explored.read_pictures(self.images, self.image_dir),
            places,
            None if self.texts is None else read_lines(self.texts),
        )


def attach(attached: "Attachments", index: "HammingIndex", path: str) -> None:
    """Use the fields of rows beside an index file; raise unless each other id has an entry in each file."""
    rows = index._fields()
    for name in ("vectors", "labels", "images", "texts"):
        if (entries := getattr(attached, name)) is not None:
            _check_entries(name, len(entries), attached.places, _ids_without(name, index), path)
    attached.rows = rows


def _ids_without(name: str, index: "HammingIndex") -> "Ids":
    """Return the ids of an index whose field of this name is not beside its file."""
    rows, ids = index._fields(), index.ids
    return ids[[not rows.knows(identity, name) for identity in ids.tolist()]] if len(rows) else ids


def _check_entries(name: str, n: int, places: "dict[int | str, int] | None", found: "Ids", path: str) -> None:
    """Raise unless each of the ids of an index has one of n entries of a file."""
    from manihash.search.string_ids import are_strings, shown_id

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
    labels = _labels.read_labels(path, n, at_least=True)
    known = _labels.known(labels).tolist()
    return [label if is_known else None for label, is_known in zip(labels.tolist(), known, strict=True)]


def _vectors(path: str, hasher: "Hasher") -> Any:
    """Return the vectors to rescore with; raise unless they have the model's width."""
    from manihash.checks import shape_of_rows

    vectors = _inputs.read_stored_vectors(path)
    shape_of_rows(vectors.shape, 1, hasher._stored_width, type(hasher).__name__, path)
    return vectors
