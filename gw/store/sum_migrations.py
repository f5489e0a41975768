"""Steps of SQLite's schema that add sums, see `gw.store.migrations`. Never changed after a release."""

from __future__ import annotations

from itertools import islice

import apsw

_ATTEMPT_DAY = """
create table rollup_attempt_day (
    bucket integer not null,
    provider text not null,
    model_id text not null,
    next_model_id text not null,
    outcome text not null,
    attempts integer not null,
    last_at real not null,
    last_error text,
    primary key (bucket, provider, model_id, next_model_id, outcome)
) strict, without rowid"""
_FILL_ATTEMPT_DAY = """
insert into rollup_attempt_day
select bucket / 24, provider, model_id, next_model_id, outcome, sum(attempts), max(last_at), last_error
from rollup_attempt group by 1, 2, 3, 4, 5"""
"""The error is that of the row with the latest time: SQLite takes other columns from the row that has the maximum."""


def attempts_by_day(db: apsw.Connection) -> None:
    """Add the attempts by UTC day, for reports on many days."""
    db.execute(_ATTEMPT_DAY)
    db.execute(_FILL_ATTEMPT_DAY)


_MINUTES = """
create table sums_minute (
    bucket integer not null,
    modality text not null,
    requests integer not null,
    errors integer not null,
    refused integer not null,
    fallbacks integer not null,
    cancelled integer not null,
    cost_nusd integer not null,
    unpriced integer not null,
    wasted_nusd integer not null,
    ttfb blob not null,
    latency blob not null,
    primary key (bucket, modality)
) strict, without rowid;
create table first_audio_minute (
    bucket integer not null,
    project text not null,
    stack text not null,
    waits blob not null,
    primary key (bucket, project, stack)
) strict, without rowid;
create table turn_waits (began real not null, project text not null, stack text not null, wait_ms real not null) strict;
create index turn_waits_began on turn_waits (began, project)"""
_AT_ONCE = 10_000


def minutes(db: apsw.Connection) -> None:
    """Add sums by minute, and a row for each turn with sound; those of the last days are made of their records."""
    from gw.store import (  # they import the module that opens databases, which imports this one
        first_audio,
        minute_backfill,
    )

    db.execute(_MINUTES)
    past = minute_backfill.backfill(db, db.execute)
    if past is None:
        return
    db.execute("insert into meta (name, value) values ('minute_sums_since', ?)", (str(past.minute),))
    db.executemany(f"insert into sums_minute values ({', '.join('?' * len(minute_backfill.SUM_COLUMNS))})", past.sums())
    db.execute("create temp table turn as select * from turn_waits limit 0")  # turns come in the order of their ids
    turns = past.turns()
    while some := list(islice(turns, _AT_ONCE)):
        db.executemany("insert into temp.turn values (?, ?, ?, ?)", map(first_audio.row_of, some))
    db.execute("insert into turn_waits select * from temp.turn order by began")
    db.execute("drop table temp.turn")
    stored = (first_audio.TurnWait(*row) for row in db.execute("select began, project, stack, wait_ms from turn_waits"))
    db.executemany("insert into first_audio_minute values (?, '', '', ?)", minute_backfill.minutes_of(stored))


_MODEL_MINUTES = """
create table model_minute (
    bucket integer not null,
    model_id text not null,
    provider text not null,
    modality text not null,
    requests integer not null,
    ttfb blob not null,
    latency blob not null,
    primary key (bucket, model_id, provider, modality)
) strict, without rowid"""


def model_minutes(db: apsw.Connection) -> None:
    """Add times by minute and model; those of the last days are made of their records."""
    from gw.store import minute_backfill

    db.execute(_MODEL_MINUTES)
    past = minute_backfill.backfill(db, db.execute)
    if past is not None:
        db.execute("insert into meta (name, value) values ('model_minutes_since', ?)", (str(past.minute),))
        db.executemany(f"insert into model_minute values ({', '.join('?' * len(minute_backfill.MODEL_COLUMNS))})", past.model_times())


def saved(db: apsw.Connection) -> None:
    """Add what the phrase cache has saved, in nano-USD."""
    for table in ("requests", "rollup_hour", "rollup_day", "sums_minute"):
        db.execute(f"alter table {table} add column saved_nusd integer not null default 0")


_TOTALS = """
create view totals_{grain} as
select bucket, provider, model_id, modality, requests, errors, refused, fallbacks, cancelled, cost_nusd, unpriced, output_tokens,
    wasted_nusd, calls, saved_nusd
from rollup_{grain}"""


def totals(db: apsw.Connection) -> None:
    """Name what reports read of all projects, which PostgreSQL adds up: SQLite reads the rollups fast enough."""
    for grain in ("hour", "day"):
        db.execute(_TOTALS.format(grain=grain))


def endings(db: apsw.Connection) -> None:
    """Add an index of the ends of ids, by which people look for a request: without it all ids are read."""
    db.execute("create index requests_ending on requests (cast(timestamp / 86400 as integer), substr(id, -4))")


STEPS = (attempts_by_day, minutes, saved, model_minutes, totals, endings)
"""The last steps of the schema, in their order."""
