"""A batch of finished records and their rollups in one transaction, in PostgreSQL.

Records are copied into a table of the connection's own, and from there inserted if their id is new, all in two round trips, however
many there are. The key of `requests` has the record's time, by which it is divided; the id of a record whose time may differ from
a stored one's (it was made up for a request without an end, or comes from elsewhere) is looked up first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import errors

from gw.store import first_audio, requests, turn_joins
from gw.store.batches import VALUE_FAULTS
from gw.store.postgres import partitions, slot_rollups
from gw.store.postgres.pg_connection import PgConnection, storable
from gw.store.postgres.pg_schema import LOCK_TURN, LOCKS
from gw.store.requests import COLUMNS, bounded_float
from gw.store.row_times import RecentRows
from gw.telemetry.clock import DAY_S
from gw.types.usage import RequestRecord

RECORD_FAULTS: tuple[type[Exception], ...] = (*VALUE_FAULTS, psycopg.DataError, psycopg.IntegrityError)
"""Faults of one record. Any other is of the database, and concerns all records."""
_INTERRUPTED = "interrupted"
_NAMES = ", ".join(COLUMNS)
_MAKE_STAGING = f"create temp table staging on commit delete rows as select {_NAMES}, 0 as place from requests with no data"
_COPY = f"copy staging ({_NAMES}, place) from stdin"
_INSERT = f"""
insert into requests ({_NAMES}) select {_NAMES} from staging order by place on conflict (id, timestamp) do nothing returning id"""
_TAKE = f"delete from requests where id = any(%s) and error_code = '{_INTERRUPTED}' returning {_NAMES}"
_JOIN = """
update requests r set turn_id = k.turn_id, session_id = coalesce(r.session_id, k.session_id), heard = coalesce(k.heard, r.heard)
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[]) as k(turn_id, session_id, heard, id, project)
where r.id = k.id and r.project = k.project and r.timestamp between {since} and {until}
  and (r.turn_id is null or r.turn_id = k.turn_id and r.heard is null and k.heard is not null) returning r.id"""
_LOCK_TURNS = """
select pg_advisory_xact_lock(%s, number) from (select distinct hashtext(turn_id) as number from unnest(%s::text[]) turn_id order by 1) t"""
_TURNS = """
select turn_id, session_id, project, id, timestamp, modality, model_id, ttfb_ms, heard from requests
where turn_id = any(%s) and timestamp between {since} and {until} order by timestamp, seq limit 100000"""
_JOINED_WITHIN_S = 7 * DAY_S
"""Longest time between a request and an earlier one of its turn: days beyond it are not looked through."""


def prepare(db: PgConnection) -> None:
    """Make what a writing connection needs."""
    db.raw.execute(_MAKE_STAGING.encode())


class BatchWriter:
    """Writes batches on one connection, for one slot. Knows which days exist."""

    def __init__(self, db: PgConnection, slot: int, recent: RecentRows | None = None) -> None:
        self._db = db
        self.slot = slot
        self._recent = RecentRows() if recent is None else recent
        self._days = partitions.present(db)

    def write(self, records: Sequence[RequestRecord], *, from_elsewhere: bool = False) -> int:
        """Insert records and their rollups in one transaction; return how many were new. Blocks; all or nothing.

        With `from_elsewhere`, a record takes the place of the one that a replay made up when it knew of no end.
        """
        if not records:
            return 0
        for is_last in (False, True):
            try:
                self.ensure_days(partitions.day_of(bounded_float(record.timestamp)) for record in records)
                return self._write(records, from_elsewhere=from_elsewhere)
            except errors.CheckViolation:  # a day was dropped meanwhile
                self._recent.clear()
                if is_last:
                    raise
                self._days = partitions.present(self._db)
            except BaseException:
                self._recent.clear()
                raise
        raise AssertionError

    def ensure_days(self, days: Iterable[int]) -> None:
        if missing := set(days) - self._days:
            partitions.make(self._db, missing)
            self._days |= missing

    def forget_days(self) -> None:
        """Read anew which days exist, after some were dropped."""
        self._days = partitions.present(self._db)

    def _write(self, records: Sequence[RequestRecord], *, from_elsewhere: bool) -> int:
        db = self._db
        with db.raw.transaction():
            if from_elsewhere:
                ends = [record.id for record in records if record.error_code != _INTERRUPTED]
                slot_rollups.subtract(db, self.slot, _take_interrupted(db, ends), self._recent)
            looked_up = [record.id for record in records if from_elsewhere or record.error_code == _INTERRUPTED]
            known = _known(db, looked_up)
            fresh = _insert(db, [record for record in records if record.id not in known])
            slot_rollups.add(db, self.slot, fresh, self._recent)
            again = turn_joins.written_again(records, fresh)
            joined = _join_turns(db, records, again)
            heard = [*fresh, *(record for record in again if record.id in joined)]
            _count_first_audio(db, self.slot, first_audio.with_sound(heard))
        return len(fresh)


def _take_interrupted(db: PgConnection, ids: list[str]) -> list[RequestRecord]:
    """Delete those of the records that a replay made up; return them."""
    return [requests.record_of(row) for row in db.raw.execute(_TAKE.encode(), (ids,))] if ids else []


def _known(db: PgConnection, ids: list[str]) -> set[str]:
    return {id_ for (id_,) in db.raw.execute("select id from requests where id = any(%s)", (ids,))} if ids else set()


def _insert(db: PgConnection, records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Insert the records with a new id, and return them."""
    inserted = insert_rows(db, map(requests.row_of, records))
    if len(inserted) == len(records):
        return list(records)
    fresh: list[RequestRecord] = []
    for record in records:
        if record.id in inserted:
            inserted.remove(record.id)
            fresh.append(record)
    return fresh


def insert_rows(db: PgConnection, rows: Iterable[Sequence[Any]]) -> set[str]:
    """Insert rows of records, with the columns of COLUMNS, whose days exist; return the ids of the new ones. Within a transaction."""
    cursor = db.raw.cursor()
    with cursor.copy(_COPY.encode()) as copy:
        for place, row in enumerate(rows):
            copy.write_row((*map(storable, row), place))
    return {id_ for (id_,) in cursor.execute(_INSERT.encode())}


def _between(sql: str, records: Collection[RequestRecord]) -> bytes:
    """Return the statement for the days around `records`, as literals, so that only those are planned for."""
    times = [bounded_float(record.timestamp) for record in records]
    return sql.format(since=f"'{min(times) - _JOINED_WITHIN_S!r}'", until=f"'{max(times) + _JOINED_WITHIN_S!r}'").encode()


def _join_turns(db: PgConnection, records: Sequence[RequestRecord], again: Sequence[RequestRecord]) -> set[str]:
    """Give stored records their turn, see `turn_joins.joined_rows`; return the ids of those that had none."""
    rows = turn_joins.joined_rows(records, again)
    if not rows:
        return set()
    columns = [list(map(storable, column)) for column in zip(*rows, strict=True)]
    return {id_ for (id_,) in db.raw.execute(_between(_JOIN, records), columns)}


def _count_first_audio(db: PgConnection, slot: int, fresh: Sequence[RequestRecord]) -> None:
    """Count the turns whose first sound is among `fresh`; of gateways that have it of one turn at once, one after the other."""
    if not fresh:
        return
    turns = sorted({str(storable(record.turn_id)) for record in fresh})
    db.raw.execute(_LOCK_TURNS, (LOCKS + LOCK_TURN, turns))
    rows: defaultdict[tuple[object, ...], list[Any]] = defaultdict(list)
    for row in db.raw.execute(_between(_TURNS, fresh), (turns,)):
        rows[row[:3]].append(row[3:])
    result = first_audio.new_turns(fresh, lambda key: rows[tuple(map(storable, key))])
    slot_rollups.add_first_audio(db, slot, result)
