"""The store: `open_store` opens it for the daemon, `open_readonly` for a command beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Protocol

import apsw
import structlog
import trio

from gw.errors import StoreUnavailable, one_error
from gw.store import alert_rows, entity_rows, lock, rollups
from gw.store.alert_channel import AlertChannel, OnlySender
from gw.store.batches import write_possible
from gw.store.commit_process import CommitProcess, CommitThread
from gw.store.committer import CommitExecutor, Committer
from gw.store.encodable import is_encodable, line_of, scrubbed
from gw.store.journal import LEAST_BYTES, LIMIT_BYTES, Journal
from gw.store.journal_files import read_lines
from gw.store.journal_replay import noting, replayed_from, replayed_lines
from gw.store.migrations import Progress
from gw.store.query_source import SqliteSource
from gw.store.reader_pool import SqliteReaders
from gw.store.record_counters import Counters
from gw.store.record_database import Readers, Stats
from gw.store.record_reader import RecordReader
from gw.store.recovery import Replayed
from gw.store.report_process import ReportProcess
from gw.store.rollup_versions import BucketVersions
from gw.store.rollups import ModelUsage
from gw.store.sqlite import close_for_another, open_reader, open_writer, prepare_folder, translated
from gw.store.sqlite_records import SqliteRecords, SqliteTarget
from gw.store.writer import GATHER_S, OnCommitted, Writer
from gw.telemetry.clock import Clock, SystemClock
from gw.types.entities import AuditEntry, Stored
from gw.types.ids import Modality
from gw.types.usage import Intent, RequestRecord

log = structlog.get_logger()
_NOBODY: Mapping[str, object] = {}
FIRST_PRUNE_S = 1.0  # after the start, which the process that writes must not delay; the first record starts it, too
CLOSE_S = 5.0  # deadline for the last records; what is not committed by then is replayed at the next start


class Reader(RecordReader):
    """Reads finished requests, and entities created through the API. Every method raises StoreUnavailable."""

    async def entities(self) -> list[Stored]:
        """Return what was created through the API."""
        return await self._readers.read(entity_rows.entities)

    async def usage_by_model(
        self, first_day: int, last_day: int, modality: Modality, providers: Collection[str]
    ) -> list[ModelUsage]:
        """Return units and money per model of these providers; UTC days, both included."""
        return await self._readers.read(rollups.usage_by_model, first_day, last_day, modality, providers)

    async def recorded_days(self, modality: Modality, providers: Collection[str]) -> tuple[int, int] | None:
        """Return the first and the last UTC day with a request of these providers, None without any."""
        return await self._readers.read(rollups.recorded_days, modality, providers)

    async def meta(self, name: str) -> str | None:
        return await self._readers.read(entity_rows.meta, name)

    async def transcripts(self, now: float) -> Sequence[entity_rows.StoredTranscript]:
        """Return the transcripts of recordings that have not expired."""
        return await self._readers.read(entity_rows.transcripts, now)

    async def callbacks(self) -> Sequence[entity_rows.StoredCallback]:
        """Return the callbacks that were neither accepted nor given up."""
        return await self._readers.read(entity_rows.callbacks)

    async def alerts(self, now: float, *, since: float, limit: int) -> alert_rows.AlertState:
        """Return the open incidents and those that ended after `since`, unsent messages and muted rules."""
        return await self._readers.read(alert_rows.read, now, since=since, limit=limit)

    async def audit_log(
        self, limit: int = 50, *, entity_type: str | None = None, entity_id: str | None = None,
        action: str | None = None, before: int | None = None, since: float | None = None, until: float | None = None,
    ) -> Sequence[AuditEntry]:  # fmt: skip
        """Return the newest changes that pass every filter; `before`: the id of the last one on the page before."""
        return await self._readers.read(
            entity_rows.audit_page,
            limit=limit, entity_type=entity_type, entity_id=entity_id, action=action, before=before, since=since, until=until,
        )  # fmt: skip

    async def stats(self) -> Stats:
        return await self._readers.read(self._readers.stats)


class Watcher(Protocol):
    """Receives what is written, on the event loop. Must not block or raise."""

    def began(self, intent: Intent) -> None: ...

    def finished(self, record: RequestRecord) -> None: ...


class Store(Reader):
    """The daemon's store. `intent` and `finish` are single writes, on the event loop's thread only."""

    running_elsewhere: Callable[[], Awaitable[list[Intent]]] | None = None  # requests in other processes of this gateway
    gather_elsewhere: Callable[[], Awaitable[None]] | None = None  # commits what those have recorded until now

    def __init__(
        self, readers: Readers, *, journal: Journal, writer: Writer, file_lock: lock.Lock, replayed: Replayed,
        reports: ReportProcess | None = None, versions: BucketVersions | None = None,
    ) -> None:  # fmt: skip
        """`versions`: of the sums, where others write them too."""
        super().__init__(readers, versions or writer.versions, reports)
        self._journal = journal
        self._writer = writer
        self._file_lock = file_lock
        self.replayed = replayed
        self.commits_first = writer.commits_first
        """With durability "power", an answer's last byte waits for the commit of its record."""
        self.watcher: Watcher | None = None
        self._caught_up_at = -inf  # on trio's clock

    def intent(self, intent: Intent) -> None:
        """Write an intent before an upstream call. Never raises: a fault makes `accepting` False, and the caller decides."""
        try:
            self._journal.intent(scrubbed(intent) if intent.estimate.audio_seconds and not is_encodable(intent.estimate) else intent)
        except ValueError:  # text or a number that no line can hold
            intent = scrubbed(intent)
            self._journal.intent(intent)
        if self._journal.trouble:
            self._writer.wake()
        if self.watcher is not None:
            self.watcher.began(intent)

    def finish(self, record: RequestRecord) -> None:
        """Write a record, once per request, before its last byte. It then survives kill -9. Never raises or blocks."""
        if record.usage.audio_seconds and not is_encodable(record.usage):
            record = scrubbed(record)
        try:
            segment = self._journal.finish(record)
        except ValueError:
            record = scrubbed(record)
            segment = self._journal.finish(record)
        self._writer.put(record, segment)
        if self.watcher is not None:
            self.watcher.finished(record)

    async def running(self) -> list[Intent]:
        """Return the newest intent of each request without a record, read back from the journal."""
        ids, paths = self._journal.open_places()
        intents = await trio.to_thread.run_sync(_newest_intents, ids, paths)
        running = [intents[id_] for id_ in self._journal.open_places()[0] if id_ in intents]
        return running + await self.running_elsewhere() if self.running_elsewhere is not None else running

    async def wait_committed(self, record_id: str) -> None:
        """With durability "power", wait until the record is committed (the caller sets a deadline); else return at once."""
        await self._writer.wait_committed(record_id)

    async def flush(self) -> None:
        """Wait until everything finished so far can be read back. The caller sets a deadline."""
        await self._writer.flush()

    async def catch_up(self) -> None:
        """Do as `flush`, for reports: those in quick succession share commits.

        Each commit takes the interpreter from the requests that are being served. The caller sets a deadline.
        """
        if self.gather_elsewhere is not None:
            await self.gather_elsewhere()
        await self._commit_soon()

    async def _commit_soon(self) -> None:
        counters, finished = self._writer.counters, self._writer.counters.finished
        await trio.sleep_until(self._caught_up_at + GATHER_S)
        if counters.committed + counters.set_aside < finished:
            await self._writer.flush()
            self._caught_up_at = trio.current_time()

    async def add(self, records: Iterable[tuple[RequestRecord, bytes]]) -> None:
        """Commit finished records, each with its line, that another process keeps in its journal until this returns."""
        await self._writer.wait_room()
        for record, line in records:  # each is in the queue before another task can add one
            self._writer.put_line(record.id, line)
            if self.watcher is not None:
                self.watcher.finished(record)
            await self._writer.wait_room()
        await self._commit_soon()

    async def load(self, records: Iterable[RequestRecord]) -> int:
        """Add records from elsewhere, except those with a known id; return how many were new.

        A known record that a replay has ended as `interrupted`, because it knew no better, is replaced and counts as new.

        One transaction, so all or nothing; records that finish meanwhile wait in the journal. `records` is consumed in
        another thread. Raises DatabaseLocked, StoreUnavailable.
        """
        return await self._writer.load(map(line_of, records))

    async def change(self, change: entity_rows.Change) -> None:
        """Write entities changed through the API, with their audit entries: all or nothing.

        Raises DatabaseLocked, StoreUnavailable.
        """
        await self._writer.change(change)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[bool]:
        """Let no other gateway change entities during the block; yield whether others have, since they were read here.

        Raises DatabaseLocked, StoreUnavailable.
        """
        yield False

    async def follow_changes(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Call `changed`, which reads the entities again, after each change by another gateway. Returns if there are no others."""

    @asynccontextmanager
    async def alert_channel(self) -> AsyncIterator[AlertChannel]:
        """Yield what decides which of the gateways with this database sends alerts. Here it is always this one."""
        yield OnlySender(self.change)

    @property
    def changes_lost(self) -> bool:
        """Return whether changes of other gateways may be unknown here."""
        return False

    def set_address(self, url: str) -> None:
        """Write the address of this process into the lock file, for other processes."""
        self._file_lock.set_address(url)

    @property
    def starting(self) -> bool:
        """Return whether the process that writes is not ready yet, so that records take longer to be readable."""
        return self._writer.starting

    @property
    def queue_depth(self) -> int:
        """Finished records not yet in the database."""
        return self._writer.depth

    @property
    def degraded(self) -> str:
        """Description of what is wrong, for people; empty = nothing."""
        return "; ".join(filter(None, (self._journal.trouble, self._writer.lost_database() or self._writer.trouble)))

    @property
    def retention_held(self) -> str:
        """Why fewer old records are deleted than the clock asks for; empty = as many as it asks for."""
        return self._writer.retention_held

    @property
    def accepting(self) -> bool:
        """Return False while a record could be lost, because the journal cannot be written."""
        return not self._journal.trouble

    @property
    def journal_bytes(self) -> int:
        """Size of the journal, which has the records that are not in the database."""
        return self._journal.bytes

    @property
    def journal_limit(self) -> int:
        """Size up to which the journal may grow, in bytes."""
        return self._journal.limit_bytes

    def limit_journal(self, limit_bytes: int) -> None:
        """Let the journal grow up to this size, or up to the least that it needs."""
        self._journal.limit_bytes = max(limit_bytes, LEAST_BYTES)

    @property
    def counters(self) -> Counters:
        return self._writer.counters


@asynccontextmanager
async def open_store(
    path: Path, *, clock: Clock, durability: str = "crash", retention_days: int = 90,
    holder: Mapping[str, object] = _NOBODY, processes: bool = False, on_upgrade: Progress | None = None,
    spares: int = 0, journal_bytes: int = LIMIT_BYTES, on_committed: OnCommitted | None = None,
) -> AsyncIterator[Store]:  # fmt: skip
    """Lock, open, upgrade and replay, then yield the store; commit what is left on exit.

    `holder` adds facts to the lock file; `processes`: write and make reports in processes of their own instead of threads;
    `on_upgrade` is called with the progress of an upgrade; `spares`: segments of the journal to reserve for a full disk;
    `journal_bytes`: limit of the journal; `on_committed` gets the lines of committed records, those that are replayed included.

    Raises DatabaseLocked (another instance, or a foreign writer for 5 s) and
    StoreUnavailable. A bug in the writer ends the caller's block with that error.
    """
    path = prepare_folder(path)
    file_lock = await lock.acquire(path, started=clock.now(), facts=holder)
    try:
        lines = replayed_lines(on_committed)
        db, target, replayed = await trio.to_thread.run_sync(_open, path, on_upgrade, lines)
        if on_committed is not None and lines:
            on_committed(lines)
        executor: CommitExecutor
        if processes:
            await trio.to_thread.run_sync(close_for_another, db, path)
            executor = CommitProcess(target, retention_days, file_lock.fd)
        else:
            executor = CommitThread(Committer(SqliteRecords(db, target), retention_days))
        try:
            journal = Journal(path, spares=spares, limit_bytes=journal_bytes)
            writer = Writer(
                executor, journal=journal, clock=clock, power=durability == "power", first_prune_s=FIRST_PRUNE_S if processes else 0.0,
                on_committed=on_committed,
            )  # fmt: skip
            reports = ReportProcess(SqliteSource(path)) if processes else None
            store = Store(
                SqliteReaders(path, clock), journal=journal, writer=writer, file_lock=file_lock, replayed=replayed, reports=reports
            )
            async with running(store, journal, writer, executor, reports):
                yield store
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await executor.aclose()
    finally:
        file_lock.release()


@asynccontextmanager
async def running(
    store: Store, journal: Journal, writer: Writer, executor: CommitExecutor, reports: ReportProcess | None
) -> AsyncIterator[None]:
    """Run the tasks of an open store; commit what is left on exit, for at most CLOSE_S."""
    try:
        with one_error():
            async with trio.open_nursery() as nursery:
                await nursery.start(writer.run)
                if reports is not None:
                    await nursery.start(reports.run)
                yield
                nursery.cancel_scope.cancel()
    finally:
        # Here and not in the task: the task is cancelled together with the block, the records must not be.
        try:
            if executor.faults.lost() is None:
                with trio.move_on_after(CLOSE_S, shield=True):
                    await writer.drain()
        finally:
            if writer.depth:
                log.warning("usage_records_left_in_journal", records=writer.depth, why=writer.trouble)
            store.close()
            journal.close()


class ReadOnlyStore(Store):
    """A store for reading only, beside a daemon or without one."""

    queue_depth = 0
    journal_bytes = 0
    degraded = ""
    retention_held = ""
    accepting = False

    def __init__(self, readers: Readers) -> None:
        Reader.__init__(self, readers)
        self.watcher = None

    async def change(self, change: entity_rows.Change) -> None:
        """Raise StoreUnavailable."""
        raise StoreUnavailable(what=f"{self._readers.name} is open for reading only")


@asynccontextmanager
async def open_readonly(path: Path, *, clock: Clock | None = None) -> AsyncIterator[ReadOnlyStore]:
    """Open a database that a daemon may hold or not, for reports. Raises StoreUnavailable."""
    await trio.to_thread.run_sync(lambda: open_reader(path).close())
    store = ReadOnlyStore(SqliteReaders(path, clock or SystemClock()))
    try:
        yield store
    finally:
        store.close()


def _open(path: Path, on_upgrade: Progress | None, lines: deque[bytes]) -> tuple[apsw.Connection, SqliteTarget, Replayed]:
    """Open the database, upgrade it, and bring the journal of a killed gateway into it."""
    db = open_writer(path, on_progress=on_upgrade)
    try:
        target = SqliteTarget(path)
        with translated(path):
            replayed = replayed_from(path, noting(partial(write_possible, db), lines))
    except BaseException:
        db.close()
        raise
    return db, target, replayed


def _newest_intents(ids: frozenset[str], segments: Iterable[Path]) -> dict[str, Intent]:
    intents: dict[str, Intent] = {}
    for path in segments:
        with suppress(FileNotFoundError):  # everything in it has finished meanwhile
            for _, line in read_lines(path):
                if isinstance(line, Intent) and line.id in ids:
                    intents[line.id] = line
    return intents
