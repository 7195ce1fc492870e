"""Databases that store codes, all with the same methods; one file per database."""

from manihash.stores.addresses import create_store, mask_password, open_store
from manihash.stores.driver import StoreConnectionError, StoreError, StoreNotFoundError
from manihash.stores.export import ExportResult, export_codes
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
    "open_store",
]
