"""One writer per database: an advisory lock on `<realpath of the database>.lock`, held while the store is open.

The kernel frees a `flock` when its holder dies, so kill -9 leaves nothing to clean up. The process that writes to the database
(`gw.store.commit_process`) holds it together with its gateway, and ends some milliseconds after it: a new gateway waits for that.
The file's content (JSON: pid, host, url, started) only describes the holder, and means nothing without one. The file is never
removed: two processes could otherwise each lock a file of that name.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio

from gw.errors import DatabaseLocked, StoreUnavailable
from gw.store.disk import why
from gw.store.lock_file import lock_path, read_facts

_TRIES = 5
_ENDING_TRIES = 250  # while the holder is dead, but its process that writes has not noticed, or waits for the disk
_PAUSE_S = 0.02  # `holder()` takes a shared lock for a moment; a process that opens the database just then tries again


class Lock:
    """A lock that this process holds. Blocking calls here are single writes of a few bytes."""

    def __init__(self, fd: int, facts: Mapping[str, object]) -> None:
        self.fd = fd
        self._facts = dict(facts)
        self._write()

    def set_address(self, url: str) -> None:
        """Tell other processes where the holder can be reached."""
        self._facts["url"] = url
        self._write()

    def release(self) -> None:
        os.ftruncate(self.fd, 0)
        os.close(self.fd)

    def _write(self) -> None:
        text = msgspec.json.encode(self._facts)
        os.pwrite(self.fd, text, 0)
        os.ftruncate(self.fd, len(text))


async def acquire(
    database: Path, *, started: float, facts: Mapping[str, object], setting: str = "cost_tracking.db_path"
) -> Lock:
    """Take the lock; `setting` gives another gateway another path.

    Raises DatabaseLocked naming the holder, StoreUnavailable when the file cannot be used.
    """
    path = lock_path(database)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(what=f"cannot use the lock file: {why(error, path)}") from error
    try:
        for tries in itertools.count(1):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                facts = read_facts(fd)
                if tries >= (_ENDING_TRIES if _has_ended(facts) else _TRIES):
                    raise DatabaseLocked(what=_locked_message(database, facts, setting)) from None
            await trio.sleep(_PAUSE_S)
        return Lock(fd, {"pid": os.getpid(), "host": socket.gethostname(), "url": "", "started": started, **facts})
    except OSError as error:
        os.close(fd)
        raise StoreUnavailable(what=f"cannot use the lock file: {why(error, path)}") from error
    except BaseException:
        os.close(fd)
        raise


def _has_ended(facts: Mapping[str, object]) -> bool:
    """Return whether the holder was a process of this machine that is no more."""
    pid = facts.get("pid")
    if not isinstance(pid, int) or facts.get("host") != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def _locked_message(database: Path, facts: Mapping[str, object], setting: str) -> str:
    who = f"process {facts.get('pid', '(unknown)')} on {facts.get('host', 'this host')}"
    where = f", {facts['url']}" if facts.get("url") else ""
    remedy = f"stop it, or give this one its own {setting}"
    return f"database is locked: {database} is in use by {who}{where}; {remedy}"
