"""Empty databases for tests of the store, of each kind that this machine has: SQLite in memory, and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import apsw
import psycopg

from gw.store import entity_rows, requests, rollups
from gw.store.batches import write_batch
from gw.store.entity_rows import Change
from gw.store.migrations import migrate
from gw.store.postgres import partitions, pg_records, pg_schema
from gw.store.postgres.pg_connection import PgConnection, connect
from gw.types.secret import Secret
from gw.types.usage import RequestRecord
from tests.fakes.postgres_server import PostgresServer, programs

POSTGRES = ["postgres"] if programs() is not None else []
"""Parameters of tests that need PostgreSQL: none where it is not installed, which the session `tests` says."""
KINDS = ["sqlite", *POSTGRES]
LATER_TABLES = ("rollup_attempt_day", "sums_minute", "first_audio_minute", "turn_waits", "model_minute")
"""Tables of the last steps of both schemas."""
WITH_LATER_COLUMN = ("requests", "rollup_hour", "rollup_day")
_TABLES = """
select string_agg(format('%I.%I', schemaname, tablename), ', ') from pg_tables
where schemaname = 'gw' and tablename not in ('schema_version', 'entities_version')"""


def drop_totals(db):
    """Drop the sums of all projects together, which are views in SQLite, and its index of ends: the last steps of the schema."""
    if not isinstance(db, PgConnection):
        db.execute("drop index requests_ending")
    for table in rollups.TOTALS.values():
        db.execute(f"drop {'table' if isinstance(db, PgConnection) else 'view'} {table}")


def drop_later(db):
    """Drop what the last steps of both schemas have added, for a test that repeats an earlier step."""
    drop_totals(db)
    if isinstance(db, PgConnection):
        db.raw.execute("drop index requests_ending")
    for table in LATER_TABLES:
        db.execute(f"drop table {table}")
    for table in WITH_LATER_COLUMN:
        db.execute(f"alter table {table} drop column saved_nusd")


@cache
def server() -> PostgresServer:
    """Return the server of this test process, which `remove_server` ends."""
    return PostgresServer()


def remove_server() -> None:
    if server.cache_info().currsize:
        server().remove()
        server.cache_clear()


def empty(url: str) -> None:
    """Make the schema of gw, if there is none, and empty its tables."""
    db = connect(Secret(url))
    pg_schema.migrate(db, "the database")
    [(tables,)] = db.raw.execute(_TABLES).fetchall()
    db.raw.execute(f"truncate {tables} restart identity")
    db.close()


@contextmanager
def new_database(kind: str) -> Iterator[Any]:
    """Yield a connection to an empty database. PostgreSQL's is the same one each time."""
    if kind == "sqlite":
        sqlite = apsw.Connection(":memory:")
        migrate(sqlite)
        yield sqlite
        sqlite.close()
        return
    url = server().url("gw")
    if not server().execute("select 1 from pg_database where datname = 'gw'"):
        server().execute("create database gw")
    empty(url)
    db = connect(Secret(url))
    pg_records.prepare(db)
    yield db
    db.close()


def write(db: Any, records: Sequence[RequestRecord], *, ends_interrupted: bool = False, slot: int = 1) -> int:
    """Write a batch as the store's writer does; return how many records were new."""
    if isinstance(db, PgConnection):
        return pg_records.BatchWriter(db, slot).write(records, from_elsewhere=ends_interrupted)
    return write_batch(db, records, ends_interrupted=ends_interrupted)


def apply(db: Any, change: Change) -> None:
    if isinstance(db, PgConnection):
        with db.raw.transaction():
            entity_rows.write(db, change)
    else:
        entity_rows.apply(db, change)


def in_transaction(db: Any) -> bool:
    return db.raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE if isinstance(db, PgConnection) else db.in_transaction


def prune(db: Any, *, before: float) -> int:
    """Delete what is older; PostgreSQL's days go as a whole."""
    return partitions.drop(db, before=before) if isinstance(db, PgConnection) else requests.prune(db, before=before, limit=9)


def fresh_url() -> str:
    """Return the address of an empty PostgreSQL database, the same one each time."""
    if not server().execute("select 1 from pg_database where datname = 'gw'"):
        server().execute("create database gw")
    empty(server().url("gw"))
    return server().url("gw")
