"""What belongs to the rows of an index besides their codes: in files, and in changes of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.pages import pictures
from manihash.pages.thumbnails import Thumbnails
from manihash.search.journal import IMAGES, LABELS, NAMES, TEXTS, VECTORS
from manihash.search.storage import AttachedRows
from manihash.types import Ints


@dataclass(eq=False)
class Attachments:
    """Vectors, labels, images and texts of rows, if they are known.

    Entry i of a file belongs to the row with id i or, if there are ``places``, to the row whose id has the
    place i. ``rows`` has the fields of rows that were added or updated since then, which count first.
    """

    vectors: NDArray[Any] | None = None  # for re-ranking
    labels: Sequence[Any] | None = None  # None for a row without a label
    images: Thumbnails | None = None
    places: dict[int | str, int] | None = None
    texts: Sequence[str] | None = None
    rows: AttachedRows = field(default_factory=AttachedRows)

    def has(self, name: str) -> bool:
        """Whether any row has this field."""
        return getattr(self, name) is not None or self.rows.has(name)

    @property
    def are_kept(self) -> bool:
        """Whether there are fields of any kind, so that changes say which fields new rows do not have."""
        return len(self.rows) > 0 or any(getattr(self, name) is not None for name in NAMES)

    def place(self, identity: Any) -> int:
        """The number of the entry of an id in the files; -1 if there is none."""
        if self.places is None:
            return int(identity) if isinstance(identity, int) else -1
        return self.places.get(identity, -1)

    def label(self, identity: Any) -> Any:
        """The label of a row; None if it has none."""
        return self._value(identity, LABELS, self.labels)

    def text(self, identity: Any) -> str | None:
        """The text of a row; None if it has none."""
        text: str | None = self._value(identity, TEXTS, self.texts)
        return text

    def picture(self, identity: Any) -> bytes | None:
        """The picture of a row as a PNG file; None if it has none."""
        if self.rows.knows(identity, IMAGES):
            image: bytes | None = self.rows.value(identity, IMAGES)
            return image
        place = self.place(identity)
        if self.images is None or not 0 <= place < len(self.images):
            return None
        return pictures.png(self.images.pixels(place))

    def _value(self, identity: Any, name: str, entries: Sequence[Any] | None) -> Any:
        if self.rows.knows(identity, name):
            return self.rows.value(identity, name)
        place = self.place(identity)
        return entries[place] if entries is not None and 0 <= place < len(entries) else None

    def for_reranking(self) -> tuple[Any, Any]:
        """The vectors of one search, and what has the number of the vector of each id."""
        if not self.rows.has(VECTORS):
            return self.vectors, self.places
        found = _FoundVectors(self)
        return found, found


class _FoundVectors:
    """The vectors of the rows that one search finds: of the file, and behind them those of changed rows."""

    def __init__(self, attachments: Attachments) -> None:
        assert attachments.vectors is not None
        self._attachments, self._file = attachments, attachments.vectors
        self._others: list[NDArray[Any]] = []
        self.dtype = np.dtype(np.float64)

    def __len__(self) -> int:
        return len(self._file) + len(self._others)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), int(self._file.shape[1])

    def get(self, identity: Any, default: int = -1) -> int:
        """The number of the vector of an id."""
        rows = self._attachments.rows
        if not rows.knows(identity, VECTORS):
            place = self._attachments.place(identity)
            return place if 0 <= place < len(self._file) else default
        self._others.append(rows.value(identity, VECTORS))
        return len(self) - 1

    def __getitem__(self, numbers: Ints) -> NDArray[np.float64]:
        n = len(self._file)
        taken = np.empty((len(numbers), self._file.shape[1]))
        of_file = numbers < n
        taken[of_file] = self._file[numbers[of_file]]
        for i in np.flatnonzero(~of_file).tolist():
            taken[i] = self._others[int(numbers[i]) - n]
        return taken
