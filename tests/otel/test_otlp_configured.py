"""`gw serve` with `telemetry.otlp`: from a request with `traceparent` to spans in a receiver, and what an operator sees of it."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Daemon, starter
from tests.fakes.otlp_receiver import otlp_receiver
from tests.fakes.ports import free_port

pytestmark = pytest.mark.process
CONFIG = """
providers: {{sim: {{}}, down: {{type: sim, fail_with: 503, fail_rate: 1}}}}
models: {{llm: [down/echo, sim/echo], tts: [sim/tone]}}
fallbacks: {{llm: [down/echo, sim/echo]}}
cost_tracking: {{db_path: gw.db}}
telemetry: {{otlp: {{endpoint: "{url}", headers: {{Authorization: "Bearer canary-0123456789"}}, signals: [traces]}}}}
"""
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def start(tmp_path) -> Iterator[Any]:
    with starter(tmp_path) as start_:
        yield lambda text, **variables: start_(text, OTEL_BSP_SCHEDULE_DELAY="200", **variables)


def ask(daemon: Daemon, **headers: str) -> str:
    body = json.dumps({"model": "down/echo", "messages": [{"role": "user", "content": "hello"}]}).encode()
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", body, {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request) as answer:
        answer.read()
        return answer.headers["x-request-id"]


def read(daemon: Daemon, path: str) -> str:
    with urllib.request.urlopen(daemon.url + path) as answer:
        return answer.read().decode()


def test_a_request_joins_the_callers_trace(start):
    with otlp_receiver(authorization="Bearer canary-0123456789") as receiver:
        daemon = start(CONFIG.format(url=receiver.url))
        id_ = ask(daemon, traceparent=f"00-{TRACE}-{PARENT}-01", tracestate="vendor=1")
        receiver.wait_for(lambda: len(receiver.spans) == 3)
        request, failed, answered = receiver.spans
        assert {span.trace_id for span in receiver.spans} == {TRACE}
        assert (request.parent_id, failed.parent_id, answered.parent_id) == (PARENT, request.span_id, request.span_id)
        assert request.trace_state == "vendor=1"
        assert (request.attributes["gw.request.id"], request.attributes["gw.status"]) == (id_, "fallback")
        assert (failed.status, answered.status) == (2, 0)
        assert answered.attributes["gen_ai.usage.output_tokens"] > 0
        record = json.loads(read(daemon, f"/v1/requests/{id_}"))
        assert sum(span.attributes.get("gw.cost.usd", 0) for span in receiver.spans) == pytest.approx(record["cost_usd"])
        assert request.end_ns - request.start_ns == int(record["total_latency_ms"] * 1_000_000)
        ask(daemon, traceparent=f"00-{TRACE}-{PARENT}-00")  # not sampled, but it fell back
        code = daemon.stop()
        assert code == 0
        assert len(receiver.spans) == 6
        assert "canary" not in daemon.text()


def test_an_operator_sees_that_the_collector_is_away_and_back(start):
    port = free_port()
    daemon = start(CONFIG.format(url=f"http://127.0.0.1:{port}"), OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert 'gw_otlp_spans_dropped_total{reason="queue_full"} 0.0' in read(daemon, "/v1/metrics")
    ask(daemon)
    daemon.wait_for("otlp_export_failed.*Connection refused")
    assert json.loads(read(daemon, "/health"))["problems"] == ["telemetry_not_exported"]
    assert "gw_otlp_spans_pending 3.0" in read(daemon, "/v1/metrics")
    with otlp_receiver(port=port) as receiver:
        daemon.wait_for("otlp_export_works_again", within_s=60)
        assert len(receiver.spans) == 3
    assert json.loads(read(daemon, "/health"))["problems"] == []
    assert "gw_otlp_spans_exported_total 3.0" in read(daemon, "/v1/metrics")


def test_after_kill_9_a_repeated_export_gives_the_same_spans(start):
    with otlp_receiver() as receiver:
        text = CONFIG.format(url=receiver.url)
        daemon = start(text)
        ask(daemon)
        receiver.wait_for(lambda: len(receiver.spans) == 3)
        daemon.stop(signal.SIGKILL)
        start(text)
        receiver.wait_for(lambda: len(receiver.spans) == 6)  # the journal had the record still
        assert receiver.spans[:3] == receiver.spans[3:]


def test_it_can_be_switched_off_by_the_standard_variable(start):
    with otlp_receiver() as receiver:
        daemon = start(CONFIG.format(url=receiver.url), OTEL_SDK_DISABLED="true")
        daemon.wait_for("otlp_disabled")
        ask(daemon)
        daemon.stop()
        assert receiver.requests == []
