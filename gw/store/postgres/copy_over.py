"""Copy a SQLite database into an empty PostgreSQL database: records, sums, entities, audit log, and what else it has.

Rows go over as they are; sums become rows of slot 0. Each table of sums is one transaction, records are one per batch, and how far the
copy has come is stored in the same transactions. So a copy that is interrupted goes on where it was, and nothing is there twice. Until it
is complete, no gateway starts on the database.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import msgspec

from gw.errors import DatabaseUnusable
from gw.store import attempt_rollups, entity_rows, first_audio, minute_sums, model_minutes, rollups
from gw.store.postgres import partitions, pg_records, pg_schema
from gw.store.postgres.pg_connection import PgConnection, connect, copy_rows, named, translated
from gw.store.postgres.slot_rollups import MERGED
from gw.store.requests import COLUMNS
from gw.store.rollups import KEYS, SUMS, TOTALS_KEYS, TOTALS_SUMS
from gw.store.sqlite import open_reader
from gw.types.secret import Secret

MARK = "copy"
"""Name of the meta value that says how far a copy has come."""
BATCH = 2_000
_SUM_COLUMNS = (*KEYS, *SUMS, "ttfb", "latency")
_ATTEMPT_COLUMNS = ("bucket", "provider", "model_id", "next_model_id", "outcome", "attempts", "last_at", "last_error")
_AUDIO_COLUMNS = ("bucket", "project", "stack", "waits")
_TABLES: dict[str, tuple[str, ...]] = {
    "rollup_hour": _SUM_COLUMNS,
    "rollup_day": _SUM_COLUMNS,
    **dict.fromkeys(attempt_rollups.TABLES.values(), _ATTEMPT_COLUMNS),
    **dict.fromkeys(first_audio.TABLES.values(), _AUDIO_COLUMNS),
    minute_sums.TABLE.name: minute_sums.TABLE.columns,
    model_minutes.TABLE.name: model_minutes.TABLE.columns,
    "turn_waits": ("began", "project", "stack", "wait_ms"),
    "owner_spend": ("owner", "id", "day", "nusd"),
    "managed": ("kind", "id", "body"),
    "audit": ("seq", "timestamp", "entity_type", "entity_id", "action", "changes", "source", "actor"),
    "transcripts": ("id", "project", "expires_at", "body"),
    "callbacks": ("id", "expires_at", "body"),
    "alert_incidents": ("id", "closed_at", "body"),
    "alert_outbox": ("id", "receiver", "created_at", "tries", "last_error", "body"),
    "alert_mutes": ("rule", "until"),
    "meta": ("name", "value"),
}
"""Table → columns that are copied."""
_WITH_SLOT = {
    *rollups.TABLES.values(), *attempt_rollups.TABLES.values(), *first_audio.TABLES.values(), minute_sums.TABLE.name,
    model_minutes.TABLE.name, "owner_spend",
}  # fmt: skip
_GRAINS = {table: grain for grain, table in rollups.TABLES.items()}
_ADD_UP = {
    grain: f"""
insert into {rollups.TOTALS[grain]} ({", ".join((*TOTALS_KEYS, "slot", *TOTALS_SUMS))})
select {", ".join((*TOTALS_KEYS, "slot", *(f"sum({name})" for name in TOTALS_SUMS)))}
from {table} group by {", ".join((*TOTALS_KEYS, "slot"))}"""
    for grain, table in rollups.TABLES.items()
}
"""Grain → the statement that makes the sums of all projects together, which SQLite does not store."""
_NUMBER_AUDIT = "select setval(pg_get_serial_sequence('audit', 'seq'), (select coalesce(max(seq), 0) + 1 from audit), false)"

Progress = Callable[[int, int], None]
"""Called with the rows copied and their total, in the thread that copies. An error that it raises ends the copy."""


class CopyMark(msgspec.Struct):
    """Progress of a copy. `seq`: of the last record in the source; `records`: how many have been copied."""

    source: str
    tables: list[str] = []
    seq: int = 0
    records: int = 0
    done: bool = False


def unfinished_copy(db: PgConnection) -> CopyMark | None:
    """Return the mark of a copy that was interrupted."""
    mark = _read_mark(db)
    return mark if mark is not None and not mark.done else None


def copy_over(source: Path, url: Secret, *, on_progress: Progress) -> CopyMark:
    """Copy a database that no gateway uses. Blocks. Raises StoreUnavailable, DatabaseUnusable if the target has records already."""
    name = named(url)
    with translated(name), closing(open_reader(source)) as sqlite, closing(connect(url, answer_s=math.inf)) as db:
        pg_schema.migrate(db, name)
        pg_records.prepare(db)
        mark = _begin(db, str(source), name)
        totals = {table: int(sqlite.execute(f"select count(*) from {table}").get) for table in (*_TABLES, "requests")}
        total, done = sum(totals.values()), mark.records + sum(totals[table] for table in mark.tables)
        for table, columns in _TABLES.items():
            if table not in mark.tables:
                with db.raw.transaction():
                    _copy_table(sqlite, db, table, columns)
                    mark.tables.append(table)
                    _write_mark(db, mark)
                done += totals[table]
                on_progress(done, total)
        for batch in _batches(sqlite, mark.seq):
            mark.records += _copy_records(db, batch, mark)
            done += len(batch)
            on_progress(done, total)
        mark.done = True
        _write_mark(db, mark)
        db.raw.execute("analyze requests")
    return mark


def _begin(db: PgConnection, source: str, name: str) -> CopyMark:
    mark = _read_mark(db)
    if mark is not None and mark.done:
        raise DatabaseUnusable(what=f"{name} has the copy of {mark.source} already, complete")
    if mark is not None and mark.source != source:
        raise DatabaseUnusable(what=f"{name} has an unfinished copy of {mark.source}: finish that, or drop the schema gw")
    if mark is None:
        if db.execute("select exists (select 1 from requests) or exists (select 1 from managed) or exists (select 1 from audit)").get:
            raise DatabaseUnusable(what=f"{name} has records already: a copy needs an empty database")
        mark = CopyMark(source)
        _write_mark(db, mark)
    return mark


def _read_mark(db: PgConnection) -> CopyMark | None:
    stored = entity_rows.meta(db, MARK)
    return None if stored is None else msgspec.json.decode(stored, type=CopyMark)


def _write_mark(db: PgConnection, mark: CopyMark) -> None:
    entity_rows.set_meta(db, MARK, msgspec.json.encode(mark).decode())


def _copy_table(sqlite: apsw.Connection, db: PgConnection, table: str, columns: Sequence[str]) -> None:
    rows: Iterable[Sequence[Any]] = sqlite.execute(f"select {', '.join(columns)} from {table}")
    if table == "meta":
        db.executemany("insert into meta (name, value) values (?, ?) on conflict (name) do nothing", rows)
        return
    if table in _WITH_SLOT:
        rows, columns = ((*row, MERGED) for row in rows), (*columns, "slot")
    copy_rows(db, table, columns, rows)
    if table in _GRAINS:
        db.raw.execute(_ADD_UP[_GRAINS[table]].encode())
    if table == "audit":
        db.raw.execute(_NUMBER_AUDIT)


def _batches(sqlite: apsw.Connection, after: int) -> Iterator[list[Sequence[Any]]]:
    """Yield rows of records, each with its number in the source at the end, in the order in which they were written."""
    rows = iter(sqlite.execute(f"select {', '.join(COLUMNS)}, seq from requests where seq > ? order by seq", (after,)))
    while batch := list(islice(rows, BATCH)):
        yield batch


def _copy_records(db: PgConnection, batch: Sequence[Sequence[Any]], mark: CopyMark) -> int:
    """Insert records without adding them to the sums; return how many."""
    at = COLUMNS.index("timestamp")
    partitions.make(db, {partitions.day_of(row[at]) for row in batch})
    mark.seq = batch[-1][-1]
    with db.raw.transaction():
        inserted = len(pg_records.insert_rows(db, (row[:-1] for row in batch)))
        _write_mark(db, msgspec.structs.replace(mark, records=mark.records + inserted))
    return inserted
