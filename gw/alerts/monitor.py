"""The task of alerts: takes a snapshot every `check_s`, moves the incidents on, and puts messages into the outbox.

    waiting ──no other gateway with this database sends──▶ leading ──another one sends──▶ waiting
    publishes what it sees                                 snapshot, and what others see → conditions → incidents → outbox

Incidents and unsent messages are in the database, in one transaction for each step. So a gateway that is killed goes on where it was:
what was stored is not raised again, and what was not sent is sent.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

import structlog
import trio

from gw.alerts.conditions import FROM_RECORDS, AlertFacts, sightings
from gw.alerts.facts import FactReader
from gw.alerts.outbox import Outbox
from gw.alerts.receivers import Sender
from gw.config.alert_settings import AlertSettings
from gw.config.fleet_rules import member_name
from gw.errors import AlertsLedElsewhere, StoreError, one_error
from gw.gateway import Gateway
from gw.policy.alert_incidents import RETURN_S, AlertPolicy, advance
from gw.policy.quiet_times import is_quiet
from gw.store.alert_channel import AlertChannel
from gw.store.alert_rows import KEPT_S, AlertChange, AlertState
from gw.store.entity_rows import Change
from gw.types.alerts import AlertMessage, Incident, IncidentKey, Severity, Sighting

_RETRY_S = 5.0
_WARNINGS_S = 86_400.0  # between reminders of a warning, at least
_MOST_KNOWN = 10_000
_log = structlog.get_logger()


async def run(gateway: Gateway) -> None:
    """Watch over a gateway until cancelled. Does nothing while no receiver is configured."""
    while True:
        if not gateway.settings.alerts.receivers:
            await trio.sleep(gateway.settings.alerts.check_s)
            continue
        try:
            with one_error():
                async with gateway.store.alert_channel() as channel:
                    await _take_part(gateway, channel)
        except StoreError as error:
            _log.warning("alerts_not_evaluated", why=error.message)
            await trio.sleep(_RETRY_S)


async def _take_part(gateway: Gateway, channel: AlertChannel) -> None:
    """Send alerts whenever no other gateway does, until no receiver is configured any more. Raises StoreError."""
    facts = FactReader(gateway, shared=channel.shared)
    while gateway.settings.alerts.receivers:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_publish, gateway, channel, facts)
            await channel.wait()
            nursery.cancel_scope.cancel()
        try:
            with one_error():
                await _lead(gateway, channel, facts)
        except AlertsLedElsewhere:
            _log.info("alerts_led_elsewhere")


async def _publish(gateway: Gateway, channel: AlertChannel, facts: FactReader) -> None:
    """Let the gateway that sends know what this one sees. Raises StoreError."""
    while True:
        snapshot = await facts.snapshot(records=False)
        await channel.publish(sightings(snapshot, gateway.settings.alerts, ()), snapshot.now)
        await trio.sleep(gateway.settings.alerts.check_s)


async def _lead(gateway: Gateway, channel: AlertChannel, facts: FactReader) -> None:
    """Evaluate and send until no receiver is configured any more. Raises AlertsLedElsewhere, StoreError."""

    async def store(change: AlertChange) -> None:
        await channel.write(Change(alerts=change))

    now = gateway.clock.now()
    state = await gateway.store.alerts(now, since=now - RETURN_S, limit=_MOST_KNOWN)
    async with trio.open_nursery() as nursery:
        outbox = Outbox(nursery, Sender(gateway.pool.connect), gateway.clock, store, channel.confirm)
        outbox.follow(gateway.settings.alerts.receivers)
        outbox.load(state.pending)
        watch = Watch(gateway, channel, facts, outbox, state)
        while (settings := gateway.settings.alerts).receivers:
            await watch.step(settings)
            await trio.sleep(settings.check_s)
        outbox.follow({})
        await outbox.store(AlertChange())
        nursery.cancel_scope.cancel()


class Watch:
    """The incidents of a gateway, and their next step."""

    def __init__(self, gateway: Gateway, channel: AlertChannel, facts: FactReader, outbox: Outbox, state: AlertState) -> None:
        self._gateway = gateway
        self._channel = channel
        self._facts = facts
        self._outbox = outbox
        self._elsewhere: Collection[Sighting] = ()
        self._known: dict[IncidentKey, Incident] = {}
        for incident in reversed(state.incidents):  # the newest one of a key counts
            self._known[incident.key] = incident
        self._muted: Collection[str] = [mute.rule for mute in state.mutes]

    async def step(self, settings: AlertSettings) -> None:
        """Take a snapshot, and store and send what follows from it. Raises AlertsLedElsewhere."""
        gateway, outbox = self._gateway, self._outbox
        outbox.follow(settings.receivers)
        snapshot = await self._facts.snapshot()
        if snapshot.records is not None:
            self._muted = snapshot.records.muted
        advanced = advance(
            self._known, await self._seen(snapshot, settings), snapshot.now, self._policy(settings, snapshot),
            unknown=FROM_RECORDS if snapshot.records is None else (), new_id=gateway.request_ids.new,
        )  # fmt: skip
        self._known = dict(advanced.known)
        for notice in advanced.notices:
            incident = notice.incident
            _log.warning("alert", kind=notice.kind, rule=incident.rule, subject=incident.subject, text=incident.text)
        message = AlertMessage(
            id=f"msg_{gateway.request_ids.new()}", created_at=snapshot.now, gateway=member_name(gateway.settings), notices=advanced.notices
        )
        pending = outbox.pending_of(message) if advanced.notices else ()
        change = AlertChange(
            incidents=advanced.changed, forgotten=advanced.forgotten, pending=pending,
            closed_before=snapshot.now - KEPT_S if advanced.changed else 0.0,
        )  # fmt: skip
        if change != AlertChange():
            await outbox.store(change)
        outbox.add(pending)

    async def _seen(self, snapshot: AlertFacts, settings: AlertSettings) -> Collection[Sighting]:
        """Return what this gateway sees, and what others do."""
        with suppress(StoreError):  # what they saw last holds
            self._elsewhere = await self._channel.seen_elsewhere(snapshot.now)
        open_keys = [key for key, incident in self._known.items() if incident.is_open]
        seen = {one.key: one for one in self._elsewhere if one.rule not in settings.disabled}
        return (seen | {one.key: one for one in sightings(snapshot, settings, open_keys)}).values()

    def _policy(self, settings: AlertSettings, snapshot: AlertFacts) -> AlertPolicy:
        critical_s = settings.remind_h * 3_600
        return AlertPolicy(
            clear_s=settings.recovered_after_s, remind_s={"critical": critical_s, "warning": max(critical_s, _WARNINGS_S)},
            muted=self._muted, quiet=severities_that_wait(settings, snapshot.now),
        )  # fmt: skip


def severities_that_wait(settings: AlertSettings, now: float) -> tuple[Severity, ...]:
    """Return the severities whose messages wait now, by the clock on the wall in the time zone of the settings.

    When clocks are set back, an hour happens twice and is quiet twice; when they are set forward, a quiet hour may not happen.
    """
    local = datetime.fromtimestamp(now, ZoneInfo(settings.time_zone))
    if not is_quiet(settings.quiet, local.weekday(), local.hour * 60 + local.minute):
        return ()
    return ("warning", "critical") if settings.quiet_critical else ("warning",)
