"""Live sessions and the live page where apps are served by workers."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.e2e.conftest import Daemon, compiled_once, starter

pytestmark = pytest.mark.process

TEXT = """
providers: {sim: {token_ms: 100}}
models: {stt: [sim/tone], llm: [sim/echo]}
projects: {heard: {capture: {text: true, share: 1, keep_days: 1}}}
serve: {workers: 2}
"""
SECOND = b"\x11\x22" * 16_000
"""A second of sound, 16 kHz."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("live")
    with starter(folder) as start:
        yield start(TEXT, GW_SECRET="0f5c1b77e2d94a6381ab0c5d7e9f2a64", **compiled_once(folder))


def get(url: str, path: str) -> Any:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def wait_for(condition: Callable[[], Any], within_s: float = 60.0) -> Any:
    until = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < until
        threading.Event().wait(0.05)
    return value


def read_to_the_end(session: ClientConnection) -> None:
    """Read until the connection ends, however that happens."""
    with suppress(ConnectionClosed):
        while True:
            session.recv(timeout=60)


def connect_again(address: str) -> ClientConnection:
    """Connect as a client does that has lost its session: the kernel may give the first tries to the worker that was killed."""

    def connection() -> ClientConnection | None:
        try:
            return connect(address)
        except (OSError, WebSocketException):
            return None

    return wait_for(connection)


def next_event(feed: http.client.HTTPResponse) -> tuple[str, Any]:
    """Read the next event of a live view: its name and its data."""
    name = ""
    while True:
        line = feed.readline().decode().strip()
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            return name, json.loads(line.removeprefix("data: "))


def test_the_caller_of_a_worker_that_is_killed_connects_again_and_the_cut_session_has_its_record(daemon: Daemon):
    address = daemon.url.replace("http", "ws") + "/v1/listen?model=sim/tone&encoding=linear16&sample_rate=16000"
    with connect(address) as session:
        for _ in range(7):
            session.send(SECOND)
        busy = wait_for(lambda: [w for w in get(daemon.url, "/v1/status")["workers"] if w["in_flight"] == 1])
        os.kill(busy[0]["pid"], signal.SIGKILL)
        read_to_the_end(session)
    with connect_again(address) as session:
        session.send(SECOND)
        session.send(json.dumps({"type": "CloseStream"}))
        read_to_the_end(session)
    records = wait_for(lambda: found if len(found := get(daemon.url, "/v1/logs?modality=stt")) == 2 else None)
    assert [(record["status"], record["error_code"]) for record in records] == [("success", None), ("error", "interrupted")]
    cut = get(daemon.url, f"/v1/requests/{records[1]['id']}")
    assert 7 <= cut["usage"]["audio_seconds"] <= 12 + 5  # what was sent, and the five seconds that were announced
    pid = busy[0]["pid"]
    wait_for(lambda: [w["starts"] for w in get(daemon.url, "/v1/status")["workers"] if w["worker"] == busy[0]["worker"]] == [2])
    assert pid not in [w["pid"] for w in get(daemon.url, "/v1/status")["workers"]]


def test_the_live_page_sees_what_runs_in_workers(daemon: Daemon):
    netloc = urlsplit(daemon.url).netloc

    def body_of(words: int) -> str:
        return json.dumps({"model": "sim/echo", "stream": True, "messages": [{"role": "user", "content": "word " * words}]})

    running = http.client.HTTPConnection(netloc, timeout=60)
    running.request("POST", "/v1/chat/completions", body_of(3_000), {"content-type": "application/json"})
    answer = running.getresponse()
    answer.readline()
    live = http.client.HTTPConnection(netloc, timeout=60)
    live.request("GET", "/api/live")
    feed = live.getresponse()

    name, data = next_event(feed)
    assert name == "running"
    assert [request["model_id"] for request in data["requests"]] == ["sim/echo"]
    wait_for(lambda: get(daemon.url, "/api/overview")["active_requests"] == 1)  # figures of workers come every second
    later = http.client.HTTPConnection(netloc, timeout=60)
    later.request("POST", "/v1/chat/completions", body_of(10), {"content-type": "application/json"})
    assert next_event(feed)[0] == "started"
    assert later.getresponse().read().endswith(b"data: [DONE]\n\n")
    answer.close()
    running.close()
    assert [next_event(feed)[0] for _ in range(2)] == ["finished", "finished"]
    for connection in (running, live, later):
        connection.close()


def test_the_live_page_sees_what_begins_in_a_worker_that_replaces_another_one(daemon: Daemon):
    netloc = urlsplit(daemon.url).netloc
    live = http.client.HTTPConnection(netloc, timeout=60)
    live.request("GET", "/api/live")
    feed = live.getresponse()
    assert next_event(feed) == ("running", {"requests": []})
    before = get(daemon.url, "/v1/status")["workers"]
    for worker in before:
        os.kill(worker["pid"], signal.SIGKILL)
    killed = {worker["pid"] for worker in before}

    def replaced() -> bool:
        try:
            workers = get(daemon.url, "/v1/status")["workers"]
        except OSError:  # the kernel had given the connection to a worker that was killed
            return False
        return len(workers) == 2 and all(worker["state"] == "serving" and worker["pid"] not in killed for worker in workers)

    wait_for(replaced)
    body = json.dumps({"model": "sim/echo", "messages": [{"role": "user", "content": "word"}]})
    for _ in range(8):  # the kernel picks a worker for each connection
        connection = http.client.HTTPConnection(netloc, timeout=60)
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        id_ = answer.headers["x-request-id"]
        answer.read()
        connection.close()
        for expected in ("started", "finished"):
            name, data = next_event(feed)
            assert (name, data["id"]) == (expected, id_)
    live.close()


def test_words_that_a_worker_captures_are_stored_by_the_keeper(daemon: Daemon):
    netloc = urlsplit(daemon.url).netloc
    body = json.dumps({"model": "sim/echo", "messages": [{"role": "user", "content": "a table for two"}]})
    ids = []
    for _ in range(6):
        connection = http.client.HTTPConnection(netloc, timeout=60)
        connection.request("POST", "/v1/chat/completions?gw_project=heard", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        ids.append(answer.headers["x-request-id"])
        answer.read()
        connection.close()
    stored = wait_for(lambda: found if (found := get(daemon.url, "/v1/capture"))["requests"] >= 6 else None)
    assert stored["requests"] == 6, daemon.text()
    for id_ in ids:
        assert "a table for two" in json.dumps(get(daemon.url, f"/v1/capture/{id_}"))
        assert get(daemon.url, f"/v1/requests/{id_}")["captured"] == "stored"
