"""The receiver of the OpenTelemetry Collector (0.161, of its official modules) takes what gw exports, and its exporter writes that down.

`otel_collector` has the program; `.ci/go_programs` builds it, which takes a minute, so that is not done here.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import program
from tests.e2e.conftest import starter
from tests.fakes.ports import free_port

pytestmark = [pytest.mark.clients, pytest.mark.needs_program("otelcol-file")]
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GATEWAY = """
providers: {{sim: {{}}, down: {{type: sim, fail_with: 503, fail_rate: 1}}}}
models: {{llm: [down/echo, sim/echo], tts: [sim/tone]}}
fallbacks: {{llm: [down/echo, sim/echo]}}
cost_tracking: {{db_path: gw.db}}
telemetry: {{otlp: {{endpoint: "http://127.0.0.1:{port}", signals: [traces, metrics, logs]}}}}
"""


def wait_until_it_listens(port: int, log: Path, within_s: float = 60.0) -> None:
    until = time.monotonic() + within_s
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)):
            if time.monotonic() > until:
                raise AssertionError("the collector did not start:\n" + log.read_text())
            time.sleep(0.05)


@contextmanager
def collector(folder: Path) -> Iterator[tuple[int, Path]]:
    port, written = free_port(), folder / "received.jsonl"
    with (folder / "collector.log").open("w") as log:
        process = subprocess.Popen([program("otelcol-file"), f"127.0.0.1:{port}", str(written)], stdout=log, stderr=log)
        try:
            wait_until_it_listens(port, folder / "collector.log")
            yield port, written
        finally:
            process.terminate()
            process.wait(60)


def ask(url: str, path: str, body: dict[str, Any], **headers: str) -> None:
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request) as answer:
        answer.read()


def of_kind(lines: list[Any], *path: str) -> list[Any]:
    """Return all entries at the end of a path of lists."""
    entries = lines
    for name in path:
        entries = [child for entry in entries for child in entry.get(name, ())]
    return entries


def test_the_collector_understands_all_of_it(tmp_path):
    with collector(tmp_path) as (port, written), starter(tmp_path) as start:
        daemon = start(GATEWAY.format(port=port))
        traced = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
        ask(daemon.url, "/v1/chat/completions", {"model": "down/echo", "messages": [{"role": "user", "content": "secret words"}]}, **traced)
        ask(daemon.url, "/v1/audio/speech", {"model": "sim/tone", "input": "secret words", "voice": "alloy"}, **traced)
        assert daemon.stop() == 0
        assert "otlp_" not in daemon.text()
    text = written.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    spans = of_kind(lines, "resourceSpans", "scopeSpans", "spans")
    assert {span["traceId"] for span in spans} == {TRACE}
    assert {span["traceState"] for span in spans} == {"vendor=1"}
    requests = [span for span in spans if span["name"].startswith("gw ")]
    assert sorted((span["name"], span["parentSpanId"]) for span in requests) == [("gw llm", PARENT), ("gw tts", PARENT)]
    calls = {span["name"]: span for span in spans if span not in requests}
    assert sorted(calls) == ["chat echo", "text_to_speech tone"]
    assert {span["parentSpanId"] for span in calls.values()} == {span["spanId"] for span in requests}
    assert len(spans) == 5
    metrics = {metric["name"] for metric in of_kind(lines, "resourceMetrics", "scopeMetrics", "metrics")}
    assert {"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gw.requests", "gw.speech.characters"} <= metrics
    logs = of_kind(lines, "resourceLogs", "scopeLogs", "logRecords")
    assert sorted((log["spanId"], log["severityText"]) for log in logs) == sorted(
        (span["spanId"], "WARN" if span["name"] == "gw llm" else "INFO") for span in requests
    )
    assert "secret words" not in text
