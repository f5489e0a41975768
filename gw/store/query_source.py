"""The database as the process that makes reports opens it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

import apsw
import msgspec

from gw.errors import StoreUnavailable
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import CHECK_STEPS, READ_LIMIT_S, TOO_LONG, open_reader, translated
from gw.telemetry.clock import SystemClock


class OpenSource(Protocol):
    """A database that queries can be run on, one after the other."""

    def connection(self, stop: Callable[[], bool]) -> AbstractContextManager[SqlConnection]:
        """Yield a connection, whose statement ends soon after `stop` returns True. Raises DatabaseLocked, StoreUnavailable."""


@runtime_checkable
class QuerySource(Protocol):
    """A database that is not open yet. Can be sent to another process."""

    def open(self) -> OpenSource:
        """Open it. Raises StoreUnavailable."""


class SqliteSource(msgspec.Struct, frozen=True):
    path: Path

    def open(self) -> OpenSqlite:
        return OpenSqlite(self.path)


class OpenSqlite:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = open_reader(path)
        self._clock = SystemClock()

    @contextmanager
    def connection(self, stop: Callable[[], bool]) -> Iterator[apsw.Connection]:
        started = self._clock.now()
        self._db.set_progress_handler(lambda: stop() or self._clock.now() - started > READ_LIMIT_S, CHECK_STEPS)
        try:
            with translated(self._path):
                yield self._db
        except apsw.InterruptError:
            raise StoreUnavailable(what=TOO_LONG) from None
        finally:
            self._db.set_progress_handler(None)
