"""The schema, as numbered steps. A released step is never edited; a change is a new step at the end.

Each step runs in a transaction of its own together with the `user_version` it leads to, so a killed migration leaves
the version before it, and running again goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw

APPLICATION_ID = 0x67775631
"""Says in the file's header that a database is ours."""


_REQUESTS = """
create table requests (
    seq integer primary key,
    id text not null unique,
    timestamp real not null,
    project text not null,
    modality text not null,
    model_id text not null,
    provider text not null,
    requested_model text not null,
    status text not null,
    total_latency_ms real not null,
    ttfb_ms real,
    gateway_ms real,
    cost_nusd integer,
    pricing_source text not null,
    input_tokens integer not null,
    cached_input_tokens integer not null,
    cache_write_tokens integer not null,
    output_tokens integer not null,
    input_audio_tokens integer not null,
    output_audio_tokens integer not null,
    audio_seconds real not null,
    characters integer not null,
    usage_source text not null,
    measured text,
    attempts text not null,
    fallback_from text,
    error_code text,
    stream integer not null,
    session_id text,
    turn_id text,
    key_id text,
    endpoint text not null
) strict"""
"""Money in nano-USD, times in ms, `timestamp` in Unix seconds; `attempts` and `measured` are JSON."""

_ROLLUP_COLUMNS = """(
    bucket integer not null,
    project text not null,
    provider text not null,
    model_id text not null,
    modality text not null,
    requests integer not null,
    errors integer not null,
    fallbacks integer not null,
    cancelled integer not null,
    cost_nusd integer not null,
    unpriced integer not null,
    input_tokens integer not null,
    cached_input_tokens integer not null,
    output_tokens integer not null,
    audio_seconds real not null,
    characters integer not null,
    ttfb blob not null,
    latency blob not null,
    primary key (bucket, project, provider, model_id, modality)
) strict, without rowid"""
"""`bucket` counts UTC hours or days; `ttfb` and `latency` are histograms in their stored form."""


def _requests_and_rollups(db: apsw.Connection) -> None:
    db.execute(_REQUESTS)
    db.execute("create index requests_time on requests (timestamp, id)")
    for column in ("project", "model_id", "modality", "status"):
        db.execute(f"create index requests_{column} on requests ({column}, timestamp, id)")
    for column in ("session_id", "turn_id"):
        db.execute(f"create index requests_{column} on requests ({column}, timestamp, id) where {column} is not null")
    for table in ("rollup_hour", "rollup_day"):
        db.execute(f"create table {table} {_ROLLUP_COLUMNS}")


_MANAGED = """
create table managed (
    kind text not null,
    id text not null,
    body text not null,
    primary key (kind, id)
) strict, without rowid"""
"""What was made through the API, one JSON value each (`gw.types.managed`)."""

_AUDIT = """
create table audit (
    seq integer primary key autoincrement,
    timestamp real not null,
    entity_type text not null,
    entity_id text not null,
    action text not null,
    changes text not null,
    source text not null,
    actor text not null
) strict"""


def _managed_and_audit(db: apsw.Connection) -> None:
    db.execute(_MANAGED)
    db.execute(_AUDIT)
    db.execute("create index audit_entity on audit (entity_type, entity_id, seq)")
    db.execute("create index audit_id on audit (entity_id, seq)")
    db.execute("create table meta (name text primary key, value text not null) strict, without rowid")


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (_requests_and_rollups, _managed_and_audit)
VERSION = len(MIGRATIONS)


def migrate(db: apsw.Connection) -> int:
    """Bring the schema to VERSION; returns how many steps ran. Expects a version of at most VERSION."""
    ran = 0
    for version, step in enumerate(MIGRATIONS, start=1):
        if db.pragma("user_version") >= version:
            continue
        db.execute("begin immediate")
        try:
            step(db)
            db.pragma("application_id", APPLICATION_ID)
            db.pragma("user_version", version)
            db.execute("commit")
        except BaseException:
            db.execute("rollback")
            raise
        ran += 1
    return ran
