"""Reports in a process of their own, seen from the gateway.

Python runs one thread at a time: reports in threads of the gateway made the slowest percent of requests 10 ms slower. The
process (`gw.store.reporter`) is started when the first report is asked for, and ended when none was for a while; until it
is ready, should it die, and while it gets no time because other programs use all cores, readers' threads do the work, so
nothing depends on it.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import structlog
import trio

from gw.store.changes import Changes
from gw.store.queries import Desk
from gw.store.reporter import FAULTS, LENGTH, Answer, Job, Ready, framed

T = TypeVar("T")
log = structlog.get_logger()

WAITING = 64  # messages on their way to the process, small ones; when it is full, reports are made in threads
IDLE_S = 300.0
AGAIN_S = 5.0  # after a process that died, before the next
PATIENCE_S = 1.5  # of a job that was given to it; usual ones take some ms
REST_S = 60.0  # after it had no time for a job, before it is given another
_PIECE_BYTES = 65_536
_PROGRAM = "from gw.store.reporter import main; main()"
"""Not `-m`: what crosses must be of the module `gw.store.reporter` on both sides, not of `__main__`."""


class ProcessGone(Exception):
    """It ended before it answered, or was too late."""


class Asked(Generic[T]):
    """A job that the process has been given."""

    def __init__(self, number: int, patience_s: float, forget: Callable[[int], None], late: Callable[[], None]) -> None:
        self._number = number
        self._patience_s = patience_s
        self._forget = forget
        self._late = late
        self._done = trio.Event()
        self._found: Answer | None = None

    def settle(self, found: Answer) -> None:
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
        self._outbox: trio.MemorySendChannel[bytes] | None = None
        self._asked: dict[int, Asked[Any]] = {}
        self._numbers = count(1)
        self._rests_until = 0.0

    @property
    def ready(self) -> bool:
        return self._outbox is not None

    def ask(self, work: Callable[[Desk], T], changes: Changes | None) -> Asked[T] | None:
        """None: not ready, and being started, or without time; do it yourself."""
        self._wanted.set()
        if self._outbox is None or trio.current_time() < self._rests_until:
            return None
        number = next(self._numbers)
        try:
            self._outbox.send_nowait(framed(Job(number, work, changes or Changes())))
        except (trio.WouldBlock, trio.BrokenResourceError):
            return None
        asked = self._asked[number] = Asked[T](number, self._patience_s, self._forget, self._was_late)
        return asked

    def _was_late(self) -> None:
        self._rests_until = trio.current_time() + REST_S

    def _forget(self, number: int) -> None:
        if self._asked.pop(number, None) is not None and self._outbox is not None:
            with suppress(trio.WouldBlock, trio.BrokenResourceError):
                self._outbox.send_nowait(framed(number))

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
        command = [sys.executable, "-c", _PROGRAM, str(self._path)]
        start = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
        try:
            async with trio.open_nursery() as nursery:
                process: trio.Process = await nursery.start(start)
                assert process.stdin is not None
                assert process.stdout is not None
                outbox, out = trio.open_memory_channel[bytes](WAITING)
                nursery.start_soon(_send, process.stdin, out)
                ended = await self._receive(process.stdout, outbox)
                nursery.cancel_scope.cancel()
        finally:
            self._outbox = None
            for asked in self._asked.values():
                asked.give_up()
            self._asked.clear()
        return ended

    async def _receive(self, pipe: trio.abc.ReceiveStream, outbox: trio.MemorySendChannel[bytes]) -> str:
        seen = bytearray()
        while True:
            with trio.move_on_after(self._idle_s if self.ready else inf) as idle:
                message = await _message(pipe, seen)
            if idle.cancelled_caught:
                if self._asked or self._wanted.is_set():
                    self._wanted = trio.Event()
                    continue
                self._outbox = None
                return ""
            match message:
                case Ready():
                    self._outbox = outbox
                case Answer():
                    if (asked := self._asked.pop(message.number, None)) is not None:
                        asked.settle(message)
                case _:
                    return "it broke off"


async def _send(pipe: trio.abc.SendStream, out: trio.MemoryReceiveChannel[bytes]) -> None:
    with suppress(trio.BrokenResourceError):  # it has ended; who reads from it will notice
        async with out:
            async for data in out:
                await pipe.send_all(data)


async def _message(pipe: trio.abc.ReceiveStream, seen: bytearray) -> object:
    """The next message, None at the end. `seen` holds what was read of it, also when cancelled."""
    while len(seen) < LENGTH.size or len(seen) < LENGTH.size + LENGTH.unpack_from(seen)[0]:
        piece = await pipe.receive_some(_PIECE_BYTES)
        if not piece:
            return None
        seen += piece
    end = LENGTH.size + LENGTH.unpack_from(seen)[0]
    found: object = pickle.loads(memoryview(seen)[LENGTH.size : end])
    del seen[:end]
    return found
