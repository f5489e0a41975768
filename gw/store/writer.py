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
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec
import structlog
import trio

from gw.errors import DatabaseLocked, StoreUnavailable
from gw.store.batches import BATCH
from gw.store.committer import CommitExecutor, Committed, Committer, Cutoff, ProcessEnded, unlink
from gw.store.entity_rows import Change
from gw.store.journal import Journal, Segment
from gw.store.journal_files import read_record_lines
from gw.store.record_counters import Counters
from gw.store.record_log import log_safely, log_unwritable_line
from gw.store.rollup_versions import RollupVersions
from gw.telemetry.clock import Clock
from gw.types.usage import RequestRecord

P = ParamSpec("P")
T = TypeVar("T")
OnCommitted = Callable[[Sequence[bytes]], object]
"""Receives the lines of committed records, on the event loop. Must not block or raise."""
Complete = Callable[[Iterable[tuple[str, bytes]]], list[bytes]]
log = structlog.get_logger()

QUEUED = 1_000  # finished records waiting for the disk, about 1 KB each; when full, they wait in the journal; no request waits
GATHER_S = 0.05  # records of this period share a commit, which costs a page of every index; the journal already has them
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
CHANGE_PAUSES_S = (0.1, 0.2, 0.4)  # between attempts of a change, while its caller waits
PROBE_S = 1.0  # between two checks whether the journal can be written again
PRUNE_EVERY_S = 3600.0
SPARES_EVERY_S = 10.0  # between two attempts to reserve spare segments, after records were written
_PRUNE_ROWS = 2_000  # in one transaction, so that records wait briefly


class _Waiting(NamedTuple):
    """A finished record: its line, and the segment that has the line, None = no segment has it."""

    id: str
    line: bytes
    segment: Segment | None
    is_again: bool = False
    """Whether it is committed already, and has got a turn."""


class Writer:
    """Decides when what is written. `put` and the counters are used on the event loop; SQL runs where `executor` says."""

    def __init__(
        self, executor: CommitExecutor, *, journal: Journal, clock: Clock, power: bool, first_prune_s: float = 0.0,
        on_committed: OnCommitted | None = None,
    ) -> None:  # fmt: skip
        """`first_prune_s`: time from now until old records are deleted for the first time. `on_committed` gets each batch."""
        self._on_committed = on_committed
        self.complete: Complete | None = None
        """Returns the lines of records, given by id and line, with what has become known of them since."""
        self._executor = executor
        self._looked_at = -math.inf
        self._journal = journal
        self._clock = clock
        self.retention_held = ""
        """Reason for deleting fewer old records than the clock asks for; empty = as many as it asks for."""
        self._changing = trio.Lock()
        self._queue: deque[_Waiting] = deque()
        self._batch: list[_Waiting] = []
        self._finished: list[Path] = []
        self._behind: tuple[Segment, int] | None = None
        self._commit_events: dict[str, trio.Event] | None = {} if power else None
        self._due = trio.Event()
        self._sleeping: trio.CancelScope | None = None
        self._flushing = 0
        self._progress = trio.Event()
        self._spares_due = trio.current_time()
        self._prune_due = self._spares_due + first_prune_s
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
        """Take over the record that the journal has finished last, in `segment`, None = in none. Never blocks or raises."""
        full = len(self._queue) >= QUEUED
        if segment is not None and (full or self._behind is not None):
            if self._behind is None:
                self._behind = (segment, self._journal.last_offset)
            self._waiting_in_journal += 1
            self.counters.spilled += 1
        elif not full:
            self._queue.append(_Waiting(record.id, self._journal.record_line, segment))
        else:
            self.counters.dropped += 1
            log_safely(log.error, "usage_record_dropped", why=self._journal.trouble, record=msgspec.to_builtins(record))
            return
        self._count_finished(record.id)

    def _count_finished(self, id_: str) -> None:
        self.counters.finished += 1
        if self._commit_events is not None:
            self._commit_events[id_] = trio.Event()
        self._wake_for_record()

    def _wake_for_record(self) -> None:
        waiting = len(self._queue)
        if waiting >= BATCH or self._commit_events is not None:
            self._due.set()
        elif waiting == 1 and self._sleeping is not None:  # not woken now: there is nothing to do until then
            self._sleeping.deadline = min(self._sleeping.deadline, trio.current_time() + GATHER_S)

    def put_line(self, id_: str, line: bytes) -> None:
        """Take over a finished record of another process, which keeps it until it is committed. `depth` must be below QUEUED."""
        self._queue.append(_Waiting(id_, line, None))
        self._count_finished(id_)

    def put_again(self, id_: str, line: bytes) -> None:
        """Take over a record that is committed already and has a turn since. It is left out while too many records wait."""
        if self.depth >= QUEUED:
            log_safely(log.info, "turn_not_stored", request_id=id_)
        else:
            self._queue.append(_Waiting(id_, line, None, is_again=True))
            self.counters.finished += 1
            self._wake_for_record()

    async def wait_room(self) -> None:
        """Wait until there is room for another process's record."""
        while self.depth >= QUEUED:
            await self.flush()

    @property
    def starting(self) -> bool:
        """Return whether the next commit has to wait for a process to start."""
        return self._executor.starting

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

    async def load(self, lines: Iterable[bytes]) -> int:
        """Insert records that were never in the journal, in one transaction; return how many were new or replaced a made-up end.

        `lines` is consumed in a thread. All or nothing: raises DatabaseLocked, StoreUnavailable.
        """
        encoded = await trio.to_thread.run_sync(list, lines)
        try:
            committed = await self._executor.run(Committer.load, encoded)
        except ProcessEnded as error:
            raise StoreUnavailable(what=self._describe(error)) from error
        self.versions.note(committed.hours)
        return committed.new

    async def change(self, change: Change) -> None:
        """Apply a change, all or nothing; wait briefly for a foreign writer. Raises DatabaseLocked, StoreUnavailable."""
        name = os.urandom(8).hex() if self._executor.resends else ""
        async with self._changing:  # no later one in between, so that one that is sent again is recognized by its name
            for pause_s in CHANGE_PAUSES_S:
                with suppress(DatabaseLocked, ProcessEnded):
                    return await self._executor.run(Committer.change, change, name)
                await trio.sleep(pause_s)
            try:
                return await self._executor.run(Committer.change, change, name)
            except ProcessEnded as error:
                raise StoreUnavailable(what=self._describe(error)) from error

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
            self._batch = self._completed(await self._next_batch())
        if self._batch:
            await self._commit()
            return True
        return False

    def _completed(self, batch: list[_Waiting]) -> list[_Waiting]:
        if self.complete is None or not batch:
            return batch
        lines = self.complete([(waiting.id, waiting.line) for waiting in batch])
        return [waiting._replace(line=line) for waiting, line in zip(batch, lines, strict=True)]

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

    async def _next_batch(self) -> list[_Waiting]:
        if not self._queue and self._behind is not None:
            return await self._catch_up(*self._behind)
        return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]

    async def _catch_up(self, segment: Segment, offset: int) -> list[_Waiting]:
        """Read on in the journal; at its end, return to the queue."""
        while True:
            if segment.n in self._journal.segments:  # else it is finished, and perhaps unlinked
                read = partial(read_record_lines, segment.path, offset, BATCH)
                lines, offset = await trio.to_thread.run_sync(read)
                if lines:
                    self._waiting_in_journal -= len(lines)
                    self._behind = (segment, offset) if self._waiting_in_journal else None
                    return [_Waiting(id_, line, segment) for id_, line in lines]
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
        lines = [waiting.line for waiting in self._batch]
        pause = FIRST_PAUSE_S
        while (committed := await self._try(Committer.commit, lines, self._no_longer_needed())) is None:
            self.counters.retries += 1
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
            if self._journal.trouble:
                self._journal.probe()
        self._acknowledge(committed)
        await self._tidy(idle=False)

    def _acknowledge(self, committed: Committed) -> None:
        """Let go of the batch: its records are in the database, or are logged because they can never be."""
        for waiting in self._batch:
            if not waiting.is_again:
                self._journal.committed(waiting.id, waiting.segment)
            if self._commit_events is not None and (event := self._commit_events.pop(waiting.id, None)) is not None:
                event.set()
        if self._on_committed is not None:
            self._on_committed([waiting.line for waiting in self._batch if not waiting.is_again])
        count, self._batch = len(self._batch), []
        self._finished = []
        for line, why in committed.refused:
            log_unwritable_line(line, why)
        self.counters.set_aside += len(committed.refused)
        self.versions.note(committed.hours)
        self._count(count - len(committed.refused))

    def _no_longer_needed(self) -> Sequence[Path]:
        """Return the journal's segments to unlink with the next commit; they are listed until it is acknowledged."""
        self._finished += self._journal.take_finished()
        return self._finished

    def lost_database(self) -> str:
        """Return why the database is not the one that was opened, "" if it is; look once in PROBE_S, also while nothing is written."""
        now = trio.current_time()
        if now >= self._looked_at + PROBE_S:
            self._looked_at = now
            error = self._executor.faults.lost()
            self._gone = "" if error is None else self._degraded(self._describe(error))
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
            await trio.to_thread.run_sync(self._journal.spares.fill)
        if trio.current_time() >= self._prune_due:
            await self._prune()

    async def _prune(self) -> None:
        cutoff = await self._try(Committer.cutoff, self._clock.now(), trio.current_time())
        if cutoff is None:
            return
        self._note_held(cutoff)
        deleted = _PRUNE_ROWS
        while deleted == _PRUNE_ROWS:
            # A row stays while the journal has a line about it: replaying that line must find the row.
            self._journal.rotate_if_older(cutoff.before)
            result = await self._try(Committer.prune, min(cutoff.before, self._journal.oldest), _PRUNE_ROWS)
            if result is None:
                return
            deleted = result
            self.counters.pruned += deleted
            await self.drain()
        await trio.to_thread.run_sync(unlink, self._no_longer_needed())
        self._finished = []
        self._prune_due = trio.current_time() + PRUNE_EVERY_S

    def _note_held(self, cutoff: Cutoff) -> None:
        if cutoff.why_held and not self.retention_held:
            log_safely(log.warning, "retention_held", clock_ahead_days=cutoff.ahead_days)
        elif self.retention_held and not cutoff.why_held:
            log_safely(log.info, "retention_resumed")
        self.retention_held = cutoff.why_held

    async def _try(self, work: Callable[Concatenate[Committer, P], T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Run a method of the committer; return None after a transient fault, which `trouble` then describes."""
        transient: tuple[type[Exception], ...] = (ProcessEnded, *self._executor.faults.transient)
        try:
            result = await self._executor.run(work, *args, **kwargs)
        except transient as error:
            self.trouble = self._degraded(self._describe(error))
            return None
        if self._reported:
            log_safely(log.info, "usage_store_recovered", waiting=self.depth)
            self.trouble = self._reported = ""
        return result

    async def _tidy(self, *, idle: bool) -> None:
        if self._executor.tidy_due(idle=idle):
            await self._try(Committer.tidy, idle=idle)

    def _describe(self, error: Exception) -> str:
        if isinstance(error, ProcessEnded):
            return f"records wait in the journal: {error}; it is started again"
        return self._executor.faults.describe(error)

    def _degraded(self, why: str) -> str:
        """Log what is wrong, once until it changes, and return it."""
        if why != self._reported:
            log_safely(log.warning, "usage_store_degraded", why=why, waiting=self.depth)
        self._reported = why
        return why
