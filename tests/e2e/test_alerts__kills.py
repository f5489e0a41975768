"""Twenty incidents of many rules, in a gateway that is killed at random moments: each gives one message, and one when it is over."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.test_alerts import call
from tests.fakes.alert_receiver import SECRET, AlertReceiver, loopback_receiver
from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fork_server import Forked, ForkServer, fork_server
from tests.fakes.nightly import times

pytestmark = pytest.mark.process

KILLS = times(4, 40)
"""In each half: while incidents begin, and while they end."""
ADMIN, KEY = "b7d1f3a95c2e4860", "9f27c1d86ab340e5"
PERIODS = ("daily", "weekly", "monthly", "total")
AWAY = ("away", "gone", "lost")
"""Providers that cannot be reached at first."""
EXPECTED = {
    *((rule, f"project {period} {name}") for period, name in zip(PERIODS, ("day", "week", "month", "total"), strict=True)
      for rule in ("budget_warning", "budget_exceeded")),
    *((rule, f"key till {name}") for name in ("day", "week", "month") for rule in ("budget_warning", "budget_exceeded")),
    *(("provider_failing", name) for name in AWAY),
    *((rule, "") for rule in ("error_rate", "fallback_rate", "unpriced_models")),
}  # fmt: skip
BEGIN = "{check_s: 1, min_requests: 4"
END = "{check_s: 1, min_requests: 4, error_rate: 1, fallback_rate: 1, disabled: [unpriced_models]"
BETWEEN = "{check_s: 3600, min_requests: 1000000, disabled: [unpriced_models, budget_warning, budget_exceeded]"


def text_of(url: str, port: int, vendor: str, alerts: str, budget: float) -> str:
    """Return a gw.yaml with all causes; `alerts` and the size of the budgets decide which are incidents."""
    away = "".join(f'  {name}: {{type: openai, api_key: sk-0123456789abcdef, base_url: "http://127.0.0.1:{port}/v1"}}\n' for name in AWAY)
    limits = ", ".join(f"{period}_budget: {budget}" for period in PERIODS[:3])
    projects = "".join(f"  {period}: {{{period}_budget: {budget}, budget_action: warn}}\n" for period in PERIODS)
    return f"""
providers:
  sim: {{}}
  vendor: {{type: openai, api_key: sk-0123456789abcdef, base_url: "{vendor}"}}
{away}
models:
  llm: {{away/m: , gone/m: , lost/m: , vendor/unpriced: , sim/echo: {{price: {{unit: 1M_tokens, input: 100000, output: 100000}}}}}}
fallbacks: {{llm: [sim/echo]}}
projects:
{projects}
  plain: {{}}
auth: {{admin_token: {ADMIN}, keys: [{{key: {KEY}, name: till, project: plain, {limits}}}]}}
alerts: {alerts}, recovered_after_s: 1, receivers: {{oncall: {{url: "{url}", secret: {SECRET}}}}}}}
"""


def chat(gateway: Forked, model: str, *, fallback: str = "off", project: str = "plain") -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "a few words to pay for"}], "max_tokens": 20}
    path = f"/v1/chat/completions?gw_project={project}&gw_fallback={fallback}"
    return call(gateway.url, "POST", path, body, authorization=f"Bearer {ADMIN}")


def spend_of_key(gateway: Forked) -> int:
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "a few words to pay for"}]}
    return call(gateway.url, "POST", "/v1/chat/completions", body, authorization=f"Bearer {KEY}")


def kill_at_random(server: ForkServer, folder: Path, text: str, receiver: AlertReceiver, chance: random.Random, states: str) -> Forked:
    """Start a gateway and kill it again and again, and then let one go on until all incidents have had their message."""
    for _ in range(KILLS):
        receiver.mode = chance.choice(("accept", "accept", "fail"))
        gateway = server.start(folder, text)
        threading.Event().wait(chance.uniform(0, 1.5))
        gateway.kill()
    receiver.mode = "accept"
    gateway = server.start(folder, text)
    receiver.wait_for(lambda r: {(rule, subject) for state, rule, subject in r.incidents if state == states} == EXPECTED, 30)
    return gateway


def test_twenty_incidents_at_random_moments(tmp_path):
    assert len(EXPECTED) == 20
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    with (
        socket.socket() as reserved, counting_upstream() as vendor, loopback_receiver(time.time) as (receiver, url), fork_server() as server
    ):  # fmt: skip
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]  # refuses connections
        gateway = server.start(tmp_path, text_of(url, port, vendor.base_url, BETWEEN, 0.0001))
        assert [chat(gateway, "sim/echo", project=period) for period in PERIODS] == [200] * 4
        assert spend_of_key(gateway) == 200
        for model in (f"{name}/m" for name in AWAY):
            assert all(chat(gateway, model) >= 500 for _ in range(4))
            assert [chat(gateway, model, fallback="on") for _ in range(6)] == [200] * 6
        assert chat(gateway, "vendor/unpriced") == 200
        gateway.kill()
        gateway = kill_at_random(server, tmp_path, text_of(url, port, vendor.base_url, BEGIN, 0.0001), receiver, chance, "raised")
        gateway.kill()
        reserved.close()
        with counting_upstream(port=port):
            gateway = server.start(tmp_path, text_of(url, port, vendor.base_url, BETWEEN, 1_000))
            for model in (f"{name}/m" for name in AWAY):
                assert [chat(gateway, model) for _ in range(40)] == [200] * 40
            gateway.kill()
        gateway = kill_at_random(server, tmp_path, text_of(url, port, vendor.base_url, END, 1_000), receiver, chance, "recovered")
        gateway.kill()
    assert Counter(receiver.incidents) == {(state, *which): 1 for state in ("raised", "recovered") for which in EXPECTED}
