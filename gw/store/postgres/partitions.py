"""The days that `requests` is divided by: made when a record of them comes, and dropped as a whole by retention."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from psycopg import sql

from gw.store.postgres.pg_connection import SCHEMA, PgConnection
from gw.store.postgres.pg_schema import LOCK_PARTITION, lock
from gw.telemetry.clock import DAY_S

_PREFIX = "requests_day_"
_PRESENT = """
select child.relname from pg_inherits join pg_class child on child.oid = inhrelid
where inhparent = to_regclass(%s) and child.relname like %s"""
_MAKE = "create table {table} (like requests including all)"
_ATTACH = "alter table requests attach partition {table} for values from ({first}) to ({end})"


def day_of(timestamp: float) -> int:
    """Return the UTC day since 1970 of a time in Unix seconds."""
    return floor(timestamp / DAY_S)


def present(db: PgConnection) -> set[int]:
    """Return the days that exist."""
    rows = db.raw.execute(_PRESENT, (f"{SCHEMA}.requests", f"{_PREFIX}%")).fetchall()
    return {int(name.removeprefix(_PREFIX).replace("m", "-")) for (name,) in rows}


def make(db: PgConnection, days: Iterable[int]) -> None:
    """Make the days that do not exist yet, in a transaction. Reports that run meanwhile are not held up."""
    with db.raw.transaction():
        lock(db, LOCK_PARTITION)
        for day in sorted(set(days) - present(db)):
            parts = {"table": _table(day), "first": sql.Literal(float(day * DAY_S)), "end": sql.Literal(float((day + 1) * DAY_S))}
            db.raw.execute(sql.SQL(_MAKE).format(**parts))
            db.raw.execute(sql.SQL(_ATTACH).format(**parts))


def drop(db: PgConnection, *, before: float) -> int:
    """Drop the days that ended before this time (Unix seconds), the oldest first; return how many records they had.

    A drop waits for reports that read the table, for a second at most: others wait behind it.
    """
    dropped = 0
    for day in sorted(day for day in present(db) if (day + 1) * DAY_S <= before):
        with db.raw.transaction():
            lock(db, LOCK_PARTITION)
            if day in present(db):
                db.raw.execute("set local lock_timeout to 1000")
                [(count,)] = db.raw.execute(sql.SQL("select count(*) from {}").format(_table(day))).fetchall()
                db.raw.execute(sql.SQL("drop table {}").format(_table(day)))
                dropped += count
    return dropped


def _table(day: int) -> sql.Composable:
    return sql.Identifier(SCHEMA, f"{_PREFIX}{day}".replace("-", "m"))
