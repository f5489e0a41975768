"""The words for a disk that is full: which folder, and what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_LEAST_FREE_BYTES: Final = 65_536  # SQLite needs more for its shared memory and a first page of the WAL


def full_disk(path: Path) -> str:
    """Return one line for people about the disk that holds `path`."""
    return f"disk full: {path} cannot be written; free some space on the disk of {path.parent}, or choose another cost_tracking.db_path"


def why(error: OSError, path: Path) -> str:
    """Return what is wrong with writing to `path`, and the remedy where it is known."""
    return full_disk(path) if error.errno in _FULL else f"{path}: {error.strerror or error}"


def is_full(path: Path) -> bool:
    """Return whether the disk of `path` has no space: SQLite reports some such faults as I/O errors."""
    try:
        return os.statvfs(path.parent).f_bavail * os.statvfs(path.parent).f_frsize < _LEAST_FREE_BYTES
    except OSError:
        return False
