"""Watches an index file, and replaces the index of a service when a new file is put in place."""

import asyncio
import logging
import os
from collections.abc import Callable

import numpy as np

from manihash import HammingIndex
from manihash.codes import n_bytes
from manihash.files.atomic import identity_of
from manihash.web.api.service import Service

_log = logging.getLogger("manihash.web")
_SECONDS = 1.0


class Watcher:
    """Loads an index file again when it changes; a file that cannot be used leaves the old index in place.

    Requests that are being computed finish with the index that they started with.

    Parameters
    ----------
    service : Service
        The service whose index is replaced.
    path : str or path-like
        The file.
    load : callable
        Returns the index of the file; raises if it is damaged, or if it does not belong to the model.
    seen : tuple or None
        Result of ``identity_of`` from before the service's index was loaded.
    """

    def __init__(
        self,
        service: Service,
        path: str | os.PathLike[str],
        load: Callable[[], HammingIndex],
        seen: tuple[int, int, int] | None,
    ) -> None:
        self.service, self.path, self.load = service, path, load
        self.n_replaced = self.n_refused = 0
        self._seen = seen

    async def run(self) -> None:
        """Look for a new file every second, until the task is canceled."""
        while True:
            await asyncio.sleep(_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Replace the index if there is a new file."""
        found = identity_of(self.path)
        if found is None or found == self._seen:
            return
        try:
            index = self.load()
            index.search(np.zeros((1, n_bytes(index.n_bits)), np.uint8), 1)  # prepares what queries need
        except Exception as error:
            self.n_refused += 1
            _log.error("the new index file is not used: %s", error)
        else:
            self.service.index = index
            self.n_replaced += 1
            _log.warning("a new index file is in use, with %d rows", len(index))
        self._seen = found
