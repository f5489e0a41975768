"""The gateway's side of telemetry: passes the lines of committed records to the process that exports them (`gw.otel.export_program`).

On the event loop, a record costs its place in a queue and its bytes in a pipe. The queue is short, since the process takes lines at
once and keeps what a collector cannot take; it fills only while that process starts, or has to be started again.

    not started ──first records──▶ running ──died, or no answer for ANSWER_S──▶ not started; what it had is counted as dropped
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import attrs
import structlog
import trio

from gw.engines.environment import child_environment
from gw.errors import one_error
from gw.otel.export_messages import ExportBatch, ExportClose, ExportCounters, ExportStart, period_s
from gw.otel.spans import count_of, is_kept
from gw.store.process_pipes import make_room, receive_from, send_to
from gw.store.record_lines import decode_record
from gw.types.span_counts import SpanCounts

QUEUED = 4_000  # lines that wait for the process, about 1 kB each; when full, the oldest are dropped and counted
TOGETHER = 1_000  # lines that are passed on before `Pace.gather_s` is over
MESSAGE = 500  # lines in a message
ANSWER_S = 10.0  # for one message: the process answers at once, also while the collector is away
START_S = 30.0  # for the first answer of a process: before it, it loads its libraries, which takes long on a busy machine
_ATTEMPT = b'"outcome":"'
"""Occurs in a line once for each attempt: nearly the number of its spans, for a look at what waits."""
_PROGRAM = "from gw.otel.export_program import main; main()"
_DEATH_S = 2.0
_log = structlog.get_logger("gw.otel")


@attrs.frozen(kw_only=True)
class Pace:
    gather_s: float = 5.0
    """Lines of this period are passed on and exported together, unless they are TOGETHER before: each time the process's code is gone from
    the processor's caches. As OTEL_BSP_SCHEDULE_DELAY says (`pace_in`)."""
    hear_s: float = 5.0
    """Time between two looks at the counters while nothing is committed."""
    restart_s: float = 5.0
    """Time between two starts of a process that dies."""
    last_s: float = 3.0
    """Time for what waits when the gateway closes."""


def pace_in(environment: Mapping[str, str]) -> Pace:
    """Return the pace that OpenTelemetry's variables set."""
    return Pace(gather_s=period_s(environment, "OTEL_BSP_SCHEDULE_DELAY", Pace().gather_s))


class _ProcessLost(Exception):
    """The process has ended, cannot be started, or does not answer."""


class OtlpExporter:
    """`put` and the counts are used on the event loop."""

    def __init__(self, start: ExportStart, environment: Mapping[str, str], pace: Pace) -> None:
        """`environment`: that of the gateway, of which the process gets what child processes get and the variables `OTEL_…`."""
        self._start = start
        standard = {name: value for name, value in environment.items() if name.startswith("OTEL_")}
        self._environment = child_environment(environment) | standard
        self._pace = pace
        self._lines: deque[bytes] = deque()
        self._sending: Sequence[bytes] = ()
        self._due, self._enough = trio.Event(), trio.Event()
        self._process: trio.Process | None = None
        self._answered = False
        self._received = bytearray()
        self._before = SpanCounts()
        self._now = ExportCounters()
        self._trouble = ""

    @property
    def pid(self) -> int | None:
        """Id of the process; None before the first record."""
        return None if self._process is None else self._process.pid

    @property
    def trouble(self) -> str:
        """Why spans do not arrive, for people; "" = they do."""
        return self._trouble

    @property
    def counts(self) -> SpanCounts:
        """Return the counts of all processes until now."""
        before, now = self._before, self._now
        dropped = {why: count + getattr(now, why, 0) for why, count in before.dropped.items()}
        here = sum(1 + line.count(_ATTEMPT) for lines in (self._lines, self._sending) for line in lines)
        return SpanCounts(before.exported + now.exported, dropped, now.pending + here)

    def put(self, lines: Sequence[bytes]) -> None:
        """Take over lines of committed records. Never waits."""
        self._lines.extend(lines)
        while len(self._lines) > QUEUED:
            self._before.dropped["queue_full"] += self._spans_in(self._lines.popleft())
        self._due.set()
        if len(self._lines) >= TOGETHER:
            self._enough.set()

    def _spans_in(self, line: bytes) -> int:
        """Return how many spans of a record would be exported, for one that is dropped here: the process counts the others."""
        record = decode_record(line)
        return count_of(record) if is_kept(record, self._start.ratio) else 0

    async def run(self) -> None:
        """Pass lines on until cancelled. A process that ends is started again; nothing here ends the gateway."""
        while True:
            with trio.move_on_after(self._pace.hear_s if self._process is not None else float("inf")):
                await self._due.wait()
            self._due = trio.Event()
            if self._lines:
                with trio.move_on_after(self._pace.gather_s):
                    await self._enough.wait()
            self._enough = trio.Event()
            if not await self._pass_on():
                await trio.sleep(self._pace.restart_s)

    async def _pass_on(self) -> bool:
        """Send all lines, or ask for the counters; return False if the process was lost."""
        try:
            while True:
                await self._send(self._next_batch())
                if not self._lines:
                    return True
        except _ProcessLost as error:
            self._note(str(error))
            self._due.set()
            return False

    def _next_batch(self) -> list[bytes]:
        if len(self._lines) > MESSAGE:
            return [self._lines.popleft() for _ in range(MESSAGE)]
        batch = list(self._lines)
        self._lines.clear()
        return batch

    async def _send(self, batch: Sequence[bytes]) -> None:
        """Send a batch and note the counters. Raises _ProcessLost; then the spans that the process had are counted as dropped."""
        self._sending = batch
        try:
            counters = await self._answer(ExportBatch(batch, is_last=not self._lines))
        except _ProcessLost:
            self._settle(sum(map(self._spans_in, batch)))
            raise
        finally:
            self._sending = ()
        self._now = counters
        self._note(counters.error)

    def _settle(self, in_flight: int) -> None:
        """Add the counters of a process that has ended to those before."""
        now, before = self._now, self._before
        before.exported += now.exported
        for why in ("queue_full", "rejected", "unsent"):
            before.dropped[why] += getattr(now, why)
        before.dropped["process_ended"] += now.pending + in_flight
        self._now = ExportCounters()

    def _note(self, trouble: str) -> None:
        """Log a fault when it begins and when it is over, not each time."""
        if trouble and not self._trouble:
            _log.warning("otlp_export_failed", why=trouble)
        elif self._trouble and not trouble:
            _log.info("otlp_export_works_again", spans_dropped=sum(self.counts.dropped.values()))
        self._trouble = trouble

    async def _answer(self, message: ExportBatch | ExportClose) -> ExportCounters:
        """Send a message and return its answer, however the caller fares. Raises _ProcessLost."""
        answer: ExportCounters | None = None
        with trio.move_on_after(ANSWER_S if self._answered else START_S, shield=True):
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                process = await self._running()
                await send_to(process, message)
                answer = await receive_from(process, self._received)
        self._answered = answer is not None
        if answer is None:
            await self._end()
            raise _ProcessLost("the process that exports telemetry has ended or does not answer")
        return answer

    async def _running(self) -> trio.Process:
        if self._process is None:
            self._process = await trio.lowlevel.open_process(
                [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment,
                process_group=0,  # out of reach of Ctrl-C
            )  # fmt: skip
            make_room(self._process)
            await send_to(self._process, self._start)
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        self._received.clear()
        if process is None:
            return
        with trio.move_on_after(_DEATH_S, shield=True):
            process.kill()
            await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()

    async def aclose(self) -> None:
        """Pass on and send what waits, for `Pace.last_s` at most; log what could not be sent. The caller sets no deadline."""
        if self._process is not None or self._lines:
            try:
                while self._lines:
                    await self._send(self._next_batch())
                self._now = await self._answer(ExportClose(self._pace.last_s))
            except _ProcessLost:
                self._settle(0)
            finally:
                await self._end()
        if dropped := sum(self.counts.dropped.values()):
            _log.warning("otlp_spans_dropped", why=self._trouble or self._now.error, **self.counts.dropped, spans=dropped)


@asynccontextmanager
async def open_exporter(
    start: ExportStart, environment: Mapping[str, str], pace: Pace = Pace()
) -> AsyncIterator[OtlpExporter]:
    """Run an exporter during the block. What was put until its end is sent then, as far as `Pace.last_s` suffices."""
    exporter = OtlpExporter(start, environment, pace)
    try:
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(exporter.run)
                yield exporter
                nursery.cancel_scope.cancel()
    finally:
        with trio.move_on_after(2 * ANSWER_S, shield=True):
            await exporter.aclose()
