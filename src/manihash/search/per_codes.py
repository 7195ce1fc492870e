"""What is made of arrays of codes, kept as long as these arrays exist."""

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from manihash.types import Codes

T = TypeVar("T")


class PerCodes(Generic[T]):
    """What is made of arrays of codes, kept as long as these arrays exist.

    Threads need no lock: the list is replaced in one assignment, and what is lost is made again.
    """

    def __init__(self, make: Callable[[Codes], T]) -> None:
        self._make = make
        self._made: tuple[tuple[weakref.ref[Codes], T], ...] = ()

    def of(self, codes: Codes) -> T:
        """What is made of the array ``codes``; it must not refer to this array."""
        for source, made in self._made:
            if source() is codes:
                return made
        made = self._make(codes)
        alive = tuple(pair for pair in self._made if pair[0]() is not None)
        self._made = (*alive, (weakref.ref(codes), made))
        return made
