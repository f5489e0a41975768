"""Reports straight from the configured database, read-only, for when no gateway runs: the same shapes, by the same code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio

from gw.admin import reports
from gw.cli.configured import load
from gw.cli.main import Failed
from gw.errors import ConfigError
from gw.registry.catalog import Catalog
from gw.registry.merge import build
from gw.store.store import Reader, open_readonly
from gw.telemetry.clock import SystemClock

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Database:
    path: Path
    catalog: Catalog

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
        return cls(path=path, catalog=build(settings))

    def costs(self, **query: Any) -> Any:
        now = SystemClock().now()
        return self._read(lambda reader: reports.costs(reader, self.catalog, now, **query))

    def logs(self, **query: Any) -> Any:
        return self._read(lambda reader: reports.logs(reader, self.catalog, **query))

    def _read(self, report: Callable[[Reader], Awaitable[T]]) -> T:
        async def run() -> T:
            async with open_readonly(self.path) as reader:
                return await report(reader)

        return trio.run(run)
