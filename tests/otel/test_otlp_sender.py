"""What the SDK's exporters send, as a strict receiver decodes it, and what each answer of a collector means."""

from __future__ import annotations

import base64

import pytest

from gw.otel.export_messages import ExportStart
from gw.otel.otlp_sender import ExportAnswer, OtlpSender, Sent, _retry_after_s
from gw.otel.record_encoding import RecordEncoder
from gw.otel.spans import span_id_of, spans_of, trace_id_of
from gw.types.ids import TraceContext
from gw.types.usage import Usage
from tests.fakes.otlp_receiver import otlp_receiver, partial
from tests.fakes.ports import free_port
from tests.fakes.records import record


def start(endpoint: str, **facts) -> ExportStart:
    defaults = {"headers": {}, "signals": ("traces", "metrics", "logs"), "ratio": 1.0, "service": "", "instance": "one", "version": "0.1.0"}
    return ExportStart(endpoint=endpoint, **defaults | facts)


def entries(signal: str, *records) -> list[bytes]:
    encoder = RecordEncoder([signal])
    return [getattr(encoder.encode(each), signal) for each in records]


def test_spans_arrive_as_they_are(monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    caller = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7", sampled=True, state="vendor=1")
    records = [record("a"), record("b", status="error", error_code="all_failed"), record("c", trace=caller)]
    with otlp_receiver() as receiver:
        assert OtlpSender(start(receiver.url)).send("traces", entries("traces", *records)) == Sent()
        expected = [span for each in records for span in spans_of(each)]
        ids = [(f"{span.trace_id:032x}", f"{span.span_id:016x}", span.name) for span in expected]
        assert [(span.trace_id, span.span_id, span.name) for span in receiver.spans] == ids
        assert [span.attributes for span in receiver.spans] == [span.attributes for span in expected]
        assert [(span.start_ns, span.end_ns) for span in receiver.spans] == [(span.start_ns, span.end_ns) for span in expected]
        assert [(span.status, span.status_message) for span in receiver.spans][2] == (2, "all_failed")
        assert (receiver.spans[4].parent_id, receiver.spans[4].trace_state) == (caller.span_id, "vendor=1")
        assert [span.kind for span in receiver.spans] == [2, 3] * 3  # SERVER, CLIENT
        facts = {"service.name": "gw", "service.version": "0.1.0", "service.instance.id": "one", "deployment.environment.name": "test"}
        assert receiver.spans[0].resource.items() >= facts.items()


def test_logs_carry_the_request_and_its_span():
    with otlp_receiver() as receiver:
        sender = OtlpSender(start(receiver.url, service="voice"))
        assert sender.send("logs", entries("logs", record("a"), record("b", status="error", error_code="all_failed"))) == Sent()
        one, two = receiver.logs
        assert (one.severity_text, two.severity_text, one.event_name, two.body.string_value) == ("INFO", "ERROR", "gw.request", "llm error")
        assert (int.from_bytes(two.trace_id, "big"), int.from_bytes(two.span_id, "big")) == (trace_id_of(record("b")), span_id_of("b"))


def test_metrics_count_each_record():
    speech = record("t", modality="tts", model_id="v/voice", usage=Usage(characters=40), cost_nusd=2_000_000_000, endpoint="/v1/speak")
    with otlp_receiver() as receiver:
        sender = OtlpSender(start(receiver.url))
        assert sender.send("metrics", ()) == Sent()
        assert receiver.metrics == {}
        for each in (record("a"), record("b"), speech):
            sender.metrics.observe(each)
        assert sender.send("metrics", ()) == Sent()
        (labels, point), other = receiver.metrics["gen_ai.client.operation.duration"]
        assert labels == {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-x"}
        assert (point.count, other[1].count) == (2, 1)
        assert point.sum == pytest.approx(2 * 0.899)
        tokens = {labels["gen_ai.token.type"]: point.sum for labels, point in receiver.metrics["gen_ai.client.token.usage"]}
        assert tokens == {"input": 20, "output": 40}
        assert sum(point.as_int for _, point in receiver.metrics["gw.requests"]) == 3
        assert sum(point.as_double for _, point in receiver.metrics["gw.cost"]) == pytest.approx(2.000002)
        assert [point.as_int or point.as_double for _, point in receiver.metrics["gw.speech.characters"]] == [40]


def test_langfuse_gets_its_path_and_its_credentials():
    credentials = "Basic " + base64.b64encode(b"pk-lf-1:sk-lf-2").decode()
    with otlp_receiver(prefix="/api/public/otel", authorization=credentials) as receiver:
        assert OtlpSender(start(receiver.url)).send("traces", entries("traces", record())) == Sent("traces: the collector answered 401")
        headers = {"Authorization": credentials, "x-langfuse-ingestion-version": "4"}
        assert OtlpSender(start(receiver.url, headers=headers)).send("traces", entries("traces", record())) == Sent()
        path, sent = receiver.requests[-1]
        assert (path, sent["x-langfuse-ingestion-version"]) == ("/api/public/otel/v1/traces", "4")


def test_standard_variables_are_honoured(monkeypatch):
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=voice")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "front")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")
        assert OtlpSender(start("")).send("traces", entries("traces", record())) == Sent()
        ((path, headers),) = receiver.requests
        assert (path, headers["x-team"], headers["content-encoding"]) == ("/v1/traces", "voice", "gzip")
        assert receiver.spans[0].resource["service.name"] == "front"


@pytest.mark.parametrize(
    ("status", "headers", "sent"),
    [
        (400, {}, Sent("traces: the collector answered 400")),
        (413, {}, Sent("traces: the collector answered 413")),
        (302, {"location": "http://127.0.0.1:1/v1/traces"}, Sent("traces: the collector answered 302")),
        (429, {"retry-after": "30"}, Sent("traces: the collector answered 429", again=True, retry_after_s=30.0)),
        (503, {"retry-after": "3600000"}, Sent("traces: the collector answered 503", again=True, retry_after_s=3_600.0)),
    ],
)
def test_answers_that_refuse(status, headers, sent):
    with otlp_receiver() as receiver:
        receiver.answers = [(status, headers, b"")]
        assert OtlpSender(start(receiver.url)).send("traces", entries("traces", record())) == sent
        assert len(receiver.requests) == 1


@pytest.mark.parametrize(("value", "seconds"), [("30", 30.0), ("", 0.0), ("²", 0.0), ("Fri, 27 Nov 2026 04:00:00 GMT", 0.0)])
def test_the_pause_that_a_collector_wants(value, seconds):
    assert _retry_after_s(ExportAnswer(503, "", {"retry-after": value}, b"")) == seconds


def test_each_export_has_its_own_body_and_the_cookies_of_the_collector():
    with otlp_receiver() as receiver:
        sender = OtlpSender(start(receiver.url, headers={"x-team": "voice"}))
        receiver.answers = [(200, {"content-type": "application/x-protobuf", "set-cookie": "node=b"}, b"")]
        for name in ("a", "bb", "ccc"):
            assert sender.send("traces", entries("traces", record(name * 20))) == Sent()
        assert sender.send("logs", entries("logs", record("a" * 20))) == Sent()
    assert [span.attributes["gw.request.id"] for span in receiver.spans[::2]] == ["a" * 20, "b" * 40, "c" * 60]
    assert len(receiver.logs) == 1
    assert [(path, headers.get("cookie"), headers["x-team"]) for path, headers in receiver.requests] == [
        ("/v1/traces", None, "voice"), *[("/v1/traces", "node=b", "voice")] * 2, ("/v1/logs", "node=b", "voice"),
    ]  # fmt: skip


def test_spans_that_were_not_accepted_are_counted():
    with otlp_receiver() as receiver:
        receiver.answers = [partial(1)]
        sent = OtlpSender(start(receiver.url)).send("traces", entries("traces", record()))
    assert sent == Sent("traces: the collector rejected 1 spans", rejected=1)


@pytest.mark.parametrize(("timeout", "why"), [("2", "Connection refused"), ("0.0000001", "no answer in time")])
def test_a_collector_that_is_away_is_tried_again(monkeypatch, timeout, why):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", timeout)
    sender = OtlpSender(start(f"http://127.0.0.1:{free_port()}", headers={"Authorization": "Bearer secret-canary"}))
    assert sender.send("traces", entries("traces", record())) == Sent(f"traces: {why}", again=True)
