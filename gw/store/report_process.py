"""Reports in a process of their own, seen from the gateway.

Python runs one thread at a time: reports in threads of the gateway made the slowest percent of requests 10 ms slower. The
process (`gw.store.reporter`) is started when the first report is asked for, and ended when none was for a while; until it
is ready, should it die, and while it gets no time because other programs use all cores, readers' threads do the work, so
nothing depends on it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import attrs
import structlog
import trio

from gw.store.chunked_body import PIECE_BYTES, Encoded
from gw.store.queries import QueryContext
from gw.store.reporter import FAULTS, LENGTH, QueryJob, QueryResult, ReporterReady, framed, widen
from gw.store.rollup_versions import Changes

T = TypeVar("T")
log = structlog.get_logger()

WAITING = 64  # jobs that were given to the process and not answered; beyond it reports are made in threads
LONGEST = 4_096  # bytes of a message to it: a pipe takes up to so many whole or not at all (pipe(7), PIPE_BUF)
IDLE_S = 300.0
AGAIN_S = 5.0  # after a process that died, before the next
PATIENCE_S = 1.5  # of a job that was given to it; usual ones take some ms
REST_S = 60.0  # after it had no time for a job, before it is given another
_PIECES_A_TURN = 4  # of a body, before other tasks get theirs
_PROGRAM = "from gw.store.reporter import main; main()"
"""Not `-m`: what crosses must be of the module `gw.store.reporter` on both sides, not of `__main__`."""


class ProcessGone(Exception):
    """It ended before it answered, or was too late."""


class PendingQuery(Generic[T]):
    """A job that the process has been given."""

    def __init__(self, number: int, patience_s: float, forget: Callable[[int], None], late: Callable[[], None]) -> None:
        self._number = number
        self._patience_s = patience_s
        self._forget = forget
        self._late = late
        self._done = trio.Event()
        self._found: QueryResult | None = None

    def settle(self, found: QueryResult) -> None:
        self._found = found
        self._done.set()

    def give_up(self) -> None:
        """There will be no answer."""
        self._done.set()

    async def answer(self) -> T:
        """Raises StoreUnavailable, NoSuchRecord, ProcessGone. One who leaves stops the query."""
        try:
            with trio.move_on_after(self._patience_s) as waiting:
                await self._done.wait()
        finally:
            if self._found is None:
                self._forget(self._number)
        found = self._found
        if found is None:
            if waiting.cancelled_caught:
                self._late()
            raise ProcessGone
        if found.fault is None:
            return cast("T", found.value)
        raise FAULTS[found.fault](found.value) if found.fault else RuntimeError(f"a report failed: {found.value}")


class ReportProcess:
    """`run` is the task that owns the process; `ask` never blocks."""

    def __init__(
        self, path: Path, *, idle_s: float = IDLE_S, again_s: float = AGAIN_S, patience_s: float = PATIENCE_S
    ) -> None:
        self._path = path
        self._idle_s = idle_s
        self._again_s = again_s
        self._patience_s = patience_s
        self._wanted = trio.Event()
        self._outbox: int | None = None
        """Descriptor of the pipe to it, when it is ready."""
        self._asked: dict[int, PendingQuery[Any]] = {}
        self._numbers = count(1)
        self._rests_until = 0.0

    @property
    def ready(self) -> bool:
        return self._outbox is not None

    def ask(self, work: Callable[[QueryContext], T], changes: Changes | None) -> PendingQuery[T] | None:
        """None: not ready, and being started, or without time; do it yourself."""
        self._wanted.set()
        if self._outbox is None or trio.current_time() < self._rests_until:
            return None
        number = next(self._numbers)
        if len(self._asked) >= WAITING or not self._post(framed(QueryJob(number, work, changes or Changes()))):
            return None
        asked = self._asked[number] = PendingQuery[T](number, self._patience_s, self._forget, self._was_late)
        return asked

    def _post(self, data: bytes) -> bool:
        """Write now, from where we are: a task that waits to write would be one more step of the loop for every report."""
        if self._outbox is None or len(data) > LONGEST:
            return False
        try:
            return os.write(self._outbox, data) == len(data)
        except OSError:  # it is full, or the process has ended, which its reader notices
            return False

    def _was_late(self) -> None:
        self._rests_until = trio.current_time() + REST_S

    def _forget(self, number: int) -> None:
        if self._asked.pop(number, None) is not None:
            self._post(framed(number))

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start the process when it is wanted, until cancelled. Its failure is logged, and it is started again later."""
        task_status.started()
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            try:
                ended = await self._live()
            except OSError as error:
                ended = f"{type(error).__name__}: {error}"
            if ended:
                log.warning("report_process_ended", why=ended)
                await trio.sleep(self._again_s)

    async def _live(self) -> str:
        """One process from its start to its end; why it ended, "" = nobody needed it."""
        try:
            with _wide_pipe() as (bodies, theirs):
                command = [sys.executable, "-c", _PROGRAM, str(self._path), str(theirs.fileno())]
                start = partial(
                    trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False,
                    pass_fds=(theirs.fileno(),),
                )  # fmt: skip
                async with trio.open_nursery() as nursery:
                    process: trio.Process = await nursery.start(start)
                    theirs.close()
                    assert isinstance(process.stdin, trio.lowlevel.FdStream)
                    assert isinstance(process.stdout, trio.lowlevel.FdStream)
                    inbox = _Inbox(process.stdout.fileno(), bodies.fileno())
                    ended = await self._receive(inbox, process.stdin.fileno())
                    nursery.cancel_scope.cancel()
        finally:
            self._outbox = None
            for asked in self._asked.values():
                asked.give_up()
            self._asked.clear()
        return ended

    async def _receive(self, inbox: _Inbox, outbox: int) -> str:
        while True:
            with trio.move_on_after(self._idle_s if self.ready else inf) as idle:
                message = await inbox.message()
            if idle.cancelled_caught:
                if self._asked or self._wanted.is_set():
                    self._wanted = trio.Event()
                    continue
                self._outbox = None
                return ""
            match message:
                case ReporterReady():
                    self._outbox = outbox
                case QueryResult():
                    if (asked := self._asked.pop(message.number, None)) is not None:
                        asked.settle(message)
                case _:
                    return "it broke off"


@contextmanager
def _wide_pipe() -> Iterator[tuple[FileIO, FileIO]]:
    """Its two ends; reading does not block."""
    reading, writing = (FileIO(fd, mode) for fd, mode in zip(os.pipe(), "rw", strict=True))
    with reading, writing:
        os.set_blocking(reading.fileno(), False)
        widen(reading.fileno())
        yield reading, writing


class _Inbox:
    """What the process writes, read a piece at a time; everybody else has a turn between a few."""

    def __init__(self, pipe: int, bodies: int) -> None:
        """Descriptors that do not block: of messages, and of what is encoded already."""
        self._pipe = pipe
        self._bodies = bodies
        self._seen = bytearray()
        self._answer: QueryResult | None = None
        self._pieces: list[bytes] = []
        self._left = 0
        """Bytes of the body of `_answer`."""

    async def message(self) -> object:
        """The next message, None at the end. Nothing is lost when this is cancelled."""
        while True:
            if self._answer is not None:
                return await self._with_body(self._answer)
            found = self._cut_out()
            if isinstance(found, QueryResult) and found.following is not None:
                self._answer, self._left = found, found.following
            elif found is not None:
                return found
            elif (piece := await self._piece(self._pipe)) is None:
                return None
            else:
                self._seen += piece

    async def _piece(self, pipe: int) -> bytes | None:
        """None at the end."""
        while True:
            await trio.lowlevel.wait_readable(pipe)
            with suppress(BlockingIOError):
                return os.read(pipe, PIECE_BYTES) or None

    def _cut_out(self) -> object:
        """The message at the beginning of what was seen; None while it is not whole."""
        seen = self._seen
        if len(seen) < LENGTH.size:
            return None
        end = LENGTH.size + LENGTH.unpack_from(seen)[0]
        if len(seen) < end:
            return None
        found: object = pickle.loads(memoryview(seen)[LENGTH.size : end])
        del seen[:end]
        return found

    async def _with_body(self, answer: QueryResult) -> QueryResult | None:
        """None when the process ends in the middle."""
        while self._left:
            try:
                piece = os.read(self._bodies, min(PIECE_BYTES, self._left))
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._bodies)
                continue
            if not piece:
                return None
            self._pieces.append(piece)
            self._left -= len(piece)
            if not len(self._pieces) % _PIECES_A_TURN:
                await trio.lowlevel.checkpoint()
        whole = attrs.evolve(answer, value=Encoded(tuple(self._pieces)))
        self._answer, self._pieces = None, []
        return whole
