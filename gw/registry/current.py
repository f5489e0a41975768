"""The catalog in force."""

from __future__ import annotations

from gw.registry.catalog import Catalog


class CurrentCatalog:
    """Holds the catalog that new requests take. A request keeps the one it began with."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def swap(self, catalog: Catalog) -> None:
        """Put `catalog` in force for all requests that begin from now on."""
        self.catalog = catalog
