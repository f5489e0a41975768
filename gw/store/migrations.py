"""The schema, as numbered steps. A released step is never edited; a change is a new step at the end.

Each step runs in one transaction with the `user_version` it leads to, so a killed migration leaves the version before the
step, and the next run continues from there. A new database gets all steps in one transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import apsw

from gw.store import sum_migrations
from gw.telemetry.histogram import Histogram

APPLICATION_ID = 0x67775631  # marks a database as ours in the file's header


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
"""Entities created through the API, one JSON value each (`gw.types.entities`)."""

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


_ROLLUP_ATTEMPT = """
create table rollup_attempt (
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
"""`bucket` counts UTC hours; `next_model_id` is the candidate tried after this one, "" = none."""

_LOG_INDEXES = {
    "time": "timestamp, seq",
    "project": "project, timestamp, seq, status, modality, provider",
    "model_id": "model_id, timestamp, seq, status, project",
    "provider": "provider, timestamp, seq, status, modality",
    "status": "status, timestamp, seq, modality",
    "modality": "modality, timestamp, seq",
    "error_code": "error_code, timestamp, seq, project, provider",
    "session_id": "session_id, timestamp, seq",
    "turn_id": "turn_id, timestamp, seq, session_id, project",
    "turns": "timestamp, seq, turn_id, session_id, project",
    "project_turns": "project, timestamp, seq, turn_id, session_id",
}
"""Each starts with a column that the log is filtered by, then the log's order. The columns after that are other filters, so
that rows which do not pass them are skipped without reading the table."""
_ONLY_WHERE = {
    "error_code": "error_code", "session_id": "session_id", "turn_id": "turn_id",
    "turns": "turn_id", "project_turns": "turn_id",
}  # fmt: skip
"""Partial indexes: only rows that have such a value."""

_FILL_ROLLUP_ATTEMPT = """
insert into rollup_attempt
select cast(r.timestamp as integer) / 3600, substr(model_id, 1, max(0, instr(model_id, '/') - 1)), model_id, next_model_id,
       outcome, count(*), max(r.timestamp), max(error_code)
from (select timestamp, json_extract(a.value, '$.model_id') as model_id,
             coalesce(json_extract(attempts, '$[' || (a.key + 1) || '].model_id'), '') as next_model_id,
             json_extract(a.value, '$.outcome') as outcome, json_extract(a.value, '$.error_code') as error_code
      from requests, json_each(attempts) a) r
group by 1, 2, 3, 4, 5"""


def _attempts_and_log_indexes(db: apsw.Connection) -> None:
    for name in ("time", "project", "model_id", "modality", "status", "session_id", "turn_id"):
        db.execute(f"drop index requests_{name}")
    for name, columns in _LOG_INDEXES.items():
        where = f" where {_ONLY_WHERE[name]} is not null" if name in _ONLY_WHERE else ""
        db.execute(f"create index requests_{name} on requests ({columns}){where}")
    db.execute(_ROLLUP_ATTEMPT)
    db.execute(_FILL_ROLLUP_ATTEMPT)


_FEWER_LOG_INDEXES = {
    "time": "timestamp, seq, modality, provider, status",
    "project": "project, timestamp, seq, modality, provider, status, turn_id, session_id",
}
"""Columns with few values are filtered by scanning these: a million entries take some 50 ms, while a separate index would
slow down every insert. Turns of one project are found in its index."""


def _fewer_log_indexes(db: apsw.Connection) -> None:
    for name in ("modality", "provider", "status", "project_turns", *_FEWER_LOG_INDEXES):
        db.execute(f"drop index requests_{name}")
    for name, columns in _FEWER_LOG_INDEXES.items():
        db.execute(f"create index requests_{name} on requests ({columns})")
    db.execute(
        "create index requests_unusual on requests (status, timestamp, seq, project, model_id, provider, modality) "
        "where status <> 'success'"
    )


def _heard_speech(db: apsw.Connection) -> None:
    """Add what live transcriptions did in the request's turn (`types.usage.HeardSpeech`, a JSON list); null = nothing."""
    db.execute("alter table requests add column heard text")


def _waste(db: apsw.Connection) -> None:
    """Add what was paid for and reached nobody: units, and nano-USD (null = unknown price)."""
    db.execute("alter table requests add column wasted_units real not null default 0")
    db.execute("alter table requests add column wasted_nusd integer default 0")
    for table in ("rollup_hour", "rollup_day"):
        db.execute(f"alter table {table} add column wasted_nusd integer not null default 0")


_KNOWN_PARTS = """
create temp table part as
select cast(r.timestamp as integer) / 3600 as hour, r.project, r.modality, r.provider as answered_by, r.model_id as answered,
       substr(a.model_id, 1, instr(a.model_id, '/') - 1) as provider, a.model_id, a.cost_nusd,
       case when a.in_sum then a.audio_seconds else 0.0 end as audio_seconds,
       case when a.in_sum then a.characters else 0 end as characters
from requests r join (
    select seq, json_extract(one.value, '$.model_id') as model_id, json_extract(one.value, '$.cost_nusd') as cost_nusd,
           coalesce(json_extract(one.value, '$.audio_seconds'), 0.0) as audio_seconds,
           coalesce(json_extract(one.value, '$.characters'), 0) as characters,
           json_extract(attempts, '$[#-1].cost_nusd') is not null as in_sum
    from requests, json_each(attempts) one where json_array_length(attempts) > 1
) a on a.seq = r.seq
where a.cost_nusd is not null and a.model_id <> r.model_id and r.cost_nusd is not null"""
"""Parts of a request's cost that another model than the one that answered has. Units are in the request's sum where it was a
live session, in which the attempt that answered has a cost of its own as well."""

_TAKE = """
update {table} as r set cost_nusd = r.cost_nusd - p.cost_nusd, audio_seconds = r.audio_seconds - p.audio_seconds,
    characters = r.characters - p.characters
from (
    select hour / {hours} as bucket, project, answered_by, answered, modality, sum(cost_nusd) as cost_nusd,
           sum(audio_seconds) as audio_seconds, sum(characters) as characters
    from part group by 1, 2, 3, 4, 5
) p
where r.bucket = p.bucket and r.project = p.project and r.provider = p.answered_by and r.model_id = p.answered
      and r.modality = p.modality"""
_GIVE = """
insert into {table} (bucket, project, provider, model_id, modality, cost_nusd, audio_seconds, characters, calls, requests, errors,
    fallbacks, cancelled, unpriced, input_tokens, cached_input_tokens, output_tokens, wasted_nusd, ttfb, latency)
select hour / {hours}, project, provider, model_id, modality, sum(cost_nusd), sum(audio_seconds), sum(characters), count(*),
    0, 0, 0, 0, 0, 0, 0, 0, 0, :none, :none
from part group by 1, 2, 3, 4, 5
on conflict (bucket, project, provider, model_id, modality) do update set cost_nusd = cost_nusd + excluded.cost_nusd,
    audio_seconds = audio_seconds + excluded.audio_seconds, characters = characters + excluded.characters,
    calls = calls + excluded.calls"""


def _parts_of_vendors(db: apsw.Connection) -> None:
    """Book each vendor's part of a request where it belongs.

    Rollups gain the calls that a vendor may charge for (before: the requests that it answered) and the estimates for unknown
    costs (before: 0). Until now a failover booked everything for the model that answered last: costs, seconds and characters
    are moved as far as the records still have the attempts. Older sums, tokens and waste stay as they are.
    """
    db.execute("alter table requests add column estimated_nusd integer not null default 0")
    none = Histogram().encode()
    db.execute(_KNOWN_PARTS)
    for table, hours in (("rollup_hour", 1), ("rollup_day", 24)):
        db.execute(f"alter table {table} add column estimated_nusd integer not null default 0")
        db.execute(f"alter table {table} add column calls integer not null default 0")
        db.execute(f"update {table} set calls = requests")
        db.execute(_TAKE.format(table=table, hours=hours))
        db.execute(_GIVE.format(table=table, hours=hours), {"none": none})
    db.execute("drop table part")


def _price_dimensions(db: apsw.Connection) -> None:
    """Add what a price depends on beside the units (`types.usage.Dimensions`), and the vendor's own figure; JSON, null = none."""
    db.execute("alter table requests add column dimensions text")
    db.execute("alter table requests add column vendor_figure text")


def _transcripts(db: apsw.Connection) -> None:
    """Add the transcripts that callers poll for, so that they survive a restart."""
    columns = "id text primary key, project text not null, expires_at real not null, body blob not null"
    db.execute(f"create table transcripts ({columns}) strict")


def _callbacks(db: apsw.Connection) -> None:
    """Add the callbacks that are due, so that they survive a restart."""
    db.execute("create table callbacks (id text primary key, expires_at real not null, body blob not null) strict")


def _reasoning(db: apsw.Connection) -> None:
    """Add the part of the output tokens that a model spent on reasoning; null = not counted."""
    db.execute("alter table requests add column reasoning_tokens integer")


def _captured(db: apsw.Connection) -> None:
    """Add what became of a request's words and sound; null = they were not kept."""
    db.execute("alter table requests add column captured text")


_COUNTED_ANEW = """
update {table} as t set errors = errors - r.refused, refused = r.refused, fallbacks = fallbacks + r.left
from (select cast(timestamp as integer) / {seconds} as bucket, project, provider, model_id, modality, sum(refused) as refused,
             sum(fallback_from is not null and status = 'cancelled') as left
      from requests where status in ('error', 'cancelled') group by 1, 2, 3, 4, 5) r
where t.bucket = r.bucket and t.project = r.project and t.provider = r.provider and t.model_id = r.model_id
  and t.modality = r.modality and (r.refused > 0 or r.left > 0)"""


def _refused(db: apsw.Connection) -> None:
    """Count refused requests apart from errors, and fallbacks whose caller left then as fallbacks.

    Of the requests until now, those refused by the gateway itself are known by their code, and those of a vendor by its status.
    """
    db.execute("alter table requests add column refused integer not null default 0")
    db.execute("""
        update requests set refused = 1 where status = 'error' and (
          error_code in ('budget_exceeded', 'budget_reserved', 'invalid_request', 'unsupported_setting', 'not_implemented', 'too_large',
                         'model_not_found', 'previous_response_not_found', 'forbidden')
          or error_code = 'upstream_rejected' and json_extract(attempts, '$[#-1].upstream_status') in (400, 413, 415, 422))""")
    for table, seconds in (("rollup_hour", 3_600), ("rollup_day", 86_400)):
        db.execute(f"alter table {table} add column refused integer not null default 0")
        db.execute(_COUNTED_ANEW.format(table=table, seconds=seconds))


def _first_audio(db: apsw.Connection) -> None:
    """Add first audio of turns by hour and day, project and models. Turns until now are not counted: their records may be gone."""
    columns = "bucket integer not null, project text not null, stack text not null, waits blob not null"
    for table in ("first_audio_hour", "first_audio_day"):
        db.execute(f"create table {table} ({columns}, primary key (bucket, project, stack)) strict, without rowid")


def _first_audio_sums(db: apsw.Connection) -> None:
    """Add sums to first audio: over the models ('' as stack), over the projects ('' as project), and over both."""
    for table in ("first_audio_hour", "first_audio_day"):
        sums: defaultdict[tuple[int, str, str], Histogram] = defaultdict(Histogram)
        for bucket, project, stack, waits in db.execute(f"select bucket, project, stack, waits from {table}"):
            for key in ((bucket, project, ""), (bucket, "", stack), (bucket, "", "")):
                sums[key].merge_encoded([waits])
        db.executemany(f"insert into {table} values (?, ?, ?, ?)", ((*key, waits.encode()) for key, waits in sums.items()))


_OWNER_SPEND = """
create table owner_spend (
    owner text not null,
    id text not null,
    day integer not null,
    nusd integer not null,
    primary key (owner, id, day)
) strict, without rowid"""
"""`owner`: project or key; `day` counts UTC days."""


def _owner_spend(db: apsw.Connection) -> None:
    """Add spend by day of projects, from the rollups, and of keys, from the records that are still kept."""
    db.execute(_OWNER_SPEND)
    db.execute("""
        insert into owner_spend select 'project', project, bucket, sum(cost_nusd + estimated_nusd) from rollup_day
        group by project, bucket having sum(cost_nusd + estimated_nusd) <> 0""")
    db.execute("""
        insert into owner_spend select 'key', key_id, cast(timestamp as integer) / 86400, sum(coalesce(cost_nusd, 0) + estimated_nusd)
        from requests where key_id is not null group by 2, 3 having sum(coalesce(cost_nusd, 0) + estimated_nusd) <> 0""")


def _alerts(db: apsw.Connection) -> None:
    """Add incidents, the messages about them that no receiver has accepted yet, and muted rules."""
    message = "created_at real not null, tries integer not null, last_error text not null, body text not null"
    for table in (
        "alert_incidents (id text primary key, closed_at real not null, body text not null)",
        f"alert_outbox (id text not null, receiver text not null, {message}, primary key (id, receiver))",
        "alert_mutes (rule text primary key, until real not null)",
    ):
        db.execute(f"create table {table} strict, without rowid")


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (
    _requests_and_rollups, _managed_and_audit, _attempts_and_log_indexes, _fewer_log_indexes, _heard_speech, _waste,
    _parts_of_vendors, _price_dimensions, _transcripts, _callbacks, _reasoning, _captured, _refused,
    _first_audio, _first_audio_sums, _owner_spend, _alerts, *sum_migrations.STEPS,
)  # fmt: skip
VERSION = len(MIGRATIONS)

Progress = Callable[[int, int], None]
"""Called after each transaction with the steps done and their total, in the thread that runs them."""


def migrate(db: apsw.Connection, *, on_progress: Progress | None = None) -> int:
    """Bring the schema to VERSION; return how many steps ran. Expects a version of at most VERSION."""
    before: int = db.pragma("user_version")
    steps = MIGRATIONS[before:]
    version = before
    for part in [[step] for step in steps] if before else [steps]:  # each transaction waits for the disk
        db.execute("begin immediate")
        try:
            for step in part:
                step(db)
            version += len(part)
            db.pragma("application_id", APPLICATION_ID)
            db.pragma("user_version", version)
            db.execute("commit")
        except BaseException:
            if db.in_transaction:  # a full disk has ended it
                db.execute("rollback")
            raise
        if on_progress is not None:
            on_progress(version - before, VERSION - before)
    return version - before
