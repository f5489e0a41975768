"""kill -9 under load, again and again: what callers were answered and what the vendor saw, against the records.

`GW_NIGHTLY=1` makes it 500 cycles. Every call has a model name of its own, so that each of the vendor's calls is compared with its
record one by one.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import apsw
import attrs
import pytest

from tests.fakes.counting_upstream import counting_upstream
from tests.fakes.fork_server import Forked, fork_server
from tests.fakes.nightly import times
from tests.fakes.processes import children

pytestmark = pytest.mark.process

CYCLES = times(50, 500)
CLIENTS = 6
HELPERS_EVERY = 25
"""Every so many cycles, an engine and the processes for records and reports run and are killed before the gateway is."""
CUT = 0
"""In place of the status of an answer that broke off."""
ENGINES = str(Path(__file__).parents[1] / "fakes" / "engines")


@attrs.define
class Answer:
    """An answer that came whole."""

    id: str
    model: str
    body: bytes


class Client(threading.Thread):
    """Asks again and again until the connection breaks; remembers what it got whole. Every other answer is a stream."""

    def __init__(self, gateway: Forked, name: str) -> None:
        super().__init__()
        self.netloc = urlsplit(gateway.url).netloc
        self.model_prefix = name
        self.asked: list[str] = []
        self.answered: list[Answer] = []
        self.unexpected: list[object] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection(self.netloc)
        try:
            while True:
                model, stream = f"{self.model_prefix}-{len(self.asked)}", len(self.asked) % 2 == 1
                self.asked.append(model)
                body = json.dumps({"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
                connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
                if response.status != 200 or (stream and not answer.endswith(b"data: [DONE]\n\n")):
                    self.unexpected.append((response.status, answer))
                self.answered.append(Answer(response.headers["x-request-id"], model, answer))
        except (OSError, http.client.HTTPException):
            connection.close()


REPORT = "/v1/logs?limit=50"
"""A page of it is as long after a million requests of as many models, which this test makes, as after the first."""


class Helpers(threading.Thread):
    """Uses the local engine and the reports; notes what came whole. An engine that is killed is an error of its request."""

    def __init__(self, gateway: Forked) -> None:
        super().__init__()
        self.netloc = urlsplit(gateway.url).netloc
        self.statuses: dict[str, int] = {}
        self.reports = Counter[int]()

    def run(self) -> None:
        connection = http.client.HTTPConnection(self.netloc)
        while self._goes_on(connection):
            pass
        connection.close()

    def _goes_on(self, connection: http.client.HTTPConnection) -> bool:
        """Ask once for speech and once for a report; return whether the gateway is there."""
        body = json.dumps({"model": "kokoro/kokoro", "input": "one two three", "voice": "af_heart", "response_format": "pcm"})
        try:
            connection.request("POST", "/v1/audio/speech", body, {"content-type": "application/json"})
            response = connection.getresponse()
            id_ = response.headers["x-request-id"]
            self.statuses[id_] = CUT
            response.read()
            self.statuses[id_] = response.status
            connection.request("GET", REPORT)
            response = connection.getresponse()
            response.read()
            self.reports[response.status] += 1
        except ConnectionRefusedError:
            return False
        except (OSError, http.client.HTTPException):  # the engine was killed within an answer, or the gateway
            connection.close()
        return True


def kill_helpers(gateway: Forked, helpers: Helpers) -> int:
    """Kill the processes for records and reports and the engine once each, in the middle of their work; return how many were killed."""
    killed = 0
    for module in ("gw.store.commit_program", "gw.store.reporter", "gw.engines.kokoro_onnx"):
        deadline = time.monotonic() + 60
        while not (found := children(gateway.pid, module)):
            assert time.monotonic() < deadline, f"no process of {module}"
            time.sleep(0.005)
        before = len(helpers.statuses)
        while len(helpers.statuses) < before + 2:  # it is in use
            assert time.monotonic() < deadline
            time.sleep(0.002)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        before = sum(helpers.reports.values())
        while sum(helpers.reports.values()) < before + 2:  # the gateway goes on without it
            assert time.monotonic() < deadline
            time.sleep(0.002)
    return killed


def wait_answers(clients: list[Client], more: int) -> None:
    """Wait until the clients have got so many more answers: a load that follows the machine's pace."""
    before = sum(len(client.answered) for client in clients)
    deadline = time.monotonic() + 60
    while sum(len(client.answered) for client in clients) < before + more:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def rows(path) -> list[tuple[str, str, str | None, str]]:
    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as db:
        return list(db.execute("select id, status, error_code, attempts from requests"))


def test_no_acknowledged_record_is_lost_and_no_upstream_call_is_unaccounted_for(tmp_path):
    answered: list[Answer] = []
    speech: dict[str, int] = {}
    asked, reports = 0, Counter[int]()
    with counting_upstream() as upstream, fork_server(PYTHONPATH=ENGINES) as gateways:
        text = f"""
providers:
  openai: {{api_key: sk-0123456789abcdef, base_url: "{upstream.base_url}"}}
  kokoro: {{model_path: {tmp_path}, voices_path: {tmp_path}}}
models: {{llm: [openai/m], tts: [kokoro/kokoro]}}
cost_tracking: {{db_path: {tmp_path}/gw.db}}
"""
        began = time.monotonic()
        for cycle in range(CYCLES):
            gateway = gateways.start(tmp_path, text)
            clients = [Client(gateway, f"m-{cycle}-{n}") for n in range(CLIENTS)]
            helpers = Helpers(gateway) if cycle % HELPERS_EVERY == HELPERS_EVERY - 1 else None
            for client in (*clients, *filter(None, [helpers])):
                client.start()
            if helpers is not None:
                assert kill_helpers(gateway, helpers) >= 3
            wait_answers(clients, CLIENTS * (1 + cycle % 7))
            gateway.kill()
            for client in clients:
                client.join()
                assert client.unexpected == []
                answered += client.answered
                asked += len(client.asked)
            if helpers is not None:
                helpers.join()
                if list(helpers.statuses.values())[-1] == CUT:  # by the last kill: it may have been complete
                    helpers.statuses.popitem()
                speech |= helpers.statuses
                reports += helpers.reports
        took_s = (time.monotonic() - began) / CYCLES
        gateways.start(tmp_path, text).kill(signal.SIGTERM)  # replays what the last kill left
    recorded = rows(tmp_path / "gw.db")
    by_id = {id_: (status, code) for id_, status, code, _ in recorded}
    called = Counter(attempt["model_id"].removeprefix("openai/") for *_, a in recorded for attempt in json.loads(a))
    print(f"{CYCLES} cycles of {took_s:.2f} s: {len(answered)} of {asked} answered, {len(recorded)} records")
    assert len(by_id) == len(recorded), "a record stands twice"
    assert [answer for answer in answered if by_id.get(answer.id) != ("success", None)] == []
    assert {answer.model for answer in answered} <= set(called)
    # One by one: whatever the vendor saw has its record, once. An intent is written before its call, so a kill between the two leaves
    # an attempt that the vendor has not seen, never the other way round.
    assert {model: seen for model, seen in upstream.models.items() if called[model] != 1} == {}
    unseen = set(called) - set(upstream.models) - {"kokoro/kokoro"}
    interrupted = sum(code == "interrupted" for _, code in by_id.values())
    assert len(unseen) <= interrupted <= CYCLES * CLIENTS + len(speech)
    # Helpers: reports and speech go on; a request whose engine was killed is an error with a record.
    assert {id_: status for id_, status in speech.items() if (status == 200) != (by_id.get(id_) == ("success", None))} == {}
    assert set(reports) == {200}
    assert sum(status == 200 for status in speech.values()) >= CYCLES // HELPERS_EVERY


def test_spend_survives_the_kill(start, tmp_path):
    with counting_upstream() as upstream:
        text = f"""
providers: {{up: {{type: openai, api_key: sk-0123456789abcdef, base_url: "{upstream.base_url}"}}}}
models: {{llm: {{up/m: {{price: {{unit: 1M_tokens, input: 1000, output: 1000}}}}}}}}
projects: {{default: {{daily_budget: 0.02, budget_action: block}}}}
cost_tracking: {{db_path: {tmp_path}/gw.db}}
"""
        seen = []
        for _ in range(2):
            daemon = start(text)
            connection = http.client.HTTPConnection(urlsplit(daemon.url).netloc)
            for _ in range(2):
                connection.request("POST", "/v1/chat/completions", b'{"messages":[{"role":"user","content":"hi"}]}')
                response = connection.getresponse()
                seen.append((response.status, json.loads(response.read()).get("error", {}).get("code")))
            connection.close()
            daemon.process.kill()
            daemon.process.wait()
        assert seen == [(200, None), (200, None), (402, "insufficient_quota"), (402, "insufficient_quota")]
        assert upstream.calls == 2
