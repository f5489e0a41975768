"""Incidents of all rules, in a gateway that is killed at random moments: each gives one message, and one when it is over.

At night the two of the database too: they begin after half a minute and a minute in which it cannot be written.
"""

from __future__ import annotations

import json
import random
import socket
import sqlite3
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gw.types.alerts import ALERT_RULES
from tests.e2e.test_alerts import call
from tests.fakes.alert_receiver import SECRET, AlertReceiver, loopback_receiver
from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fork_server import Forked, ForkServer, fork_server
from tests.fakes.nightly import NIGHTLY, times
from tests.fakes.ports import free_port

pytestmark = pytest.mark.process

DAY_S = 86_400
KILLS = times(4, 40)
"""In each half: while incidents begin, and while they end."""
ADMIN, KEY = "b7d1f3a95c2e4860", "9f27c1d86ab340e5"
PERIODS = ("daily", "weekly", "monthly", "total")
AWAY = ("away", "gone", "lost")
"""Providers that cannot be reached at first."""
NARROW = "narrow"
"""A provider with one place, which takes connections and does not answer."""
EXPECTED = {
    *((rule, f"project {period} {name}") for period, name in zip(PERIODS, ("day", "week", "month", "total"), strict=True)
      for rule in ("budget_warning", "budget_exceeded")),
    *((rule, f"key till {name}") for name in ("day", "week", "month") for rule in ("budget_warning", "budget_exceeded")),
    *(("provider_failing", name) for name in AWAY),
    *((rule, "") for rule in ("error_rate", "fallback_rate", "unpriced_models", "first_audio_slow", "certificate_expiring")),
    ("prices_old", "rime"), ("slots_full", NARROW), ("gateway_degraded", "phrases_not_stored"),
}  # fmt: skip
"""Beside these, an API key expires, whose id is made up when it is made."""
OF_THE_DATABASE = {("records_not_stored", ""), ("journal_growing", "")}
BEGIN = "{check_s: 1, window_s: 3600, min_requests: 4, first_audio_ms: 0.001"
END = (
    "{check_s: 1, window_s: 3600, min_requests: 4, error_rate: 1, fallback_rate: 1, first_audio_ms: 600000, price_days: 3650, "
    "expiry_days: 0, disabled: [unpriced_models, slots_full]"
)
BETWEEN = "{check_s: 3600, min_requests: 1000000, disabled: [unpriced_models, budget_warning, budget_exceeded, prices_old]"
LOCKED = "{check_s: 1, waiting_records: 1, disabled: [budget_warning, prices_old]"
PRICE = "{unit: 1M_tokens, input: 100000, output: 100000}"
PRICES = """
[[rate]]
model = "mist"
unit = "1M_characters"
usd = "30"
valid_from = 2025-01-01
source = "a price list"
seen = 2025-01-01
"""


def text_of(url: str, port: int, vendor: str, silent: int, alerts: str, budget: float, *, certificate: bool = False) -> str:
    """Return a gw.yaml with all causes; `alerts` and the size of the budgets decide which are incidents.

    `silent`: port of a server that does not answer. `certificate`: HTTPS is spoken, and phrases are kept on the disk.
    """
    away = "".join(f'  {name}: {{type: openai, api_key: sk-0123456789abcdef, base_url: "http://127.0.0.1:{port}/v1"}}\n' for name in AWAY)
    limits = ", ".join(f"{period}_budget: {budget}" for period in PERIODS[:3])
    projects = "".join(f"  {period}: {{{period}_budget: {budget}, budget_action: warn}}\n" for period in PERIODS)
    return f"""
providers:
  sim: {{}}
  rime: {{api_key: sk-0123456789abcdef}}
  vendor: {{type: openai, api_key: sk-0123456789abcdef, base_url: "{vendor}"}}
  {NARROW}: {{type: localai, base_url: "http://127.0.0.1:{silent}/v1"}}
{away}
models:
  llm: {{away/m: , gone/m: , lost/m: , {NARROW}/m: , vendor/unpriced: , sim/echo: {{price: {PRICE}}}}}
  tts: [sim/tone]
fallbacks: {{llm: [sim/echo]}}
rate_limiting: {{{NARROW}: {{max_concurrent: 1}}}}
routing: {{phrase_cache_disk_mb: {int(certificate)}}}
serve: {"{tls_cert: cert.pem, tls_key: key.pem}" if certificate else "{}"}
projects:
{projects}
  plain: {{}}
auth: {{admin_token: {ADMIN}, keys: [{{key: {KEY}, name: till, project: plain, {limits}}}]}}
alerts: {alerts}, recovered_after_s: 1, receivers: {{oncall: {{url: "{url}", secret: {SECRET}}}}}}}
"""


def make_certificate(folder: Path, days: float) -> None:
    """Write a certificate that began a year ago and ends in `days`, with its key."""
    key, now, name = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), x509.Name([])
    certificate = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key(), serial_number=x509.random_serial_number())
        .not_valid_before(now - timedelta(days=365)).not_valid_after(now + timedelta(days=days)).sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)


def json_of(gateway: Forked, method: str, path: str, body: object = None) -> Any:
    headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
    request = urllib.request.Request(gateway.url + path, json.dumps(body).encode() if body is not None else None, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def chat(gateway: Forked, model: str, *, fallback: str = "off", project: str = "plain") -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "a few words to pay for"}], "max_tokens": 20}
    path = f"/v1/chat/completions?gw_project={project}&gw_fallback={fallback}"
    return call(gateway.url, "POST", path, body, authorization=f"Bearer {ADMIN}")


def spend_of_key(gateway: Forked) -> int:
    body = {"model": "sim/echo", "messages": [{"role": "user", "content": "a few words to pay for"}]}
    return call(gateway.url, "POST", "/v1/chat/completions", body, authorization=f"Bearer {KEY}")


def speak(gateway: Forked, turn: str) -> int:
    body = {"model": "sim/tone", "input": "a few words", "voice": "alloy", "response_format": "pcm"}
    path = f"/v1/audio/speech?gw_project=plain&gw_session=call&gw_turn={turn}"
    return call(gateway.url, "POST", path, body, authorization=f"Bearer {ADMIN}")


def fill_its_place_and_kill(gateway: Forked, listener: socket.socket) -> None:
    """Let a request wait for `narrow`, which has one place, while five others are answered by the next candidate; then kill."""
    def wait() -> None:
        with suppress(OSError):  # the gateway is killed
            chat(gateway, f"{NARROW}/m")

    waiting = threading.Thread(target=wait)
    waiting.start()
    taken, _ = listener.accept()
    with taken:
        assert [chat(gateway, f"{NARROW}/m", fallback="on") for _ in range(5)] == [200] * 5
        gateway.kill()
    waiting.join()


def wait_until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def stored_incidents(folder: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(folder / "gw.db")) as db:
        bodies = [json.loads(body) for (body,) in db.execute("select body from alert_incidents")]
    return {(body["rule"], body["subject"]) for body in bodies}


def let_time_pass(folder: Path, seconds: float, table: str, *times: str) -> None:
    """Move times in the bodies of a table into the past, while no gateway runs."""
    with closing(sqlite3.connect(folder / "gw.db", isolation_level=None)) as db:
        for id_, text in db.execute(f"select id, body from {table}").fetchall():
            body = json.loads(text)
            moved = {name: body[name] - seconds for name in times if body.get(name)}
            db.execute(f"update {table} set body = ? where id = ?", (json.dumps(body | moved), id_))


def kill_at_random(
    server: ForkServer, folder: Path, text: str, receiver: AlertReceiver, chance: random.Random, states: str,
    expected: set[tuple[str, str]], within_s: float = 60.0,
) -> Forked:  # fmt: skip
    """Start a gateway and kill it again and again, and then let one go on until all incidents have had their message."""
    for _ in range(KILLS):
        receiver.mode = chance.choice(("accept", "accept", "fail"))
        gateway = server.start(folder, text)
        threading.Event().wait(chance.uniform(0, 1.5))
        gateway.kill()
    receiver.mode = "accept"
    gateway = server.start(folder, text)
    receiver.wait_for(lambda r: {(rule, subject) for state, rule, subject in r.incidents if state == states} == expected, within_s)
    return gateway


def test_incidents_of_twelve_rules_at_random_moments(tmp_path):
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    (tmp_path / "gw.db.phrases").mkdir()  # where the file of phrases belongs
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "rime.toml").write_text(PRICES)
    make_certificate(tmp_path, days=10)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener, counting_upstream() as vendor,
        loopback_receiver(time.time) as (receiver, url), fork_server(GW_SECRET="c0ffee" * 6) as server,
    ):  # fmt: skip
        port = free_port()  # nobody listens there yet
        ports = url, port, vendor.base_url, listener.getsockname()[1]
        gateway = server.start(tmp_path, text_of(*ports, BETWEEN, 0.0001))
        till = json_of(gateway, "POST", "/v1/keys", {"project": "plain", "expires_at": time.time() + 60 * DAY_S})["key_id"]
        expected = {*EXPECTED, ("key_expiring", till)}
        assert {rule for rule, _ in expected | OF_THE_DATABASE} == set(ALERT_RULES)
        assert [chat(gateway, "sim/echo", project=period) for period in PERIODS] == [200] * 4
        assert spend_of_key(gateway) == 200
        for model in (f"{name}/m" for name in AWAY):
            assert all(chat(gateway, model) >= 500 for _ in range(4))
            assert [chat(gateway, model, fallback="on") for _ in range(6)] == [200] * 6
        assert chat(gateway, "vendor/unpriced") == 200
        assert [speak(gateway, f"turn{number}") for number in range(4)] == [200] * 4
        fill_its_place_and_kill(gateway, listener)
        let_time_pass(tmp_path, 50 * DAY_S, "managed", "created_at", "expires_at")
        begins = text_of(*ports, BEGIN, 0.0001, certificate=True)
        gateway = server.start(tmp_path, begins)
        wait_until(lambda: expected <= stored_incidents(tmp_path))
        gateway.kill()
        if not NIGHTLY:  # at night it passes really
            let_time_pass(tmp_path, 60, "alert_incidents", "began_at")
        gateway = kill_at_random(server, tmp_path, begins, receiver, chance, "raised", expected, times(60, 120))
        gateway.kill()
        make_certificate(tmp_path, days=365)
        with counting_upstream(port=port):
            gateway = server.start(tmp_path, text_of(*ports, BETWEEN, 1_000))
            for model in (f"{name}/m" for name in AWAY):
                assert [chat(gateway, model) for _ in range(40)] == [200] * 40
            gateway.kill()
        (tmp_path / "gw.db.phrases").rmdir()
        gateway = kill_at_random(server, tmp_path, text_of(*ports, END, 1_000, certificate=True), receiver, chance, "recovered", expected)
        gateway.kill()
    assert Counter(receiver.incidents) == {(state, *which): 1 for state in ("raised", "recovered") for which in expected}


def test_a_database_that_is_locked_for_a_moment_or_a_minute(tmp_path):
    """By day it is locked for a moment, which is no incident; at night until there are incidents, with kills before they are over."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    expected = OF_THE_DATABASE if NIGHTLY else set()
    with loopback_receiver(time.time) as (receiver, url), fork_server() as server:
        text = text_of(url, 9, "http://127.0.0.1:9/v1", 9, LOCKED, 1_000)
        gateway = server.start(tmp_path, text)
        with closing(sqlite3.connect(tmp_path / "gw.db", isolation_level=None)) as db:
            db.execute("begin immediate")
            assert chat(gateway, "sim/echo") == 200
            wait_until(lambda: "alerts_not_stored" in gateway.log.read_text())
            if expected:
                receiver.wait_for(lambda r: {(rule, subject) for _, rule, subject in r.incidents} == expected, 150)
            db.execute("rollback")
        wait_until(lambda: expected <= stored_incidents(tmp_path) and json_of(gateway, "GET", "/v1/costs?period=today")["requests"] == 1)
        gateway.kill()
        if expected:
            gateway = kill_at_random(server, tmp_path, text, receiver, chance, "recovered", expected)
            gateway.kill()
        gateway = server.start(tmp_path, text_of(url, 9, "http://127.0.0.1:9/v1", 9, LOCKED, 0.0001))
        assert chat(gateway, "sim/echo", project="total") == 200
        spent = ("raised", "budget_exceeded", "project total total")
        receiver.wait_for(lambda r: spent in r.incidents)
        gateway.kill()
    assert Counter(receiver.incidents) == {spent: 1, **{(state, *which): 1 for state in ("raised", "recovered") for which in expected}}
