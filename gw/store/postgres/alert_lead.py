"""The right to send alerts, of which one gateway has it among those that share a database: an advisory lock of a session.

    waiting ──lock free, tried every POLL_S──▶ leading ──connection lost, and another gateway was quicker──▶ AlertsLedElsewhere

What the leader writes goes through the session that holds the lock. So one that has lost it cannot write, and learns of it before it
sends. The others store what they see (`publish`), and the leader reads that with what it sees itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import trio

from gw.errors import AlertsLedElsewhere
from gw.store import entity_rows
from gw.store.entity_rows import Change
from gw.store.postgres.pg_connection import TRANSIENT, PgConnection, connect, named, translated
from gw.store.postgres.pg_schema import LOCK_ALERTS, LOCKS
from gw.store.sqlite import content
from gw.types.alerts import Sighting
from gw.types.secret import Secret

POLL_S = 2.0
FRESH_S = 60.0
"""Sightings that are older are those of a gateway that is gone."""
_ANSWER_S = 3.0
_CLOSE_S = 1.0
_PUT = """
insert into alert_sightings (instance, seen_at, body) values (?, ?, ?)
on conflict (instance) do update set seen_at = excluded.seen_at, body = excluded.body"""
_sightings = msgspec.json.Decoder(list[Sighting]).decode


class AlertLead:
    """A gateway's session for alerts. Used by one thread at a time."""

    shared = True

    def __init__(self, url: Secret, instance: str) -> None:
        """`instance`: name of this gateway among those with the same database."""
        self._url = url
        self._instance = instance
        self._name = named(url)
        self._db: PgConnection | None = None
        self._leads = False
        self._limiter = trio.CapacityLimiter(1)

    async def wait(self) -> None:
        """Wait until this gateway leads. Raises StoreUnavailable."""
        while True:
            if await self._run(_answers):
                return
            await trio.sleep(POLL_S)

    async def write(self, change: Change) -> None:
        """Apply a change, all or nothing. Raises AlertsLedElsewhere, StoreUnavailable, DatabaseLocked."""

        def apply(db: PgConnection) -> bool:
            with db.raw.transaction():
                entity_rows.write(db, change)
            return True

        if not await self._run(apply):
            raise AlertsLedElsewhere

    async def confirm(self) -> None:
        """Raise AlertsLedElsewhere if another gateway leads now, StoreUnavailable if nobody can say."""
        if not await self._run(_answers):
            raise AlertsLedElsewhere

    async def publish(self, sightings: Sequence[Sighting], now: float) -> None:
        """Store what this gateway sees, for the one that leads. Raises StoreUnavailable, DatabaseLocked."""

        def put(db: PgConnection) -> bool:
            db.execute(_PUT, (self._instance, now, msgspec.json.encode(sightings).decode()))
            return True

        await self._run(put, must_lead=False)

    async def seen_elsewhere(self, now: float) -> Sequence[Sighting]:
        """Return what the other gateways see. Raises StoreUnavailable, DatabaseLocked."""
        seen: list[Sighting] = []

        def read(db: PgConnection) -> bool:
            rows = db.execute("select body from alert_sightings where instance <> ? and seen_at > ?", (self._instance, now - FRESH_S))
            seen.extend(sighting for (body,) in rows for sighting in _sightings(content(body)))
            return True

        await self._run(read, must_lead=False)
        return seen

    async def _run(self, work: Callable[[PgConnection], bool], *, must_lead: bool = True) -> bool:
        """Do `work` in the session that has the lock, or may have it; return False if another gateway has it."""

        def run() -> bool:
            with translated(self._name):
                if self._db is None or self._db.is_lost:
                    self._db, self._leads = connect(self._url, answer_s=_ANSWER_S), False
                db = self._db
                try:
                    if must_lead and not self._leads:
                        self._leads = _lock(db)
                    return work(db) if self._leads or not must_lead else False
                except TRANSIENT:
                    db.close()  # with it goes the lock
                    raise

        return await trio.to_thread.run_sync(run, limiter=self._limiter)

    async def aclose(self) -> None:
        """Give the right back."""

        def close() -> None:
            if self._db is not None:
                self._db.close()

        with trio.move_on_after(_CLOSE_S, shield=True):
            await trio.to_thread.run_sync(close, limiter=self._limiter)


def _lock(db: PgConnection) -> bool:
    return bool(db.raw.execute("select pg_try_advisory_lock(%s, %s)", (LOCKS, LOCK_ALERTS)).fetchall()[0][0])


def _answers(db: PgConnection) -> bool:
    db.raw.execute("select 1")
    return True
