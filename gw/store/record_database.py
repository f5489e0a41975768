"""Interfaces of a database: writing for the store's one writer, and readers for its reports.

SQLite's are `gw.store.sqlite_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import msgspec

from gw.store.core_share import BetweenSteps, keep_the_core
from gw.store.entity_rows import Change
from gw.store.sql_connection import SqlConnection
from gw.types.usage import RequestRecord

P = ParamSpec("P")
T = TypeVar("T")
Refused = list[tuple[RequestRecord, Exception]]
"""Records that cannot be written, with their faults."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """`size_bytes` is the database's, SQLite's without its WAL."""

    requests: int
    size_bytes: int
    schema_version: int


class DatabaseFaults(Protocol):
    """The gateway's view of a database that another thread or process writes to. Quick: the event loop calls it."""

    transient: tuple[type[Exception], ...]
    """Faults of the disk, the network or another program: retrying is right, and no record is lost meanwhile."""

    def describe(self, error: Exception) -> str:
        """Return one line for people about a transient fault."""

    def lost(self) -> Exception | None:
        """Return why the database is not the one that was opened, None if it is."""


class RecordDatabase(DatabaseFaults, Protocol):
    """The side that writes. Methods block; all but those of DatabaseFaults and `tidy` run in the one thread that writes."""

    def write(self, records: Sequence[RequestRecord], between: BetweenSteps = keep_the_core) -> tuple[int, Refused]:
        """Insert records and their rollups; return how many were new, and those that cannot be written.

        Repeating it changes nothing. `between`: called often, where the work takes the core for long.
        """

    def load(self, records: Sequence[RequestRecord]) -> int:
        """Insert records from elsewhere, all or nothing; return how many were new. Raises DatabaseLocked, StoreUnavailable."""

    def change(self, change: Change) -> None:
        """Apply a change of entities, all or nothing. Raises DatabaseLocked, StoreUnavailable."""

    def run(self, work: Callable[[SqlConnection], T]) -> T:
        """Return what `work` returns for the writing connection."""

    def prune(self, *, before: float, limit: int, between: BetweenSteps = keep_the_core) -> int:
        """Delete records older than `before` (Unix seconds), at most `limit` of them or a day's; return how many."""

    def tidy(self, *, idle: bool) -> Callable[[], object] | None:
        """Return work that keeps the database fast, if some is due; None otherwise. `idle`: no record waits. Quick."""

    def close(self) -> None:
        """Close the connection. If the database is lost, no files of another one are touched."""


class DatabaseTarget(DatabaseFaults, Protocol):
    """A database to be opened by the process that writes, to which this goes as a pickle."""

    def open(self) -> RecordDatabase:
        """Open the database, which the gateway has opened and upgraded before, to write. Raises transient faults."""


class Readers(Protocol):
    """The readers' side: connections for queries, in threads."""

    name: str
    """The database in messages, without credentials."""

    async def read(self, query: Callable[Concatenate[SqlConnection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `query(connection, …)` in a thread. A cancelled caller returns at once. Raises StoreUnavailable."""

    def stats(self, db: SqlConnection) -> Stats:
        """Return the size of the database. Runs in a reader's thread."""

    def close(self) -> None:
        """Close the idle connections."""
