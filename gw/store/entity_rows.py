"""SQL of the entities created through the API and of the audit log. A change and its audit entries are one transaction."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from gw.store import alert_rows
from gw.store.alert_rows import AlertChange
from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import content, struct_of
from gw.types.entities import AuditEntry, Name, Stored, name_of

_PUT = """
insert into managed (kind, id, body) values (?, ?, ?)
on conflict (kind, id) do update set body = excluded.body"""
_PUT_TRANSCRIPT = """
insert into transcripts (id, project, expires_at, body) values (?, ?, ?, ?)
on conflict (id) do update set body = excluded.body"""
_PUT_CALLBACK = """
insert into callbacks (id, expires_at, body) values (?, ?, ?)
on conflict (id) do update set body = excluded.body"""
_PUT_META = "insert into meta (name, value) values (?, ?) on conflict (name) do update set value = excluded.value"
_REMOVE = "delete from managed where kind = ? and id = ?"
_AUDIT = """
insert into audit (timestamp, entity_type, entity_id, action, changes, source, actor)
values (?, ?, ?, ?, ?, ?, ?)"""
_AUDIT_PAGE = """
select timestamp, entity_type, entity_id, action, changes, source, actor, seq from audit
where (:entity_type is null or entity_type = :entity_type)
  and (:entity_id is null or entity_id = :entity_id)
  and (:action is null or action = :action)
  and (:before is null or seq < :before)
  and (:since is null or timestamp >= :since) and (:until is null or timestamp < :until)
order by seq desc limit :limit"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Stored).decode


class StoredTranscript(msgspec.Struct, frozen=True):
    """A transcript of a recording that callers poll for. `body`: JSON in AssemblyAI's shape; times in Unix seconds."""

    id: str
    project: str
    expires_at: float
    body: bytes


class StoredCallback(msgspec.Struct, frozen=True):
    """A result that is due at an address of a caller's. `body`: what `gw.dialects.callbacks` needs to send it."""

    id: str
    expires_at: float
    body: bytes


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Entities to write and to remove, meta values to set, audit entries to add, transcripts and callbacks to keep, and alerts."""

    put: tuple[Stored, ...] = ()
    remove: tuple[Name, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    meta: tuple[tuple[str, str], ...] = ()
    transcripts: tuple[StoredTranscript, ...] = ()
    transcripts_until: float = 0.0
    """Those that have expired by then are removed."""
    callbacks: tuple[StoredCallback, ...] = ()
    callbacks_done: tuple[str, ...] = ()
    """Ids of those to remove."""
    alerts: AlertChange | None = None


def apply(db: apsw.Connection, change: Change) -> None:
    """Apply a change in one transaction. Blocks."""
    db.execute("begin immediate")
    try:
        write(db, change)
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def write(db: SqlConnection, change: Change) -> None:
    """Write a change. Within the caller's transaction."""
    db.executemany(_PUT, [(*name_of(entity), _encode(entity).decode()) for entity in change.put])
    db.executemany(_REMOVE, change.remove)
    db.executemany(_PUT_META, change.meta)
    if change.transcripts:
        db.execute("delete from transcripts where expires_at < ?", (change.transcripts_until,))
        db.executemany(_PUT_TRANSCRIPT, [msgspec.structs.astuple(one) for one in change.transcripts])
    db.executemany(_PUT_CALLBACK, [msgspec.structs.astuple(one) for one in change.callbacks])
    db.executemany("delete from callbacks where id = ?", [(id_,) for id_ in change.callbacks_done])
    if change.alerts is not None:
        alert_rows.write(db, change.alerts)
    db.executemany(_AUDIT, [_audit_row(entry) for entry in change.audit])


def set_meta(db: SqlConnection, name: str, value: str) -> None:
    db.execute(_PUT_META, (name, value))


def _audit_row(entry: AuditEntry) -> tuple[object, ...]:
    changes = _encode(entry.changes).decode()
    return (entry.timestamp, entry.entity_type, entry.entity_id, entry.action, changes, entry.source, entry.actor)


def entities(db: SqlConnection) -> list[Stored]:
    """Return all entities in the order of their ids. Entries that this version cannot read are skipped and logged."""
    stored: list[Stored] = []
    for kind, entity_id, body in db.execute("select kind, id, body from managed order by kind, id"):
        try:
            stored.append(_decode(content(body)))
        except msgspec.DecodeError:
            import structlog  # rarely needed, and not by every process

            structlog.get_logger().warning("database_entry_unreadable", entity_type=kind, entity_id=entity_id)
    return stored


def transcripts(db: SqlConnection, now: float) -> Sequence[StoredTranscript]:
    """Return the transcripts that have not expired."""
    rows = db.execute("select id, project, expires_at, body from transcripts where expires_at >= ? order by expires_at", (now,))
    return [StoredTranscript(*row) for row in rows]


def callbacks(db: SqlConnection) -> Sequence[StoredCallback]:
    """Return the callbacks that were neither accepted nor given up."""
    return [StoredCallback(*row) for row in db.execute("select id, expires_at, body from callbacks order by expires_at")]


def meta(db: SqlConnection, name: str) -> str | None:
    value: str | None = db.execute("select value from meta where name = ?", (name,)).get
    return value


def audit_page(
    db: SqlConnection, *, limit: int, entity_type: str | None, entity_id: str | None, action: str | None,
    before: int | None, since: float | None = None, until: float | None = None,
) -> Sequence[AuditEntry]:  # fmt: skip
    """Return the newest entries that pass every filter; `before`: the id of the last entry of the previous page; times in Unix seconds."""
    filters = {"entity_type": entity_type, "entity_id": entity_id, "action": action, "since": since, "until": until}
    rows = db.execute(_AUDIT_PAGE, filters | {"before": before, "limit": limit})
    return [struct_of(AuditEntry, (*row[:4], msgspec.json.decode(content(row[4])), *row[5:])) for row in rows]
