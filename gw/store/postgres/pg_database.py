"""The writer's side of PostgreSQL: one connection, which is made anew after a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from gw.errors import DatabaseUnusable, StoreUnavailable
from gw.store import entity_rows, first_audio, minute_sums, model_minutes
from gw.store.batches import in_halves
from gw.store.core_share import BetweenSteps, keep_the_core
from gw.store.entity_rows import Change
from gw.store.postgres import partitions, pg_records, pg_schema, slot_rollups
from gw.store.postgres.copy_over import unfinished_copy
from gw.store.postgres.pg_connection import TRANSIENT, PgConnection, connect, describe, named, translated
from gw.store.record_database import RecordDatabase, Refused
from gw.store.sql_connection import SqlConnection
from gw.types.secret import Secret
from gw.types.usage import RequestRecord

T = TypeVar("T")


class PostgresTarget:
    """Implements `DatabaseTarget`. It goes to the process that writes through a private pipe, so the address is plain text."""

    transient: tuple[type[Exception], ...] = (*TRANSIENT, StoreUnavailable)

    def __init__(self, url: str, instance: str) -> None:
        self._address = url
        self._instance = instance
        self.name = named(Secret(url))

    def open(self) -> RecordDatabase:
        return PostgresRecords(Secret(self._address), self._instance)

    def describe(self, error: Exception) -> str:
        return error.what if isinstance(error, StoreUnavailable) else describe(error, self.name)

    def lost(self) -> Exception | None:
        return None


class PostgresRecords(PostgresTarget):
    """Implements `RecordDatabase`."""

    def __init__(self, url: Secret, instance: str, *, on_progress: pg_schema.Progress | None = None) -> None:
        """Connect and upgrade the schema. Blocks. Raises psycopg's errors, DatabaseUnusable."""
        super().__init__(url.reveal(), instance)
        self._url = url
        self._db: PgConnection | None = None
        self._writer: pg_records.BatchWriter | None = None
        self._open(on_progress)

    def _open(self, on_progress: pg_schema.Progress | None = None) -> tuple[PgConnection, pg_records.BatchWriter]:
        """Return the connection; make a new one after a fault. Its slot may be another one then."""
        if self._db is None or self._writer is None or self._db.is_lost:
            self.close()
            db = connect(self._url)
            try:
                pg_schema.migrate(db, self.name, on_progress=on_progress)
                if (mark := unfinished_copy(db)) is not None:
                    raise DatabaseUnusable(what=f"{self.name} has an unfinished copy of {mark.source}: run `gw db copy` again")
                pg_records.prepare(db)
                writer = pg_records.BatchWriter(db, slot_rollups.lease_slot(db, self._instance))
            except BaseException:
                db.close()
                raise
            self._db, self._writer = db, writer
        return self._db, self._writer

    @contextmanager
    def _connected(self) -> Iterator[tuple[PgConnection, pg_records.BatchWriter]]:
        try:
            yield self._open()
        except TRANSIENT:
            self.close()  # also after a fault that leaves it usable: a new one is never in an unknown state
            raise

    def write(self, records: Sequence[RequestRecord], between: BetweenSteps = keep_the_core) -> tuple[int, Refused]:
        """Between two statements it waits for the server, so `between` is not needed."""
        with self._connected() as (_, writer):
            return in_halves(writer.write, records, pg_records.RECORD_FAULTS)

    def load(self, records: Sequence[RequestRecord]) -> int:
        with translated(self.name), self._connected() as (_, writer):
            return writer.write(records, from_elsewhere=True)

    def change(self, change: Change) -> None:
        with translated(self.name), self._connected() as (db, _), db.raw.transaction():
            entity_rows.write(db, change)

    def run(self, work: Callable[[SqlConnection], T]) -> T:
        with self._connected() as (db, _):
            return work(db)

    def prune(self, *, before: float, limit: int, between: BetweenSteps = keep_the_core) -> int:
        """Drop the days that ended before then; make the next ones, so that no record waits for that; merge old sums."""
        with self._connected() as (db, writer):
            if dropped := partitions.drop(db, before=before):
                minute_sums.TABLE.prune(db)
                model_minutes.TABLE.prune(db)
                first_audio.prune(db)
            writer.forget_days()
            if (hour := slot_rollups.newest_hour(db)) is not None:
                writer.ensure_days((hour // 24, hour // 24 + 1))
                slot_rollups.compact(db, before=hour * 3_600 - slot_rollups.COMPACT_AFTER_S)
            return dropped

    def tidy(self, *, idle: bool) -> Callable[[], object] | None:
        return None

    def close(self) -> None:
        db, self._db, self._writer = self._db, None, None
        if db is not None:
            db.close()
