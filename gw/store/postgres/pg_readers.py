"""Reading from PostgreSQL: connections for queries in threads, and for the process that makes reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

import attrs
import psycopg
import trio
from psycopg import errors

from gw.errors import StoreUnavailable
from gw.store import requests
from gw.store.idle_connections import IdleConnections
from gw.store.postgres import pg_schema
from gw.store.postgres.pg_connection import SCHEMA, PgConnection, connect, named, translated
from gw.store.reader_pool import READERS
from gw.store.record_database import Stats
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import READ_LIMIT_S, TOO_LONG
from gw.types.secret import Secret

P = ParamSpec("P")
T = TypeVar("T")

_SIZE = "select sum(pg_total_relation_size(oid)) from pg_class where relnamespace = to_regnamespace(%s) and relkind in ('r', 'S')"


class ReadConnections:
    """Read-only connections. Used by several threads. `limit_s`: for all statements of a report together."""

    def __init__(self, url: Secret, *, limit_s: float = READ_LIMIT_S) -> None:
        self.name = named(url)
        self._url, self._limit_s = url, limit_s
        self._idle: IdleConnections[PgConnection] = IdleConnections()

    @contextmanager
    def connection(self, stop: Callable[[], bool]) -> Iterator[PgConnection]:
        """Yield a read-only connection, whose statement is cancelled soon after `stop` returns True. Raises StoreUnavailable."""
        until = time.monotonic() + self._limit_s
        with translated(self.name):
            db = self._take()
            db.raw.stop = lambda: stop() or time.monotonic() > until
            try:
                yield db
            except errors.QueryCanceled:
                raise StoreUnavailable(what=TOO_LONG) from None
            finally:
                db.raw.stop = None
                self._idle.give_back(db, usable=not db.is_lost)

    def _take(self) -> PgConnection:
        db = self._idle.take()
        if db is not None and not db.is_lost and _answers(db):
            return db
        db = connect(self._url, read_only=True, statement_s=self._limit_s)
        try:
            if (stored := pg_schema.check(db, self.name)) < pg_schema.VERSION:
                remedy = f"`gw db migrate` or the next `gw serve` brings it to {pg_schema.VERSION}"
                raise StoreUnavailable(what=f"{self.name} has schema {stored}; {remedy}")
        except BaseException:
            db.close()
            raise
        return db

    def close(self) -> None:
        """Close the idle connections; one that is in use is closed by its thread."""
        self._idle.close()


def _answers(db: PgConnection) -> bool:
    """Return whether the server still knows an idle connection: it may have been restarted meanwhile."""
    try:
        db.raw.execute("")
    except psycopg.Error:
        db.close()
        return False
    return True


class PostgresReaders:
    """Implements `Readers`."""

    def __init__(self, url: Secret) -> None:
        self._connections = ReadConnections(url)
        self._limiter = trio.CapacityLimiter(READERS)
        self.name = self._connections.name

    async def read(self, query: Callable[Concatenate[SqlConnection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `query(connection, …)` in a thread. A cancelled caller returns at once; its statement stops soon after.

        Raises StoreUnavailable, also after READ_LIMIT_S.
        """
        abandoned = threading.Event()

        def run() -> T:
            with self._connections.connection(abandoned.is_set) as db:
                return query(db, *args, **kwargs)

        try:
            return await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            abandoned.set()

    def stats(self, db: SqlConnection) -> Stats:
        assert isinstance(db, PgConnection)
        [(size,)] = db.raw.execute(_SIZE, (SCHEMA,)).fetchall()
        return Stats(requests=requests.count(db), size_bytes=int(size or 0), schema_version=pg_schema.version(db))

    def close(self) -> None:
        self._connections.close()


@attrs.frozen
class PostgresSource:
    """The database for the process that makes reports: sent to it through a private pipe, so the address is plain text."""

    url: str = attrs.field(repr=False)

    def open(self) -> ReadConnections:
        return ReadConnections(Secret(self.url))
