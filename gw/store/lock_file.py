"""The lock file of a database, as a process reads it that only looks: which gateway holds it, and at which address.

Importing this loads neither trio nor the store: every command of `gw` does it first.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

_MAX_BYTES = 4096


def lock_path(database: Path) -> Path:
    """Return the lock's path. Links are followed, so that two names of one database share one lock."""
    real = Path(os.path.realpath(database))
    return real.with_name(real.name + ".lock")


def holder(database: Path) -> dict[str, object] | None:
    """Return facts of the process that holds the database: pid, host, url ("" until it listens), started. None without one."""
    try:
        fd = os.open(lock_path(database), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return read_facts(fd)
    else:
        return None
    finally:
        os.close(fd)


def read_facts(fd: int) -> dict[str, object]:
    """Return what the holder wrote of itself; {} if nothing yet."""
    try:
        return msgspec.json.decode(os.pread(fd, _MAX_BYTES, 0), type=dict[str, object])
    except msgspec.DecodeError:  # between its lock and its first write
        return {}
