"""Changes of entities in a database that several gateways share: made one at a time, and known to all within a second.

The database has the version of its entities, a number that grows with each change. Whoever changes them holds an advisory lock, from
before the entities are read until the change is committed, and tells the others (`notify`). A gateway listens on a connection of its
own; because a message to a connection that has died unnoticed is lost, it also reads the version every CHECK_S.

    away ──connected, version read──▶ listening ──message or CHECK_S──▶ version is another one: entities are read again
      ▲                                  │
      └────RETRY_S────connection lost────┘
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import psycopg
import structlog
import trio
from psycopg import sql

from gw.errors import StoreUnavailable
from gw.store import entity_rows
from gw.store.entity_rows import Change
from gw.store.postgres.pg_connection import TRANSIENT, PgConnection, connect, named, translated
from gw.store.postgres.pg_schema import LOCK_CHANGE, LOCKS, lock
from gw.store.sql_connection import SqlConnection
from gw.types.secret import Secret

_log = structlog.get_logger()

CHANNEL = "gw_entities"
CHECK_S = 0.8
RETRY_S = 0.5
ANSWER_S = 3.0  # a server that sends nothing for so long is given up: a lost connection must not look like one without news
LOST_S = 10.0  # without the version for so long, a gateway says that it may not know the last changes
_LOCK_MS = 5_000  # for another gateway's change; one takes milliseconds
_CLOSE_S = 1.0


class SharedChanges:
    """A gateway's part in changes. The connections are used by one thread at a time each."""

    def __init__(self, url: Secret) -> None:
        self._url = url
        self._name = named(url)
        self._changing: PgConnection | None = None
        self._limiter = trio.CapacityLimiter(1)
        self._listening = trio.CapacityLimiter(1)
        self._seen_at = trio.current_time()
        self.known = 0
        """Version of the entities that this gateway has read."""

    @property
    def lost(self) -> bool:
        """Return whether changes of others may be unknown here."""
        return trio.current_time() > self._seen_at + LOST_S

    # ---- making changes

    @asynccontextmanager
    async def exclusively(self) -> AsyncIterator[int]:
        """Let no other gateway change entities during the block; yield their version. Raises DatabaseLocked, StoreUnavailable."""
        version = await self._run(_lock)
        try:
            yield version
        finally:
            with trio.move_on_after(_CLOSE_S, shield=True), suppress(StoreUnavailable):  # lost with the connection, then
                await self._run(_unlock)

    async def apply(self, change: Change, version: int | None) -> None:
        """Apply a change, all or nothing. `version`: of the entities that it was made for, None if it changes none.

        Raises DatabaseLocked, StoreUnavailable; the latter also if others have changed them since the lock was lost.
        """
        self.known = await self._run(lambda db: _apply(db, change, version)) or self.known

    async def _run(self, work: Callable[[PgConnection], int]) -> int:
        def run() -> int:
            with translated(self._name):
                if self._changing is None or self._changing.is_lost:
                    self._changing = connect(self._url, answer_s=ANSWER_S)
                    self._changing.raw.execute(sql.SQL("set lock_timeout to {}").format(sql.Literal(_LOCK_MS)))
                db = self._changing
                try:
                    return work(db)
                except TRANSIENT:
                    db.close()  # with it goes the lock, if it was held
                    raise

        return await trio.to_thread.run_sync(run, limiter=self._limiter)

    # ---- following the changes of others

    async def follow(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Call `changed` after each change that another gateway has made, until cancelled.

        `changed` reads the entities again, and may raise StoreUnavailable; then it is called again later.
        """
        away = False
        while True:
            try:
                async with self._listener() as db:
                    if away:
                        _log.info("changes_received_again")
                    away = False
                    await self._follow(db, changed)
            except StoreUnavailable as error:
                if not away:
                    _log.warning("changes_not_received", why=error.what)
                away = True
                await trio.sleep(RETRY_S)

    @asynccontextmanager
    async def _listener(self) -> AsyncIterator[PgConnection]:
        def listen() -> PgConnection:
            with translated(self._name):
                db = connect(self._url, read_only=True, answer_s=ANSWER_S)
                db.raw.add_notify_handler(_ignore)  # messages only end the wait; without a handler psycopg would keep them
                db.raw.execute(sql.SQL("listen {}").format(sql.Identifier(CHANNEL)))
                return db

        db = await trio.to_thread.run_sync(listen, limiter=self._listening)
        try:
            yield db
        finally:
            with trio.move_on_after(_CLOSE_S, shield=True):
                await trio.to_thread.run_sync(db.close, limiter=self._listening)

    async def _follow(self, db: PgConnection, changed: Callable[[], Awaitable[None]]) -> None:
        socket = db.raw.fileno()
        while True:
            version = await trio.to_thread.run_sync(self._read_version, db, limiter=self._listening)
            self._seen_at = trio.current_time()
            if version != self.known:
                await changed()
                self.known = max(version, self.known)
            with trio.move_on_after(CHECK_S):
                await trio.lowlevel.wait_readable(socket)

    def _read_version(self, db: PgConnection) -> int:
        with translated(self._name):
            return _version(db)

    async def aclose(self) -> None:
        def close() -> None:
            if self._changing is not None:
                self._changing.close()

        with trio.move_on_after(_CLOSE_S, shield=True):
            await trio.to_thread.run_sync(close, limiter=self._limiter)


def _ignore(_: psycopg.Notify) -> None:
    """Do nothing with a message."""


def _version(db: PgConnection) -> int:
    return int(db.raw.execute("select version from entities_version").fetchall()[0][0])


def entities_version(db: SqlConnection) -> int:
    """Return the version of the entities as a reader sees it."""
    return int(db.execute("select version from entities_version").get)


def _lock(db: PgConnection) -> int:
    db.raw.execute("select pg_advisory_lock(%s, %s)", (LOCKS, LOCK_CHANGE))
    return _version(db)


def _unlock(db: PgConnection) -> int:
    db.raw.execute("select pg_advisory_unlock(%s, %s)", (LOCKS, LOCK_CHANGE))
    return 0


def _apply(db: PgConnection, change: Change, version: int | None) -> int:
    """Return the version of the entities afterwards, 0 if the change has none."""
    with db.raw.transaction():
        after = 0
        if version is not None:
            lock(db, LOCK_CHANGE)
            if _version(db) != version:
                raise StoreUnavailable(what="another gateway has changed the entities meanwhile; try again")
            after = version + 1
            db.raw.execute("update entities_version set version = %s", (after,))
            db.raw.execute("select pg_notify(%s, %s)", (CHANNEL, str(after)))
        entity_rows.write(db, change)
    return after
