"""Alerts of a gateway with two worker processes: one process sends, and it sees what goes wrong in each of them."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest

from tests.e2e.conftest import compiled_once, starter
from tests.e2e.test_workers import once, wait_until, workers_of
from tests.fakes.alert_receiver import SECRET, loopback_receiver
from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.ports import free_port

pytestmark = pytest.mark.process

TEXT = """
providers:
  away: {{type: openai, api_key: sk-0123456789abcdef, base_url: "http://127.0.0.1:{port}/v1"}}
  sim: {{}}
models: {{llm: {{away/m: , sim/echo: {{price: {{unit: 1M_tokens, input: 1000, output: 1000}}}}}}}}
fallbacks: {{llm: [away/m, sim/echo]}}
projects: {{shop: {{daily_budget: 0.000001, budget_action: warn}}}}
routing: {{breaker: {{failures: 1, open_s: 4}}}}
auth: {{admin_token: b7d1f3a95c2e4860, keys: [{{key: 9f27c1d86ab340e5, project: shop}}]}}
serve: {{workers: 2, drain_s: 5}}
alerts:
  receivers: {{oncall: {{url: "{url}", secret: {SECRET}}}}}
  disabled: [budget_warning, fallback_rate, unpriced_models, error_rate]
  min_requests: 1000000
  check_s: 1
  recovered_after_s: 0
"""


def chat(url: str) -> int:
    body = {"model": "away/m", "messages": [{"role": "user", "content": "hi"}]}
    return once(url, "POST", "/v1/chat/completions", body, key="9f27c1d86ab340e5")[0]


def both_have(url: str, requests: int) -> bool:
    return all(worker["requests"] >= requests for worker in workers_of(url))


def test_each_incident_gives_one_message_whichever_worker_meets_it(tmp_path):
    port = free_port()  # nobody listens there: it refuses connections
    with loopback_receiver(time.time) as (receiver, url), starter(tmp_path) as start:
        gateway = start(TEXT.format(port=port, url=url, SECRET=SECRET), **compiled_once(tmp_path))

        def metric(name: str) -> float:
            return float(re.search(rf'^{name}{{provider="away"}} (\S+)', once(gateway.url, "GET", "/v1/metrics")[1].decode(), re.M)[1])

        def breakers() -> list[str]:
            states = once(gateway.url, "GET", "/api/reliability?period=today")[1]["providers"]
            return [entry["breaker"] for entry in states if entry["provider"] == "away"]

        assert metric("gw_provider_up") == 1
        assert chat(gateway.url) == 200  # by one worker; the keeper, which sends, calls no provider
        receiver.wait_for(lambda r: {rule for _, rule, _ in r.incidents} == {"provider_failing", "budget_exceeded"})
        wait_until(lambda: chat(gateway.url) == 200 and metric("gw_provider_up") == 0)  # a breaker that opened 4 s ago is half open
        wait_until(lambda: chat(gateway.url) == 200 and breakers() == ["open"])
        wait_until(lambda: chat(gateway.url) == 200 and both_have(gateway.url, 2))
        with counting_upstream(port=port) as upstream:
            wait_until(lambda: chat(gateway.url) == 200 and upstream.calls >= 4)
            receiver.wait_for(lambda r: ("recovered", "provider_failing", "away") in r.incidents)
        assert gateway.stop() == 0
    failing = [(kind, "provider_failing", "away") for kind in ("raised", "recovered")]
    assert Counter(receiver.incidents) == Counter([("raised", "budget_exceeded", "project shop day"), *failing])
