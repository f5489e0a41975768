"""The catalog in force."""

from __future__ import annotations

from gw.registry.catalog import Catalog


class CurrentCatalog:
    """The catalog of new requests. A running request keeps the catalog it began with."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def swap(self, catalog: Catalog) -> None:
        """Use `catalog` for all requests that begin from now on."""
        self.catalog = catalog
