"""Values of alerts: what is wrong now, incidents with their history, and the messages about them."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

AlertRule: TypeAlias = Literal[
    "budget_warning", "budget_exceeded", "provider_failing", "error_rate", "fallback_rate", "first_audio_slow", "unpriced_models",
    "prices_old", "certificate_expiring", "key_expiring", "records_not_stored", "journal_growing", "gateway_degraded", "slots_full",
]
ALERT_RULES: tuple[AlertRule, ...] = get_args(AlertRule)
Severity: TypeAlias = Literal["warning", "critical"]
NoticeKind: TypeAlias = Literal["raised", "reminder", "recovered", "passed"]
"""`passed`: raised and recovered during quiet times, and reported after them."""
IncidentKey: TypeAlias = tuple[str, str]
"""Rule and subject."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that is broken now. `subject`: what it is about, such as a provider; `text`: a sentence with the figures."""

    rule: AlertRule
    subject: str
    severity: Severity
    text: str

    @property
    def key(self) -> IncidentKey:
        return self.rule, self.subject


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that was broken for a time. All times in Unix seconds; 0 = not yet.

    `policy.alert_incidents` changes it; `text` is that of the last message, or of the first sighting.
    """

    id: str
    rule: AlertRule
    subject: str
    severity: Severity
    text: str
    began_at: float
    """First sighting."""
    opened_at: float = 0.0
    absent_since: float = 0.0
    """Since when it is not seen any more; 0 = it is."""
    closed_at: float = 0.0
    announced_at: float = 0.0
    """Time of the last message that it is open."""
    announced: Severity | None = None
    """Severity in that message; None = there was none."""
    returns: int = 0
    """Number of times that it came back within an hour of its recovery."""
    settled: bool = False
    """True once it is closed and no message about it is due."""

    @property
    def key(self) -> IncidentKey:
        return self.rule, self.subject

    @property
    def is_open(self) -> bool:
        return self.opened_at > 0 and not self.closed_at


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a message: what has become of one incident."""

    kind: NoticeKind
    incident: Incident


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to every receiver: all notices of one moment. Without notices it is a test."""

    id: str
    created_at: float
    gateway: str
    """Name of the gateway that sends it."""
    notices: tuple[Notice, ...] = ()


class PendingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that one receiver has not accepted yet, and the tries that were made."""

    receiver: str
    message: AlertMessage
    tries: int = 0
    last_error: str = ""


class Mute(msgspec.Struct, frozen=True, kw_only=True):
    """A rule about which no message is sent `until` then, in Unix seconds."""

    rule: AlertRule
    until: float
