"""Spans of records: which there are, their ids, and what they say."""

from __future__ import annotations

import msgspec
import pytest

from gw.otel.spans import count_of, is_kept, span_id_of, spans_of, trace_id_of
from gw.types.ids import TraceContext
from gw.types.usage import AttemptRecord, HeardSpeech, Usage
from tests.fakes.records import NOON, record

CALLER = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7", sampled=True, state="vendor=1")


def test_a_request_and_its_call():
    request, call = spans_of(record(session_id="s1", stream=True))
    assert (request.name, request.kind, request.parent_id, request.error) == ("gw llm", "server", 0, "")
    assert (call.name, call.kind, call.parent_id) == ("chat gpt-x", "client", request.span_id)
    assert request.trace_id == call.trace_id
    assert (request.start_ns, request.end_ns) == (int(NOON * 1e9), int(NOON * 1e9) + 900_000_000)
    assert (call.start_ns - request.start_ns, call.end_ns - call.start_ns) == (200_000, 899_000_000)
    assert request.attributes == {
        "gw.request.id": "r1", "gw.project": "default", "gw.modality": "llm", "gw.status": "success", "gw.model": "openai/gpt-x",
        "gw.requested_model": "openai/gpt-x", "gw.endpoint": "/v1/chat/completions", "gen_ai.conversation.id": "s1",
        "gw.time_to_first_byte": 0.2, "gw.overhead": 0.0005,
    }  # fmt: skip
    assert call.attributes == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-x", "gen_ai.request.stream": True,
        "gen_ai.output.type": "text", "gen_ai.conversation.id": "s1", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 20,
        "gw.attempt.outcome": "ok", "gw.cost.usd": 1e-06, "gw.cost.source": "config",
    }  # fmt: skip


def test_the_same_record_gives_the_same_spans():
    assert spans_of(record()) == spans_of(msgspec.json.decode(msgspec.json.encode(record()), type=type(record())))
    ids = {span.span_id for one in ("a", "b") for span in spans_of(record(one))}
    assert len(ids) == 4
    assert all(0 < each < 2**64 for each in ids)


def test_requests_of_a_turn_share_a_trace():
    turn = [record(one, turn_id="t1", modality=modality) for one, modality in (("a", "stt"), ("b", "llm"), ("c", "tts"))]
    assert len({trace_id_of(each) for each in turn}) == 1
    others = [record(turn_id="t2"), record(turn_id="t1", project="p"), record("x"), record("y")]
    assert len({trace_id_of(each) for each in (turn[0], *others)}) == 5


def test_the_callers_trace_is_continued():
    request, call = spans_of(record(trace=CALLER, turn_id=CALLER.trace_id))
    assert f"{request.trace_id:032x}" == f"{call.trace_id:032x}" == CALLER.trace_id
    assert (f"{request.parent_id:016x}", request.parent_is_remote) == (CALLER.span_id, True)
    assert (call.parent_id, call.parent_is_remote) == (request.span_id, False)
    assert request.trace_state == call.trace_state == "vendor=1"


def test_several_calls_have_their_own_parts_and_what_was_not_called_is_an_event():
    attempts = (
        AttemptRecord(model_id="a/one", outcome="breaker_open", started_ms=0.1, duration_ms=0.0, detail="circuit breaker open"),
        AttemptRecord(
            model_id="b/two", outcome="failed", error_code="upstream_failed", upstream_status=503, started_ms=0.2, duration_ms=100.0,
            input_tokens=10, cost_nusd=500, pricing_source="config",
        ),
        AttemptRecord(
            model_id="c/three", outcome="ok", started_ms=100.5, duration_ms=700.0, ttfb_ms=50.0, input_tokens=10, output_tokens=20,
            cost_nusd=1_500, pricing_source="config",
        ),
    )  # fmt: skip
    entry = record(attempts=attempts, status="fallback", fallback_from="a/one", model_id="c/three", cost_nusd=2_000)
    request, failed, answered = spans_of(entry)
    assert count_of(entry) == 3
    (event,) = request.events
    facts = {"gw.model": "a/one", "gw.attempt.outcome": "breaker_open", "gw.attempt.detail": "circuit breaker open"}
    assert (event.name, event.attributes) == ("gw.candidate_passed_over", facts)
    assert (failed.error, failed.attributes["http.response.status_code"]) == ("upstream_failed", 503)
    assert failed.attributes["gw.cost.usd"] == 5e-07
    assert (answered.error, answered.attributes["gw.cost.usd"], answered.attributes["gen_ai.usage.output_tokens"]) == ("", 1.5e-06, 20)
    assert answered.attributes["gen_ai.response.time_to_first_chunk"] == 0.05
    assert "gen_ai.usage.input_tokens" not in request.attributes  # or a sum over spans would count them twice
    assert request.attributes["gw.fallback.from"] == "a/one"


def test_a_failure_is_one_and_a_refusal_is_not():
    assert spans_of(record(status="error", error_code="all_failed"))[0].error == "all_failed"
    refused = spans_of(record(status="error", error_code="budget_exceeded", refused=True, attempts=()))
    assert [(span.error, span.attributes["error.type"]) for span in refused] == [("", "budget_exceeded")]


@pytest.mark.parametrize(
    ("modality", "endpoint", "operation", "used", "attributes"),
    [
        ("stt", "/v1/listen", "speech_to_text", Usage(audio_seconds=2.5), {"gw.speech.audio.duration": 2.5, "gen_ai.output.type": "text"}),
        ("tts", "/v1/speak", "text_to_speech", Usage(characters=9), {"gw.speech.characters": 9, "gen_ai.output.type": "speech"}),
        ("llm", "/v1/embeddings", "embeddings", Usage(input_tokens=3), {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 0}),
    ],
)
def test_operations(modality, endpoint, operation, used, attributes):
    _, call = spans_of(record(modality=modality, endpoint=endpoint, usage=used))
    assert call.attributes["gen_ai.operation.name"] == operation
    assert call.attributes.items() >= attributes.items()
    assert ("gen_ai.usage.input_tokens" in call.attributes) == (modality == "llm")


def test_speech_of_a_session_is_in_the_turn_and_linked_to_its_session():
    part = HeardSpeech(request_id="s", model_id="dg/nova", ended_at=NOON - 0.4, final_at=NOON - 0.1, audio_seconds=2.0, cost_nusd=3_000)
    entry = record(turn_id="t1", heard=(part,), earlier=("e",))
    request, _, heard = spans_of(entry)
    assert (heard.parent_id, heard.trace_id, heard.name) == (request.span_id, request.trace_id, "speech_to_text nova")
    assert heard.end_ns - heard.start_ns == pytest.approx(2.3e9, abs=1_000)
    assert heard.attributes["gw.speech.final_delay"] == 0.3
    assert heard.links == ((trace_id_of(record("s")), span_id_of("s")),)
    assert request.links == ((trace_id_of(record("e")), span_id_of("e")),)
    assert count_of(entry) == 3


def test_sampling_keeps_whole_traces_failures_and_the_callers_choice():
    records = [record(f"r{n}", turn_id=f"t{n // 3}") for n in range(3_000)]
    kept = [each for each in records if is_kept(each, 0.25)]
    assert 600 < len(kept) < 900
    assert all(len({is_kept(each, 0.25) for each in records[at : at + 3]}) == 1 for at in range(0, 3_000, 3))
    assert all(is_kept(each, 1.0) for each in records)
    assert not any(is_kept(each, 0.0) for each in records)
    assert is_kept(record(status="error"), 0.0)
    assert is_kept(record(status="fallback"), 0.0)
    assert is_kept(record(trace=CALLER), 0.0)
    assert not is_kept(record(trace=msgspec.structs.replace(CALLER, sampled=False)), 1.0)
