"""The rows of an index that can be saved to a file, with the layout of their codes."""

import os
from typing import Self

from manihash.code_layout import CodeLayout, layout_of
from manihash.search import files
from manihash.search.buckets import Buckets
from manihash.search.parts import IndexParts
from manihash.search.row_set import RowSet


class SavedRows(RowSet):
    """Rows of codes, with their layout and the file that they were loaded from, if any."""

    def __init__(
        self, buckets: Buckets, n_bits: int, next_id: int = 0, layout: CodeLayout | None = None
    ) -> None:
        super().__init__(buckets, n_bits, next_id)
        self.made_by: str | None = None
        self._file: files.IndexFile | None = None
        self._parts = self._with_layout(layout)

    def _with_layout(self, layout: CodeLayout | None) -> IndexParts | None:
        return None if layout is None else IndexParts(layout, self._snapshot.scanner)

    @property
    def first_bits(self) -> int | None:
        """Number of bits of the first part of a code; None if codes have one part."""
        return None if self._parts is None else self._parts.layout.first_bits

    @property
    def weight(self) -> float | None:
        """Weight of the second part of a code; None if codes have one part."""
        return None if self._parts is None else self._parts.layout.weight

    def set_parts(self, first_bits: int | None, weight: float = 0.5) -> None:
        """Set the parts of the codes, which decide how ``search`` ranks; the codes do not change.

        Parameters
        ----------
        first_bits : int or None
            Number of bits of the first part, below ``n_bits``; None for codes of one part.
        weight : float, default=0.5
            Weight of the second part in the distance, at least 0.
        """
        self._parts = self._with_layout(layout_of(self.n_bits, first_bits, weight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, atomically.

        Parameters
        ----------
        path : str or path-like
            File to write; an existing file is replaced when the new one is complete.
        """
        snapshot, parts = self._snapshot, self._parts
        layout = None if parts is None else parts.layout
        files.write(path, snapshot.merged(), self.n_bits, snapshot.next_id, self.made_by, layout)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = True) -> Self:
        """Open an index file.

        Header, sizes and offsets are checked; ``verify`` checks every byte. Do not modify a file in place
        while it is mapped; ``save`` to the same path is safe, because it replaces the file.

        Parameters
        ----------
        path : str or path-like
            File that ``save`` wrote.
        mmap : bool, default=True
            Map the file into memory, which is immediate for any size, instead of reading it.

        Returns
        -------
        HammingIndex
            The index.
        """
        file = files.read(path, mmap=mmap)
        index = cls.__new__(cls)
        SavedRows.__init__(index, file.buckets, file.n_bits, file.next_id, file.layout)
        index.made_by, index._file = file.made_by, file
        return index

    def verify(self) -> None:
        """Check every byte of the file that was loaded; raise ``DamagedIndexError`` if it is damaged."""
        if self._file is None:
            raise ValueError("verify() checks the file of an index: this index was not loaded from a file")
        self._file.verify()
