"""What may be asked of storage. `open_store` is the daemon's door, `open_readonly` that of a command beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Protocol, TypeVar

import apsw
import msgspec
import structlog
import trio

from gw.errors import StoreUnavailable, one_error
from gw.store import entity_rows, lock, requests, rollups_usage
from gw.store.journal import Journal, read_lines
from gw.store.migrations import Progress
from gw.store.record_reader import RecordReader
from gw.store.recovery import Replayed, replay
from gw.store.report_process import ReportProcess
from gw.store.rollups_usage import ModelUsage
from gw.store.sqlite import open_reader, open_writer, prepare_folder, translated
from gw.store.writer import GATHER_S, Counters, Writer
from gw.telemetry.clock import Clock, SystemClock
from gw.types.entities import AuditEntry, Stored
from gw.types.ids import Modality
from gw.types.usage import Intent, RequestRecord, Usage

Line = TypeVar("Line", Intent, RequestRecord)
log = structlog.get_logger()

_NOBODY: Mapping[str, object] = {}
CLOSE_S = 5.0
"""For the last records at the end; what is not committed by then is replayed at the next start."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """`size_bytes` is the database's without its WAL."""

    requests: int
    size_bytes: int
    schema_version: int


class Reader(RecordReader):
    """All that can be read: the past, and what was made through the API. Raises StoreUnavailable."""

    async def entities(self) -> list[Stored]:
        """What was made through the API."""
        return await self._readers.read(entity_rows.entities)

    async def usage_by_model(
        self, first_day: int, last_day: int, modality: Modality, providers: Collection[str]
    ) -> list[ModelUsage]:
        """Units and money per model of these providers; UTC days, both inclusive."""
        return await self._readers.read(
            lambda db: rollups_usage.usage_by_model(db, first_day, last_day, modality, providers)
        )

    async def recorded_days(self, modality: Modality, providers: Collection[str]) -> tuple[int, int] | None:
        """The first and the last UTC day with a request of these providers; None = there is none."""
        return await self._readers.read(lambda db: rollups_usage.recorded_days(db, modality, providers))

    async def meta(self, name: str) -> str | None:
        return await self._readers.read(lambda db: entity_rows.meta(db, name))

    async def audit_log(
        self,
        limit: int = 50,
        *,
        entity_type: str | None = None,
        entity_id: str | None = None,
        action: str | None = None,
        before: int | None = None,
    ) -> Sequence[AuditEntry]:
        """The newest changes that pass every filter; `before`: the id of the last one of the page before."""
        return await self._readers.read(
            lambda db: entity_rows.audit_page(
                db, limit=limit, entity_type=entity_type, entity_id=entity_id, action=action, before=before
            )
        )

    async def stats(self) -> Stats:
        return await self._readers.read(self._stats)

    def _stats(self, db: apsw.Connection) -> Stats:
        return Stats(
            requests=requests.count(db),
            size_bytes=self._path.stat().st_size,
            schema_version=db.pragma("user_version"),
        )


class Watcher(Protocol):
    """Told of what is written, on the event loop. Must not block or raise."""

    def began(self, intent: Intent) -> None: ...

    def finished(self, record: RequestRecord) -> None: ...


class Store(Reader):
    """The daemon's store. `intent` and `finish` are single writes, for the event loop's thread only."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        journal: Journal,
        writer: Writer,
        held: lock.Lock,
        replayed: Replayed,
        apart: ReportProcess | None = None,
    ) -> None:
        super().__init__(path, clock, writer.changes, apart)
        self._journal = journal
        self._writer = writer
        self._held = held
        self.replayed = replayed
        self.commits_first = writer.commits_first
        """Durability "power": an answer's last byte waits for the commit of its record."""
        self.watcher: Watcher | None = None
        self._caught_up_at = -inf
        """On trio's clock."""

    def intent(self, intent: Intent) -> None:
        """Before an upstream call. Never raises: a fault makes `accepting` False; serving on is the caller's choice."""
        try:
            self._journal.intent(intent if _is_sound(intent.estimate) else _scrubbed(intent))
        except ValueError:  # text or a number that no line can hold
            intent = _scrubbed(intent)
            self._journal.intent(intent)
        if self._journal.trouble:
            self._writer.wake()
        if self.watcher is not None:
            self.watcher.began(intent)

    def finish(self, record: RequestRecord) -> None:
        """Once per request, before its last byte. From then on the record survives kill -9. Never raises or blocks."""
        if not _is_sound(record.usage):
            record = _scrubbed(record)
        try:
            segment = self._journal.finish(record)
        except ValueError:
            record = _scrubbed(record)
            segment = self._journal.finish(record)
        self._writer.put(record, segment)
        if self.watcher is not None:
            self.watcher.finished(record)

    async def running(self) -> list[Intent]:
        """What is being called for each request that has no record yet, read back from the journal: for looking only."""
        ids, paths = self._journal.open_places()
        found = await trio.to_thread.run_sync(_newest_intents, ids, paths)
        return [found[id_] for id_ in self._journal.open_places()[0] if id_ in found]

    async def wait_committed(self, record_id: str) -> None:
        """With durability "power" until the record is committed (the caller sets the bound); else returns at once."""
        await self._writer.wait_committed(record_id)

    async def flush(self) -> None:
        """Until everything finished so far can be read back. The caller sets the bound."""
        await self._writer.flush()

    async def catch_up(self) -> None:
        """As `flush`, for reports: those that come in a row share commits, so there are not many more than without them.

        Each commit takes the interpreter from the requests that are being served. The caller sets the bound.
        """
        counters, ended = self._writer.counters, self._writer.counters.finished
        await trio.sleep_until(self._caught_up_at + GATHER_S)
        if counters.committed + counters.set_aside < ended:
            await self._writer.flush()
            self._caught_up_at = trio.current_time()

    async def load(self, records: Iterable[RequestRecord]) -> int:
        """Add records that are no requests of this process, those of an id already there left out; how many were new.

        One transaction, so all or nothing; what is finished meanwhile waits for it in the journal. `records` is
        consumed in another thread. Raises DatabaseLocked, StoreUnavailable.
        """
        return await self._writer.load(records)

    async def change(self, change: entity_rows.Change) -> None:
        """Write what was made or changed through the API, its audit entries with it: all or nothing.

        Raises DatabaseLocked, StoreUnavailable.
        """
        await self._writer.change(change)

    def set_address(self, url: str) -> None:
        """Where other processes reach this one; stands in the lock file."""
        self._held.set_address(url)

    @property
    def queue_depth(self) -> int:
        """Finished records not yet in SQLite."""
        return self._writer.depth

    @property
    def open_intents(self) -> int:
        return self._journal.open_intents

    @property
    def degraded(self) -> str:
        """What is wrong, for people; empty = nothing."""
        return "; ".join(filter(None, (self._journal.trouble, self._writer.trouble)))

    @property
    def accepting(self) -> bool:
        """False while a record could be lost: the journal cannot be written."""
        return not self._journal.trouble

    @property
    def counters(self) -> Counters:
        return self._writer.counters

    @property
    def journal_failures(self) -> int:
        return self._journal.failures

    @property
    def journal_bytes(self) -> int:
        return self._journal.bytes


@asynccontextmanager
async def open_store(
    path: Path,
    *,
    clock: Clock,
    durability: str = "crash",
    retention_days: int = 90,
    holder: Mapping[str, object] = _NOBODY,
    reports_apart: bool = False,
    on_upgrade: Progress | None = None,
) -> AsyncIterator[Store]:
    """Lock, open, upgrade and replay, then yield; commits what is left on exit.

    `holder` adds facts to the lock file; `reports_apart`: in a process of their own; `on_upgrade` is told how far an
    upgrade is. Raises DatabaseLocked (another instance, or a foreign writer for 5 s) and StoreUnavailable. A bug in the
    writer ends the caller's block with that error.
    """
    path = prepare_folder(path)
    held = await lock.acquire(path, started=clock.now(), facts=holder)
    try:
        db = await trio.to_thread.run_sync(partial(open_writer, path, on_progress=on_upgrade))
        try:
            replayed = await trio.to_thread.run_sync(_replay, db, path)
            journal = Journal(path)
            writer = Writer(
                db, path=path, journal=journal, clock=clock, retention_days=retention_days, power=durability == "power"
            )
            apart = ReportProcess(path) if reports_apart else None
            store = Store(path, clock, journal=journal, writer=writer, held=held, replayed=replayed, apart=apart)
            async with _running(store, journal, writer, apart):
                yield store
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await trio.to_thread.run_sync(db.close)
    finally:
        held.release()


@asynccontextmanager
async def _running(store: Store, journal: Journal, writer: Writer, apart: ReportProcess | None) -> AsyncIterator[None]:
    try:
        with one_error():
            async with trio.open_nursery() as nursery:
                await nursery.start(writer.run)
                if apart is not None:
                    await nursery.start(apart.run)
                yield
                nursery.cancel_scope.cancel()
    finally:
        # Here and not in the task: the task is cancelled together with the block, the records must not be.
        try:
            with trio.move_on_after(CLOSE_S, shield=True):
                await writer.drain()
        finally:
            if writer.depth:
                log.warning("usage_records_left_in_journal", records=writer.depth, why=writer.trouble)
            store.close()
            journal.close()


class ReadOnlyStore(Store):
    """A store that answers questions only, beside a daemon or without one. Nothing can be recorded in it."""

    queue_depth = 0
    degraded = ""
    accepting = False

    def __init__(self, path: Path, clock: Clock) -> None:
        Reader.__init__(self, path, clock)
        self.watcher = None

    async def change(self, change: entity_rows.Change) -> None:
        """Raise StoreUnavailable."""
        raise StoreUnavailable(what=f"{self._path} is open for reading only")


@asynccontextmanager
async def open_readonly(path: Path, *, clock: Clock | None = None) -> AsyncIterator[ReadOnlyStore]:
    """Open a database that a daemon may hold or not, for reports. Raises StoreUnavailable."""
    await trio.to_thread.run_sync(lambda: open_reader(path).close())
    store = ReadOnlyStore(path, clock or SystemClock())
    try:
        yield store
    finally:
        store.close()


def _replay(db: apsw.Connection, path: Path) -> Replayed:
    with translated(path):
        found = replay(db, path)
    if found != Replayed():
        log.warning(
            "usage_journal_replayed",
            records=found.records,
            interrupted=found.interrupted,
            unreadable=found.unreadable,
            unwritable=found.unwritable,
        )
    return found


def _newest_intents(ids: frozenset[str], segments: Iterable[Path]) -> dict[str, Intent]:
    found: dict[str, Intent] = {}
    for path in segments:
        with suppress(FileNotFoundError):  # everything in it has been finished meanwhile
            for _, line in read_lines(path):
                if isinstance(line, Intent) and line.id in ids:
                    found[line.id] = line
    return found


def _is_sound(usage: Usage) -> bool:
    """False for the one number of a line that may be infinite: JSON would say null, and the line could not be read."""
    return 0 <= usage.audio_seconds <= requests.LARGEST


def _scrubbed(line: Line) -> Line:
    """With what a line cannot carry replaced: lone surrogates from a caller's header, infinity, endless numbers."""
    return msgspec.convert(requests.clean(msgspec.to_builtins(line)), type(line))
