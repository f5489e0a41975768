"""The section `alerts` of gw.yaml: who receives messages, and the limits of the rules."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from gw.config.fields import Named, Section, secret, settings_of, text
from gw.config.node import Node, Rejected, suggestion
from gw.policy.quiet_times import QuietTime
from gw.types.alerts import ALERT_RULES, AlertRule
from gw.types.secret import Secret

ReceiverType = Literal["webhook", "slack", "apprise"]
SECRET_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)
_SECRET_HINT = "make one with: echo whsec_$(openssl rand -base64 32)"
Share = Annotated[float, Meta(gt=0, le=1)]


def signing_secret(node: Node) -> Secret:
    """Parse the secret of a webhook: `whsec_` and 24 to 64 bytes in base64, as Standard Webhooks has it."""
    value = secret(node)
    try:
        key = signing_key(value)
    except ValueError:
        raise Rejected(f"{node.name} must be {SECRET_PREFIX} and base64", _SECRET_HINT) from None
    if value and len(key) not in _SECRET_BYTES:
        raise Rejected(f"{node.name} must be {SECRET_PREFIX} and base64 of 24 to 64 bytes", _SECRET_HINT)
    return value


def signing_key(value: Secret) -> bytes:
    """Return the bytes with which messages are signed. Raises ValueError."""
    encoded = value.reveal()
    if encoded and not encoded.startswith(SECRET_PREFIX):
        raise ValueError("the prefix is missing")
    try:
        return base64.b64decode(encoded.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None


def rule_names(node: Node) -> tuple[AlertRule, ...]:
    """Parse a list of rules."""
    names: list[AlertRule] = []
    for element in node.elements():
        name = text(element)
        if name not in ALERT_RULES:
            element.problem(f"{name[:80]!r} is not a rule of alerts", suggestion(name, ALERT_RULES, listed="rules"))
        else:
            names += [rule for rule in ALERT_RULES if rule == name]
    return tuple(names)


def quiet_times(node: Node) -> tuple[QuietTime, ...]:
    """Parse a list of quiet times."""
    times: list[QuietTime] = []
    for element in node.elements():
        try:
            times.append(QuietTime.parse(text(element)))
        except ValueError as error:
            element.problem(f"{element.name} is not a time of the week", str(error))
    return tuple(times)


def time_zone(node: Node) -> str:
    name = text(node)
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "write a name such as Europe/Berlin; systems without time zones need the package tzdata"
        raise Rejected(f"{node.name}: the time zone {name[:80]!r} is not known here", hint) from None
    return name


class AlertReceiver(msgspec.Struct, frozen=True, kw_only=True):
    type: Annotated[ReceiverType, "webhook (default), slack, or apprise: mail and many other services (extra: alerts)"] = "webhook"
    url: Annotated[Secret, "of slack: its incoming webhook; of apprise: such as mailtos://user:password@example.com"] = Secret("")
    secret: Annotated[Secret, signing_secret, "of a webhook: signs each message; whsec_ and 24 to 64 random bytes in base64"] = Secret("")


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    receivers: Annotated[
        Mapping[str, AlertReceiver], Named(Section(AlertReceiver, settings_of(AlertReceiver))), "all rules are on once there is one"
    ] = msgspec.field(default_factory=dict)
    disabled: Annotated[tuple[AlertRule, ...], rule_names, "rules that are not evaluated; default: none"] = ()
    check_s: Annotated[float, Meta(ge=1, le=3_600), "how often the rules are evaluated"] = 15.0
    recovered_after_s: Annotated[float, Meta(ge=0, le=3_600), "how long all must be well until an incident is over"] = 120.0
    remind_h: Annotated[
        float, Meta(ge=1, le=720), "how often a critical incident that lasts is sent again; warnings: once a day at most"
    ] = 1.0
    quiet: Annotated[
        tuple[QuietTime, ...], quiet_times, "messages wait until these times are over: 22:00-07:00, or sat-sun 00:00-24:00"
    ] = ()
    time_zone: Annotated[str, time_zone, "of `quiet`"] = "UTC"
    quiet_critical: Annotated[bool, "true: critical incidents wait too"] = False
    window_s: Annotated[float, Meta(ge=60, le=86_400), "rates and first audio are counted over this time"] = 600.0
    min_requests: Annotated[int, Meta(ge=1, le=1_000_000), "fewer requests in that time say nothing"] = 10
    budget_warning: Annotated[Share, "budget_warning: share of a budget that is spent"] = 0.8
    provider_failures: Annotated[Share, "provider_failing: share of a provider's calls that fail; an open circuit breaker too"] = 0.5
    error_rate: Annotated[Share, "error_rate: share of requests that fail"] = 0.1
    fallback_rate: Annotated[Share, "fallback_rate: share of requests that another candidate answers"] = 0.3
    first_audio_ms: Annotated[
        float, Meta(gt=0, le=600_000), "first_audio_slow: p95 of turns, from the last word to the first sound"
    ] = 2_500.0
    price_days: Annotated[int, Meta(ge=1, le=3_650), "prices_old: age of a price table in use"] = 90
    expiry_days: Annotated[float, Meta(ge=0, le=365), "certificate_expiring, key_expiring: days before the end"] = 14.0
    waiting_records: Annotated[int, Meta(ge=1, le=100_000_000), "journal_growing: records that wait for the database"] = 5_000
