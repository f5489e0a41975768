"""The threads that read: a few read-only connections, each used by one worker thread at a time.

In WAL mode readers and the writer do not wait for each other, and SQLite steps run without the interpreter's lock, so a report
does not hold up the data plane.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import apsw
import trio

from gw.errors import StoreUnavailable
from gw.store import requests
from gw.store.idle_connections import IdleConnections
from gw.store.record_database import Stats
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import CHECK_STEPS, READ_LIMIT_S, TOO_LONG, open_reader, translated
from gw.telemetry.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")

READERS = 4
"""Reports at a time; further ones wait. Each may hold a thread and about 2 MB of page cache."""


class ReaderPool:
    """Read-only connections, each used by one thread at a time, opened when first needed."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.name = str(path)
        self._path = path
        self._clock = clock
        self._limiter = trio.CapacityLimiter(READERS)
        self._idle: IdleConnections[apsw.Connection] = IdleConnections()

    async def read(self, query: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `query(connection, …)` in a thread. A cancelled caller returns at once; its statement stops within about 1 ms.

        Raises StoreUnavailable, also after READ_LIMIT_S.
        """
        abandoned = threading.Event()

        def call(db: apsw.Connection) -> T:
            return query(db, *args, **kwargs)

        try:
            return await trio.to_thread.run_sync(
                self._run, call, abandoned, abandon_on_cancel=True, limiter=self._limiter
            )
        finally:
            abandoned.set()

    def _run(self, query: Callable[[apsw.Connection], T], abandoned: threading.Event) -> T:
        started = self._clock.now()

        def stop() -> bool:
            # Wall time is good enough to end a runaway report: after a jump of the clock it can be requested again.
            return abandoned.is_set() or self._clock.now() - started > READ_LIMIT_S

        with self._connection() as db, translated(self._path):
            db.set_progress_handler(stop, CHECK_STEPS)
            try:
                return query(db)
            except apsw.InterruptError:
                raise StoreUnavailable(what=TOO_LONG) from None
            finally:
                db.set_progress_handler(None)

    @contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        db = self._idle.take() or open_reader(self._path)
        try:
            yield db
        finally:
            self._idle.give_back(db)

    def close(self) -> None:
        """Close the idle connections; one still in an abandoned thread is closed by that thread."""
        self._idle.close()


class SqliteReaders(ReaderPool):
    """Implements `Readers`."""

    def stats(self, db: SqlConnection) -> Stats:
        version = db.execute("pragma user_version").get
        return Stats(requests=requests.count(db), size_bytes=Path(self.name).stat().st_size, schema_version=version)
