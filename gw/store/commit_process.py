"""Runs a `Committer` in a thread of this process, or in a process of its own.

Python runs one thread at a time, so writing a record, some 30 µs of processor time, kept requests waiting as long. `gw serve`
therefore leaves it to a process (`gw.store.commit_program`), which gets the lines over a pipe and answers when they are committed.
The library and short commands use a thread: they have no requests to keep waiting, and need no second process.

    not started ──first job──▶ running ──died, or no answer for ANSWER_S──▶ not started
                                  └──aclose──▶ closed

A process that has died is started again by the next job. The job that it had is not repeated here: it raises ProcessEnded, and the
writer sends it again, as after any fault of the disk. Every job can be repeated: records have ids, changes a name.

The process ends when its stdin does, so it does not outlive the gateway. It shares the gateway's lock of the database, so that the
next gateway waits for the end of the process that writes, too.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar, cast

import structlog
import trio

from gw.engines.environment import child_environment
from gw.store.commit_program import CommitAnswer, CommitJob, CommitStart
from gw.store.committer import Committer, ProcessEnded
from gw.store.process_pipes import receive_from, send_to
from gw.store.record_database import DatabaseFaults, DatabaseTarget
from gw.store.record_log import log_safely

P = ParamSpec("P")
T = TypeVar("T")
log = structlog.get_logger()

ANSWER_S = 30.0  # for one job; the longest, moving a WAL of 32 MB on a slow disk, takes seconds
_PROGRAM = "from gw.store.commit_program import main; main()"
"""Not `-m`: what is pickled must be of the module `gw.store.commit_program` on both sides, not of `__main__`."""
_EXIT_S = 0.5  # for a process whose pipe has ended, before it is killed
_DEATH_S = 5.0  # for a killed process, which a disk that does not answer may hold up
_NAME = "the process that writes to the database"


class CommitThread:
    """A `CommitExecutor` whose jobs run in threads of this process, one at a time."""

    resends = False
    starting = False

    def __init__(self, committer: Committer) -> None:
        self.faults: DatabaseFaults = committer.database
        self._committer = committer
        self._limiter = trio.CapacityLimiter(1)

    def tidy_due(self, *, idle: bool) -> bool:
        return self._committer.database.tidy(idle=idle) is not None

    async def run(self, work: Callable[Concatenate[Committer, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        return await trio.to_thread.run_sync(partial(work, self._committer, *args, **kwargs), limiter=self._limiter)

    async def aclose(self) -> None:
        await self.run(Committer.close)


class CommitProcess:
    """A `CommitExecutor` whose jobs run in a process of their own, which is started by the first."""

    resends = True

    def __init__(self, target: DatabaseTarget, retention_days: int, lock: int, *, answer_s: float = ANSWER_S) -> None:
        """`lock`: the descriptor of the database's lock, which the process inherits."""
        self.faults: DatabaseFaults = target
        self._start = CommitStart(target, retention_days)
        self._lock = lock
        self._answer_s = answer_s
        self._turn = trio.Lock()
        self._process: trio.Process | None = None
        self._received = bytearray()
        self._tidy_due = (False, False)
        self.starting = True

    def tidy_due(self, *, idle: bool) -> bool:
        return self._tidy_due[idle]

    @property
    def pid(self) -> int | None:
        """Process id, None before the first job and after an end."""
        return None if self._process is None else self._process.pid

    async def run(self, work: Callable[Concatenate[Committer, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        async with self._turn:
            answer = await self._answer(CommitJob(work, args, kwargs))
        self._tidy_due = answer.tidy_due
        self.starting = False
        if answer.store_fault is not None:
            kind, what = answer.store_fault
            raise kind(what=what)
        if answer.fault is not None:
            raise answer.fault
        return cast("T", answer.value)

    async def _answer(self, job: CommitJob) -> CommitAnswer:
        """Send a job and wait for its answer, however the caller fares. Raises ProcessEnded."""
        answer: CommitAnswer | None = None
        with trio.move_on_after(self._answer_s, shield=True) as waiting:
            try:
                process = await self._running()
                await send_to(process, job)
                answer = await receive_from(process, self._received)
            except (OSError, trio.BrokenResourceError):  # it cannot be started, or has ended
                answer = None
        if answer is None:
            why = await self._end()
            raise ProcessEnded(f"{_NAME} did not answer for {self._answer_s:g} s" if waiting.cancelled_caught else why)
        return answer

    async def _running(self) -> trio.Process:
        """Return the process, and start it if it does not run."""
        if self._process is not None and self._process.poll() is not None:
            log_safely(log.warning, "writer_process_ended", why=await self._end())
        if self._process is None:
            self._process = await trio.lowlevel.open_process(
                [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                pass_fds=(self._lock,), env=child_environment(), process_group=0,  # out of reach of Ctrl-C
            )  # fmt: skip
            await send_to(self._process, self._start)
        return self._process

    async def _end(self) -> str:
        """Kill the process if it still runs, and wait for its end; return how it ended."""
        process, self._process = self._process, None
        self.starting = True
        self._received.clear()
        if process is None:
            return f"{_NAME} cannot be started"
        with trio.move_on_after(_DEATH_S, shield=True):
            if process.poll() is None:
                # Its pipe may end a moment before it does; how it has ended is known then.
                with trio.move_on_after(_EXIT_S):
                    await process.wait()
            process.kill()
            await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()
        return f"{_NAME} {_how_it_ended(process.returncode)}"

    async def aclose(self) -> None:
        """Close the database, and end the process, if there is one."""
        if self._process is None or self._process.poll() is not None:
            return
        try:
            with suppress(ProcessEnded, *self.faults.transient):
                await self.run(Committer.close)
        finally:
            await self._end()


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "cannot be ended"
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit code {status}"
