"""Journals of worker processes, each beside the database under a name of its own, with a lock that its worker holds.

    <database>.worker-<name>.journal.<n>    segments
    <database>.worker-<name>.lock           locked by the worker that writes them; its text is the worker's process id

The kernel frees the lock when the worker ends, however it ends. So a journal whose lock is free is complete, and whoever has the lock
of the database may take its records over.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from gw.store.journal_files import keep_unreadable, number_of, read_lines, segment_paths
from gw.store.recovery import interrupted
from gw.types.usage import Intent, RequestRecord

GRACE_S = 2.0
"""For workers whose keeper died: they get SIGTERM, and SIGKILL after this."""
_LOOK_S = 0.01
_NAMES = re.compile(r"\.worker-(?P<name>[0-9a-z-]+)\.(?:lock|journal\..*)")

log = structlog.get_logger()


def journal_path(database: Path, name: str) -> Path:
    """Return what stands in place of the database in the names of a worker's files. `name`: [0-9a-z-]."""
    return database.with_name(f"{database.name}.worker-{name}")


def hold(journal: Path) -> int:
    """Lock a worker's journal for as long as this process lives, and return the descriptor of the lock. Raises OSError."""
    descriptor = os.open(_lock_path(journal), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.pwrite(descriptor, b"%d" % os.getpid(), 0)
    return descriptor


def left_behind(database: Path) -> list[Path]:
    """Return the journals of workers beside a database, in the order of their names. Blocks."""
    names = set()
    for path in database.parent.iterdir():
        if path.name.startswith(database.name) and (match := _NAMES.fullmatch(path.name, len(database.name))):
            names.add(match["name"])
    return [journal_path(database, name) for name in sorted(names)]


def end_writers(database: Path, grace_s: float = GRACE_S) -> list[Path]:
    """End the workers that a dead keeper has left, and return all journals of workers. Blocks.

    Only whoever has the lock of the database may call this. Raises OSError.
    """
    journals = left_behind(database)
    locked = [journal for journal in journals if not _is_free(journal)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for journal in locked:
            if (pid := _writer_of(journal)) is not None:
                log.warning("worker_without_keeper_ended", pid=pid, signal=number.name)
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        until = time.monotonic() + grace_s
        while locked and time.monotonic() < until:
            time.sleep(_LOOK_S)
            locked = [journal for journal in locked if not _is_free(journal)]
    return journals


def read_left(journal: Path, after: tuple[int, int] = (0, 0)) -> Iterator[RequestRecord]:
    """Yield the records of a worker that is gone: the finished ones, then those of requests that were interrupted. Blocks.

    `after`: number of a segment and the offset in it, up to which the finished ones are known.
    """
    unfinished: dict[str, list[Intent]] = {}
    for path in segment_paths(journal):
        number = number_of(path)
        for end, line in read_lines(path):
            if isinstance(line, Intent):
                unfinished.setdefault(line.id, []).append(line)
            elif line is not None:
                unfinished.pop(line.id, None)
                if (number, end) > after:
                    yield line
    yield from (interrupted(intents) for intents in unfinished.values())


def remove(journal: Path) -> None:
    """Remove a journal whose records are committed; keep its unreadable lines in files that end with `.bad`. Blocks. Raises OSError."""
    for path in segment_paths(journal):
        keep_unreadable(path)
        path.unlink()
    for path in journal.parent.glob(f"{journal.name}.journal.spare.*"):
        path.unlink(missing_ok=True)
    _lock_path(journal).unlink(missing_ok=True)


def _lock_path(journal: Path) -> Path:
    return journal.with_name(f"{journal.name}.lock")


def _is_free(journal: Path) -> bool:
    try:
        descriptor = os.open(_lock_path(journal), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _writer_of(journal: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(_lock_path(journal).read_text())
    return None
