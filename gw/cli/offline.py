"""Reports straight from the configured database, read-only, for when no gateway runs: the same shapes, by the same code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio

from gw.admin import logs, reports
from gw.cli.configured import load
from gw.cli.main import Failed
from gw.config.settings import Settings
from gw.errors import ConfigError
from gw.registry.catalog import Catalog
from gw.registry.merge import merge
from gw.store.store import Reader, open_readonly
from gw.telemetry.clock import SystemClock

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Database:
    path: Path
    settings: Settings

    @classmethod
    def configured(cls, otherwise: Failed) -> Database:
        """Raises `otherwise` where there is none to read: no usable configuration, or no record was ever kept."""
        try:
            settings = load(None)
        except ConfigError:
            raise otherwise from None
        path = settings.cost_tracking.db_path
        if not path.exists():
            raise otherwise
        return cls(path=path, settings=settings)

    def costs(self, **query: Any) -> Any:
        now = SystemClock().now()
        return self._read(lambda reader, catalog: reports.costs(reader, catalog, now, **query))

    def logs(self, *, limit: Any, **query: Any) -> Any:
        return self._read(lambda reader, catalog: logs.page(reader, catalog, logs.Query(**query), limit=limit))

    def _read(self, report: Callable[[Reader, Catalog], Awaitable[T]]) -> T:
        """What was made through the API counts; stored keys are not looked at."""

        async def run() -> T:
            async with open_readonly(self.path) as reader:
                return await report(reader, merge(self.settings, await reader.entities()).catalog)

        return trio.run(run)
