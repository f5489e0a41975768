"""From what is wrong now to incidents and the messages that are due.

    (unknown) ──seen──▶ pending ──seen for `for_s`──▶ open ──not seen for `clear_s`──▶ closed
                          └──not seen──▶ (forgotten)   └──seen again──▶ open, as if nothing had been

An incident that comes back within an hour of its end stays open for twice as long as the last time without being seen, up to an hour,
so one that flaps soon sends no more than a message an hour, and never says that all is well while it is not.

Messages of an open incident: `raised` when it opens (again if it becomes critical), `reminder` every `remind_s`. While its rule is
muted, none is sent; at quiet times they wait for their end. Whoever was sent one gets `recovered` at the end, in spite of a mute. One that
began and ended at quiet times is reported after them, as `passed`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import attrs
from msgspec.structs import replace

from gw.types.alerts import AlertRule, Incident, IncidentKey, Notice, NoticeKind, Severity, Sighting

RETURN_S = 3_600.0
"""An incident that comes back within this time of its end is flapping; also the longest time without a sighting before it ends."""
FOR_S: Mapping[AlertRule, float] = {
    "records_not_stored": 30.0, "journal_growing": 60.0, "gateway_degraded": 30.0, "slots_full": 60.0,
}
"""Seconds for which a rule must be broken before an incident opens; others open one at once: they count over a time themselves."""
_MOST_DOUBLINGS = 12


@attrs.frozen(kw_only=True)
class AlertPolicy:
    """Conditions for messages now. `quiet`: severities whose messages wait."""

    clear_s: float
    remind_s: Mapping[Severity, float]
    muted: Collection[str] = ()
    quiet: Collection[Severity] = ()


@attrs.frozen(kw_only=True)
class Advance:
    """`changed`: incidents to store; `forgotten`: ids of those that never opened; `notices`: what is to be sent."""

    known: Mapping[IncidentKey, Incident]
    changed: tuple[Incident, ...]
    forgotten: tuple[str, ...]
    notices: tuple[Notice, ...]


def advance(
    known: Mapping[IncidentKey, Incident], sightings: Iterable[Sighting], now: float, policy: AlertPolicy, *,
    unknown: Collection[str], new_id: Callable[[], str],
) -> Advance:  # fmt: skip
    """Return what becomes of the incidents. `unknown`: rules of which nobody knows now if they are broken: they stay as they are."""
    seen = {sighting.key: sighting for sighting in sightings}
    after: dict[IncidentKey, Incident] = {}
    forgotten: list[str] = []
    for key, incident in known.items():
        if key in seen and incident.settled:
            continue  # another one begins below
        moved = _moved(incident, seen.get(key), now, policy, is_known=incident.rule not in unknown)
        if moved is None:
            forgotten.append(incident.id)
        elif not _is_over(moved, now):
            after[key] = moved
    for key, sighting in seen.items():
        if key not in after:
            after[key] = _opened(_begun(sighting, known.get(key), now, new_id()), now)
    notices: list[Notice] = []
    for key, incident in after.items():
        after[key], kind = _announced(incident, seen.get(key), now, policy)
        if kind is not None:
            notices.append(Notice(kind=kind, incident=after[key]))
    changed = tuple(incident for key, incident in after.items() if incident != known.get(key))
    return Advance(known=after, changed=changed, forgotten=tuple(forgotten), notices=tuple(notices))


def _begun(sighting: Sighting, before: Incident | None, now: float, id_: str) -> Incident:
    flaps = before is not None and now - before.closed_at < RETURN_S
    return Incident(
        id=id_, rule=sighting.rule, subject=sighting.subject, severity=sighting.severity, text=sighting.text, began_at=now,
        returns=before.returns + 1 if before is not None and flaps else 0,
    )  # fmt: skip


def _opened(incident: Incident, now: float) -> Incident:
    if not incident.opened_at and now - incident.began_at >= FOR_S.get(incident.rule, 0.0):
        return replace(incident, opened_at=now)
    return incident


def _moved(incident: Incident, sighting: Sighting | None, now: float, policy: AlertPolicy, *, is_known: bool) -> Incident | None:
    """Return the incident as it is now; None for one that ended before it opened."""
    if sighting is None and (incident.closed_at or not is_known):
        return incident
    if sighting is not None:
        returns = incident.returns + 1 if incident.closed_at else incident.returns  # nobody knows of its end: it goes on
        return _opened(replace(incident, absent_since=0.0, closed_at=0.0, severity=sighting.severity, returns=returns), now)
    if not incident.opened_at:
        return None
    if not incident.absent_since:
        incident = replace(incident, absent_since=now)
    clear_s = min(policy.clear_s * 2.0 ** min(incident.returns, _MOST_DOUBLINGS), max(RETURN_S, policy.clear_s))
    return replace(incident, closed_at=now) if now - incident.absent_since >= clear_s else incident


def _announced(
    incident: Incident, sighting: Sighting | None, now: float, policy: AlertPolicy
) -> tuple[Incident, NoticeKind | None]:
    """Return the incident after the message that is due about it, and the kind of that message."""
    waits, is_muted = incident.severity in policy.quiet, incident.rule in policy.muted
    if incident.closed_at:
        if incident.settled or waits:
            return incident, None
        kind: NoticeKind | None = "recovered" if incident.announced else None if is_muted else "passed"
        return replace(incident, settled=True), kind
    if not incident.opened_at or incident.absent_since or is_muted or waits:
        return incident, None
    if incident.announced is None or (incident.announced == "warning" and incident.severity == "critical"):
        kind = "raised"
    elif now - incident.announced_at >= policy.remind_s[incident.severity]:
        kind = "reminder"
    else:
        return incident, None
    text = incident.text if sighting is None else sighting.text
    return replace(incident, announced=incident.severity, announced_at=now, text=text), kind


def _is_over(incident: Incident, now: float) -> bool:
    return incident.settled and now - incident.closed_at >= RETURN_S
