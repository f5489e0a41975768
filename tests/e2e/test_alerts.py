"""Alerts of a real process: a budget that is spent, in messages to a webhook, also when the gateway is killed in between."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest

from tests.fakes.alert_receiver import SECRET, AlertReceiver, loopback_receiver
from tests.fakes.fork_server import fork_server

pytestmark = pytest.mark.process

PROJECTS = [f"p{number}" for number in range(20)]


def text_of(url: str, projects=PROJECTS) -> str:
    return f"""
providers: {{sim: {{}}}}
models: {{llm: {{sim/echo: {{price: {{unit: 1M_tokens, input: 1000, output: 1000}}}}}}}}
alerts:
  receivers: {{oncall: {{url: "{url}", secret: {SECRET}}}}}
  disabled: [budget_warning]
  check_s: 1
  recovered_after_s: 0
"""


def call(url: str, method: str, path: str, body: object, **headers: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, path, json.dumps(body), {"content-type": "application/json", **headers})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def spend(url: str, project: str) -> None:
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "a few words to pay for"}]}
    assert call(url, "POST", "/v1/chat/completions", body, **{"x-gw-project": project}) == 200


def budget(url: str, project: str, usd: float) -> None:
    assert call(url, "PATCH", f"/v1/projects/{project}", {"daily_budget": usd}) == 200


def test_twenty_incidents_give_one_message_and_one_recovery_each_across_kills(tmp_path):
    with loopback_receiver(time.time) as (receiver, url), fork_server() as server:
        text = text_of(url)
        gateway = server.start(tmp_path, text)
        for project in PROJECTS:
            assert call(gateway.url, "POST", "/v1/projects", {"project_id": project}) == 200
            spend(gateway.url, project)
        for part in range(0, 20, 10):
            for project in PROJECTS[part : part + 10]:
                budget(gateway.url, project, 0.000_001)
            gateway.kill()
            gateway = server.start(tmp_path, text)
            receiver.wait_for(lambda r, want=part + 10: count(r, "raised") == want)
        gateway.kill()
        gateway = server.start(tmp_path, text)
        for part in range(0, 20, 10):
            receiver.mode, tries = "fail", receiver.tries  # messages wait in the database while the gateway is killed
            for project in PROJECTS[part : part + 10]:
                budget(gateway.url, project, 0)
            receiver.wait_for(lambda r, tries=tries: r.tries > tries + 1)  # the log has the first failure before the second try
            gateway.kill()
            receiver.mode = "accept"
            gateway = server.start(tmp_path, text)
            receiver.wait_for(lambda r, want=part + 10: count(r, "recovered") == want)
        kinds = ("raised", "recovered")
        expected = {(kind, "budget_exceeded", f"project {project} day"): 1 for kind in kinds for project in PROJECTS}
        assert Counter(receiver.incidents) == expected
        log = gateway.log.read_text()
        assert "alert_not_sent" in log
        assert not re.search(r"s3cr3t-query|whsec_|MDEyMzQ", log)


def count(receiver: AlertReceiver, kind: str) -> int:
    return sum(state == kind for state, _, _ in receiver.incidents)
