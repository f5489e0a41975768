from __future__ import annotations

import json
import time

import pytest
import trio

from gw.store.alert_rows import AlertChange
from gw.store.entity_rows import Change
from gw.types.alerts import AlertMessage, Incident, PendingMessage
from tests.cli.conftest import DAEMON, gateway_in
from tests.fakes.alert_receiver import SECRET, loopback_receiver

AT = 1_795_680_900.0
OPEN = Incident(
    id="i1", rule="provider_failing", subject="openai", severity="critical", text="It fails.", began_at=AT, opened_at=AT
)
OVER = Incident(
    id="i2", rule="prices_old", subject="openai", severity="warning", text="They are old.", began_at=AT, opened_at=AT, closed_at=time.time()
)
WAITING = PendingMessage(
    receiver="oncall", message=AlertMessage(id="m1", created_at=AT, gateway="gw"), tries=2, last_error="oncall answered 500"
)


@pytest.fixture
def webhook():
    with loopback_receiver(time.time) as opened:
        yield opened


@pytest.fixture
def real_gateway(tmp_path, webhook):
    text = f'{DAEMON}alerts: {{receivers: {{oncall: {{url: "{webhook[1]}", secret: {SECRET}}}}}}}\n'
    with gateway_in(tmp_path, text) as opened:
        change = Change(alerts=AlertChange(incidents=(OPEN, OVER), pending=(WAITING,)))
        trio.from_thread.run(opened.gateway.store.change, change, trio_token=opened.token)
        yield opened


def test_open_incidents_come_first(run, real_gateway):
    listed = run("alerts", "list")
    assert listed.exit_code == 0, listed.output
    head, *rows = (line.split("\t") for line in listed.stdout.splitlines())
    assert head == ["state", "severity", "rule", "subject", "since", "until", "text"]
    assert [row[:4] for row in rows] == [["open", "critical", "provider_failing", "openai"], ["over", "warning", "prices_old", "openai"]]
    assert rows[0][-1] == "It fails."
    assert "oncall has not accepted 1 messages (oncall answered 500, 2 tries)" in listed.stderr
    assert len(json.loads(run("alerts", "list", "--json").stdout)["open"]) == 1


def test_a_test_fails_if_a_receiver_does(run, real_gateway, webhook):
    sent = run("alerts", "test")
    assert sent.exit_code == 0, sent.output
    assert sent.stdout.splitlines()[1].split("\t")[:2] == ["oncall", "sent"]
    webhook[0].mode = "fail"
    failed = run("alerts", "test", "oncall")
    assert (failed.exit_code, "127.0.0.1 answered 500" in failed.stdout) == (1, True)
    assert "s3cr3t-query" not in failed.output
    assert "unknown receiver of alerts 'nobody'" in run("alerts", "test", "nobody").stderr


def test_a_rule_is_muted_and_unmuted(run, real_gateway):
    muted = run("alerts", "mute", "error_rate", "--hours", "2")
    assert muted.exit_code == 0, muted.output
    assert "error_rate is muted until 20" in muted.stderr
    assert "error_rate is muted until 20" in run("alerts", "list").stderr
    assert "error_rate is not muted" in run("alerts", "unmute", "error_rate").stderr
    assert "muted" not in run("alerts", "list").stderr
    assert run("alerts", "mute", "error_rat").exit_code == 1
    assert run("alerts", "mute", "error_rate", "--hours", "0").exit_code == 2


def test_without_a_receiver_the_list_says_so(run, tmp_path):
    with gateway_in(tmp_path, DAEMON):
        assert "no receiver is configured, so nothing is evaluated" in run("alerts", "list").stderr
