"""The process that makes reports: `main`, started by `gw.store.report_process` with the number of a pipe.

It reads jobs from stdin and writes results to stdout, one after the other, and ends when stdin does, so it does not outlive
the gateway. Requests go first: on Linux it runs when nothing else needs its core. A lower priority alone would only divide
the time in the long run, while a process that runs may finish a slice of some ms before one that wakes up gets the core.

Messages (`gw.store.pipe_messages`) in: first the database as a `QuerySource`, since an address on the command line could be read by
every user; then `QueryJob`, or the number of a job that was cancelled. Out: `ReporterReady`, then a `QueryResult` per job.

An `Encoded` result goes unchanged through a second pipe, wide enough for most: all of it is there when its message comes,
so the gateway reads it in a few steps and does not wait for this process after each.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO

import msgspec

from gw.errors import DatabaseLocked, StoreUnavailable
from gw.store.chunked_body import Encoded
from gw.store.latency import MergedBuckets, QueryContext
from gw.store.pipe_messages import framed, read_message
from gw.store.queries import NoSuchRecord
from gw.store.query_source import OpenSource, QuerySource
from gw.store.rollup_versions import BucketVersions

NICENESS = 10
BODY_BYTES = 2**20  # the most that Linux allows every user (/proc/sys/fs/pipe-max-size)


class ReporterReady(msgspec.Struct, frozen=True):
    """The database is open."""


class QueryJob(msgspec.Struct, frozen=True):
    number: int
    work: Callable[[QueryContext], Any]
    versions: BucketVersions


class QueryResult(msgspec.Struct, frozen=True):
    """`fault`: a key of FAULTS, or "" for a bug of ours; then `value` is its text.

    `body_bytes`: the value is this many bytes of the other pipe.
    """

    number: int
    value: Any
    fault: str | None = None
    body_bytes: int | None = None


FAULTS: dict[str, Callable[[str], Exception]] = {
    "unavailable": lambda what: StoreUnavailable(what=what),
    "locked": lambda what: DatabaseLocked(what=what),
    "no_such_record": NoSuchRecord,
}


def widen(pipe: int) -> None:
    """Give the pipe BODY_BYTES of room if the system can."""
    if sys.platform == "linux":
        with suppress(OSError):  # too many wide pipes of this user
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, BODY_BYTES)


def width_of(pipe: int) -> int:
    """Return the room of the pipe in bytes; 0 if it is not known."""
    return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) if sys.platform == "linux" else 0


class Reporter:
    def __init__(self, database: OpenSource, source: BinaryIO, sink: BinaryIO, bodies: BinaryIO) -> None:
        self._database = database
        self._source = source
        self._sink = sink
        self._bodies = bodies
        self._room = width_of(bodies.fileno())
        self._jobs: SimpleQueue[QueryJob | None] = SimpleQueue()
        self._cancelled: set[int] = set()
        self._merged = MergedBuckets(None)

    def run(self) -> None:
        """Serve jobs until stdin ends."""
        self._write(ReporterReady())
        threading.Thread(target=self._read_jobs, daemon=True).start()
        while (job := self._jobs.get()) is not None:
            if job.number not in self._cancelled:
                self._write(self._result(job))
            self._cancelled.discard(job.number)

    def _read_jobs(self) -> None:
        while (message := read_message(self._source)) is not None:
            if isinstance(message, QueryJob):
                self._jobs.put(message)
            else:
                self._cancelled.add(message)
        self._jobs.put(None)

    def _result(self, job: QueryJob) -> QueryResult:
        self._merged.versions = job.versions
        try:
            with self._database.connection(lambda: job.number in self._cancelled) as db:
                return QueryResult(job.number, job.work(QueryContext(db, self._merged)))
        except DatabaseLocked as error:
            return QueryResult(job.number, error.what, "locked")
        except StoreUnavailable as error:
            return QueryResult(job.number, error.what, "unavailable")
        except NoSuchRecord as error:
            return QueryResult(job.number, str(error), "no_such_record")
        except Exception as error:  # the outermost function of a job: the gateway raises it there
            return QueryResult(job.number, f"{type(error).__name__}: {error}", "")

    def _write(self, message: ReporterReady | QueryResult) -> None:
        if not isinstance(message, QueryResult) or not isinstance(body := message.value, Encoded):
            self._write_message(message)
            return
        head = msgspec.structs.replace(message, value=None, body_bytes=body.size)
        if body.size <= self._room:
            self._write_body(body)
            self._write_message(head)
        else:  # the gateway reads the body while we write it
            self._write_message(head)
            self._write_body(body)

    def _write_body(self, body: Encoded) -> None:
        self._bodies.writelines(body.pieces)
        self._bodies.flush()

    def _write_message(self, message: object) -> None:
        self._sink.write(framed(message))
        self._sink.flush()


def main() -> None:
    with suppress(OSError):
        if sys.platform == "linux":
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.nice(NICENESS)
    with suppress(BrokenPipeError), os.fdopen(int(sys.argv[1]), "wb") as bodies:
        if (database := read_message(sys.stdin.buffer)) is not None:
            assert isinstance(database, QuerySource)
            Reporter(database.open(), sys.stdin.buffer, sys.stdout.buffer, bodies).run()
