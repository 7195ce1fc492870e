"""The rows that a person has marked on the page."""

import numpy as np

from manihash.types import Ids


class Selection:
    """The marked rows, ascending; ``rows`` is replaced as a whole, so any thread may read it."""

    def __init__(self) -> None:
        self.rows: Ids = np.empty(0, np.int64)

    def keep(self, body: bytes, n_rows: int) -> None:
        """Keep the row numbers of a request; raise if they are not those of rows."""
        if len(body) % 4:
            raise ValueError(f"got {len(body)} bytes: expected four per row number")
        rows = np.unique(np.frombuffer(body, "<u4").astype(np.int64))
        if len(rows) and rows[-1] >= n_rows:
            raise ValueError(f"no row {rows[-1]}: rows are numbered from 0 to {n_rows - 1}")
        self.rows = rows
