"""Connections: files and their modes, pragmas, the readers' threads, and SQLite's errors in our words.

Writing happens on one connection, in the writer's thread. Reading happens on a few read-only connections, each lent to
one worker thread at a time; in WAL mode readers and the writer do not wait for each other, and SQLite steps run without
the interpreter's lock, so a report does not hold up the data plane.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw
import trio

from gw.errors import DatabaseLocked, StoreUnavailable
from gw.store import migrations
from gw.telemetry.clock import Clock

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5_000
READERS = 4
"""Reports at a time; more wait for their turn. Each may hold a thread and about 2 MB of page cache."""
READ_LIMIT_S = 5.0
TOO_LONG = f"the report took longer than {READ_LIMIT_S:g} s"
CHECK_STEPS = 20_000
"""Virtual machine steps between two looks at the stop flag: about 1 ms."""
_QUICK_CHECK_BYTES = 64 * 2**20
"""Databases up to this size are checked when opened (under 0.2 s); larger ones would hold up the start."""

TRANSIENT: tuple[type[apsw.Error], ...] = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.ProtocolError,
    apsw.NoMemError,
    apsw.CorruptError,
    apsw.NotADBError,
)
"""Faults of the disk or of a neighbour: retrying is right, and no record is lost meanwhile. Any other is our bug."""


def describe(error: apsw.Error, path: Path) -> str:
    """One line for people: what is wrong with the database and what to do."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return f"database is locked: another program is writing to {path}"
        case apsw.FullError():
            return f"disk full: {path} cannot grow; free some space"
        case apsw.CorruptError() | apsw.NotADBError():
            return (
                f"the database {path} is damaged or not a database ({error}); restore a backup, or move the file away "
                "to begin an empty one. It was not changed"
            )
        case _:
            return f"the database {path} cannot be used: {error}"


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors that are no bug of ours into DatabaseLocked or StoreUnavailable."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise DatabaseLocked(what=describe(error, path)) from error
    except TRANSIENT as error:
        raise StoreUnavailable(what=describe(error, path)) from error


def open_writer(path: Path, *, on_progress: migrations.Progress | None = None) -> apsw.Connection:
    """Open, create or upgrade the database. Blocks. Raises DatabaseLocked, StoreUnavailable; deletes nothing."""
    make_private(path)
    with translated(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            _set_up(db)
            _check_ours(db, path)
            _quick_check(db, path)
            db.pragma("journal_mode", "wal")
            db.pragma("synchronous", "full")
            db.pragma("foreign_keys", True)
            db.pragma("temp_store", "memory")  # else each insert of a large batch saves whole pages to a temporary file
            migrations.migrate(db, on_progress=on_progress)
        except BaseException:
            db.close()
            raise
        return db


def open_reader(path: Path, *, any_schema: bool = False) -> apsw.Connection:
    """A read-only connection to an up-to-date database, or to an older one too. Blocks. Raises StoreUnavailable."""
    if not path.exists():
        raise StoreUnavailable(what=f"there is no database at {path}")
    with translated(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            _set_up(db)
            db.pragma("query_only", True)
            _check_ours(db, path)
            if not any_schema and (version := db.pragma("user_version")) < migrations.VERSION:
                remedy = f"`gw db migrate` or the next `gw serve` brings it to {migrations.VERSION}"
                raise StoreUnavailable(what=f"the database {path} has schema {version}; {remedy}")
        except BaseException:
            db.close()
            raise
        return db


def schema_version(path: Path) -> int:
    """Of a database that may be older than this version of gw. Blocks. Raises StoreUnavailable."""
    db = open_reader(path, any_schema=True)
    try:
        version: int = db.pragma("user_version")
    finally:
        db.close()
    return version


def prepare_folder(path: Path) -> Path:
    """The database's path without links, its folder made (0700) when missing. Blocks. Raises StoreUnavailable."""
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(what=f"cannot create the folder {real.parent}: {error.strerror}") from error
    return real


def make_private(path: Path) -> None:
    """Create the file (0600) when missing. SQLite gives the WAL the mode of the database. Raises StoreUnavailable."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_mode & 0o077:
                os.fchmod(fd, 0o600)
        finally:
            os.close(fd)
    except OSError as error:
        raise StoreUnavailable(what=f"cannot open the database {path}: {error.strerror}") from error


def _set_up(db: apsw.Connection) -> None:
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.pragma("trusted_schema", False)
    db.pragma("cell_size_check", True)


def _check_ours(db: apsw.Connection, path: Path) -> None:
    empty = not db.execute("select count(*) from sqlite_schema").get
    if not empty and db.pragma("application_id") != migrations.APPLICATION_ID:
        raise StoreUnavailable(what=f"{path} is the database of another program; choose another cost_tracking.db_path")
    if (version := db.pragma("user_version")) > migrations.VERSION:
        known = f"schema {version}, this one knows {migrations.VERSION}"
        raise StoreUnavailable(what=f"the database {path} was written by a newer gw ({known})")


def _quick_check(db: apsw.Connection, path: Path) -> None:
    if path.stat().st_size <= _QUICK_CHECK_BYTES and (found := db.pragma("quick_check", 1)) != "ok":
        raise apsw.CorruptError(str(found).splitlines()[-1])


class ReaderPool:
    """Read-only connections, each used by one thread at a time, opened when first needed."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._limiter = trio.CapacityLimiter(READERS)
        self._idle: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    async def read(self, query: Callable[[apsw.Connection], T]) -> T:
        """Run `query` in a thread. A cancelled caller is gone at once and its statement stops within about 1 ms.

        Raises StoreUnavailable, also after READ_LIMIT_S.
        """
        left = threading.Event()
        try:
            return await trio.to_thread.run_sync(
                self._run, query, left, abandon_on_cancel=True, limiter=self._limiter
            )
        finally:
            left.set()

    def _run(self, query: Callable[[apsw.Connection], T], left: threading.Event) -> T:
        began = self._clock.now()

        def stop() -> bool:
            # Wall time is good enough to end a report that runs away: after a jump of the clock it is asked for again.
            return left.is_set() or self._clock.now() - began > READ_LIMIT_S

        with self._connection() as db, translated(self._path):
            db.set_progress_handler(stop, CHECK_STEPS)
            try:
                return query(db)
            except apsw.InterruptError:
                raise StoreUnavailable(what=TOO_LONG) from None
            finally:
                db.set_progress_handler(None)

    @contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        with self._lock:
            db = self._idle.pop() if self._idle else None
        if db is None:
            db = open_reader(self._path)
        try:
            yield db
        finally:
            with self._lock:
                keep = not self._closed
                if keep:
                    self._idle.append(db)
            if not keep:
                db.close()

    def close(self) -> None:
        """Close what is idle; a connection still in an abandoned thread is closed by that thread."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()
