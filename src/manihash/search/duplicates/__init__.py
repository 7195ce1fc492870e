"""Near-duplicates: groups of rows by codes, verified by vectors, and new rows that an index knows."""

from manihash.search.duplicates.groups import Duplicates, dedup
from manihash.search.duplicates.known import KnownRows, known_rows, prepare_tables
from manihash.search.duplicates.verified import RadiusStep, VerifiedDuplicates, verified_duplicates

__all__ = [
    "Duplicates",
    "KnownRows",
    "RadiusStep",
    "VerifiedDuplicates",
    "dedup",
    "known_rows",
    "prepare_tables",
    "verified_duplicates",
]
