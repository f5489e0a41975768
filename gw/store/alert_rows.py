"""SQL of incidents, of messages that a receiver has not accepted yet, and of muted rules. A change is part of `entity_rows.Change`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from gw.store.sql_connection import SqlConnection
from gw.store.sqlite import content
from gw.types.alerts import ALERT_RULES, AlertMessage, AlertRule, Incident, Mute, PendingMessage

T = TypeVar("T")

KEPT_S = 30 * 86_400.0
"""Seconds for which incidents are kept after their end."""

_PUT_INCIDENT = """
insert into alert_incidents (id, closed_at, body) values (?, ?, ?)
on conflict (id) do update set closed_at = excluded.closed_at, body = excluded.body"""
_PUT_PENDING = """
insert into alert_outbox (id, receiver, created_at, tries, last_error, body) values (?, ?, ?, ?, ?, ?)
on conflict (id, receiver) do update set tries = excluded.tries, last_error = excluded.last_error"""
_PUT_MUTE = "insert into alert_mutes (rule, until) values (?, ?) on conflict (rule) do update set until = excluded.until"
_INCIDENTS = """
select body from alert_incidents where closed_at = 0 or closed_at >= ? order by closed_at = 0 desc, id desc limit ?"""

_PENDING = "select receiver, body, tries, last_error from alert_outbox order by created_at, id"

_encode = msgspec.json.Encoder().encode
_incident = msgspec.json.Decoder(Incident).decode
_message = msgspec.json.Decoder(AlertMessage).decode


class AlertChange(msgspec.Struct, frozen=True, kw_only=True):
    """Incidents and messages to write, and what to remove. `sent`: (message id, receiver)."""

    incidents: tuple[Incident, ...] = ()
    forgotten: tuple[str, ...] = ()
    pending: tuple[PendingMessage, ...] = ()
    sent: tuple[tuple[str, str], ...] = ()
    mutes: tuple[Mute, ...] = ()
    unmuted: tuple[AlertRule, ...] = ()
    closed_before: float = 0.0
    """Incidents that ended before then are removed."""


class AlertState(msgspec.Struct, frozen=True, kw_only=True):
    """Incidents (open ones first, then the newest), messages in the order in which they are sent, and muted rules."""

    incidents: Sequence[Incident]
    pending: Sequence[PendingMessage]
    mutes: Sequence[Mute]


def write(db: SqlConnection, change: AlertChange) -> None:
    """Write a change. Within the caller's transaction."""
    db.executemany("delete from alert_incidents where id = ?", [(id_,) for id_ in change.forgotten])
    db.executemany(_PUT_INCIDENT, [(one.id, one.closed_at, _encode(one).decode()) for one in change.incidents])
    if change.closed_before:
        db.execute("delete from alert_incidents where closed_at > 0 and closed_at < ?", (change.closed_before,))
    db.executemany(_PUT_PENDING, [_pending_row(one) for one in change.pending])
    db.executemany("delete from alert_outbox where id = ? and receiver = ?", change.sent)
    db.executemany(_PUT_MUTE, [(mute.rule, mute.until) for mute in change.mutes])
    db.executemany("delete from alert_mutes where rule = ?", [(rule,) for rule in change.unmuted])


def _pending_row(one: PendingMessage) -> tuple[object, ...]:
    message = one.message
    return (message.id, one.receiver, message.created_at, one.tries, one.last_error, _encode(message).decode())


def read(db: SqlConnection, now: float, *, since: float, limit: int) -> AlertState:
    """Return the open incidents and those that ended after `since`, `limit` of them; everything unsent; the mutes of `now`."""
    incidents = [one for (body,) in db.execute(_INCIDENTS, (since, limit)) if (one := _readable(_incident, body)) is not None]
    pending = [
        PendingMessage(receiver=receiver, message=message, tries=tries, last_error=last_error)
        for receiver, body, tries, last_error in db.execute(_PENDING)
        if (message := _readable(_message, body)) is not None
    ]
    return AlertState(incidents=incidents, pending=pending, mutes=mutes(db, now))


def mutes(db: SqlConnection, now: float) -> Sequence[Mute]:
    """Return the rules that are muted now."""
    return [
        Mute(rule=rule, until=until)
        for rule, until in db.execute("select rule, until from alert_mutes where until > ? order by rule", (now,))
        if rule in ALERT_RULES
    ]


def _readable(decode: Callable[[bytes | str], T], body: object) -> T | None:
    """Decode a row; one that this version cannot read, such as a newer one's, is left out and logged."""
    try:
        return decode(content(body))
    except msgspec.DecodeError as error:
        import structlog  # rarely needed, and not by every process

        structlog.get_logger().warning("alert_row_unreadable", why=str(error))
        return None
