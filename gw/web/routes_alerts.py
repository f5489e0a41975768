"""Routes of alerts: incidents, receivers and rules, a test, and mutes."""

from __future__ import annotations

from functools import partial

from gw.alerts import alert_admin
from gw.web.route import QueryField, Request, Route

_LIMIT = {"type": "integer", "minimum": 1, "maximum": alert_admin.MOST_RECENT, "default": 50}
_alerts = partial(Route, tag="Alerts")


async def _report(request: Request) -> alert_admin.AlertsReport:
    return await alert_admin.report(request.gateway, request.query["limit"])


async def _test(request: Request) -> alert_admin.TestedReceivers:
    return await alert_admin.send_test(request.gateway, request.body, request.actor)


async def _mute(request: Request) -> alert_admin.MutedRule:
    return await alert_admin.mute(request.gateway, request.name, request.body, request.actor)


async def _unmute(request: Request) -> alert_admin.MutedRule:
    return await alert_admin.unmute(request.gateway, request.name, request.actor)


ALERTS = (
    _alerts(
        "GET", "/v1/alerts", "alerts", "Open and recent incidents, receivers and rules.",
        _report, answers=(alert_admin.AlertsReport,), errors=(422, 503),
        notes="Receivers with what waits for them, rules with their mutes.",
        query=(QueryField("limit", _LIMIT, "Entries of `recent` at most."),),
    ),
    _alerts(
        "POST", "/v1/alerts/test", "test_alerts", "Send a test message to the receivers, and say what becomes of it.", _test,
        body=alert_admin.TestAlert, answers=(alert_admin.TestedReceivers,), errors=(404, 422, 503),
        notes="Each receiver has 10 s, one of the type `apprise` 20 s. A failed test is not sent again.",
    ),
    _alerts(
        "POST", "/v1/alerts/{rule}/mute", "mute_alert", "Send nothing about a rule for so many hours; its incidents are still recorded.",
        _mute, body=alert_admin.MuteRule, answers=(alert_admin.MutedRule,), errors=(404, 422, 503),
        notes="What is open when the time is over is sent then. `hours: 0` unmutes the rule.",
    ),
    _alerts(
        "POST", "/v1/alerts/{rule}/unmute", "unmute_alert", "Send messages about a rule again.", _unmute,
        answers=(alert_admin.MutedRule,), errors=(404, 503),
    ),
)  # fmt: skip
