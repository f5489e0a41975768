"""The writer's side of SQLite: one connection, in WAL mode, to a file that must stay where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from gw.store import entity_rows, first_audio, minute_sums, model_minutes, requests
from gw.store.batches import write_batch, write_possible
from gw.store.core_share import BetweenSteps, keep_the_core
from gw.store.record_database import RecordDatabase, Refused
from gw.store.row_times import RecentRows
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import TRANSIENT, DatabaseGone, OpenedFile, describe, open_again, translated
from gw.types.usage import RequestRecord

T = TypeVar("T")

BUSY_MS = 100  # SQLite's own wait for a foreign writer; beyond it the writer backs off, and logs it
_STEPS = 400  # of SQLite's virtual machine, about 40 µs: calling Python so often makes the work 5 % longer
_CHECKPOINT_PAGES = 1_000  # of WAL, 4 MB: moved to the database when nothing is queued ...
_CHECKPOINT_NOW_PAGES = 8_000  # ... and at this size in any case


class SqliteTarget:
    """Implements `DatabaseTarget`: the file, which is told from another of its name."""

    transient: tuple[type[Exception], ...] = TRANSIENT

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = OpenedFile(path)

    def open(self) -> RecordDatabase:
        return SqliteRecords(open_again(self.file), self)

    def describe(self, error: Exception) -> str:
        assert isinstance(error, apsw.Error)
        return describe(error, self.path)

    def lost(self) -> Exception | None:
        try:
            self.file.check()
        except DatabaseGone as error:
            return error
        return None


class SqliteRecords(SqliteTarget):
    """Implements `RecordDatabase`."""

    def __init__(self, db: apsw.Connection, target: SqliteTarget) -> None:
        self.path, self.file = target.path, target.file
        self._db = db
        self._wal_pages = 0
        self._recent = RecentRows()
        db.set_busy_timeout(BUSY_MS)
        db.set_wal_hook(self._on_commit)

    def write(self, records: Sequence[RequestRecord], between: BetweenSteps = keep_the_core) -> tuple[int, Refused]:
        """Write to the file that is at the path: a commit to a deleted one would free the journal's lines."""
        self.file.check()
        self._call_within_statements(between)
        written = write_possible(self._db, records, self._recent, between)
        self.file.check()  # deleted meanwhile: writing them again changes nothing
        return written

    def load(self, records: Sequence[RequestRecord]) -> int:
        with translated(self.path):
            self.file.check()
            return write_batch(self._db, records, ends_interrupted=True, recent=self._recent)

    def change(self, change: entity_rows.Change) -> None:
        with translated(self.path):
            self.file.check()
            entity_rows.apply(self._db, change)

    def run(self, work: Callable[[SqlConnection], T]) -> T:
        return work(self._db)

    def prune(self, *, before: float, limit: int, between: BetweenSteps = keep_the_core) -> int:
        self._call_within_statements(between)
        deleted = requests.prune(self._db, before=before, limit=limit)
        if deleted:
            minute_sums.TABLE.prune(self._db)
            model_minutes.TABLE.prune(self._db)
            first_audio.prune(self._db)
        return deleted

    def tidy(self, *, idle: bool) -> Callable[[], object] | None:
        """Move the WAL into the database as far as readers allow."""
        return self._checkpoint if self._wal_pages >= (_CHECKPOINT_PAGES if idle else _CHECKPOINT_NOW_PAGES) else None

    def _checkpoint(self) -> None:
        self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._wal_pages = 0

    def close(self) -> None:
        """Close the connection. If the file is gone, no WAL is removed: by now it would be that of another database."""
        try:
            self.file.check()
        except DatabaseGone:
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._db.close()

    def _call_within_statements(self, between: BetweenSteps) -> None:
        self._db.set_progress_handler(None if between is keep_the_core else between, _STEPS)

    def _on_commit(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK
