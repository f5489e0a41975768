"""SQL of request records: insert, page through, find one, forget old ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import apsw
import msgspec

from gw.types.usage import AttemptRecord, RequestRecord, Usage

_COLUMNS = (
    "id", "timestamp", "project", "modality", "model_id", "provider", "requested_model", "status", "total_latency_ms",
    "ttfb_ms", "gateway_ms", "cost_nusd", "pricing_source", "input_tokens", "cached_input_tokens", "cache_write_tokens",
    "output_tokens", "input_audio_tokens", "output_audio_tokens", "audio_seconds", "characters", "usage_source",
    "measured", "attempts", "fallback_from", "error_code", "stream", "session_id", "turn_id", "key_id", "endpoint",
)  # fmt: skip

_INSERT = f"""
insert into requests ({", ".join(_COLUMNS)}) values ({", ".join("?" * len(_COLUMNS))})
on conflict (id) do nothing returning id"""

_SELECT = f"select {', '.join(_COLUMNS)} from requests"

_PRUNE = """
delete from requests
where seq in (select seq from requests where timestamp < :before order by timestamp limit :limit)"""

LARGEST = 10**15
"""What a count or a cost of one request is cut to (a million dollars in nano-USD), so that no sum leaves 64 bits."""

_UNITS = tuple(name for name in Usage.__struct_fields__ if name != "source")
_attempts = msgspec.json.Decoder(tuple[AttemptRecord, ...])
_usage = msgspec.json.Decoder(Usage)
_encode = msgspec.json.Encoder().encode


def whole(value: float) -> int:
    if isinstance(value, int):  # first, since no float can hold one of 400 digits
        return max(-LARGEST, min(value, LARGEST))
    return int(finite(value))


def finite(value: float) -> float:
    if isinstance(value, int):
        return float(whole(value))
    return max(-float(LARGEST), min(value, float(LARGEST))) if math.isfinite(value) else 0.0


def clean(value: object) -> object:
    """Built-in values with what JSON or UTF-8 cannot carry (infinity, lone surrogates) replaced, and numbers cut."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case bool():
            return value
        case int():
            return whole(value)
        case float():
            return finite(value)
        case dict():
            return {name: clean(inner) for name, inner in value.items()}
        case list() | tuple():
            return [clean(inner) for inner in value]
        case _:
            return value


def insert(db: apsw.Connection, records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Insert those whose id is not there yet, and return them. Within the caller's transaction."""
    inserted = {row[0] for row in db.executemany(_INSERT, map(_row, records))}
    fresh: list[RequestRecord] = []
    for record in records:
        if record.id in inserted:
            inserted.remove(record.id)
            fresh.append(record)
    return fresh


def page(
    db: apsw.Connection,
    *,
    limit: int,
    before: tuple[float, str] | None = None,
    modality: str | None = None,
    project: str | None = None,
    status: str | None = None,
    model_id: str | None = None,
    session_id: str | None = None,
    turn_id: str | None = None,
) -> list[RequestRecord]:
    """The newest `limit` records that pass every filter, from before (timestamp, id) on. One index range each."""
    equals = {
        "modality": modality, "project": project, "status": status,
        "model_id": model_id, "session_id": session_id, "turn_id": turn_id,
    }  # fmt: skip
    bindings: dict[str, object] = {name: value for name, value in equals.items() if value is not None}
    conditions = [f"{name} = :{name}" for name in bindings]
    if before is not None:
        conditions.append("(timestamp, id) < (:timestamp, :id)")
        bindings |= {"timestamp": before[0], "id": before[1]}
    where = f" where {' and '.join(conditions)}" if conditions else ""
    sql = f"{_SELECT}{where} order by timestamp desc, id desc limit :limit"
    return [_record(row) for row in db.execute(sql, bindings | {"limit": limit})]


def find(db: apsw.Connection, record_id: str) -> RequestRecord | None:
    for row in db.execute(f"{_SELECT} where id = ?", (record_id,)):
        return _record(row)
    return None


def prune(db: apsw.Connection, *, before: float, limit: int) -> int:
    """Delete at most `limit` records older than `before` (Unix seconds), the oldest first; returns how many."""
    db.execute(_PRUNE, {"before": before, "limit": limit})
    return db.changes()


def count(db: apsw.Connection) -> int:
    return int(db.execute("select count(*) from requests").get)


def _row(record: RequestRecord) -> tuple[apsw.SQLiteValue, ...]:
    """Values within their column's type, whatever a vendor reported: one odd record must not hold up the rest."""
    usage = record.usage
    return (
        record.id,
        finite(record.timestamp),
        record.project,
        record.modality,
        record.model_id,
        record.provider,
        record.requested_model,
        record.status,
        finite(record.total_latency_ms),
        None if record.ttfb_ms is None else finite(record.ttfb_ms),
        None if record.gateway_ms is None else finite(record.gateway_ms),
        None if record.cost_nusd is None else whole(record.cost_nusd),
        record.pricing_source,
        whole(usage.input_tokens),
        whole(usage.cached_input_tokens),
        whole(usage.cache_write_tokens),
        whole(usage.output_tokens),
        whole(usage.input_audio_tokens),
        whole(usage.output_audio_tokens),
        finite(usage.audio_seconds),
        whole(usage.characters),
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
    )


def _record(row: Sequence[apsw.SQLiteValue]) -> RequestRecord:
    fields: dict[str, object] = dict(zip(_COLUMNS, row, strict=True))
    usage = {name: fields.pop(name) for name in _UNITS}
    fields["usage"] = usage | {"source": fields.pop("usage_source")}
    measured = fields.pop("measured")
    fields["measured"] = None if measured is None else _usage.decode(str(measured))
    fields["attempts"] = _attempts.decode(str(fields["attempts"]))
    fields["stream"] = bool(fields["stream"])
    return msgspec.convert(fields, RequestRecord)
