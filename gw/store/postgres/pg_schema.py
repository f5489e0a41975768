"""Tables of the PostgreSQL database. Steps are numbered, and never changed after a release; each runs in a transaction of its own.

`requests` is divided by day (`partitions`). Text is compared by bytes, as SQLite does. Sums have the slot of the gateway that wrote
them in their key, so that no two gateways write one row; reports add them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from functools import partial

from psycopg import sql

from gw.errors import DatabaseUnusable
from gw.store import first_audio, minute_backfill
from gw.store.postgres.pg_connection import SCHEMA, PgConnection, connect, copy_rows, named, streamed, translated
from gw.types.secret import Secret

LOCK_MIGRATION, LOCK_CHANGE, LOCK_PARTITION, LOCK_SLOT, LOCK_COMPACTION, LOCK_TURN, LOCK_ALERTS = range(1, 8)
"""Second halves of the keys of advisory locks; for slots and turns, which have numbers, they are added to the first half."""
LOCKS = 0x67770000  # first half: no other program's, as far as that can be

_TEXT = 'text collate "C"'

_REQUESTS = f"""
create sequence requests_seq;
create table requests (
    seq bigint not null default nextval('requests_seq'),
    id {_TEXT} not null,
    timestamp double precision not null,
    project {_TEXT} not null,
    modality {_TEXT} not null,
    model_id {_TEXT} not null,
    provider {_TEXT} not null,
    requested_model {_TEXT} not null,
    status {_TEXT} not null,
    total_latency_ms double precision not null,
    ttfb_ms double precision,
    gateway_ms double precision,
    cost_nusd bigint,
    pricing_source {_TEXT} not null,
    input_tokens bigint not null,
    cached_input_tokens bigint not null,
    cache_write_tokens bigint not null,
    output_tokens bigint not null,
    input_audio_tokens bigint not null,
    output_audio_tokens bigint not null,
    audio_seconds double precision not null,
    characters bigint not null,
    usage_source {_TEXT} not null,
    measured {_TEXT},
    attempts {_TEXT} not null,
    fallback_from {_TEXT},
    error_code {_TEXT},
    stream boolean not null,
    session_id {_TEXT},
    turn_id {_TEXT},
    key_id {_TEXT},
    endpoint {_TEXT} not null,
    heard {_TEXT},
    wasted_units double precision not null,
    wasted_nusd bigint,
    estimated_nusd bigint not null,
    dimensions {_TEXT},
    vendor_figure {_TEXT},
    reasoning_tokens bigint,
    captured {_TEXT},
    refused boolean not null,
    primary key (id, timestamp)
) partition by range (timestamp);
create index requests_time on requests (timestamp, seq, modality, provider, status);
create index requests_project on requests (project, timestamp, seq, modality, provider, status, turn_id, session_id);
create index requests_model_id on requests (model_id, timestamp, seq, status, project);
create index requests_error_code on requests (error_code, timestamp, seq) where error_code is not null;
create index requests_session_id on requests (session_id, timestamp, seq) where session_id is not null;
create index requests_turn_id on requests (turn_id, timestamp, seq) where turn_id is not null;
create index requests_unusual on requests (status, timestamp, seq, project, model_id, provider, modality) where status <> 'success'"""

_SUMS = """
    requests bigint not null, errors bigint not null, refused bigint not null, fallbacks bigint not null, cancelled bigint not null,
    cost_nusd bigint not null, unpriced bigint not null, input_tokens bigint not null, cached_input_tokens bigint not null,
    output_tokens bigint not null, audio_seconds double precision not null, characters bigint not null, wasted_nusd bigint not null,
    estimated_nusd bigint not null, calls bigint not null, ttfb bytea not null, latency bytea not null"""
_ROLLUP = f"""
create table rollup_{{grain}} (
    bucket bigint not null, project {_TEXT} not null, provider {_TEXT} not null, model_id {_TEXT} not null, modality {_TEXT} not null,
    slot integer not null, {_SUMS},
    primary key (bucket, project, provider, model_id, modality, slot)
) with (fillfactor = 70);
create index rollup_{{grain}}_open on rollup_{{grain}} (bucket) where slot <> 0;
create index rollup_{{grain}}_project on rollup_{{grain}} (project, bucket);
create table first_audio_{{grain}} (
    bucket bigint not null, project {_TEXT} not null, stack {_TEXT} not null, slot integer not null, waits bytea not null,
    primary key (bucket, project, stack, slot)
);
create index first_audio_{{grain}}_open on first_audio_{{grain}} (bucket) where slot <> 0"""
_ATTEMPTS = f"""
create table rollup_attempt (
    bucket bigint not null, provider {_TEXT} not null, model_id {_TEXT} not null, next_model_id {_TEXT} not null,
    outcome {_TEXT} not null, slot integer not null, attempts bigint not null, last_at double precision not null, last_error {_TEXT},
    primary key (bucket, provider, model_id, next_model_id, outcome, slot)
) with (fillfactor = 70);
create index rollup_attempt_open on rollup_attempt (bucket) where slot <> 0"""

_ENTITIES = f"""
create table managed (kind {_TEXT} not null, id {_TEXT} not null, body {_TEXT} not null, primary key (kind, id));
create table audit (
    seq bigint generated always as identity primary key, timestamp double precision not null, entity_type {_TEXT} not null,
    entity_id {_TEXT} not null, action {_TEXT} not null, changes {_TEXT} not null, source {_TEXT} not null, actor {_TEXT} not null
);
create index audit_entity on audit (entity_type, entity_id, seq);
create index audit_id on audit (entity_id, seq);
create table meta (name {_TEXT} primary key, value {_TEXT} not null);
create table transcripts (id {_TEXT} primary key, project {_TEXT} not null, expires_at double precision not null, body bytea not null);
create table callbacks (id {_TEXT} primary key, expires_at double precision not null, body bytea not null)"""

_FUNCTIONS = """
create function json_each(text) returns table (value text) language sql immutable strict
    as 'select value::text from json_array_elements($1::json)';
create function json_array_length(text) returns integer language sql immutable strict as 'select json_array_length($1::json)';
create function json_extract(text, text) returns double precision language sql immutable strict
    as 'select ($1::json ->> substr($2, 3))::double precision';
create function instr(text, text) returns integer language sql immutable strict as 'select strpos($1, $2)';
create function max(bigint, bigint) returns bigint language sql immutable strict as 'select greatest($1, $2)';
create function min(bigint, bigint) returns bigint language sql immutable strict as 'select least($1, $2)'"""
"""Functions that SQLite has. `json_extract` reads numbers, by paths of one name (`$.name`); null is null for all of them."""


def _first(db: PgConnection) -> None:
    for grain in ("hour", "day"):
        _run(db, _ROLLUP.format(grain=grain))
    for text in (_REQUESTS, _ATTEMPTS, _ENTITIES, _FUNCTIONS):
        _run(db, text)


def _shared(db: PgConnection) -> None:
    """Add the version of the entities, and the slots that gateways with a name have for good."""
    _run(db, "create table entities_version (version bigint not null); insert into entities_version values (1)")
    _run(db, f"create table slots (slot integer primary key, instance {_TEXT} not null unique)")


_OWNER_SPEND = f"""
create table owner_spend (
    owner {_TEXT} not null, id {_TEXT} not null, day bigint not null, slot integer not null, nusd bigint not null,
    primary key (owner, id, day, slot)
);
insert into owner_spend select 'project', project, bucket, 0, sum(cost_nusd + estimated_nusd) from rollup_day
    group by project, bucket having sum(cost_nusd + estimated_nusd) <> 0;
insert into owner_spend select 'key', key_id, floor(timestamp / 86400), 0, sum(coalesce(cost_nusd, 0) + estimated_nusd)
    from requests where key_id is not null group by 2, 3 having sum(coalesce(cost_nusd, 0) + estimated_nusd) <> 0"""


def _owner_spend(db: PgConnection) -> None:
    """Add spend by day of projects, from the rollups, and of keys, from the records that are still kept."""
    _run(db, _OWNER_SPEND)


_ALERTS = f"""
create table alert_incidents (id {_TEXT} primary key, closed_at double precision not null, body {_TEXT} not null);
create table alert_outbox (
    id {_TEXT} not null, receiver {_TEXT} not null, created_at double precision not null, tries bigint not null,
    last_error {_TEXT} not null, body {_TEXT} not null, primary key (id, receiver)
);
create table alert_mutes (rule {_TEXT} primary key, until double precision not null);
create table alert_sightings (instance {_TEXT} primary key, seen_at double precision not null, body {_TEXT} not null)"""


def _alerts(db: PgConnection) -> None:
    """Add incidents, unsent messages and muted rules, and what each gateway sees, for the one that sends."""
    _run(db, _ALERTS)


_ATTEMPT_DAY = f"""
create table rollup_attempt_day (
    bucket bigint not null, provider {_TEXT} not null, model_id {_TEXT} not null, next_model_id {_TEXT} not null,
    outcome {_TEXT} not null, slot integer not null, attempts bigint not null, last_at double precision not null, last_error {_TEXT},
    primary key (bucket, provider, model_id, next_model_id, outcome, slot)
) with (fillfactor = 70);
create index rollup_attempt_day_open on rollup_attempt_day (bucket) where slot <> 0;
insert into rollup_attempt_day
    select floor(bucket / 24.0), provider, model_id, next_model_id, outcome, slot, sum(attempts), max(last_at),
        (array_agg(last_error order by last_at desc))[1]
    from rollup_attempt group by 1, 2, 3, 4, 5, 6;
create index first_audio_hour_projects on first_audio_hour (bucket, project) where stack = '';
create index first_audio_day_projects on first_audio_day (bucket, project) where stack = ''"""


def _attempts_by_day(db: PgConnection) -> None:
    """Add the attempts by UTC day, for reports on many days, and let first audio by project be found without reading that by stack."""
    _run(db, _ATTEMPT_DAY)


_MINUTES = f"""
create table sums_minute (
    bucket bigint not null, modality {_TEXT} not null, slot integer not null,
    requests bigint not null, errors bigint not null, refused bigint not null, fallbacks bigint not null, cancelled bigint not null,
    cost_nusd bigint not null, unpriced bigint not null, wasted_nusd bigint not null, ttfb bytea not null, latency bytea not null,
    primary key (bucket, modality, slot)
) with (fillfactor = 70);
create index sums_minute_open on sums_minute (bucket) where slot <> 0;
create table first_audio_minute (
    bucket bigint not null, project {_TEXT} not null, stack {_TEXT} not null, slot integer not null, waits bytea not null,
    primary key (bucket, project, stack, slot)
) with (fillfactor = 70);
create index first_audio_minute_open on first_audio_minute (bucket) where slot <> 0;
create table turn_waits (
    began double precision not null, project {_TEXT} not null, stack {_TEXT} not null, wait_ms double precision not null
);
create index turn_waits_began on turn_waits (began, project)"""


def _minutes(db: PgConnection) -> None:
    """Add sums by minute, and a row for each turn with sound; those of the last days are made of their records."""
    _run(db, _MINUTES)
    past = minute_backfill.backfill(db, partial(streamed, db))
    if past is None:
        return
    db.execute("insert into meta (name, value) values ('minute_sums_since', ?)", (str(past.minute),))
    columns = minute_backfill.SUM_COLUMNS
    sums = [(*row, 0) for row in past.sums()]  # all of it before the connection takes rows
    copy_rows(db, "sums_minute", (*columns, "slot"), sums)
    turns = list(past.turns())
    turns.sort(key=lambda turn: turn.began)
    copy_rows(db, "turn_waits", minute_backfill.TURN_COLUMNS, map(first_audio.row_of, turns))
    minutes = ((minute, "", "", waits, 0) for minute, waits in minute_backfill.minutes_of(turns))
    copy_rows(db, "first_audio_minute", ("bucket", "project", "stack", "waits", "slot"), minutes)


_WITH_SAVED = ("requests", "rollup_hour", "rollup_day", "sums_minute")


def _saved(db: PgConnection) -> None:
    """Add what the phrase cache has saved, in nano-USD."""
    _run(db, ";".join(f"alter table {table} add column saved_nusd bigint not null default 0" for table in _WITH_SAVED))


_MODEL_MINUTES = f"""
create table model_minute (
    bucket bigint not null, model_id {_TEXT} not null, provider {_TEXT} not null, modality {_TEXT} not null, slot integer not null,
    requests bigint not null, ttfb bytea not null, latency bytea not null,
    primary key (bucket, model_id, provider, modality, slot)
) with (fillfactor = 70);
create index model_minute_open on model_minute (bucket) where slot <> 0"""


def _model_minutes(db: PgConnection) -> None:
    """Add times by minute and model; those of the last days are made of their records."""
    _run(db, _MODEL_MINUTES)
    past = minute_backfill.backfill(db, partial(streamed, db))
    if past is None:
        return
    db.execute("insert into meta (name, value) values ('model_minutes_since', ?)", (str(past.minute),))
    rows = [(*row, 0) for row in past.model_times()]  # all of it before the connection takes rows
    copy_rows(db, "model_minute", (*minute_backfill.MODEL_COLUMNS, "slot"), rows)


_TOTALS = f"""
create table totals_{{grain}} (
    bucket bigint not null, provider {_TEXT} not null, model_id {_TEXT} not null, modality {_TEXT} not null, slot integer not null,
    requests bigint not null, errors bigint not null, refused bigint not null, fallbacks bigint not null, cancelled bigint not null,
    cost_nusd bigint not null, unpriced bigint not null, output_tokens bigint not null, wasted_nusd bigint not null, calls bigint not null,
    saved_nusd bigint not null,
    primary key (bucket, provider, model_id, modality, slot)
) with (fillfactor = 70);
create index totals_{{grain}}_open on totals_{{grain}} (bucket) where slot <> 0;
insert into totals_{{grain}}
    select bucket, provider, model_id, modality, slot, sum(requests), sum(errors), sum(refused), sum(fallbacks), sum(cancelled),
        sum(cost_nusd), sum(unpriced), sum(output_tokens), sum(wasted_nusd), sum(calls), sum(saved_nusd)
    from rollup_{{grain}} group by bucket, provider, model_id, modality, slot"""


def _totals(db: PgConnection) -> None:
    """Add the sums of all projects together, by hour and day, from the rollups."""
    for grain in ("hour", "day"):
        _run(db, _TOTALS.format(grain=grain))


def _endings(db: PgConnection) -> None:
    """Add an index of the ends of ids, by which people look for a request: without it all records are read."""
    _run(db, "create index requests_ending on requests (reverse(id))")


MIGRATIONS: tuple[Callable[[PgConnection], None], ...] = (
    _first, _shared, _owner_spend, _alerts, _attempts_by_day, _minutes, _saved, _model_minutes, _totals, _endings,
)  # fmt: skip
VERSION = len(MIGRATIONS)

Progress = Callable[[int, int], None]
"""Called after each step with the steps done and their total, in the thread that runs them."""


def _run(db: PgConnection, text: str) -> None:
    db.raw.execute(text.encode())


def lock(db: PgConnection, which: int) -> None:
    """Take an advisory lock until the end of the transaction. Waits for another gateway that has it."""
    db.raw.execute("select pg_advisory_xact_lock(%s, %s)", (LOCKS, which))


def version(db: PgConnection) -> int:
    """Return the schema's version, 0 for a database without one.

    Reads the catalog: `to_regclass` may answer from a cache that is older than the lock for which this transaction has waited.
    """
    exists = "select exists (select from pg_catalog.pg_tables where schemaname = %s and tablename = 'schema_version')"
    if not db.raw.execute(exists, (SCHEMA,)).fetchall()[0][0]:
        return 0
    return int(db.raw.execute("select version from schema_version").fetchall()[0][0])


def check(db: PgConnection, name: str) -> int:
    """Return the schema's version. Raises DatabaseUnusable if this gw does not know it."""
    stored = version(db)
    if stored > VERSION:
        raise DatabaseUnusable(what=f"{name} was written by a newer gw (schema {stored}, this one knows {VERSION})")
    return stored


def migrate(db: PgConnection, name: str, *, on_progress: Progress | None = None) -> int:
    """Bring the schema to VERSION; return how many steps ran. One gateway at a time does so. Raises DatabaseUnusable."""
    patience, db.raw.answer_s = db.raw.answer_s, math.inf  # a step may take minutes, and so may another gateway's
    try:
        return _migrate(db, name, on_progress)
    finally:
        db.raw.answer_s = patience


def _migrate(db: PgConnection, name: str, on_progress: Progress | None) -> int:
    ran = 0
    before = check(db, name)
    while True:
        with db.raw.transaction():
            lock(db, LOCK_MIGRATION)
            done = check(db, name)
            if done == VERSION:
                return ran
            if done == 0:
                _prepare(db)
            MIGRATIONS[done](db)
            db.raw.execute("update schema_version set version = %s", (done + 1,))
        ran += 1
        if on_progress is not None:
            on_progress(ran, VERSION - before)


def look_at(url: Secret) -> str:
    """Connect, and return the database and its schema in words. Blocks. Raises StoreUnavailable."""
    name = named(url)
    with translated(name), closing(connect(url, read_only=True)) as db:
        stored = check(db, name)
    return f"{name}, schema {stored}" if stored else f"{name} (its tables will be created)"


def upgrade(url: Secret, *, on_progress: Progress) -> tuple[int, int]:
    """Connect and upgrade; return the version before and after. Blocks. Raises StoreUnavailable."""
    name = named(url)
    with translated(name), closing(connect(url)) as db:
        before = check(db, name)
        migrate(db, name, on_progress=on_progress)
    return before, VERSION


def _prepare(db: PgConnection) -> None:
    """Create the schema, unless the server's administrator has."""
    if not db.raw.execute("select 1 from pg_namespace where nspname = %s", (SCHEMA,)).fetchall():
        db.raw.execute(sql.SQL("create schema {}").format(sql.Identifier(SCHEMA)))
    db.raw.execute("create table schema_version (version integer not null)")
    db.raw.execute("insert into schema_version values (0)")
