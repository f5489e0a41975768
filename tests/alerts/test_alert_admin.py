"""Alerts as people use them: over HTTP, with the webhook on loopback."""

import time

import pytest

from gw.alerts.alert_admin import AlertsReport
from gw.store.alert_rows import AlertChange
from gw.store.entity_rows import Change
from gw.types.alerts import ALERT_RULES, AlertMessage, Incident, PendingMessage
from tests.fakes.alert_receiver import SECRET, loopback_receiver
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import NOON, YAML, SetClock


@pytest.fixture
def webhook():
    with loopback_receiver(time.time) as opened:
        yield opened


@pytest.fixture
async def running(tmp_path, webhook):
    _, url = webhook
    alerts = f"""
alerts:
  receivers:
    oncall: {{url: "{url}", secret: {SECRET}}}
    team: {{type: slack, url: "http://127.0.0.1:9/services/T0/B0/s3cr3t-path"}}
  disabled: [slots_full]
"""
    async with open_running(tmp_path, YAML + alerts, SetClock(time.time())) as opened:
        yield opened


def incident(number, **changes):
    fields = {"id": f"i{number}", "rule": "error_rate", "subject": "", "severity": "critical", "text": "Ten of ten.", "began_at": NOON}
    return Incident(**fields | {"opened_at": NOON} | changes)


async def test_the_report_has_incidents_receivers_and_rules(running):
    now = running.clock.now()
    pending = PendingMessage(
        receiver="oncall", message=AlertMessage(id="m1", created_at=NOON, gateway="gw"), tries=3, last_error="oncall answered 500"
    )
    change = AlertChange(
        incidents=(
            incident(1), incident(2, closed_at=now - 60, absent_since=now - 180, announced="critical", announced_at=NOON),
            incident(3, closed_at=now - 31 * 86_400), incident(4, opened_at=0.0),
        ),
        pending=(pending,),
    )  # fmt: skip
    await running.gateway.store.change(Change(alerts=change))
    report = (await running.get("/v1/alerts")).json
    assert list(report) == list(AlertsReport.__struct_fields__)
    assert [one["id"] for one in report["open"]] == ["i1"]
    assert [(one["id"], one["closed_at"], one["announced_at"]) for one in report["recent"]] == [("i2", now - 60, NOON)]
    assert report["receivers"] == [
        {"receiver": "oncall", "type": "webhook", "waiting": 1, "oldest_at": NOON, "tries": 3, "last_error": "oncall answered 500"},
        {"receiver": "team", "type": "slack", "waiting": 0, "oldest_at": None, "tries": 0, "last_error": ""},
    ]
    assert [rule["rule"] for rule in report["rules"]] == list(ALERT_RULES)
    assert [rule["rule"] for rule in report["rules"] if not rule["enabled"]] == ["slots_full"]
    assert (await running.get("/v1/alerts?limit=0")).status == 422


async def test_a_test_says_what_became_of_it_and_is_audited(running, webhook):
    answer = await running.ask("POST", "/v1/alerts/test", {})
    outcomes = {one["receiver"]: one for one in answer.json["receivers"]}
    assert (outcomes["oncall"]["status"], outcomes["oncall"]["error"]) == ("sent", "")
    assert outcomes["team"]["status"] == "failed"
    assert "s3cr3t" not in answer.body.decode()
    (message,) = webhook[0].accepted
    assert message["type"] == "alerts.test"
    assert (await running.ask("POST", "/v1/alerts/test", {"receiver": "oncall"})).json["receivers"][0]["status"] == "sent"
    unknown = await running.ask("POST", "/v1/alerts/test", {"receiver": "pager"})
    assert (unknown.status, unknown.error["code"]) == (404, "alert_receiver_not_found")
    log = (await running.get("/v1/audit-log?entity_type=alerts")).json
    assert [(entry["action"], entry["entity_id"]) for entry in log] == [("test", "oncall"), ("test", "all receivers")]


async def test_a_mute_holds_for_its_time(running):
    answer = await running.ask("POST", "/v1/alerts/error_rate/mute", {"hours": 2})
    until = running.clock.now() + 7_200
    assert answer.json == {"rule": "error_rate", "muted_until": until}
    rules = {rule["rule"]: rule["muted_until"] for rule in (await running.get("/v1/alerts")).json["rules"]}
    assert {rule for rule, at in rules.items() if at} == {"error_rate"}
    assert (await running.ask("POST", "/v1/alerts/error_rate/unmute")).json == {"rule": "error_rate", "muted_until": None}
    rules = {rule["rule"]: rule["muted_until"] for rule in (await running.get("/v1/alerts")).json["rules"]}
    assert set(rules.values()) == {None}
    await running.ask("POST", "/v1/alerts/error_rate/mute", {"hours": 2})
    assert (await running.ask("POST", "/v1/alerts/error_rate/mute", {"hours": 0})).json == {"rule": "error_rate", "muted_until": None}
    log = (await running.get("/v1/audit-log?entity_id=error_rate")).json
    assert [entry["changes"] for entry in log] == 2 * [{"muted_until": None}, {"muted_until": until}]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/alerts/error_rat/mute", {"hours": 1}, 404, "alert_rule_not_found"),
        ("/v1/alerts/error_rate/mute", {"hours": -1}, 422, "invalid_request"),
        ("/v1/alerts/error_rate/mute", {"hours": 721}, 422, "invalid_request"),
        ("/v1/alerts/error_rate/mute", {}, 422, "invalid_request"),
        ("/v1/alerts/error_rate/mute", {"days": 1}, 422, "invalid_request"),
        ("/v1/alerts/error_rat/unmute", None, 404, "alert_rule_not_found"),
    ],
)
async def test_mistakes(running, path, body, status, code):
    answer = await running.ask("POST", path, body)
    assert (answer.status, answer.error["code"]) == (status, code)


async def test_without_a_receiver(tmp_path):
    async with open_running(tmp_path) as running:
        assert not any(rule["enabled"] for rule in (await running.get("/v1/alerts")).json["rules"])
        answer = await running.ask("POST", "/v1/alerts/test", {})
        assert (answer.status, answer.error["message"]) == (422, "no receiver is configured: see docs/alerts.md")
