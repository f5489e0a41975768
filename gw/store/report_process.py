"""Reports in a process of their own, seen from the gateway.

Python runs one thread at a time: reports in threads of the gateway made the slowest percent of requests 10 ms slower. The
process (`gw.store.reporter`) is started by the first report, and ended when there was none for a while. Until it is ready,
when it dies, and while it gets no time because other programs use all cores, readers' threads do the work, so nothing
depends on it.

    stopped ──first report──▶ starting ──ReporterReady──▶ ready ──no report for IDLE_S──▶ stopped
                                 └────────died──────────────┴──▶ waiting RESTART_S ──next report──▶ starting
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from itertools import count
from math import inf
from typing import Any, Generic, TypeVar, cast

import msgspec
import structlog
import trio

from gw.engines.environment import child_environment
from gw.store.chunked_body import PIECE_BYTES, Encoded
from gw.store.latency import QueryContext
from gw.store.pipe_messages import framed, take_message
from gw.store.query_source import QuerySource
from gw.store.reporter import FAULTS, QueryJob, QueryResult, ReporterReady, widen
from gw.store.rollup_versions import BucketVersions, RollupVersions

T = TypeVar("T")
log = structlog.get_logger()

WAITING = 64  # jobs sent to the process and not answered; beyond it reports are made in threads
LONGEST = 4_096  # bytes of a message to it: a pipe takes this many all at once or not at all (pipe(7), PIPE_BUF)
IDLE_S = 300.0
RESTART_S = 5.0  # pause after a process that died
PATIENCE_S = 1.5  # deadline of a job; usual ones take some ms
PAUSE_S = 60.0  # after a job was too late, before the next one is sent
_PIECES_A_TURN = 4  # of a body, before other tasks run
_PROGRAM = "from gw.store.reporter import main; main()"
"""Not `-m`: what is pickled must be of the module `gw.store.reporter` on both sides, not of `__main__`."""


class ProcessGone(Exception):
    """The process ended before it answered, or was too late."""


class PendingQuery(Generic[T]):
    """A job that was sent to the process."""

    def __init__(self, number: int, patience_s: float, forget: Callable[[int], None], late: Callable[[], None]) -> None:
        self._number = number
        self._patience_s = patience_s
        self._forget = forget
        self._late = late
        self._done = trio.Event()
        self._result: QueryResult | None = None

    def finish(self, result: QueryResult | None) -> None:
        """Set the result; None = there will be none."""
        self._result = result
        self._done.set()

    async def result(self) -> T:
        """Wait for the result. Raises StoreUnavailable, NoSuchRecord, ProcessGone. Cancelling stops the query."""
        try:
            with trio.move_on_after(self._patience_s) as waiting:
                await self._done.wait()
        finally:
            if self._result is None:
                self._forget(self._number)
        result = self._result
        if result is None:
            if waiting.cancelled_caught:
                self._late()
            raise ProcessGone
        if result.fault is None:
            return cast("T", result.value)
        raise FAULTS[result.fault](result.value) if result.fault else RuntimeError(f"a report failed: {result.value}")


class ReportProcess:
    """The process and its jobs. `run` is the task that owns it; `submit` never blocks."""

    def __init__(
        self, database: QuerySource, *, idle_s: float = IDLE_S, restart_s: float = RESTART_S, patience_s: float = PATIENCE_S
    ) -> None:
        self._database = database
        self._idle_s = idle_s
        self._restart_s = restart_s
        self._patience_s = patience_s
        self._wanted = trio.Event()
        self._outbox: int | None = None  # descriptor of the pipe to the process, once it is ready
        self._pending: dict[int, PendingQuery[Any]] = {}
        self._numbers = count(1)
        self._paused_until = 0.0

    @property
    def ready(self) -> bool:
        return self._outbox is not None

    def submit(self, work: Callable[[QueryContext], T], versions: BucketVersions | None) -> PendingQuery[T] | None:
        """Send a job. Return None, and start the process, if it is not ready or has no time: use a thread then."""
        self._wanted.set()
        if self._outbox is None or trio.current_time() < self._paused_until:
            return None
        number = next(self._numbers)
        job = QueryJob(number, work, versions or RollupVersions())
        if len(self._pending) >= WAITING or not self._write(framed(job)):
            return None
        pending = self._pending[number] = PendingQuery[T](number, self._patience_s, self._forget, self._pause)
        return pending

    def _write(self, data: bytes) -> bool:
        """Write without waiting: a task for it would be one more step of the event loop for every report."""
        if self._outbox is None or len(data) > LONGEST:
            return False
        try:
            return os.write(self._outbox, data) == len(data)
        except OSError:  # it is full, or the process has ended, which its reader notices
            return False

    def _pause(self) -> None:
        self._paused_until = trio.current_time() + PAUSE_S

    def _forget(self, number: int) -> None:
        if self._pending.pop(number, None) is not None:
            self._write(framed(number))

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start the process when it is wanted, until cancelled. Its failure is logged, and it is started again later."""
        task_status.started()
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            try:
                why_ended = await self._run_process()
            except OSError as error:
                why_ended = f"{type(error).__name__}: {error}"
            if why_ended:
                log.warning("report_process_ended", why=why_ended)
                await trio.sleep(self._restart_s)

    async def _run_process(self) -> str:
        """Run one process from start to end; return why it ended, "" = it was idle."""
        try:
            with _wide_pipe() as (bodies, process_end):
                command = [sys.executable, "-c", _PROGRAM, str(process_end.fileno())]
                start = partial(
                    trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False,
                    pass_fds=(process_end.fileno(),), env=child_environment(), process_group=0,  # out of reach of Ctrl-C
                )  # fmt: skip
                async with trio.open_nursery() as nursery:
                    process: trio.Process = await nursery.start(start)
                    process_end.close()
                    assert isinstance(process.stdin, trio.lowlevel.FdStream)
                    assert isinstance(process.stdout, trio.lowlevel.FdStream)
                    await process.stdin.send_all(framed(self._database))
                    inbox = _MessageReader(process.stdout.fileno(), bodies.fileno())
                    why_ended = await self._receive(inbox, process.stdin.fileno())
                    nursery.cancel_scope.cancel()
        finally:
            self._outbox = None
            for pending in self._pending.values():
                pending.finish(None)
            self._pending.clear()
        return why_ended

    async def _receive(self, inbox: _MessageReader, outbox: int) -> str:
        while True:
            with trio.move_on_after(self._idle_s if self.ready else inf) as idle:
                message = await inbox.message()
            if idle.cancelled_caught:
                if self._pending or self._wanted.is_set():
                    self._wanted = trio.Event()
                    continue
                self._outbox = None
                return ""
            match message:
                case ReporterReady():
                    self._outbox = outbox
                case QueryResult():
                    if (pending := self._pending.pop(message.number, None)) is not None:
                        pending.finish(message)
                case _:
                    return "the process closed its pipe"


@contextmanager
def _wide_pipe() -> Iterator[tuple[FileIO, FileIO]]:
    """Yield both ends of a pipe; reading does not block."""
    reading, writing = (FileIO(fd, mode) for fd, mode in zip(os.pipe(), "rw", strict=True))
    with reading, writing:
        os.set_blocking(reading.fileno(), False)
        widen(reading.fileno())
        yield reading, writing


class _MessageReader:
    """Reads the messages of the process a piece at a time; other tasks run between a few pieces."""

    def __init__(self, pipe: int, bodies: int) -> None:
        """Take two descriptors that do not block: of messages, and of encoded bodies."""
        self._pipe = pipe
        self._bodies = bodies
        self._buffer = bytearray()
        self._result: QueryResult | None = None  # result whose body is being read
        self._pieces: list[bytes] = []
        self._bytes_left = 0

    async def message(self) -> object:
        """Return the next message, None at the end. Cancelling loses nothing."""
        while True:
            if self._result is not None:
                return await self._with_body(self._result)
            message = take_message(self._buffer)
            if isinstance(message, QueryResult) and message.body_bytes is not None:
                self._result, self._bytes_left = message, message.body_bytes
            elif message is not None:
                return message
            elif (piece := await self._read(self._pipe)) is None:
                return None
            else:
                self._buffer += piece

    async def _read(self, pipe: int) -> bytes | None:
        """Return None at the end."""
        while True:
            await trio.lowlevel.wait_readable(pipe)
            with suppress(BlockingIOError):
                return os.read(pipe, PIECE_BYTES) or None

    async def _with_body(self, result: QueryResult) -> QueryResult | None:
        """Return None if the process ends in the middle."""
        while self._bytes_left:
            try:
                piece = os.read(self._bodies, min(PIECE_BYTES, self._bytes_left))
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._bodies)
                continue
            if not piece:
                return None
            self._pieces.append(piece)
            self._bytes_left -= len(piece)
            if not len(self._pieces) % _PIECES_A_TURN:
                await trio.lowlevel.checkpoint()
        complete = msgspec.structs.replace(result, value=Encoded(tuple(self._pieces)))
        self._result, self._pieces = None, []
        return complete
