"""The one writer: takes finished records to the database, as fast as it commits and no faster.

Group commit: a record waits GATHER_S for others to share its commit, unless something waits for it or BATCH of them are
there. The writer wakes only when that time is over.

The queue is bounded. When it is full, records stay in the journal, and the writer remembers the place from which to read them
back; while it is behind, later records wait there too, so order is preserved and memory stays flat. Only a record that neither
the journal nor the queue can take is lost, and it is logged completely.

    idle ──record──▶ gathering ──GATHER_S, BATCH or flush──▶ committing ──▶ idle
      │                                                         │ fault of the disk: retry, longer and longer apart
      └──PRUNE_EVERY_S, WAL too long──▶ maintenance             │ fault of a record: halve the batch, set the record aside
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import attrs
import msgspec
import structlog
import trio

from gw.errors import DatabaseLocked
from gw.store.batches import log_safely, log_unwritable
from gw.store.entity_rows import Change
from gw.store.journal import Journal, Segment, read_records
from gw.store.record_database import RecordDatabase
from gw.store.retention import Retention
from gw.store.rollup_versions import RollupVersions
from gw.telemetry.clock import Clock
from gw.types.usage import RequestRecord

T = TypeVar("T")
log = structlog.get_logger()

QUEUED = 1_000  # finished records waiting for the disk, about 2 KB each; when full, they wait in the journal; no request waits
BATCH = 500  # records in one transaction, about 20 ms of work
GATHER_S = 0.05  # records of this period share a commit, which costs a page of every index; the journal already has them
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
CHANGE_PAUSES_S = (0.1, 0.2, 0.4)  # between attempts of a change, while its caller waits
PROBE_S = 1.0  # between two checks whether the journal can be written again
PRUNE_EVERY_S = 3600.0
SPARES_EVERY_S = 10.0  # between two attempts to reserve spare segments, after records were written
_PRUNE_ROWS = 2_000  # in one transaction, so that records wait briefly


@attrs.define
class Counters:
    """Records since the start. `finished` = committed + set aside + still waiting; `dropped` are not counted in it."""

    finished: int = 0
    committed: int = 0
    spilled: int = 0
    dropped: int = 0
    set_aside: int = 0
    retries: int = 0
    pruned: int = 0


class Writer:
    """Owns the writing connection. `put` and the counters are used on the event loop, SQL runs in the writer's one thread."""

    def __init__(
        self, database: RecordDatabase, *, journal: Journal, clock: Clock, retention_days: int, power: bool
    ) -> None:
        self._database = database
        self._looked_at = -math.inf
        self._journal = journal
        self._clock = clock
        self.retention = Retention(retention_days)
        self._limiter = trio.CapacityLimiter(1)
        self._queue: deque[tuple[RequestRecord, Segment | None]] = deque()
        self._batch: list[tuple[RequestRecord, Segment | None]] = []
        self._behind: tuple[Segment, int] | None = None
        self._commit_events: dict[str, trio.Event] | None = {} if power else None
        self._due = trio.Event()
        self._sleeping: trio.CancelScope | None = None
        self._flushing = 0
        self._progress = trio.Event()
        self._prune_due = self._spares_due = trio.current_time()
        self._broken = False
        self._waiting_in_journal = 0
        self.counters = Counters()
        self.versions = RollupVersions()
        self.trouble = ""
        self._gone = ""
        self._reported = ""

    @property
    def depth(self) -> int:
        """Finished records not yet in the database."""
        return len(self._queue) + len(self._batch) + self._waiting_in_journal

    def wake(self) -> None:
        self._due.set()

    def put(self, record: RequestRecord, segment: Segment | None) -> None:
        """Take over a finished record; `segment` has its journal line, None = it has none. Never blocks or raises."""
        full = len(self._queue) >= QUEUED
        if segment is not None and (full or self._behind is not None):
            if self._behind is None:
                self._behind = (segment, self._journal.last_offset)
            self._waiting_in_journal += 1
            self.counters.spilled += 1
        elif not full:
            self._queue.append((record, segment))
        else:
            self.counters.dropped += 1
            log_safely(log.error, "usage_record_dropped", why=self._journal.trouble, record=msgspec.to_builtins(record))
            return
        self.counters.finished += 1
        if self._commit_events is not None:
            self._commit_events[record.id] = trio.Event()
        waiting = len(self._queue)
        if waiting >= BATCH or self._commit_events is not None:
            self._due.set()
        elif waiting == 1 and self._sleeping is not None:  # not woken now: there is nothing to do until then
            self._sleeping.deadline = min(self._sleeping.deadline, trio.current_time() + GATHER_S)

    @property
    def commits_first(self) -> bool:
        return self._commit_events is not None

    async def wait_committed(self, record_id: str) -> None:
        """With durability "power": wait until the record is committed, for as long as that takes."""
        if self._commit_events is not None and (event := self._commit_events.get(record_id)) is not None:
            await event.wait()

    async def flush(self) -> None:
        """Wait until everything finished so far is committed, for as long as that takes."""
        await trio.lowlevel.checkpoint()
        target = self.counters.finished
        self._flushing += 1
        self._due.set()
        try:
            while self.counters.committed + self.counters.set_aside < target:
                await self._progress.wait()
        finally:
            self._flushing -= 1

    async def load(self, records: Iterable[RequestRecord]) -> int:
        """Insert records that were never in the journal, in one transaction; return how many were new or replaced a made-up end.

        `records` is consumed in the writer's thread. All or nothing: raises DatabaseLocked, StoreUnavailable.
        """

        def insert() -> tuple[int, list[RequestRecord]]:
            batch = list(records)
            return self._database.load(batch), batch

        new, batch = await self._in_thread(insert)
        self.versions.note(batch)
        return new

    async def change(self, change: Change) -> None:
        """Apply a change, all or nothing; wait briefly for a foreign writer. Raises DatabaseLocked, StoreUnavailable."""
        apply = partial(self._database.change, change)
        # Not `_in_thread`: the caller may be cancelled while it waits, and the journal's finished files belong to `run`.
        for pause_s in CHANGE_PAUSES_S:
            with suppress(DatabaseLocked):
                return await trio.to_thread.run_sync(apply, limiter=self._limiter)
            await trio.sleep(pause_s)
        return await trio.to_thread.run_sync(apply, limiter=self._limiter)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Commit and prune until cancelled.

        Faults of the disk are retried, a record that cannot be written is set aside; a bug of ours ends the daemon.
        """
        task_status.started()
        try:
            while True:
                await self._commit_next()
                await self._maintain()
                await self._wait()
        except Exception:
            self._broken = True
            raise

    async def drain(self) -> None:
        """Commit all records. Also called when the task has ended, to leave nothing for a replay."""
        while not self._broken and await self._commit_next():
            pass

    async def _commit_next(self) -> bool:
        """Commit one batch; return False without one."""
        if not self._batch:
            self._batch = await self._next_batch()
        if self._batch:
            await self._commit()
            return True
        return False

    async def _wait(self) -> None:
        """Wait until maintenance is due; if records wait, only a moment for others that can share their commit."""
        waiting = len(self._queue)
        if self.depth and (not waiting or waiting >= BATCH or self._flushing or self._commit_events is not None):
            return
        now = trio.current_time()
        until = now + PROBE_S if self._journal.trouble or self.trouble else max(now, self._prune_due)
        self._due = trio.Event()
        with trio.CancelScope(deadline=min(until, now + GATHER_S) if waiting else until) as self._sleeping:
            await self._due.wait()
        self._sleeping = None
        if self._journal.trouble:
            self._journal.probe()

    async def _next_batch(self) -> list[tuple[RequestRecord, Segment | None]]:
        if not self._queue and self._behind is not None:
            return await self._catch_up(*self._behind)
        return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]

    async def _catch_up(self, segment: Segment, offset: int) -> list[tuple[RequestRecord, Segment | None]]:
        """Read on in the journal; at its end, return to the queue."""
        while True:
            if segment.n in self._journal.segments:  # else it is finished, and perhaps unlinked
                records, offset = await self._in_thread(partial(read_records, segment.path, offset, BATCH))
                if records:
                    self._waiting_in_journal -= len(records)
                    self._behind = (segment, offset) if self._waiting_in_journal else None
                    return [(record, segment) for record in records]
                if offset < segment.size:  # written while we read
                    continue
            later = [n for n in self._journal.segments if n > segment.n]
            if not later:
                break
            segment, offset = self._journal.segments[min(later)], 0
        self._behind = None
        self._waiting_in_journal = 0
        if not self._queue:  # do not wait for a line that could not be read back
            self._count(self.counters.finished - self.counters.committed - self.counters.set_aside)
        return []

    async def _commit(self) -> None:
        records = [record for record, _ in self._batch]
        pause = FIRST_PAUSE_S
        while (written := await self._try(partial(self._database.write, records))) is None:
            self.counters.retries += 1
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
            if self._journal.trouble:
                self._journal.probe()
        for record, segment in self._batch:
            self._journal.committed(record.id, segment)
            if self._commit_events is not None and (event := self._commit_events.pop(record.id, None)) is not None:
                event.set()
        self._batch = []
        _, refused = written
        for record, error in refused:
            log_unwritable(record, error)
        self.counters.set_aside += len(refused)
        self.versions.note(records)
        self._count(len(records) - len(refused))
        await self._tidy(idle=False)

    def lost_database(self) -> str:
        """Return why the database is not the one that was opened, "" if it is; look once in PROBE_S, also while nothing is written."""
        now = trio.current_time()
        if now >= self._looked_at + PROBE_S:
            self._looked_at = now
            error = self._database.lost()
            self._gone = "" if error is None else self._degraded(self._database.describe(error))
        return self._gone

    def _count(self, committed: int) -> None:
        self.counters.committed += committed
        self._progress.set()
        self._progress = trio.Event()

    async def _maintain(self) -> None:
        """Tidy and prune when due; after a fault, again after PROBE_S."""
        await self._tidy(idle=True)
        if self._journal.spares.missing and trio.current_time() >= self._spares_due:
            self._spares_due = trio.current_time() + SPARES_EVERY_S
            await self._in_thread(self._journal.spares.fill)
        if trio.current_time() < self._prune_due:
            return
        now, monotonic = self._clock.now(), trio.current_time()
        cutoff = await self._try(partial(self._database.run, lambda db: self.retention.cutoff(db, now, monotonic)))
        if cutoff is None:
            return
        deleted = _PRUNE_ROWS
        while deleted == _PRUNE_ROWS:
            # A row stays while the journal has a line about it: replaying that line must find the row.
            self._journal.rotate_if_older(cutoff)
            before = min(cutoff, self._journal.oldest)
            result = await self._try(partial(self._database.prune, before=before, limit=_PRUNE_ROWS))
            if result is None:
                return
            deleted = result
            self.counters.pruned += deleted
            await self.drain()
        self._prune_due = trio.current_time() + PRUNE_EVERY_S

    async def _tidy(self, *, idle: bool) -> None:
        if (work := self._database.tidy(idle=idle)) is not None:
            await self._try(work)

    async def _try(self, work: Callable[[], T]) -> T | None:
        """Run SQL in the thread; return None after a transient fault, which `trouble` then describes."""
        try:
            result = await self._in_thread(work)
        except self._database.transient as error:
            self.trouble = self._degraded(self._database.describe(error))
            return None
        if self._reported:
            log_safely(log.info, "usage_store_recovered", waiting=self.depth)
            self.trouble = self._reported = ""
        return result

    def _degraded(self, why: str) -> str:
        """Log what is wrong, once until it changes, and return it."""
        if why != self._reported:
            log_safely(log.warning, "usage_store_degraded", why=why, waiting=self.depth)
        self._reported = why
        return why

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run `work`, even if cancelled: a commit is either known to have happened or known not to."""
        await trio.lowlevel.checkpoint_if_cancelled()  # here, or the files below would not be unlinked
        finished = self._journal.take_finished()

        def unlink_and_work() -> T:
            for path in finished:
                with suppress(OSError):  # replaying it again changes nothing
                    path.unlink()
            return work()

        return await trio.to_thread.run_sync(unlink_and_work, limiter=self._limiter)
