from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
import trio

from tests.fakes.gateway_http import Reply, json_reply

RECORD = {
    "id": "a" * 32, "timestamp": 1_750_000_000.25, "project": "demo", "modality": "llm", "model_id": "sim/echo",
    "status": "success", "ttfb_ms": 12.5, "total_latency_ms": 30.0, "cost_usd": 0.00001,
}  # fmt: skip
OTHER = RECORD | {"id": "b" * 32, "status": "error", "cost_usd": None}


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another thread makes true."""
    pause, deadline = threading.Event(), time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.005)


def event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


@pytest.fixture
def gw(gateway, run):
    events = [
        event("running", {"requests": []}), event("started", {"id": "x"}), b": still here\n\n",
        event("finished", RECORD), event("finished", OTHER), event("dropped", {"missed": 3}),
    ]  # fmt: skip
    gateway.replies |= {"GET /api/live": Reply(events), "GET /v1/logs": json_reply([RECORD])}
    return lambda *args: run("logs", "--follow", "--url", gateway.url, *args)


def ids(result) -> list[str]:
    return [line.split("\t")[-1][:1] for line in result.stdout.splitlines()[1:]]


def test_what_was_comes_first_and_what_both_tell_once(gw, gateway):
    result = gw()
    assert ids(result) == ["a", "b"]
    assert [requests.path for requests in gateway.requests] == ["/api/live", "/v1/logs"]
    assert gateway.requests[1].query == {"limit": "10"}
    assert result.stderr == "too slow: 3 events were missed\nError: the gateway has ended the stream\n"
    assert result.exit_code == 1


def test_filters_hold_for_what_comes(gw, gateway):
    gateway.replies["GET /v1/logs"] = json_reply([])
    assert ids(gw("--status", "error")) == ["b"]
    assert gateway.requests[1].query == {"limit": "10", "status": "error"}


@pytest.mark.parametrize(
    ("option", "value"), [("--model", "other/x"), ("--project", "nobody"), ("--modality", "tts"), ("--status", "cancelled")]
)
def test_what_passes_no_filter_is_not_shown(gw, gateway, option, value):
    gateway.replies["GET /v1/logs"] = json_reply([])
    assert ids(gw(option, value)) == []


def test_as_json_lines(gw):
    assert [json.loads(line)["id"][0] for line in gw("--json").stdout.splitlines()] == ["a", "b"]


def test_for_people_the_columns_stand_under_each_other(gw, terminal):
    head, first, second = gw().stdout.splitlines()
    assert head.index("status") == first.index("success") == second.index("error")


def test_no_gateway(run, configured):
    result = run("logs", "-f")
    assert result.exit_code == 1
    assert "no gateway answers" in result.stderr


def test_a_real_gateway_tells_of_a_request_as_it_ends(run, real_gateway):
    results = []
    follower = threading.Thread(target=lambda: results.append(run("logs", "-f", "--limit", "1", "--json", "--url", real_gateway.url)))
    real_gateway.chat()
    follower.start()
    until(lambda: real_gateway.gateway.store.watcher is not None)
    real_gateway.chat("flaky/echo")
    until(lambda: all(not listener._events for listener in real_gateway.gateway.store.watcher.listeners))
    trio.from_thread.run_sync(real_gateway.gateway.store.watcher.end, trio_token=real_gateway.token)
    follower.join(60)
    lines = [json.loads(line) for line in results[0].stdout.splitlines()]
    assert [line["status"] for line in lines] in (["success", "fallback"], ["fallback"])
