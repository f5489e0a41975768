"""Sends the finished records of a worker process to the process that writes the database, straight from the worker's journal.

    journal line ──GATHER_S──▶ batch ──send──▶ outstanding ──committed──▶ its lines are released

The journal is the queue: what was not sent is read from it, so memory stays flat, however long nobody takes the records. Only a record
that the journal could not take waits in memory.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs
import msgspec
import structlog
import trio

from gw.store.journal import Journal, Segment
from gw.store.record_counters import Counters
from gw.store.record_lines import INTENT, RECORD, encode_record
from gw.store.record_log import log_safely
from gw.store.rollup_versions import RollupVersions
from gw.store.writer import GATHER_S, PROBE_S, QUEUED, SPARES_EVERY_S
from gw.types.usage import RequestRecord

BATCH_BYTES = 256 * 1024
"""Part of the journal in one batch: about 300 records."""
MOST_OUTSTANDING = 8
"""Batches that are sent and not committed; then the journal waits."""

log = structlog.get_logger()


@attrs.frozen
class SentBatch:
    """Lines of the journal. `segment` and `end`: up to where in the journal everything was sent; 0 for records that it could not take."""

    number: int
    segment: int
    end: int
    records: bytes
    intents: bytes


@attrs.frozen
class _Outstanding:
    number: int
    ids: tuple[str, ...]
    """Ids of records whose commit somebody waits for, or that the journal could not take."""
    segment: Segment | None
    count: int


class RecordSender:
    """In a worker, in place of the `Writer`. `put` is called on the event loop; `run` sends until it is cancelled."""

    def __init__(self, journal: Journal, send: Callable[[SentBatch], bool], *, power: bool) -> None:
        """`send` sends a batch and returns whether there is somebody to send it to."""
        self._journal = journal
        self._send = send
        self._number = 0
        self._segment, self._offset = journal.current, 0
        self._unjournaled: deque[RequestRecord] = deque()
        self._outstanding: deque[_Outstanding] = deque()
        self._commit_events: dict[str, trio.Event] | None = {} if power else None
        self._ids: deque[str] = deque()  # of journaled records that were not sent, with durability "power"
        self._sleeping: trio.CancelScope | None = None
        self._progress = trio.Event()
        self._spares_due = trio.current_time()
        self.counters = Counters()
        self.versions = RollupVersions()
        self.trouble = ""
        self.sends_intents = False
        """Whether somebody watches what begins."""

    @property
    def commits_first(self) -> bool:
        return self._commit_events is not None

    @property
    def depth(self) -> int:
        """Finished records that are not committed."""
        return self.counters.finished - self.counters.committed

    retention_held = ""

    def lost_database(self) -> str:
        """Return "": this process has none to lose."""
        return ""

    def wake(self) -> None:
        """Look after the journal soon: it is in trouble."""
        self._sleep_until(trio.current_time() + GATHER_S)

    def put(self, record: RequestRecord, segment: Segment | None) -> None:
        """Take over a finished record; `segment` has its journal line, None = it has none. Never blocks or raises."""
        if segment is None:
            if len(self._unjournaled) >= QUEUED:
                self.counters.dropped += 1
                log_safely(log.error, "usage_record_dropped", why=self._journal.trouble, record=msgspec.to_builtins(record))
                return
            self._unjournaled.append(record)
        self.counters.finished += 1
        until = trio.current_time() + GATHER_S
        if self._commit_events is not None:
            self._commit_events[record.id] = trio.Event()
            if segment is not None:
                self._ids.append(record.id)
            until = -math.inf
        self._sleep_until(until)

    def _sleep_until(self, until: float) -> None:
        if self._sleeping is not None and self._sleeping.deadline > until:
            self._sleeping.deadline = until

    async def wait_committed(self, record_id: str) -> None:
        """With durability "power": wait until the record is committed, for as long as that takes."""
        if self._commit_events is not None and (event := self._commit_events.get(record_id)) is not None:
            await event.wait()

    async def flush(self) -> None:
        """Wait until everything finished so far is committed, for as long as that takes, or until nobody takes records any more."""
        target = self.counters.finished
        self._sleep_until(-math.inf)
        while self.counters.committed < target and not self.trouble:
            await self._progress.wait()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            more = True
            while more:
                more = len(self._outstanding) < MOST_OUTSTANDING and self._send_next()
                await trio.lowlevel.checkpoint()
            if self._journal.spares.missing and trio.current_time() >= self._spares_due:
                self._spares_due = trio.current_time() + SPARES_EVERY_S
                await trio.to_thread.run_sync(self._journal.spares.fill)
            with trio.CancelScope(deadline=trio.current_time() + self._pause_s()) as self._sleeping:
                await trio.sleep_forever()
            self._sleeping = None
            if self._journal.trouble:
                self._journal.probe()

    def send_now(self) -> None:
        """Send what is recorded until now, as far as batches may be outstanding."""
        while len(self._outstanding) < MOST_OUTSTANDING and self._send_next():
            pass

    def _pause_s(self) -> float:
        if self._journal.trouble or self.trouble:
            return PROBE_S
        if len(self._outstanding) >= MOST_OUTSTANDING:
            return math.inf
        return GATHER_S if self._unjournaled or self._is_behind() else math.inf

    def committed(self, number: int) -> None:
        """Note that the batches up to this one are in the database."""
        was_full = len(self._outstanding) >= MOST_OUTSTANDING
        while self._outstanding and self._outstanding[0].number <= number:
            batch = self._outstanding.popleft()
            if batch.segment is None:
                for id_ in batch.ids:
                    self._journal.committed(id_, None)
            else:
                for _ in range(batch.count):
                    self._journal.committed("", batch.segment)
            if self._commit_events is not None:
                for id_ in batch.ids:
                    if (event := self._commit_events.pop(id_, None)) is not None:
                        event.set()
            self.counters.committed += batch.count
        for path in self._journal.take_finished():
            with suppress(OSError):  # replaying it again changes nothing
                path.unlink()
        self._note_progress()
        if was_full:
            self._sleep_until(-math.inf)

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    def _is_behind(self) -> bool:
        """Return whether the journal has lines that were not looked at."""
        return self._segment is not self._journal.current or self._offset < self._segment.size

    def _send_next(self) -> bool:
        """Send the next batch, if there is one and somebody takes it; return whether another one should follow at once."""
        if self._unjournaled:
            return self._send_unjournaled()
        while True:
            segment, data = self._segment, self._read()
            if not data:
                if segment is self._journal.current:
                    return False
                self._segment, self._offset = self._next_segment(segment), 0
                continue
            records = [line for line in data.split(b"\n") if line and line[0] == RECORD]
            intents = [line for line in data.split(b"\n") if line and line[0] == INTENT] if self.sends_intents else []
            end = self._offset + len(data)
            if not records and not intents:
                self._offset = end
                continue
            if not self._sends(segment.n, end, records, intents):
                return False
            self._offset = end
            ids = tuple(self._ids.popleft() for _ in records) if self._ids else ()
            self._outstanding.append(_Outstanding(self._number, ids, segment, len(records)))
            return len(data) >= BATCH_BYTES or segment is not self._journal.current

    def _send_unjournaled(self) -> bool:
        batch = list(self._unjournaled)
        if not self._sends(0, 0, [encode_record(record) for record in batch], []):
            return False
        self._unjournaled.clear()
        self._outstanding.append(_Outstanding(self._number, tuple(record.id for record in batch), None, len(batch)))
        return self._is_behind()

    def _sends(self, segment: int, end: int, records: list[bytes], intents: list[bytes]) -> bool:
        batch = SentBatch(self._number + 1, segment, end, b"\n".join(records), b"\n".join(intents))
        if not self._send(batch):
            self.trouble = "the process that writes the database is gone"
            self._note_progress()
            return False
        self.trouble = ""
        self._number += 1
        return True

    def _next_segment(self, after: Segment) -> Segment:
        """Return the segment to go on with; those between that are gone had nothing to send."""
        return self._journal.segments[min(n for n in self._journal.segments if n > after.n)]

    def _read(self) -> bytes:
        """Return the next complete lines of the segment, about BATCH_BYTES of them."""
        segment, start = self._segment, self._offset
        if start >= segment.size:
            return b""
        if segment is self._journal.current:
            data = segment.map[start : min(segment.size, start + BATCH_BYTES)]
            if not data.endswith(b"\n"):
                data = segment.map[start : segment.map.find(b"\n", start + len(data)) + 1]
            return data
        return _read_file(segment.path, start, segment.size)


def _read_file(path: Path, start: int, size: int) -> bytes:
    """Return complete lines of a closed segment; b"" if it is gone, because nothing in it is needed."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(start)
        data = file.read(min(size - start, BATCH_BYTES))
        return data if data.endswith(b"\n") else data + file.readline()
    return b""
