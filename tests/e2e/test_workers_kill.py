"""kill -9 of workers and of the keeper under load: what callers were answered and what the vendor saw, against the records.

`GW_NIGHTLY=1` makes it 100 kills. Every call has a model name of its own, so that each of the vendor's calls is compared with its
record one by one.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import apsw
import pytest

from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fork_server import Forked, fork_server
from tests.fakes.nightly import times
from tests.fakes.processes import children, wait_gone

pytestmark = pytest.mark.process

RUNS = times(2, 20)
"""Of a keeper, which is killed at the end of each."""
KILLS = times(3, 5)
"""Of workers in a run."""
CLIENTS = 6
TEXT = """
providers: {{openai: {{api_key: sk-0123456789abcdef, base_url: "{base_url}"}}}}
models: {{llm: [openai/m]}}
cost_tracking: {{db_path: {folder}/gw.db}}
serve: {{workers: 2}}
"""


class Client(threading.Thread):
    """Asks until `stop` is set, on a new connection after each one that breaks. Every other answer is a stream."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__()
        self.netloc = urlsplit(url).netloc
        self.model_prefix = name
        self.stop = threading.Event()
        self.asked = 0
        self.answered: dict[str, str] = {}
        """Id → model of the answers that came whole."""
        self.answered_at = 0.0
        """Monotonic time of the last answer that came whole."""
        self.cut = 0
        self.unexpected: list[object] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection(self.netloc, timeout=20)
        while not self.stop.is_set():
            model, stream = f"{self.model_prefix}-{self.asked}", self.asked % 2 == 1
            self.asked += 1
            body = json.dumps({"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
            try:
                connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException):
                self.cut += 1
                connection.close()
                self.stop.wait(0.005)  # nobody may listen for a moment
                continue
            if response.status != 200 or (stream and not answer.endswith(b"data: [DONE]\n\n")):
                self.unexpected.append((response.status, answer))
            self.answered[response.headers["x-request-id"]] = model
            self.answered_at = time.monotonic()
        connection.close()


def workers(gateway: Forked) -> list[dict[str, object]]:
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=20)
    try:
        connection.request("GET", "/v1/status")
        states: list[dict[str, object]] = json.loads(connection.getresponse().read())["workers"]
    except (OSError, http.client.HTTPException):  # it was given to the worker that has just been killed
        return []
    finally:
        connection.close()
    return states


def wait_serving(gateway: Forked, without: int = 0) -> list[int]:
    """Wait until two workers serve, none of them the process `without`; return their processes."""
    until = time.monotonic() + 60
    while True:
        pids = [int(str(state["pid"])) for state in workers(gateway) if state["state"] == "serving"]
        if len(pids) == 2 and without not in pids:
            return pids
        assert time.monotonic() < until, gateway.log.read_text()[-2000:]
        threading.Event().wait(0.01)


def wait_answers(clients: list[Client], more: int) -> None:
    """Wait until the clients have got so many more answers."""
    before = sum(len(client.answered) for client in clients)
    until = time.monotonic() + 60
    while sum(len(client.answered) for client in clients) < before + more:
        assert time.monotonic() < until
        threading.Event().wait(0.005)


def answered_again(clients: list[Client], since: float) -> float:
    """Wait until each client has an answer that came whole after a moment; return the seconds that the last of them needed."""
    took_s = 0.0
    for client in clients:
        while client.answered_at <= since:
            assert time.monotonic() < since + 60
            threading.Event().wait(0.002)
        took_s = max(took_s, client.answered_at - since)
    return took_s


def test_nothing_is_lost_and_nothing_is_counted_twice(tmp_path: Path):
    answered: dict[str, str] = {}
    asked = cut = 0
    longest_s = 0.0
    chance = random.Random(7)
    with counting_upstream() as upstream, fork_server() as gateways:
        text = TEXT.format(base_url=upstream.base_url, folder=tmp_path)
        orphans: list[int] = []
        for run in range(RUNS):
            gateway = gateways.start(tmp_path, text, within_s=60)
            for pid in orphans:
                wait_gone(pid)  # the new keeper has ended the workers of the dead one
            wait_serving(gateway)
            clients = [Client(gateway.url, f"m-{run}-{n}") for n in range(CLIENTS)]
            for client in clients:
                client.start()
            for _ in range(KILLS):
                wait_answers(clients, 30)
                victim = chance.choice(wait_serving(gateway))
                killed = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                longest_s = max(longest_s, answered_again(clients, killed))
                wait_serving(gateway, without=victim)
            wait_answers(clients, 30)
            orphans = children(gateway.pid, "worker_start")
            gateway.kill()
            wait_answers(clients, 30)  # workers serve on without it
            for client in clients:
                client.stop.set()
            for client in clients:
                client.join()
                assert client.unexpected == []
                answered |= client.answered
                asked += client.asked
                cut += client.cut
        last = gateways.start(tmp_path, text, within_s=60)
        wait_serving(last)
        last.kill(signal.SIGTERM)
    with apsw.Connection(str(tmp_path / "gw.db"), flags=apsw.SQLITE_OPEN_READONLY) as db:
        recorded = list(db.execute("select id, status, error_code, attempts from requests"))
    by_id = {id_: (status, code) for id_, status, code, _ in recorded}
    called = Counter(attempt["model_id"].removeprefix("openai/") for *_, a in recorded for attempt in json.loads(a))
    interrupted = sum(code == "interrupted" for _, code in by_id.values())
    print(f"{RUNS * KILLS} workers and {RUNS} keepers killed: {len(answered)} of {asked} answered, {cut} cut, {interrupted} interrupted")
    print(f"answered again after {longest_s * 1000:.0f} ms at most")
    assert len(by_id) == len(recorded), "a record stands twice"
    assert [id_ for id_ in answered if by_id.get(id_) != ("success", None)] == []
    assert set(answered.values()) <= set(called)
    # An intent is written before its call, so a kill between the two leaves an attempt that the vendor has not seen.
    assert {model: seen for model, seen in upstream.models.items() if called[model] != 1} == {}
    assert len(set(called) - set(upstream.models)) <= interrupted <= cut
    assert [path.name for path in tmp_path.iterdir() if ".worker-" in path.name] == []
    assert "Traceback" not in (tmp_path / "gw.log").read_text()
