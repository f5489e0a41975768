"""Opens SQLite files of private content beside the database, such as captures and phrases: encrypted bodies, deleted ones overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import apsw

from gw.store.sqlite import make_private

_BUSY_MS: Final = 2_000


def open_private_file(path: Path, schema: str, application_id: int, kind: str, *, read_only: bool) -> apsw.Connection:
    """Return a connection to the file, which is made if it is missing and may be written.

    `kind` is what the message calls a file with another `application_id`. Blocks. Raises apsw's errors.
    """
    if not read_only:
        make_private(path)
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE)
    try:
        _set_up(db, schema, application_id, kind, read_only=read_only)
    except BaseException:
        db.close()
        raise
    return db


def _set_up(db: apsw.Connection, schema: str, application_id: int, kind: str, *, read_only: bool) -> None:
    db.set_busy_timeout(_BUSY_MS)
    db.pragma("trusted_schema", False)
    db.pragma("temp_store", "memory")
    if read_only:
        db.pragma("query_only", True)
        return
    if not db.execute("select count(*) from sqlite_schema").get:
        db.pragma("auto_vacuum", 1)  # what is deleted makes the file smaller at once
        db.pragma("journal_mode", "wal")
        db.execute(schema)
        db.pragma("application_id", application_id)
    elif db.pragma("application_id") != application_id:
        raise apsw.NotADBError(f"it is not {kind}")
    db.pragma("journal_mode", "wal")
    db.pragma("secure_delete", True)
    db.pragma("synchronous", "normal")  # a power cut may lose the last moments, on which nothing depends
