"""The bytes of spans and logs say what the SDK's own encoder says of the same spans and logs."""

from __future__ import annotations

import random

import msgspec
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

from gw.otel import record_encoding
from gw.otel.otlp_encoding import ExportRequests
from gw.otel.record_encoding import RecordEncoder
from gw.otel.spans import request_attributes, span_id_of, spans_of, trace_id_of
from gw.types.ids import TraceContext
from gw.types.usage import NANO, AttemptRecord, Dimensions, HeardSpeech, Usage
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


def comparable(message):
    """Sort attributes, whose order means nothing, and leave out the empty status that the SDK writes into each span."""
    for of_resource in getattr(message, "resource_spans", ()) or message.resource_logs:
        for scope in getattr(of_resource, "scope_spans", ()) or of_resource.scope_logs:
            for each in getattr(scope, "spans", ()) or scope.log_records:
                if hasattr(each, "status") and not each.status.code:
                    each.ClearField("status")
                attributes = sorted(each.attributes, key=lambda attribute: attribute.key)
                del each.attributes[:]
                each.attributes.extend(attributes)
    return message


def compare(encoder, records):
    """Hold what an encoder makes of records against what the SDK's makes of them."""
    requests, encoded = ExportRequests(RESOURCE), [encoder.encode(each) for each in records]
    spans = [span for each in records for span in spans_of(each)]
    assert sum(each.spans for each in encoded) == len(spans)
    traces = ExportTraceServiceRequest.FromString(requests.traces([each.traces for each in encoded]))
    assert comparable(traces) == comparable(encode_spans(map(sdk_span, spans)))
    logs = ExportLogsServiceRequest.FromString(requests.logs([each.logs for each in encoded]))
    assert comparable(logs) == comparable(encode_logs(map(sdk_log, records)))


def any_record(chance):
    """Return a record in which each field is one of a few values, so that many records share some of them."""
    pick = chance.choice
    attempt = AttemptRecord(
        model_id=pick(("openai/gpt-x", "azure/gpt-y")), provider=pick(("", "own")),
        outcome=pick(("ok", "ok", "failed", "cancelled", "busy")), error_code=pick((None, None, "overloaded")),
        started_ms=chance.uniform(0, 9), duration_ms=chance.uniform(0, 9_000), ttfb_ms=pick((None, chance.uniform(0, 900))),
        upstream_status=pick((None, 200, 503)), detail=pick(("", "why")), ignored_settings=pick(((), (), ("seed", "user"))),
        voice=pick((None, None, "", "alloy")), input_tokens=pick((0, 7)), cost_nusd=pick((None, 3)), hedges=pick((False, True)),
        cache=pick(("", "hit")), saved_nusd=pick((0, 5)), route=pick(("", "fast")), routing=pick(("", f"p50 of {chance.random()} s")),
        lost_s=pick((None, None, None, 0.5)), pricing_source=pick(("", "table:a@2026-01-01")),
    )  # fmt: skip
    usage = Usage(
        input_tokens=pick((0, 1, 300, 2**40)), cached_input_tokens=pick((0, 128)), cache_write_tokens=pick((0, 9)),
        output_tokens=pick((0, 20)), reasoning_tokens=pick((None, 0, 5)), audio_seconds=pick((0.0, 2.5)), characters=pick((0, 41)),
        source=pick(("vendor", "estimated")), dimensions=pick((Dimensions(), Dimensions(tier="flex"))),
    )  # fmt: skip
    return record(
        f"r{chance.randrange(10 ** chance.randrange(1, 9))}", timestamp=NOON + chance.uniform(0, 9e4),
        total_latency_ms=chance.uniform(0, 9e3), ttfb_ms=pick((None, chance.uniform(0, 9e3))), gateway_ms=pick((None, chance.random())),
        usage=usage, measured=pick((None, usage)), status=pick(("success", "success", "error", "fallback")),
        attempts=(attempt,) * pick((0, 1, 1, 1, 1, 1, 2)), modality=pick(("llm", "llm", "stt", "tts")),
        project=pick(("default", "shop")), model_id=pick(("openai/gpt-x", "azure/gpt-y")), requested_model=pick(("openai/gpt-x", "fast")),
        stream=pick((False, True)), session_id=pick((None, "s1", "session-2")), turn_id=pick((None, None, "t1", "turn-2")),
        key_id=pick((None, "till")), endpoint=pick(("", "/v1/chat/completions", "/v1/embeddings")), cost_nusd=pick((None, 0, 12_345)),
        pricing_source=pick(("", "config")), wasted_nusd=pick((0, 0, 0, None, 7)), fallback_from=pick((None, None, "groq/z")),
        error_code=pick((None, "all_failed")), refused=pick((False, False, True)),
        trace=pick((None, None, CALLER, msgspec.structs.replace(CALLER, state=""))),
    )  # fmt: skip


@pytest.mark.parametrize("names", [*([name] for name in RECORDS), list(RECORDS), ["plain"] * 300], ids=lambda names: str(names[:2]))
def test_spans_and_logs_are_those_of_the_sdk(names):
    encoder = RecordEncoder(("traces", "logs"))
    for _ in range(2):  # the second time from what is kept
        compare(encoder, [RECORDS[name] for name in names])


def test_records_that_share_some_fields_are_not_mixed_up():
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    encoder, records = RecordEncoder(("traces", "logs")), [any_record(chance) for _ in range(400)]
    compare(encoder, records)
    for each in records:  # each field for itself
        changed = {"status": "error", "project": "p", "model_id": "x/y", "stream": not each.stream, "endpoint": "/e", "error_code": "c"}
        compare(encoder, [msgspec.structs.replace(each, **{name: changed[name]}) for name in chance.sample(sorted(changed), 1)])


def test_most_records_are_made_of_what_is_kept():
    encoder = RecordEncoder(("traces",))
    for number in range(100):
        encoder.encode(record(f"r{number}", timestamp=NOON + number, session_id=f"s{number}", turn_id=f"t{number}", key_id=f"k{number}"))
    assert len(encoder._kept) == 1


@pytest.mark.parametrize("signals", [("traces",), ("logs",), ("metrics",)])
def test_only_the_signals_that_are_exported_are_encoded(signals):
    encoder = RecordEncoder(signals)
    for each in (RECORDS["plain"], RECORDS["fallback"]):
        encoded = encoder.encode(each)
        assert (encoded.traces != b"", encoded.logs != b"") == ("traces" in signals, "logs" in signals)


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(record_encoding, "MOST_KEPT", 50)
    encoder = RecordEncoder(("traces", "logs"))
    compare(encoder, [record(f"r{number}", model_id=f"openai/m{number}") for number in range(120)])
    assert len(encoder._kept) <= 50


@pytest.mark.parametrize("fields", [{"usage": Usage(input_tokens=2**63, source="vendor")}, {"timestamp": -1.0}, {"timestamp": 1e300}])
def test_a_number_that_no_message_can_hold_is_an_error(fields):
    with pytest.raises(ValueError, match=r"out of range|infinity"):
        RecordEncoder(("traces",)).encode(record(**fields))
