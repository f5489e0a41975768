"""Connections: files and their modes, pragmas, and the translation of SQLite's errors.

Writing happens on one connection (`gw.store.committer`), reading on a few read-only ones (`gw.store.reader_pool`). The processes
that write and report import this, so it loads neither trio nor structlog.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from gw.errors import DatabaseLocked, DatabaseUnusable, StoreUnavailable
from gw.store import migrations
from gw.store.disk import full_disk, is_full, why

S = TypeVar("S", bound=msgspec.Struct)

BUSY_TIMEOUT_MS = 5_000
READ_LIMIT_S = 5.0
TOO_LONG = f"the report took longer than {READ_LIMIT_S:g} s"
CHECK_STEPS = 20_000  # virtual machine steps between two checks of the stop flag: about 1 ms
_SHORT_WAL_BYTES = 2**20
_QUICK_CHECK_BYTES = 64 * 2**20
"""Databases up to this size are checked when opened (under 0.2 s); larger ones would hold up the start."""

TRANSIENT: tuple[type[apsw.Error], ...] = (
    apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError,
    apsw.PermissionsError, apsw.ProtocolError, apsw.NoMemError, apsw.CorruptError, apsw.NotADBError,
)  # fmt: skip
"""Faults of the disk or of another program: retrying is right, and no record is lost meanwhile. Any other is our bug."""


class DatabaseGone(apsw.CantOpenError):
    """The file at the database's path is not the one that was opened: what is written would be lost with the process."""


class OpenedFile:
    """The file of a database, by device and inode, to notice that it was deleted or replaced while it is open.

    Goes to the process that writes, so that it never opens another file than the gateway has opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened = self._identity()

    def check(self) -> None:
        """Raise DatabaseGone if another file, or none, is at the path now."""
        if (now := self._identity()) != self._opened:
            raise DatabaseGone("deleted" if now is None else "replaced")

    def _identity(self) -> tuple[int, int] | None:
        try:
            file = self.path.stat()
        except OSError:
            return None
        return file.st_dev, file.st_ino


def describe(error: apsw.Error, path: Path) -> str:
    """Return one line for people: what is wrong with the database and what to do."""
    match error:
        case DatabaseGone():
            return (
                f"the database {path} was {error} while gw runs; records wait in the journal beside it: put the file back, "
                "or start gw again, which writes them to the database that is there then"
            )
        case apsw.BusyError() | apsw.LockedError():
            return f"database is locked: another program is writing to {path}"
        case apsw.FullError():
            return full_disk(path)
        case apsw.IOError() | apsw.CantOpenError() if is_full(path):
            return full_disk(path)
        case apsw.CorruptError() | apsw.NotADBError():
            return (
                f"the database {path} is damaged or not a database ({error}); restore a backup, or move the file away "
                "to start with an empty one. It was not changed"
            )
        case _:
            return f"the database {path} cannot be used: {error}"


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors, except those for bugs of ours, into DatabaseLocked or StoreUnavailable."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise DatabaseLocked(what=describe(error, path)) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise DatabaseUnusable(what=describe(error, path)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:  # SQLite has no checksums: a changed value is found by reading it
        raise DatabaseUnusable(what=describe(apsw.CorruptError(f"a row cannot be read: {error}"), path)) from error
    except TRANSIENT as error:
        raise StoreUnavailable(what=describe(error, path)) from error


def content(value: object) -> bytes | str:
    """Return what a column without nulls and numbers holds. Raises CorruptError for another type: its page is damaged."""
    if isinstance(value, (bytes, str)):
        return value
    raise apsw.CorruptError(f"a row cannot be read: {type(value).__name__} where there is always text")


def struct_of(kind: type[S], row: Sequence[Any]) -> S:
    """Make a struct from a row whose columns are in the order of its fields."""
    return kind(**dict(zip(kind.__struct_fields__, row, strict=True)))


def open_writer(path: Path, *, on_progress: migrations.Progress | None = None) -> apsw.Connection:
    """Open, create or upgrade the database. Blocks. Raises DatabaseLocked, StoreUnavailable; deletes nothing."""
    _refuse_emptied(path)
    _set_wal_aside(path)
    make_private(path)
    with translated(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            _set_up(db)
            _check_readable(db)
            _check_ours(db, path)
            _quick_check(db, path)
            db.pragma("journal_mode", "wal")
            _set_up_writing(db)
            _migrate(db, on_progress)
        except BaseException:
            db.close()
            raise
        return db


def open_again(file: OpenedFile) -> apsw.Connection:
    """Open the database that `open_writer` has opened, to write. Blocks. Raises apsw.Error, DatabaseGone for another file."""
    file.check()
    db = apsw.Connection(str(file.path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        _set_up(db)
        _set_up_writing(db)
        file.check()
    except BaseException:
        db.close()
        raise
    return db


def close_for_another(db: apsw.Connection, path: Path) -> None:
    """Close a connection whose place another process takes; a long WAL is left to it, for moving it takes its time. Blocks."""
    if _size(wal_of(path)) > _SHORT_WAL_BYTES:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.close()


def _migrate(db: apsw.Connection, on_progress: migrations.Progress | None) -> None:
    """Upgrade. Raise apsw.CorruptError where the tables are not those of the schema's version, which is in the file's header."""
    version = db.pragma("user_version")
    try:
        migrations.migrate(db, on_progress=on_progress)
    except apsw.SQLError as error:
        raise apsw.CorruptError(f"its tables are not those of its schema version {version}: {error}") from error


def open_reader(path: Path, *, any_schema: bool = False) -> apsw.Connection:
    """Open a read-only connection to an up-to-date database (`any_schema`: or an older one). Blocks. Raises StoreUnavailable."""
    if not path.exists():
        raise StoreUnavailable(what=f"there is no database at {path}")
    _refuse_emptied(path)
    with translated(path):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            _set_up(db)
            db.pragma("query_only", True)
            _check_readable(db)
            _check_ours(db, path)
            if not any_schema and (version := db.pragma("user_version")) < migrations.VERSION:
                remedy = f"`gw db migrate` or the next `gw serve` brings it to {migrations.VERSION}"
                raise StoreUnavailable(what=f"the database {path} has schema {version}; {remedy}")
        except BaseException:
            db.close()
            raise
        return db


def schema_version(path: Path) -> int:
    """Return the schema version of a database that may be older than this gw. Blocks. Raises StoreUnavailable."""
    with closing(open_reader(path, any_schema=True)) as db:
        return int(db.pragma("user_version"))


def prepare_folder(path: Path) -> Path:
    """Return the database's path without links; make its folder (0700) if missing. Blocks. Raises StoreUnavailable."""
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(what=f"cannot create the folder of the database: {why(error, real.parent)}") from error
    return real


def make_private(path: Path) -> None:
    """Create the file (0600) if missing. SQLite gives the WAL the mode of the database. Raises StoreUnavailable."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_mode & 0o077:
                os.fchmod(fd, 0o600)
        finally:
            os.close(fd)
    except OSError as error:
        raise StoreUnavailable(what=f"cannot open the database: {why(error, path)}") from error


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _refuse_emptied(path: Path) -> None:
    """Raise StoreUnavailable for an empty file beside a WAL with content, which opening the database would delete.

    SQLite writes the first page before there is a WAL, so something else has emptied the file.
    """
    wal = wal_of(path)
    if _size(path) == 0 and _size(wal) > 0:
        remedy = f"restore a backup and remove {wal.name}, or move both away to start with an empty database"
        raise DatabaseUnusable(what=f"the database {path} is empty, but {wal.name} beside it has data: {remedy}. Nothing was changed")


def _set_wal_aside(path: Path) -> None:
    """Keep, under another name, the WAL of a database that was removed: a new database would overwrite it."""
    wal = wal_of(path)
    if not path.exists() and _size(wal) > 0:
        aside = wal.with_name(f"{wal.name}.bad")
        try:
            wal.rename(aside)
        except OSError as error:
            raise StoreUnavailable(what=f"cannot move {wal} aside: {error.strerror}") from error
        import structlog  # rarely needed, and not by every process

        structlog.get_logger().warning("database_wal_set_aside", path=str(aside), why=f"there is no database at {path}")


def _size(path: Path) -> int:
    """Return the size of a file, -1 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _set_up(db: apsw.Connection) -> None:
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.pragma("trusted_schema", False)
    db.pragma("cell_size_check", True)


def _set_up_writing(db: apsw.Connection) -> None:
    db.pragma("synchronous", "full")
    db.pragma("foreign_keys", True)
    db.pragma("temp_store", "memory")  # else each insert of a large batch saves whole pages to a temporary file


def _check_readable(db: apsw.Connection) -> None:
    """Raise apsw.CorruptError where SQLite cannot read the schema: it says so with the code of a faulty statement."""
    try:
        db.execute("select count(*) from sqlite_schema")
    except apsw.SQLError as error:
        raise apsw.CorruptError(str(error)) from error


def _check_ours(db: apsw.Connection, path: Path) -> None:
    empty = not db.execute("select count(*) from sqlite_schema").get
    if not empty and db.pragma("application_id") != migrations.APPLICATION_ID:
        raise DatabaseUnusable(what=f"{path} is the database of another program; choose another cost_tracking.db_path")
    if (version := db.pragma("user_version")) > migrations.VERSION:
        known = f"schema {version}, this one knows {migrations.VERSION}"
        raise DatabaseUnusable(what=f"the database {path} was written by a newer gw ({known})")


def _quick_check(db: apsw.Connection, path: Path) -> None:
    if path.stat().st_size <= _QUICK_CHECK_BYTES and (problem := db.pragma("quick_check", 1)) != "ok":
        raise apsw.CorruptError(str(problem).splitlines()[-1])
