"""Files whose entries belong to the rows of an index: vectors, labels and images."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from manihash.cli import _explored, _inputs, _labels

if TYPE_CHECKING:
    from manihash import HammingIndex, Hasher
    from manihash.web.api.service import Attachments


@dataclass(frozen=True)
class AttachedFiles:
    """The options that name files; ``ids`` has the ids of their entries."""

    ids: str | None
    vectors: str | None
    labels: str | None
    images: str | None
    image_dir: Path | None

    def check(self, *, writable: bool) -> None:
        """Raise if options contradict each other."""
        options: dict[str, Any] = {"--vectors": self.vectors, "--labels": self.labels}
        options |= {"--images": self.images, "--image-dir": self.image_dir}
        given = [name for name, value in options.items() if value is not None]
        if writable and given:
            what = given[0].removeprefix("--").replace("image-dir", "images")
            raise typer.BadParameter(f"{given[0]} has no {what} of new rows: omit {given[0]} or --writable")
        if {"--images", "--image-dir"} <= set(given):
            raise typer.BadParameter("got --images and --image-dir: give one of them")

    def read(self, hasher: "Hasher", opened: "Callable[[], HammingIndex]") -> "Attachments":
        """Return what the files hold; ``opened`` returns the index that it belongs to."""
        from manihash.web.api.service import Attachments

        places = _places(self.ids)
        return Attachments(
            None if self.vectors is None else _vectors(self.vectors, hasher),
            None if self.labels is None else _label_list(self.labels, _n_entries(places, opened)),
            _explored.read_pictures(self.images, self.image_dir),
            places,
        )


def check(attached: "Attachments", index: "HammingIndex", path: str) -> None:
    """Raise unless each id of the index of a file has one entry in each of the attached files."""
    for name in ("vectors", "labels", "images"):
        if (entries := getattr(attached, name)) is not None:
            _check_entries(name, len(entries), attached.places, index, path)


def _check_entries(
    name: str, n: int, places: "dict[int | str, int] | None", index: "HammingIndex", path: str
) -> None:
    """Raise unless each id of the index has one of n entries of a file."""
    from manihash.search.string_ids import shown_id

    found = index.ids
    if places is not None:
        if n != len(places):
            raise ValueError(f"got {n:,} {name} and {len(places):,} ids in --ids: give one id per entry")
        missing = next((identity for identity in found.tolist() if identity not in places), None)
        if missing is not None:
            raise ValueError(f"id {shown_id(missing)} of {path} is not in --ids: give the ids of the {name}")
        return
    if index.id_type is str:
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
    return 1 + int(index.ids[-1]) if len(index) and index.id_type is int else len(index)


def _label_list(path: str, n: int) -> list[Any]:
    """Return n labels, None for rows without a label."""
    labels = _labels.read_labels(path, n)
    known = _labels.known(labels).tolist()
    return [label if is_known else None for label, is_known in zip(labels.tolist(), known, strict=True)]


def _vectors(path: str, hasher: "Hasher") -> Any:
    """Return the vectors to rescore with; raise unless they have the model's width."""
    from manihash.checks import shape_of_rows

    vectors = _inputs.read_stored_vectors(path)
    shape_of_rows(vectors.shape, 1, hasher._stored_width, type(hasher).__name__, path)
    return vectors
