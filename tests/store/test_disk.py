"""What an operator reads when the disk is full: the path and the remedy."""

from __future__ import annotations

import errno
from collections import namedtuple
from pathlib import Path

import apsw
import pytest

from gw.errors import StoreUnavailable
from gw.store import disk, lock
from gw.store.disk import is_full, why
from gw.store.migrations import migrate
from gw.store.sqlite import describe
from tests.fakes.disk import files_end_at

PATH = Path("/data/gw/gw.db")
REMEDY = "disk full: /data/gw/gw.db cannot be written; free some space on the disk of /data/gw, or choose another cost_tracking.db_path"


def test_the_path_and_the_remedy():
    for number in (errno.ENOSPC, errno.EDQUOT):
        assert why(OSError(number, "x"), PATH) == REMEDY
    assert why(OSError(errno.EACCES, "Permission denied"), PATH) == "/data/gw/gw.db: Permission denied"
    assert describe(apsw.FullError("x"), PATH) == REMEDY


def test_an_io_error_of_a_full_disk_is_that(monkeypatch, tmp_path):
    """SQLite reports shared memory that it cannot enlarge as `disk I/O error`."""
    path = tmp_path / "gw.db"
    assert "disk I/O error" in describe(apsw.IOError("disk I/O error"), path)
    free = namedtuple("free", "f_bavail f_frsize")
    monkeypatch.setattr(disk.os, "statvfs", lambda folder: free(3, 4096))
    assert is_full(path)
    assert describe(apsw.IOError("disk I/O error"), path).startswith("disk full: ")


async def test_a_lock_file_that_cannot_be_written(tmp_path):
    database = tmp_path / "gw.db"
    lock.lock_path(database).symlink_to("/dev/full")
    with pytest.raises(StoreUnavailable, match=r"lock file: disk full: .*gw\.db\.lock cannot be written; free some space"):
        await lock.acquire(database, started=0.0, facts={})


def test_a_disk_that_fills_up_within_a_migration(tmp_path):
    db = apsw.Connection(str(tmp_path / "gw.db"))
    with files_end_at(8_192), pytest.raises((apsw.FullError, apsw.IOError)):
        migrate(db)
    db.close()
