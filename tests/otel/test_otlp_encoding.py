"""The bytes of spans and logs say what the SDK's own encoder says of the same spans and logs."""

from __future__ import annotations

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from gw.otel import otlp_encoding
from gw.otel.otlp_encoding import OtlpEncoder
from gw.otel.spans import request_attributes, span_id_of, spans_of, trace_id_of
from gw.types.ids import TraceContext
from gw.types.usage import NANO, AttemptRecord, HeardSpeech, Usage
from tests.fakes.records import NOON, record

RESOURCE = {"service.name": "gw", "service.instance.id": "one"}
SCOPE = InstrumentationScope("gw")
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
CALLER = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7", sampled=True, state="vendor=1")
FAILED = AttemptRecord(
    model_id="openai/gpt-x", outcome="failed", started_ms=0.2, duration_ms=5.0, error_code="overloaded", upstream_status=503
)  # fmt: skip
SKIPPED = AttemptRecord(model_id="groq/gpt-x", outcome="busy", started_ms=5.2, duration_ms=0.0, detail="max_concurrent reached")
ANSWERED = AttemptRecord(
    model_id="azure/gpt-x", outcome="ok", started_ms=6.0, duration_ms=800.5, ttfb_ms=80.25, input_tokens=300, output_tokens=2**40,
    cost_nusd=1_234, pricing_source="config", ignored_settings=("seed", "logit_bias"),
)  # fmt: skip
HEARD = HeardSpeech(request_id="s9", model_id="deepgram/nova-3", ended_at=NOON - 1, final_at=NOON - 0.5, audio_seconds=2.5, cost_nusd=9)
RECORDS = {
    "plain": record("a"),
    "a turn in a session": record("b", session_id="s1", turn_id="t1", key_id="till", stream=True),
    "of a caller's trace": record("c", trace=CALLER),
    "failed": record("d", status="error", error_code="all_failed", attempts=(FAILED,)),
    "fallback": record("e", status="fallback", fallback_from="openai/gpt-x", attempts=(FAILED, SKIPPED, ANSWERED), wasted_nusd=5),
    "with what was heard, and linked": record("f", heard=(HEARD,), earlier=("d", "e")),
    "speech": record("g", modality="tts", model_id="v/voice", usage=Usage(characters=40), cost_nusd=None, pricing_source="unpriced"),
    "other letters": record("h", project="Bücher \N{BOOKS}", requested_model="x" * 300),
}
KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
SEVERITIES = {"success": SeverityNumber.INFO, "fallback": SeverityNumber.WARN, "error": SeverityNumber.ERROR}


def sdk_span(span):
    """Return a span as the SDK has it."""
    state = TraceState.from_header([span.trace_state]) if span.trace_state else None

    def context(trace_id, span_id, *, remote=False):
        return SpanContext(trace_id, span_id, is_remote=remote, trace_flags=SAMPLED, trace_state=state)

    return ReadableSpan(
        name=span.name, context=context(span.trace_id, span.span_id), resource=Resource(RESOURCE), kind=KINDS[span.kind],
        parent=context(span.trace_id, span.parent_id, remote=span.parent_is_remote) if span.parent_id else None,
        attributes=span.attributes, start_time=span.start_ns, end_time=span.end_ns, instrumentation_scope=SCOPE,
        events=[Event(event.name, event.attributes, event.at_ns) for event in span.events],
        links=[Link(context(*link)) for link in span.links],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
    )  # fmt: skip


def sdk_log(entry):
    """Return the log of a record as the SDK has it."""
    ended_ns, number = int((entry.timestamp + entry.total_latency_ms / 1_000) * NANO), SEVERITIES[entry.status]
    log = LogRecord(
        timestamp=ended_ns, observed_timestamp=ended_ns, severity_text=number.name, severity_number=number,
        body=f"{entry.modality} {entry.status}", attributes=dict(request_attributes(entry)), event_name="gw.request",
    )  # fmt: skip
    log.trace_id, log.span_id, log.trace_flags = trace_id_of(entry), span_id_of(entry.id), SAMPLED
    return ReadableLogRecord(log, Resource(RESOURCE), SCOPE)


def without_state(message):
    """Leave out what an empty status adds: the SDK writes one into each span."""
    for of_resource in message.resource_spans:
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                if not span.status.code:
                    span.ClearField("status")
    return message


@pytest.mark.parametrize("names", [*([name] for name in RECORDS), list(RECORDS), ["plain"] * 300], ids=lambda names: str(names[:2]))
def test_spans_and_logs_are_those_of_the_sdk(names):
    records, encoder = [RECORDS[name] for name in names], OtlpEncoder(RESOURCE)
    for _ in range(2):  # the second time from what is kept
        spans = encode_spans([sdk_span(span) for each in records for span in spans_of(each)])
        assert without_state(ExportTraceServiceRequest.FromString(encoder.spans(records))) == without_state(spans)
        assert ExportLogsServiceRequest.FromString(encoder.logs(records)) == encode_logs([sdk_log(each) for each in records])


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(otlp_encoding, "MOST_KEPT", 50)
    encoder = OtlpEncoder(RESOURCE)
    records = [record(f"r{number}") for number in range(500)]
    spans = encode_spans([sdk_span(span) for each in records for span in spans_of(each)])
    assert without_state(ExportTraceServiceRequest.FromString(encoder.spans(records))) == without_state(spans)
    assert len(encoder._span_attributes._kept) <= 50


def test_a_number_that_no_message_can_hold_is_an_error():
    with pytest.raises(ValueError, match="out of range"):
        OtlpEncoder(RESOURCE).spans([record(usage=Usage(input_tokens=2**63, source="vendor"))])
