"""The files of `examples/fleet`, as they are: PostgreSQL, Valkey, haproxy and three gateways of Debian's packages.

Under load from outside, all gateways are restarted one after the other, and no request fails.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.fakes.ports import free_port

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fleet"
ADMIN = "admin-token-8351026789"
CALLERS = 6
RETRIES_S = (0.1, 0.5, 1, 2, 4)
WITHIN_S = 240


class Example:
    """Runs `fleet.sh` in a folder, with free ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.front, *ports = (free_port() for _ in range(6))
        self.ports = ports[2:]
        self._env = {
            **os.environ, "GW": f"{sys.executable} -m gw", "PYTHONPATH": str(ROOT), "GW_ADMIN_TOKEN": ADMIN,
            "GW_SECRET": secrets.token_hex(32), "FRONT": f"127.0.0.1:{self.front}", "PORTS": " ".join(map(str, ports)),
        }  # fmt: skip

    def run(self, what: str) -> None:
        command = [str(EXAMPLE / "fleet.sh"), what, str(self.folder)]
        subprocess.run(command, env=self._env, check=True, timeout=WITHIN_S, stdout=subprocess.DEVNULL)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-1_000:] for path in sorted(self.folder.glob("*.log")))


def ask(port, method, target, token, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
    try:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()


CHAT = {"model": "sim/echo", "messages": [{"role": "user", "content": "one two three"}], "max_tokens": 10}


class Caller(threading.Thread):
    """Sends one request after the other through haproxy; counts everything but a whole answer as a failure.

    It sends again, as SDKs do, what is refused for a rate: a gateway that has no calls left waits 50 ms for the fleet's server, which
    on a busy machine may be late. Nothing else is sent again.
    """

    def __init__(self, port: int, key: str, done: threading.Event) -> None:
        super().__init__()
        self._port, self._key, self._done = port, key, done
        self.sent = 0
        self.failures: Counter[str] = Counter()

    def run(self) -> None:
        while not self._done.is_set():
            self.sent += 1
            try:
                for wait_s in RETRIES_S:
                    status, answer = ask(self._port, "POST", "/v1/chat/completions", self._key, CHAT)
                    if status != 429:
                        break
                    self._done.wait(wait_s)
            except (OSError, http.client.HTTPException) as error:
                self.failures[f"{type(error).__name__} {error}"] += 1
            else:
                if status != 200 or not answer["choices"][0]["message"]["content"]:
                    self.failures[f"{status} {answer}"] += 1
            self._done.wait(0.02)


@pytest.fixture(scope="module")
def example():
    with tempfile.TemporaryDirectory(prefix="gw-fleet-") as folder:
        Path(folder).chmod(0o755)  # the account of PostgreSQL must reach its own folder in it
        running = Example(Path(folder))
        try:
            running.run("start")
            yield running
        except subprocess.SubprocessError:
            print(running.logs())
            raise
        finally:
            running.run("stop")


def check_one_figure(example):
    """What all have spent is one figure: each gateway was restarted, so each has read its own part from the common database."""
    deadline = time.monotonic() + 120
    while True:
        _, costs = ask(example.front, "GET", "/v1/costs", ADMIN)
        _, fleet = ask(example.front, "GET", "/v1/fleet", ADMIN)
        [budget] = [one for one in fleet["accounts"] if one["kind"] == "budget"]
        if budget["used"] == pytest.approx(costs["total"], abs=1e-9):
            break
        assert time.monotonic() < deadline, (budget, costs["total"])
    assert costs["total"] > 0
    assert len(budget["shares"]) == 3


def test_a_rolling_restart_of_the_whole_fleet_fails_no_request_and_loses_no_cent(example):
    status, key = ask(example.front, "POST", "/v1/keys", ADMIN, {"name": "caller"})
    assert status == 200, key
    deadline = time.monotonic() + 120
    while ask(example.front, "POST", "/v1/chat/completions", key["key"], CHAT)[0] != 200:  # budgets are granted after 2.5 s
        assert time.monotonic() < deadline
    done = threading.Event()
    callers = [Caller(example.front, key["key"], done) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    began = time.monotonic()
    example.run("restart")
    took_s = time.monotonic() - began
    done.set()
    for caller in callers:
        caller.join()
    failures = sum((caller.failures for caller in callers), Counter[str]())
    sent = sum(caller.sent for caller in callers)
    print(failures.most_common(5))
    print(f"{failures.total()} of {sent} requests failed in {took_s:.1f} s")
    assert failures == {}
    assert sent > 100
    status, fleet = ask(example.front, "GET", "/v1/fleet", ADMIN)
    assert [one["instance"] for one in fleet["members"]] == ["gw-1", "gw-2", "gw-3"]
    check_one_figure(example)


def test_a_revoked_key_is_refused_by_all_gateways(example):
    _, key = ask(example.front, "POST", "/v1/keys", ADMIN, {"name": "leaver"})
    deadline = time.monotonic() + 120
    for port in example.ports:
        while ask(port, "POST", "/v1/chat/completions", key["key"], CHAT)[0] != 200:
            assert time.monotonic() < deadline
    assert ask(example.ports[0], "DELETE", f"/v1/keys/{key['key_id']}?confirm=true", ADMIN)[0] in (200, 204)
    revoked = time.monotonic()
    for port in example.ports:
        while ask(port, "POST", "/v1/chat/completions", key["key"], CHAT)[0] != 401:
            assert time.monotonic() < revoked + 120
    print(f"refused everywhere after {time.monotonic() - revoked:.2f} s")


def test_the_files_for_containers_and_for_this_machine_agree():
    compose = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]
    needed = {*re.findall(r"\$\{(\w+)\}", (EXAMPLE / "gw.yaml").read_text()), "GW_SECRET"}
    for n in (1, 2, 3):
        service = compose[f"gw-{n}"]
        assert set(service["environment"]) == needed
        assert service["environment"]["GW_INSTANCE"] == f"gw-{n}"
        assert compose["haproxy"]["environment"][f"GW{n}"] == f"gw-{n}:8080"
        assert f'server gw-{n} "${{GW{n}}}"' in (EXAMPLE / "haproxy.cfg").read_text()
