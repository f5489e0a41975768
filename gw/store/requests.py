"""SQL of request records: insert, list, find, delete old ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import add

import apsw
import msgspec

from gw.policy.hedge import HedgeSpend
from gw.store.id_endings import ENDING_CHARACTERS, ENDS_IN_A_DAY, ENDS_SO
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import struct_of
from gw.telemetry.clock import DAY_S
from gw.types.usage import (
    COUNTERS,
    NO_DIMENSIONS,
    AttemptRecord,
    Dimensions,
    HeardSpeech,
    RequestRecord,
    Usage,
    VendorFigure,
)

COLUMNS = (
    "id", "timestamp", "project", "modality", "model_id", "provider", "requested_model", "status", "total_latency_ms",
    "ttfb_ms", "gateway_ms", "cost_nusd", "pricing_source", "input_tokens", "cached_input_tokens", "cache_write_tokens",
    "output_tokens", "input_audio_tokens", "output_audio_tokens", "audio_seconds", "characters", "usage_source",
    "measured", "attempts", "fallback_from", "error_code", "stream", "session_id", "turn_id", "key_id", "endpoint",
    "heard", "wasted_units", "wasted_nusd", "estimated_nusd", "dimensions", "vendor_figure",
    "reasoning_tokens", "captured", "refused", "saved_nusd",
)  # fmt: skip

_INSERT = f"""
insert into requests ({", ".join(COLUMNS)}) values ({", ".join("?" * len(COLUMNS))}) on conflict (id) do nothing"""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over requests; the fields are columns of the rollups."""

    requests: int
    errors: int  # without the refused ones
    refused: int
    fallbacks: int
    """Requests that a later candidate answered, also where the caller left then."""
    cancelled: int
    cost_nusd: int
    unpriced: int
    wasted_nusd: int
    """Part of the cost that reached nobody."""
    saved_nusd: int  # what vendors would have charged for speech that the phrase cache had; no part of the cost

    def __add__(self, other: Totals) -> Totals:
        return struct_of(Totals, list(map(add, msgspec.structs.astuple(self), msgspec.structs.astuple(other))))


SELECT = f"select {', '.join(COLUMNS)} from requests"  # rows for `record_of`

_TALLY = """
select count(*), count(*) filter (where status = 'error' and not refused), count(*) filter (where refused),
       count(*) filter (where status = 'fallback' or fallback_from is not null),
       count(*) filter (where status = 'cancelled'), coalesce(sum(cost_nusd), 0),
       count(*) filter (where cost_nusd is null or pricing_source like '%unpriced%'), coalesce(sum(wasted_nusd), 0),
       coalesce(sum(saved_nusd), 0)
from requests where timestamp >= :since and timestamp < :until and (:project is null or project = :project)"""

_TTFBS = """
select modality, ttfb_ms from requests
where timestamp >= :since and timestamp < :until and (:project is null or project = :project) and ttfb_ms is not null"""

_PRUNE = """
delete from requests
where seq in (select seq from requests where timestamp < :before order by timestamp limit :limit)"""

LARGEST = 10**15
"""Limit of a count or a cost of one request (a million dollars in nano-USD), so that no sum exceeds 64 bits."""

_attempts = msgspec.json.Decoder(tuple[AttemptRecord, ...])
_heard_speech = msgspec.json.Decoder(tuple[HeardSpeech, ...])
_usage = msgspec.json.Decoder(Usage)
_dimensions = msgspec.json.Decoder(Dimensions)
_vendor_figure = msgspec.json.Decoder(VendorFigure)
_encode = msgspec.json.Encoder().encode


def bounded_int(value: float) -> int:
    if type(value) is int and -LARGEST <= value <= LARGEST:  # nearly always, some ten times a record
        return value
    if isinstance(value, int):  # first, since no float can hold one of 400 digits
        return max(-LARGEST, min(value, LARGEST))
    return int(bounded_float(value))


def bounded_float(value: float) -> float:
    if type(value) is float and -LARGEST <= value <= LARGEST:
        return value
    if isinstance(value, int):
        return float(bounded_int(value))
    return max(-float(LARGEST), min(value, float(LARGEST))) if math.isfinite(value) else 0.0


def seconds_and_characters(record: RequestRecord) -> tuple[float, int]:
    """Return the vendor's counts, else ours: a vendor that bills tokens reports neither."""
    usage, measured = record.usage, record.measured or record.usage
    return bounded_float(usage.audio_seconds or measured.audio_seconds), bounded_int(usage.characters or measured.characters)


def clean(value: object) -> object:
    """Replace what JSON or UTF-8 cannot carry (infinity, lone surrogates) in built-in values, and limit numbers."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case bool():
            return value
        case int():
            return bounded_int(value)
        case float():
            return bounded_float(value)
        case dict():
            return {name: clean(inner) for name, inner in value.items()}
        case list() | tuple():
            return [clean(inner) for inner in value]
        case _:
            return value


def insert(db: apsw.Connection, records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Insert the records with a new id, and return them. Within the caller's transaction."""
    # `returning` would cost a fifth more; a known id is rare, so the ids are read only when a row is missing.
    last, before = db.execute("select max(seq) from requests").get or 0, db.total_changes()
    db.executemany(_INSERT, map(row_of, records))
    if db.total_changes() - before == len(records):
        return list(records)
    inserted = {row[0] for row in db.execute("select id from requests where seq > ?", (last,))}
    fresh: list[RequestRecord] = []
    for record in records:
        if record.id in inserted:
            inserted.remove(record.id)
            fresh.append(record)
    return fresh


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that a record must all meet. None = any."""

    modality: str | None = None
    project: str | None = None
    status: str | None = None
    model_id: str | None = None
    provider: str | None = None
    error_code: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    id_part: str | None = None
    """Beginning of the id; if no id begins so, its end."""
    since: float | None = None
    """First time of a record, in Unix seconds; and the time after the last one."""
    until: float | None = None


ANY = LogFilter()
_INDEXES = {
    "turn_id": "turn_id", "session_id": "session_id", "error_code": "error_code", "status": "unusual",
    "model_id": "model_id", "project": "project",
}  # fmt: skip
"""Filter → its index, in order of preference: usually the more selective first. Each index has the usual other filters too;
for a filter without an index the log is read back in time."""
_FILTERS = (*_INDEXES, "modality", "provider")
_PLAIN = "success"  # status of most records; the index `unusual` holds the others
_FEW = 10_000
"""Up to this many records whose id begins alike are found by the id and sorted; more are met soon enough in order of time."""
_COUNT_BEGINNING = "select count(*) from (select 1 from requests where id >= :part and id < :part_end limit :few) r"


def page(
    db: SqlConnection, *, limit: int, log_filter: LogFilter = ANY, before: tuple[float, int] | None = None
) -> list[RequestRecord]:
    """Return the newest `limit` records that pass the filter, older than the record at `before` (see `place`)."""
    source, conditions, bindings = _passing(db, log_filter)
    if before is not None:
        conditions.append("timestamp <= :timestamp and (timestamp < :timestamp or seq < :seq)")
        bindings |= {"timestamp": before[0], "seq": before[1]}
    order, bindings = "timestamp desc, seq desc", bindings | {"limit": limit}
    if bindings.get("begin_so") == _FEW:  # a look at the newest days is mostly enough, and does not sort all of them
        newest = before[0] if before is not None else float(db.execute("select max(timestamp) from requests").get)
        for days in (1, 8):
            bindings["floor"] = newest - days * 86_400
            if len(found := _select(db, source, [*conditions, "timestamp >= :floor"], order, bindings)) == limit:
                return found
    return _select(db, source, conditions, order, bindings)


def page_in_order(
    db: SqlConnection, *, limit: int, log_filter: LogFilter, order: str, before: str | None, most: int
) -> list[RequestRecord] | None:
    """Return the `limit` records after the one with the id `before` in the order of a column, `-` before it = descending.

    Records without a value come last, newer ones first among equals. None if more than `most` records pass the filter: all
    of them are read.
    """
    column, down = order.removeprefix("-"), order.startswith("-")
    source, conditions, bindings = _passing(db, log_filter)
    counted = f"select count(*) from (select 1 from requests {source} {_where(conditions)} limit :most) r"
    if int(db.execute(counted, bindings | {"most": most + 1}).get) > most:
        return None
    if before is not None:
        [(value, timestamp, seq)] = db.execute(f"select {column}, timestamp, seq from requests where id = ?", (before,))
        bindings |= {"value": value, "timestamp": timestamp, "seq": seq}
        older = f"{column} is not distinct from :value and (timestamp, seq) < (:timestamp, :seq)"
        further = f"{column} {'<' if down else '>'} :value or {column} is null"
        conditions.append(f"({older})" if value is None else f"({older} or {further})")
    by = f"{column} is null, {column} {'desc' if down else 'asc'}, timestamp desc, seq desc"
    return _select(db, source, conditions, by, bindings | {"limit": limit})


def _passing(db: SqlConnection, log_filter: LogFilter) -> tuple[str, list[str], dict[str, object]]:
    """Return the index, the conditions and their values for the records that pass the filter."""
    bindings: dict[str, object] = {name: value for name in _FILTERS if (value := getattr(log_filter, name)) is not None}
    conditions = [f"{name} = :{name}" for name in bindings]
    skipped = "status" if log_filter.status == _PLAIN else ""
    index = next((_INDEXES[name] for name in _INDEXES if name in bindings and name != skipped), "time")
    if index == "unusual":
        conditions.append(f"status <> '{_PLAIN}'")  # the condition of this index
    if part := log_filter.id_part:
        bindings |= {"part": part, "part_end": part + chr(0x10FFFF)}
        bindings["begin_so"] = count = db.execute(_COUNT_BEGINNING, bindings | {"few": _FEW}).get
        conditions.append("id >= :part and id < :part_end" if count else ENDS_SO)
        if index not in ("turn_id", "session_id") and int(count) < _FEW:
            index = ""
            if not count and len(part) >= ENDING_CHARACTERS:
                conditions.append(ENDS_IN_A_DAY)
                index = "ending"
    for name, condition in (("since", "timestamp >= :since"), ("until", "timestamp < :until")):
        if (value := getattr(log_filter, name)) is not None:
            conditions.append(condition)
            bindings[name] = value
    return f"indexed by requests_{index}" if index else "indexed by sqlite_autoindex_requests_1", conditions, bindings


def _where(conditions: Sequence[str]) -> str:
    return f"where {' and '.join(conditions)}" if conditions else ""


def _select(
    db: SqlConnection, source: str, conditions: Sequence[str], order: str, bindings: dict[str, object]
) -> list[RequestRecord]:
    sql = f"{SELECT} {source} {_where(conditions)} order by {order} limit :limit"
    return [record_of(row) for row in db.execute(sql, bindings)]


def place(db: SqlConnection, record_id: str) -> tuple[float, int] | None:
    """Return a record's position in the log's order: (timestamp, seq)."""
    for timestamp, seq in db.execute("select timestamp, seq from requests where id = ?", (record_id,)):
        return float(timestamp), int(seq)
    return None


def between(
    db: SqlConnection, since: float, until: float, project: str | None
) -> tuple[Totals, list[tuple[str, float]]]:
    """Return the totals of the records that began in [since, until) (Unix seconds), and (modality, time to first byte in ms).

    Use it for an hour at most: it reads all the records.
    """
    bindings = {"since": since, "until": until, "project": project}
    [row] = db.execute(_TALLY, bindings)
    return struct_of(Totals, row), [(modality, ttfb) for modality, ttfb in db.execute(_TTFBS, bindings)]


def find(db: SqlConnection, record_id: str) -> RequestRecord | None:
    for row in db.execute(f"{SELECT} where id = ?", (record_id,)):
        return record_of(row)
    return None


def take_interrupted(db: SqlConnection, ids: Iterable[str]) -> list[RequestRecord]:
    """Delete those of the records that a replay made up for requests without an end; return them. Within the caller's transaction."""
    taken = [
        record_of(row)
        for record_id in ids
        for row in db.execute(f"{SELECT} where id = ? and error_code = 'interrupted'", (record_id,))
    ]
    db.executemany("delete from requests where id = ?", [(record.id,) for record in taken])
    return taken


def prune(db: apsw.Connection, *, before: float, limit: int) -> int:
    """Delete at most `limit` records older than `before` (Unix seconds), the oldest first; returns how many."""
    db.execute(_PRUNE, {"before": before, "limit": limit})
    return db.changes()


def count(db: SqlConnection) -> int:
    return int(db.execute("select count(*) from requests").get)


def row_of(record: RequestRecord) -> tuple[apsw.SQLiteValue, ...]:
    """Return values that fit their columns, whatever a vendor reported: one odd record must not block the others.

    Most of a record's numbers are 0, and a test costs less than a call.
    """
    usage = record.usage
    return (
        record.id,
        bounded_float(record.timestamp),
        record.project,
        record.modality,
        record.model_id,
        record.provider,
        record.requested_model,
        record.status,
        bounded_float(record.total_latency_ms),
        None if record.ttfb_ms is None else bounded_float(record.ttfb_ms),
        None if record.gateway_ms is None else bounded_float(record.gateway_ms),
        None if record.cost_nusd is None else bounded_int(record.cost_nusd),
        record.pricing_source,
        usage.input_tokens and bounded_int(usage.input_tokens),
        usage.cached_input_tokens and bounded_int(usage.cached_input_tokens),
        usage.cache_write_tokens and bounded_int(usage.cache_write_tokens),
        usage.output_tokens and bounded_int(usage.output_tokens),
        usage.input_audio_tokens and bounded_int(usage.input_audio_tokens),
        usage.output_audio_tokens and bounded_int(usage.output_audio_tokens),
        usage.audio_seconds and bounded_float(usage.audio_seconds),
        usage.characters and bounded_int(usage.characters),
        usage.source,
        None if record.measured is None else _encode(record.measured).decode(),
        _encode(record.attempts).decode(),
        record.fallback_from,
        record.error_code,
        int(record.stream),
        record.session_id,
        record.turn_id,
        record.key_id,
        record.endpoint,
        _encode(record.heard).decode() if record.heard else None,
        record.wasted_units and bounded_float(record.wasted_units),
        None if record.wasted_nusd is None else bounded_int(record.wasted_nusd),
        record.estimated_nusd and bounded_int(record.estimated_nusd),
        None if usage.dimensions is NO_DIMENSIONS else _encode(usage.dimensions).decode(),
        None if usage.vendor_figure is None else _encode(usage.vendor_figure).decode(),
        usage.reasoning_tokens and bounded_int(usage.reasoning_tokens),
        record.captured,
        int(record.refused),
        record.saved_nusd and bounded_int(record.saved_nusd),
    )


_HEDGES = """
select project, sum(hedged_nusd), sum(hedges), count(*) from (
    select project,
        coalesce((
            select cast(sum(coalesce(json_extract(a.value, '$.cost_nusd'), json_extract(a.value, '$.estimated_nusd'), 0)) as bigint)
            from json_each(attempts) a where a.value like '%"hedges":true%'
        ), 0) as hedged_nusd,
        (select count(*) from json_each(attempts) a where a.value like '%"hedges":true%') as hedges
    from requests where timestamp >= ? and timestamp < ? and attempts like '%"hedges":true%'
    union all
    select project, 0, 0 from requests where timestamp >= ? and timestamp < ? and attempts not like '%"hedges":true%'
) r group by project"""


def hedges(db: SqlConnection, day: int) -> dict[str, HedgeSpend]:
    """Return what the hedges of each project cost on a UTC day."""
    span = (day * DAY_S, (day + 1) * DAY_S)
    return {project: HedgeSpend(*sums) for project, *sums in db.execute(_HEDGES, (*span, *span))}


def attempts_of(attempts: str) -> tuple[AttemptRecord, ...]:
    return _attempts.decode(attempts)


def parts_of(attempts: str) -> list[AttemptRecord]:
    """Return the attempts of a stored record that have a part of its cost (`RequestRecord.parts`)."""
    return [attempt for attempt in _attempts.decode(attempts) if attempt.pricing_source]


def heard_speech(stored: object) -> tuple[HeardSpeech, ...]:
    return () if stored is None else _heard_speech.decode(str(stored))


def record_of(row: Sequence[apsw.SQLiteValue]) -> RequestRecord:
    fields: dict[str, object] = dict(zip(COLUMNS[:-1], row[:-1], strict=True))  # `saved_nusd` is the sum of the attempts' own
    usage: dict[str, object] = {name: fields.pop(name) for name in COUNTERS}
    usage["source"], usage["reasoning_tokens"] = fields.pop("usage_source"), fields.pop("reasoning_tokens")
    for name, decoder in (("dimensions", _dimensions), ("vendor_figure", _vendor_figure)):
        if (text := fields.pop(name)) is not None:
            usage[name] = decoder.decode(str(text))
    fields["usage"] = usage
    measured = fields.pop("measured")
    fields["measured"] = None if measured is None else _usage.decode(str(measured))
    fields["attempts"] = _attempts.decode(str(fields["attempts"]))
    fields["heard"] = heard_speech(fields.pop("heard"))
    fields["stream"], fields["refused"] = bool(fields["stream"]), bool(fields["refused"])
    return msgspec.convert(fields, RequestRecord)
