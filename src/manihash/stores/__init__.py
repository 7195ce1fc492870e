"""Databases that store codes, all with the same methods; one file per database."""

from manihash.errors import StoreConnectionError, StoreError, StoreNotFoundError
from manihash.stores.addresses import create_store, open_store
from manihash.stores.export import ExportResult, export_codes
from manihash.stores.passwords import mask_password, mask_passwords_in
from manihash.stores.store import Store

__all__ = [
    "ExportResult",
    "Store",
    "StoreConnectionError",
    "StoreError",
    "StoreNotFoundError",
    "create_store",
    "export_codes",
    "mask_password",
    "mask_passwords_in",
    "open_store",
]
