"""One object that is the running gateway, and the one place that builds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs

from gw import __version__
from gw.config.settings import Settings
from gw.net.http1 import Pool
from gw.pricing.book import PriceBook
from gw.pricing.load import load_book
from gw.registry.live import Live
from gw.registry.merge import build
from gw.relay.ledger import Ledger
from gw.relay.limits import Limits
from gw.relay.meter import Books
from gw.relay.relay import Relay
from gw.store.store import Store, open_store
from gw.telemetry.clock import Clock, SystemClock, utc_day
from gw.telemetry.metrics import Metrics


@attrs.frozen(kw_only=True)
class Gateway:
    settings: Settings
    live: Live
    store: Store
    relay: Relay
    ledger: Ledger
    limits: Limits
    metrics: Metrics
    clock: Clock
    book: PriceBook
    pool: Pool
    started_at: float
    version: str = __version__


@asynccontextmanager
async def open_gateway(
    settings: Settings, *, clock: Clock | None = None, make_pool: Callable[[], Pool] = Pool
) -> AsyncIterator[Gateway]:
    """Build everything, in the order in which it must end: the store is opened first and closes last.

    Raises ConfigError, DatabaseLocked (another gateway writes this database), StoreUnavailable.
    """
    clock = clock or SystemClock()
    tracking = settings.cost_tracking
    book = load_book()
    live = Live(build(settings))
    async with open_store(
        tracking.db_path, clock=clock, durability=tracking.durability, retention_days=tracking.retention_days
    ) as store:
        ledger = Ledger(clock, await store.spend(utc_day(clock.now())))
        limits = Limits(settings.routing.breaker)
        metrics = Metrics()
        pool = make_pool()
        books = Books(clock=clock, book=book, ledger=ledger, records=store, observer=metrics)
        relay = Relay(
            live=live, pool=pool, limits=limits, books=books, routing=settings.routing, cost_tracking=tracking
        )
        try:
            yield Gateway(
                settings=settings,
                live=live,
                store=store,
                relay=relay,
                ledger=ledger,
                limits=limits,
                metrics=metrics,
                clock=clock,
                book=book,
                pool=pool,
                started_at=clock.now(),
            )
        finally:
            await pool.aclose()
