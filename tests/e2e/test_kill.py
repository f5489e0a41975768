"""kill -9 under load: a caller that saw the last byte has exactly one record, and every upstream call is accounted for."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from urllib.parse import urlsplit

import apsw
import pytest

from tests.fakes.counting_upstream import counting_upstream

pytestmark = pytest.mark.process

CYCLES = 20
CLIENTS = 8
LOAD_S = 0.25


class Client(threading.Thread):
    """Asks again and again until the connection breaks; remembers what it got whole."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.answered: list[str] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc)
        body = json.dumps({"model": "up/m", "messages": [{"role": "user", "content": "hi"}]})
        try:
            while True:
                connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
                response = connection.getresponse()
                response.read()
                assert response.status == 200
                self.answered.append(response.headers["x-request-id"])
        except (OSError, http.client.HTTPException):
            connection.close()


def rows(path) -> list[tuple[str, str, str | None, str]]:
    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as db:
        return list(db.execute("select id, status, error_code, attempts from requests"))


def test_no_acknowledged_record_is_lost_and_no_upstream_call_is_unaccounted_for(start, tmp_path):
    answered: list[str] = []
    with counting_upstream() as upstream:
        text = f"""
providers: {{up: {{type: openai, api_key: sk-0123456789abcdef, base_url: "{upstream.base_url}"}}}}
models: {{llm: [up/m]}}
cost_tracking: {{db_path: {tmp_path}/gw.db}}
"""
        for _ in range(CYCLES):
            daemon = start(text)
            clients = [Client(daemon.url) for _ in range(CLIENTS)]
            for client in clients:
                client.start()
            time.sleep(LOAD_S)  # real load on a real process: there is no event to wait for
            daemon.process.kill()
            daemon.process.wait()
            for client in clients:
                client.join()
                answered += client.answered
        last = start(text)  # replays what the last kill left
        assert last.stop(signal.SIGTERM)[0] == 0
        calls = upstream.calls
    recorded = rows(tmp_path / "gw.db")
    by_id = {id_: (status, code) for id_, status, code, _ in recorded}
    assert len(answered) > CYCLES * CLIENTS, "the load was no load"
    assert len(by_id) == len(recorded), "a record stands twice"
    assert [id_ for id_ in answered if by_id.get(id_, ("missing", None))[0] != "success"] == []
    attempts = sum(len(json.loads(a)) for *_, a in recorded)
    interrupted = sum(code == "interrupted" for _, code in by_id.values())
    assert interrupted <= CYCLES * CLIENTS
    # An intent is written before its call, so a kill between the two leaves an attempt more, never one less.
    assert calls <= attempts <= calls + CYCLES * CLIENTS
    assert set(by_id.values()) <= {("success", None), ("error", "interrupted")}


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
