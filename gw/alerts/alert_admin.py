"""Use cases of alerts: show incidents, receivers and rules, send a test, and mute a rule for a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import trio
from msgspec import Meta

from gw.admin.request_models import Body, page_size, read
from gw.admin.schemas import Ms, Schema, UnixSeconds
from gw.alerts.receivers import Sender
from gw.config.alert_settings import AlertReceiver, ReceiverType
from gw.config.fleet_rules import member_name
from gw.errors import RequestError, UnknownAlertReceiver, UnknownAlertRule
from gw.gateway import Gateway
from gw.store.alert_rows import KEPT_S, AlertChange
from gw.store.entity_rows import Change
from gw.types.alerts import ALERT_RULES, AlertMessage, AlertRule, Incident, Mute, PendingMessage, Severity
from gw.types.entities import Action, Actor, AuditEntry

MOST_RECENT = 500
_LONGEST_HOURS = 720


class IncidentEntry(Schema):
    """`announced_at`: the last message that it is open; null = none was sent, as of a muted rule. `closed_at` is null while it is open."""

    id: str
    rule: AlertRule
    subject: str
    severity: Severity
    text: str
    opened_at: UnixSeconds
    closed_at: UnixSeconds | None
    announced_at: UnixSeconds | None


class ReceiverEntry(Schema):
    """`waiting` messages that it has not accepted; `last_error`: why not the first of them, "" = it was not tried yet."""

    receiver: str
    type: ReceiverType
    waiting: int
    oldest_at: UnixSeconds | None
    tries: int
    last_error: str


class RuleEntry(Schema):
    """`enabled`: it is evaluated, since a receiver is configured and `alerts.disabled` does not name it."""

    rule: AlertRule
    enabled: bool
    muted_until: UnixSeconds | None


class AlertsReport(Schema):
    """`recent`: incidents that ended in the last 30 days, the newest first."""

    open: list[IncidentEntry]
    recent: list[IncidentEntry]
    receivers: list[ReceiverEntry]
    rules: list[RuleEntry]


class TestAlert(Body):
    receiver: str | None = None
    """Absent = all receivers."""


class TestOutcome(Schema):
    """`error`: why the receiver did not accept the message; "" = it did."""

    receiver: str
    status: Literal["sent", "failed"]
    error: str
    took_ms: Ms


class TestedReceivers(Schema):
    receivers: list[TestOutcome]


class MuteRule(Body):
    hours: Annotated[float, Meta(ge=0, le=_LONGEST_HOURS)]
    """0 = the rule is not muted any more."""


class MutedRule(Schema):
    """`muted_until` is null where the rule is not muted."""

    rule: AlertRule
    muted_until: UnixSeconds | None


async def report(gateway: Gateway, limit: str | int) -> AlertsReport:
    """Return incidents, receivers and rules. Raises RequestError, StoreUnavailable."""
    now, settings, most = gateway.clock.now(), gateway.settings.alerts, page_size(limit, MOST_RECENT)
    state = await gateway.store.alerts(now, since=now - KEPT_S, limit=10_000)
    opened = [incident for incident in state.incidents if incident.opened_at]
    muted = {mute.rule: mute.until for mute in state.mutes}
    on = bool(settings.receivers)
    return AlertsReport(
        open=[_incident(incident) for incident in opened if incident.is_open],
        recent=[_incident(incident) for incident in opened if incident.closed_at][:most],
        receivers=[_receiver(name, receiver, state.pending) for name, receiver in settings.receivers.items()],
        rules=[
            RuleEntry(rule=rule, enabled=on and rule not in settings.disabled, muted_until=muted.get(rule)) for rule in ALERT_RULES
        ],
    )  # fmt: skip


def _incident(incident: Incident) -> IncidentEntry:
    return IncidentEntry(
        id=incident.id, rule=incident.rule, subject=incident.subject, severity=incident.severity, text=incident.text,
        opened_at=incident.opened_at, closed_at=incident.closed_at or None, announced_at=incident.announced_at or None,
    )  # fmt: skip


def _receiver(name: str, receiver: AlertReceiver, pending: Iterable[PendingMessage]) -> ReceiverEntry:
    waiting = [one for one in pending if one.receiver == name]
    first = waiting[0] if waiting else None
    return ReceiverEntry(
        receiver=name, type=receiver.type, waiting=len(waiting), oldest_at=first.message.created_at if first else None,
        tries=first.tries if first else 0, last_error=first.last_error if first else "",
    )  # fmt: skip


async def send_test(gateway: Gateway, body: Mapping[str, object], by: Actor) -> TestedReceivers:
    """Send a test to the receivers at once, and wait for what becomes of it. Raises RequestError, UnknownAlertReceiver, StoreError."""
    name, receivers = read(body, TestAlert).receiver, gateway.settings.alerts.receivers
    if not receivers:
        raise RequestError(what="no receiver is configured: see docs/alerts.md", param="receiver")
    if name is not None and name not in receivers:
        raise UnknownAlertReceiver(name=name, available=tuple(receivers))
    chosen = receivers if name is None else {name: receivers[name]}
    await gateway.store.change(Change(audit=(_audit(gateway, name or "all receivers", "test", {}, by),)))
    sender = Sender(gateway.pool.connect)
    outcomes: dict[str, TestOutcome] = {}

    async def test(name: str, receiver: AlertReceiver) -> None:
        now, began = gateway.clock.now(), trio.current_time()
        message = AlertMessage(id=f"msg_{gateway.request_ids.new()}", created_at=now, gateway=member_name(gateway.settings))
        outcome = await sender.send(receiver, message, now)
        took_ms = round(1_000 * (trio.current_time() - began), 1)
        outcomes[name] = TestOutcome(receiver=name, status="failed" if outcome.why else "sent", error=outcome.why, took_ms=took_ms)

    async with trio.open_nursery() as nursery:
        for each, receiver in chosen.items():
            nursery.start_soon(test, each, receiver)
    return TestedReceivers(receivers=[outcomes[each] for each in chosen])


async def mute(gateway: Gateway, name: str, body: Mapping[str, object], by: Actor) -> MutedRule:
    """Send nothing about a rule for so many hours; 0 unmutes it. Raises RequestError, UnknownAlertRule, StoreError."""
    rule, hours = _rule(name), read(body, MuteRule).hours
    if not hours:
        return await unmute(gateway, name, by)
    until = gateway.clock.now() + 3_600 * hours
    change = AlertChange(mutes=(Mute(rule=rule, until=until),))
    await gateway.store.change(Change(alerts=change, audit=(_audit(gateway, rule, "update", {"muted_until": until}, by),)))
    return MutedRule(rule=rule, muted_until=until)


async def unmute(gateway: Gateway, name: str, by: Actor) -> MutedRule:
    """Send messages about a rule again. Raises UnknownAlertRule, StoreError."""
    rule = _rule(name)
    change = AlertChange(unmuted=(rule,))
    await gateway.store.change(Change(alerts=change, audit=(_audit(gateway, rule, "update", {"muted_until": None}, by),)))
    return MutedRule(rule=rule, muted_until=None)


def _rule(name: str) -> AlertRule:
    for rule in ALERT_RULES:
        if rule == name:
            return rule
    raise UnknownAlertRule(name=name, available=ALERT_RULES)


def _audit(gateway: Gateway, entity_id: str, action: Action, changes: Mapping[str, object], by: Actor) -> AuditEntry:
    return AuditEntry(
        timestamp=gateway.clock.now(), entity_type="alerts", entity_id=entity_id, action=action, changes=changes, source=by.source,
        actor=by.name,
    )  # fmt: skip
