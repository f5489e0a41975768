"""The process that writes to the database: `main`, started by `gw.store.commit_process`.

It reads jobs from stdin and writes an answer to each to stdout. When stdin ends, the gateway has ended: then this process ends at
once, in the middle of a transaction if need be, which leaves what kill -9 would. What was not acknowledged is in the journal.

It imports little, to start soon and stay small: neither trio nor structlog.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import msgspec

from gw.errors import DatabaseLocked, DatabaseUnusable, StoreUnavailable
from gw.store.committer import Committer
from gw.store.pipe_messages import framed, read_message
from gw.store.record_database import DatabaseTarget

StoreFault: TypeAlias = DatabaseLocked | DatabaseUnusable | StoreUnavailable


class CommitStart(msgspec.Struct, frozen=True):
    """First message: the database to write to."""

    target: DatabaseTarget
    retention_days: int


class CommitJob(NamedTuple):
    """A method of Committer, with its arguments."""

    work: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class CommitAnswer(NamedTuple):
    """Result of the method, or the fault that it raised. `tidy_due`: whether there is something to tidy now, and when idle."""

    value: Any = None
    fault: Exception | None = None
    store_fault: tuple[type[StoreFault], str] | None = None
    tidy_due: tuple[bool, bool] = (False, False)


class CommitProgram:
    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._jobs: SimpleQueue[CommitJob] = SimpleQueue()
        self._committer: Committer | None = None

    def run(self) -> None:
        """Do jobs until one of them closes the database."""
        start: CommitStart | None = read_message(self._source)
        if start is None:
            return
        threading.Thread(target=self._read_jobs, daemon=True).start()
        closing = False
        while not closing:
            job = self._jobs.get()
            closing = job.work is Committer.close
            self._sink.write(framed(self._answer(start, job)._replace(tidy_due=self._tidy_due(closing))))
            self._sink.flush()
        os._exit(0)  # not `return`: the other thread waits for stdin, which Python would wait for in turn

    def _read_jobs(self) -> None:
        try:
            while (job := read_message(self._source)) is not None:
                self._jobs.put(job)
        except Exception:  # a job that this version of gw cannot read: the package was replaced while the gateway runs
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def _answer(self, start: CommitStart, job: CommitJob) -> CommitAnswer:
        try:
            if self._committer is None:
                self._committer = Committer(start.target.open(), start.retention_days, offers_core=True)
            return CommitAnswer(job.work(self._committer, *job.args, **job.kwargs))
        except (DatabaseLocked, DatabaseUnusable, StoreUnavailable) as error:
            return CommitAnswer(store_fault=(type(error), error.what))
        except Exception as error:  # the outermost function of a job: the gateway raises it there
            error.add_note(traceback.format_exc())
            return CommitAnswer(fault=error)

    def _tidy_due(self, closed: bool) -> tuple[bool, bool]:
        if self._committer is None or closed:
            return False, False
        database = self._committer.database
        return database.tidy(idle=False) is not None, database.tidy(idle=True) is not None


def main() -> None:
    for sent_to_all in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the gateway ends this process when it has stopped
        signal.signal(sent_to_all, signal.SIG_IGN)
    if sys.platform == "linux":
        with suppress(OSError):  # a fair share of the core, but it interrupts no request when it wakes up
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with suppress(BrokenPipeError):
        CommitProgram(sys.stdin.buffer, sys.stdout.buffer).run()
