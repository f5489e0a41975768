"""Reports straight from the configured database, read-only, for when no gateway runs: the same shapes, by the same code.

Where no gateway has ever run there is no database yet: then the configuration is all there is to tell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
import trio

from gw.admin import fallbacks, keys, listings, logs, reports, turn_reports
from gw.admin.registrar import Registrar
from gw.cli.config_file import load
from gw.cli.main import CommandFailed
from gw.config.settings import Settings
from gw.errors import ConfigError
from gw.registry.catalog import Catalog
from gw.registry.merge import merge
from gw.store.store import Reader, open_readonly
from gw.telemetry.clock import SystemClock, utc_day
from gw.types.entities import Name, Stored, name_of

T = TypeVar("T")


class _NoRecords:
    """What a reader is where there is no database."""

    async def entities(self) -> list[Stored]:
        return []

    async def spend(self, day: int) -> dict[str, int]:
        return {}

    async def read(self, query: object, *args: object, **kwargs: object) -> list[Any]:
        return []

    async def show(self, make: Callable[[list[Any]], T], query: object, *args: object, **kwargs: object) -> T:
        return make([])


@attrs.frozen(kw_only=True)
class _Shelf:
    """The part of a registrar that listings look at."""

    settings: Settings
    stored: Mapping[Name, Stored]
    catalog: Catalog


@attrs.frozen(kw_only=True)
class Database:
    path: Path
    settings: Settings

    @classmethod
    def configured(cls, otherwise: CommandFailed, *, records: bool) -> Database:
        """Raises `otherwise` where there is nothing to read: no usable configuration, or no `records` were ever kept."""
        try:
            settings = load(None)
        except ConfigError:
            raise otherwise from None
        path = settings.cost_tracking.db_path
        if records and not path.exists():
            raise otherwise
        return cls(path=path, settings=settings)

    @property
    def origin(self) -> Path:
        """What is read: the database, or the configuration where there is none yet."""
        return self.path if self.path.exists() or self.settings.path is None else self.settings.path

    def costs(self, **query: Any) -> Any:
        now = SystemClock().now()
        return self.read(lambda reader, catalog: reports.costs(reader, catalog, now, **query))

    def latency(self, **query: Any) -> Any:
        now = SystemClock().now()
        return self.read(lambda reader, catalog: reports.latency(reader, catalog, now, **query))

    def logs(self, *, limit: Any, **query: Any) -> Any:
        return self.read(lambda reader, catalog: logs.page(reader, catalog, logs.Query(**query), limit=limit))

    def turns(self, **query: Any) -> Any:
        return self.read(lambda reader, catalog: turn_reports.page(reader, catalog, **query))

    def turn(self, turn_id: str) -> Any:
        """Raises UnknownTurnError."""
        return self.read(lambda reader, catalog: turn_reports.one(reader, catalog, turn_id))

    def projects(self) -> Any:
        now = SystemClock().now()
        return self.read(lambda reader, catalog: listings.projects(reader, catalog, now))

    def project(self, project_id: str) -> Any:
        """Raises UnknownProjectError."""

        async def shown(reader: Reader, catalog: Catalog) -> Any:
            now = SystemClock().now()
            spent = await reader.spend(utc_day(now))
            return await listings.project(reader, catalog, now, project_id, spent=lambda name: spent.get(name, 0))

        return self.read(shown)

    def keys(self) -> Any:
        return self._shelved(keys.listing)

    def chains(self) -> Any:
        return self._shelved(fallbacks.listing)

    def _shelved(self, report: Callable[[Registrar], Any]) -> Any:
        async def shown(reader: Reader, catalog: Catalog) -> Any:
            stored = {name_of(entity): entity for entity in await reader.entities()}
            return report(cast("Registrar", _Shelf(settings=self.settings, stored=stored, catalog=catalog)))

        return self.read(shown)

    def listed(self, report: Callable[[Catalog], T]) -> T:
        """Something of the catalog alone."""

        async def shown(reader: Reader, catalog: Catalog) -> T:
            return report(catalog)

        return self.read(shown)

    def read(self, report: Callable[[Reader, Catalog], Awaitable[T]]) -> T:
        """What was made through the API counts; stored keys are not looked at."""

        async def run() -> T:
            if not self.path.exists():
                return await report(cast("Reader", _NoRecords()), merge(self.settings, ()).catalog)
            async with open_readonly(self.path) as reader:
                return await report(reader, merge(self.settings, await reader.entities()).catalog)

        return trio.run(run)
