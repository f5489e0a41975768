"""Everything that writes to the database: `Committer`, which owns a `RecordDatabase`, the one writing connection.

The gateway's `Writer` decides when something is written, a committer writes it. Between the two is a `CommitExecutor`, which runs a
method of the committer elsewhere: in a thread (`CommitThread`), or in a process of its own (`CommitProcess`). So what crosses that
seam is plain: lines of the journal as bytes go in, a `Committed` comes out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import msgspec

from gw.store.batches import describe_fault
from gw.store.core_share import BetweenSteps, give_way, keep_the_core
from gw.store.entity_rows import Change, meta
from gw.store.record_database import DatabaseFaults, RecordDatabase
from gw.store.record_lines import decode_record
from gw.store.requests import bounded_float
from gw.store.retention import Retention
from gw.store.sql_connection import SqlConnection
from gw.telemetry.clock import utc_hour
from gw.types.usage import RequestRecord

P = ParamSpec("P")
T = TypeVar("T")

_LAST_CHANGE = "last_change"


class Committed(msgspec.Struct, frozen=True):
    """Acknowledgement of lines: all of them are in the database, or can never be.

    `new`: how many records were not there before. `refused`: (line, why) of those that the database does not accept. `hours`: the
    hours (UTC, since 1970) of the records.
    """

    new: int
    refused: tuple[tuple[bytes, str], ...]
    hours: frozenset[int]


class Cutoff(msgspec.Struct, frozen=True):
    """The time before which records may be deleted, and why it is not as late as the clock says; see `Retention`."""

    before: float
    why_held: str
    ahead_days: float


class CommitExecutor(Protocol):
    """Runs methods of a committer elsewhere, one after the other."""

    faults: DatabaseFaults
    resends: bool
    """True if a change may have to be sent again without knowing if it was applied, and so needs a name."""

    @property
    def starting(self) -> bool:
        """Return whether the next method has to wait for a process to start."""

    def tidy_due(self, *, idle: bool) -> bool:
        """Return whether `Committer.tidy` has something to do."""

    async def run(self, work: Callable[Concatenate[Committer, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method. Once it is begun it is waited for, also by a caller that is cancelled.

        Raises what the method raises, and ProcessEnded.
        """

    async def aclose(self) -> None:
        """Close the database. The caller sets a deadline."""


class ProcessEnded(Exception):
    """The process that writes ended, or was ended, before it answered: what it was to write may be written or not."""


class Committer:
    """Every method blocks, and is called by one thread. Raises the database's faults.

    `offers_core`: it has a process of its own, which lets requests have the core. A thread would do so while it holds the interpreter.
    """

    def __init__(self, database: RecordDatabase, retention_days: int, *, offers_core: bool = False) -> None:
        self.database = database
        self._offers_core = offers_core
        self._retention = Retention(retention_days)

    def commit(self, lines: Sequence[bytes], finished: Sequence[Path] = ()) -> Committed:
        """Write the records of these lines that are not there yet, in one transaction. Repeating it changes nothing.

        `finished`: segments of the journal that are no longer needed; they are unlinked.
        """
        unlink(finished)
        between = self._between()
        records, refused = _decode(lines, between)
        line_of = {id(record): line for record, line in records}
        new, unwritable = self.database.write([record for record, _ in records], between)
        refused += [(line_of[id(record)], describe_fault(error)) for record, error in unwritable]
        return Committed(new, tuple(refused), _hours(record for record, _ in records))

    def load(self, lines: Sequence[bytes]) -> Committed:
        """Write records that were never in this journal, in one transaction, all or nothing.

        `new` counts those too that take the place of an end made up by a replay. Raises ValueError for an unreadable line,
        DatabaseLocked, StoreUnavailable.
        """
        records = [decode_record(line) for line in lines]
        return Committed(self.database.load(records), (), _hours(records))

    def change(self, change: Change, name: str) -> None:
        """Apply a change, all or nothing. A named one is left out if the last one has the same name: it was sent twice.

        Raises DatabaseLocked, StoreUnavailable.
        """
        if name and self.database.run(_last_change) == name:
            return
        named = (*change.meta, (_LAST_CHANGE, name)) if name else change.meta
        self.database.change(msgspec.structs.replace(change, meta=named))

    def cutoff(self, now: float, monotonic: float) -> Cutoff:
        """Return before which time records may be deleted, and store how far retention has come."""
        before = self.database.run(lambda db: self._retention.cutoff(db, now, monotonic))
        return Cutoff(before, self._retention.why_held, self._retention.ahead_days)

    def prune(self, before: float, limit: int) -> int:
        """Delete records older than `before`, about `limit` of them; return how many."""
        return self.database.prune(before=before, limit=limit, between=self._between())

    def tidy(self, *, idle: bool) -> None:
        """Do what keeps the database fast, if it is due. `idle`: no record waits."""
        if (work := self.database.tidy(idle=idle)) is not None:
            work()

    def close(self) -> None:
        self.database.close()

    def _between(self) -> BetweenSteps:
        return give_way() if self._offers_core else keep_the_core


def _last_change(db: SqlConnection) -> str | None:
    return meta(db, _LAST_CHANGE)


def unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # replaying it again changes nothing
            os.unlink(path)


def _decode(lines: Sequence[bytes], between: BetweenSteps) -> tuple[list[tuple[RequestRecord, bytes]], list[tuple[bytes, str]]]:
    records: list[tuple[RequestRecord, bytes]] = []
    refused: list[tuple[bytes, str]] = []
    for line in lines:
        between()
        try:
            records.append((decode_record(line), line))
        except (ValueError, RecursionError) as error:
            refused.append((line, describe_fault(error)))
    return records, refused


def _hours(records: Iterable[RequestRecord]) -> frozenset[int]:
    return frozenset(utc_hour(bounded_float(record.timestamp)) for record in records)
