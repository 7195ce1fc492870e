"""Databases that keep codes, behind the same few verbs; one file each, its library imported when used."""

from manihash.stores._store import NoStore, Store, StoreDown, StoreError
from manihash.stores._urls import create_store, open_store, without_password
from manihash.stores.export import Exported, export_codes

__all__ = [
    "Exported",
    "NoStore",
    "Store",
    "StoreDown",
    "StoreError",
    "create_store",
    "export_codes",
    "open_store",
    "without_password",
]
