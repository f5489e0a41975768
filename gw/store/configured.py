"""The store that a configuration names: a file of SQLite, or PostgreSQL, which is not imported without `cost_tracking.database`."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from gw.config.database_rules import check_database, database_error
from gw.config.settings import Settings
from gw.errors import StoreUnavailable
from gw.store.store import ReadOnlyStore, Store, open_readonly, open_store
from gw.store.writer import OnCommitted
from gw.telemetry.clock import Clock

Progress = Callable[[int, int], None]


@asynccontextmanager
async def open_configured(
    settings: Settings, *, clock: Clock, processes: bool = False, spares: int = 0, on_upgrade: Progress | None = None,
    on_committed: OnCommitted | None = None,
) -> AsyncIterator[Store]:  # fmt: skip
    """Open the store for a gateway, see `open_store`. Raises ConfigError naming `cost_tracking.database` if it cannot be used."""
    tracking = settings.cost_tracking
    opening = partial(
        open_store, tracking.db_path, clock=clock, durability=tracking.durability, retention_days=tracking.retention_days,
        processes=processes, spares=spares, journal_bytes=tracking.journal_bytes, on_upgrade=on_upgrade, on_committed=on_committed,
    )  # fmt: skip
    if tracking.database:
        check_database(settings)
        from gw.store.postgres.postgres_store import open_postgres_store

        instance = settings.fleet.instance or socket.gethostname()
        opening = partial(open_postgres_store, tracking.database, *opening.args, instance=instance, **opening.keywords)
    async with AsyncExitStack() as opened:
        try:
            store = await opened.enter_async_context(opening())
        except StoreUnavailable as error:
            if not tracking.database:
                raise
            raise database_error(settings, error.what) from None
        yield store


@asynccontextmanager
async def open_configured_readonly(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[ReadOnlyStore]:
    """Open the store for reports, beside a gateway or without one. Raises StoreUnavailable, ConfigError."""
    tracking = settings.cost_tracking
    if tracking.database:
        check_database(settings)
        from gw.store.postgres.postgres_store import open_postgres_readonly

        opening = open_postgres_readonly(tracking.database)
    else:
        opening = open_readonly(tracking.db_path, clock=clock)
    async with opening as store:
        yield store


def may_have_records(settings: Settings) -> bool:
    """Return False where there is no database yet."""
    return bool(settings.cost_tracking.database) or settings.cost_tracking.db_path.exists()


def database_name(settings: Settings) -> str:
    """Return the database for people, without credentials."""
    tracking = settings.cost_tracking
    if not tracking.database:
        return f"the database {tracking.db_path}"
    check_database(settings)
    from gw.store.postgres.pg_connection import named

    return named(tracking.database)
