"""Answers of the Responses API as the vendor writes them."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Dimensions, Usage, VendorFigure
from gw.wire.openai_responses_answer import ResponsesDecoder, ResponsesEncoder, decode_response
from tests.fakes.golden import golden

USED = Usage(input_tokens=30, cached_input_tokens=20, cache_write_tokens=4, output_tokens=12, reasoning_tokens=5, source="vendor")
SEARCHED = msgspec.structs.replace(USED, dimensions=Dimensions(searches=1))


def event(kind: str, **members: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode({"type": kind, **members}) + b"\n\n"


def said(events: list[object]) -> list[object]:
    """Return the events with content, without their bytes."""
    deltas = [msgspec.structs.replace(e, raw=None) if isinstance(e, Delta) else e for e in events]
    return [e for e in deltas if e != Delta()]


def test_reasoning_text_and_usage():
    events = ResponsesDecoder("p").feed(golden("openai/responses_stream"))
    assert said(events) == [
        Delta(reasoning="A greeting."), Delta(text="Grüß"), Delta(text=" Gott"), Delta(finish_reason="stop"),
        UsageReport(usage=USED), ChatEnd(),
    ]  # fmt: skip


def test_parallel_calls():
    events = ResponsesDecoder("p").feed(golden("openai/responses_stream_tools"))
    pieces = [piece for e in events if isinstance(e, Delta) for piece in e.tool_calls]
    assert pieces == [
        ToolCallPiece(index=0, id="call_0", name="weather"), ToolCallPiece(index=0, arguments='{"c'),
        ToolCallPiece(index=0, arguments='ity":"Wien"}'), ToolCallPiece(index=1, id="call_1", name="time"),
        ToolCallPiece(index=1, arguments="{}"),
    ]  # fmt: skip
    assert Delta(finish_reason="tool_calls") in said(events)


@pytest.mark.parametrize("name", ["openai/responses_stream", "openai/responses_stream_tools"])
def test_what_passes_through_is_what_came(name):
    encoder = ResponsesEncoder(id="resp_ours", created_at=1, model="m", echo={})
    assert encoder.encode(ResponsesDecoder("p", keep_raw=True).feed(golden(name))) == golden(name)


def test_an_unstreamed_answer():
    body = golden("openai/response")
    answer = decode_response(body, "p", keep_raw=True)
    assert answer == Completion(
        text="Grüß Gott", tool_calls=(ToolCallPiece(index=0, id="ws_1", name="web_search_call"),), finish_reason="stop",
        usage=SEARCHED, raw=body,
    )
    assert decode_response(body, "p").raw is None


def test_what_has_a_price_of_its_own():
    counted = {"status": "completed", "service_tier": "flex", "usage": {"input_tokens": 1, "output_tokens": 1}, "output": [
        {"type": "web_search_call", "id": "1", "action": {"type": "search"}},
        {"type": "web_search_call", "id": "2", "action": {"type": "open_page"}},
        {"type": "file_search_call", "id": "3"},
    ]}  # fmt: skip
    usage = decode_response(msgspec.json.encode(counted), "p", keep_raw=True).usage
    assert usage is not None
    assert usage.dimensions == Dimensions(tier="flex", searches=1, addons=("file_search",))
    reported = {**counted, "tool_usage": {"web_search": {"num_requests": 3}}}
    usage = decode_response(msgspec.json.encode(reported), "p", keep_raw=True).usage
    assert usage is not None
    assert usage.dimensions.searches == 3


def test_what_perplexity_counts_and_states():
    """Recorded on 2026-09-26 (vercel/ai, `agent-web-search.chunks.txt`)."""
    usage = {
        "cost": {"cache_read_cost": 0.00003, "currency": "USD", "input_cost": 0, "output_cost": 0.00002, "tool_calls_cost": 0.001,
                 "tool_calls_cost_details": {"search_web": 0.001}, "total_cost": 0.00105},
        "input_tokens": 3007, "output_tokens": 37, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 3044,
        "input_tokens_details": {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 3004, "cached_tokens": 3004},
        "tool_calls_details": {"search_web": {"cost_usd": 0.001, "invocation": 1}, "fetch_url": {"invocation": 2}},
    }  # fmt: skip
    answer = {"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}], "usage": usage}
    counted = decode_response(msgspec.json.encode(answer), "p").usage
    assert counted == Usage(
        input_tokens=3_007, cached_input_tokens=3_004, output_tokens=37, reasoning_tokens=0, source="vendor",
        dimensions=Dimensions(searches=1, addons=("fetch_url",)), vendor_figure=VendorFigure(amount=0.00105, unit="USD"),
    )  # fmt: skip
    for cost in ({"total_cost": -1}, {"total_cost": 1e300}, {"total_cost": 1, "currency": "EUR"}, {"total_cost": "1"}, [], 7):
        answer["usage"] = {**usage, "cost": cost}
        counted = decode_response(msgspec.json.encode(answer), "p").usage
        assert counted is not None
        assert counted.vendor_figure is None
    openrouters = {"cost": 0.25, "cost_details": {"upstream_inference_cost": None}, "is_byok": False}
    answer["usage"] = {"input_tokens": 1, "output_tokens": 1, **openrouters}
    counted = decode_response(msgspec.json.encode(answer), "p").usage
    assert counted is not None
    assert counted.vendor_figure == VendorFigure(amount=0.25, unit="USD")


def test_an_incomplete_answer():
    over = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    assert decode_response(msgspec.json.encode(over), "p").finish_reason == "length"
    filtered = {**over, "incomplete_details": {"reason": "content_filter"}}
    assert decode_response(msgspec.json.encode(filtered), "p").finish_reason == "content_filter"
    events = ResponsesDecoder("p").feed(event("response.incomplete", response=over))
    assert events == [Delta(finish_reason="length"), ChatEnd()]


def test_a_refusal():
    part = {"type": "refusal", "refusal": "No."}
    body = {"status": "completed", "output": [{"type": "message", "content": [part]}]}
    assert decode_response(msgspec.json.encode(body), "p").refusal == "No."
    assert ResponsesDecoder("p").feed(event("response.refusal.delta", delta="No.")) == [Delta(refusal="No.")]


def test_a_tool_that_the_vendor_runs_is_content():
    item = {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}
    (delta,) = ResponsesDecoder("p", keep_raw=True).feed(event("response.output_item.added", output_index=0, item=item))
    assert isinstance(delta, Delta)
    assert delta.has_content


def test_a_caller_of_another_dialect_gets_its_functions_only():
    """A search of the vendor's begins as a call and ends as its results; calls may come whole, or their arguments in pieces."""
    search = {"type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "search_web", "arguments": "{}"}
    whole = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": '{"a":1}'}
    decoder = ResponsesDecoder("p")
    assert decoder.feed(event("response.output_item.added", output_index=0, item=search)) == []
    assert decoder.feed(event("response.output_item.done", output_index=0, item={"type": "search_results", "results": []})) == []
    assert decoder.feed(event("response.output_item.added", output_index=1, item=whole)) == []
    (call,) = decoder.feed(event("response.output_item.done", output_index=1, item=whole))
    assert call == Delta(tool_calls=(ToolCallPiece(index=0, id="call_1", name="weather", arguments='{"a":1}'),))
    pieces = {**whole, "id": "fc_2", "call_id": "call_2", "arguments": ""}
    assert decoder.feed(event("response.output_item.added", output_index=2, item=pieces)) == []
    named, first = decoder.feed(event("response.function_call_arguments.delta", output_index=2, delta='{"a"'))
    assert named == Delta(tool_calls=(ToolCallPiece(index=1, id="call_2", name="weather", arguments=""),))
    assert first == Delta(tool_calls=(ToolCallPiece(index=1, arguments='{"a"'),))
    (second,) = decoder.feed(event("response.function_call_arguments.delta", output_index=2, delta=":1}"))
    assert second == Delta(tool_calls=(ToolCallPiece(index=1, arguments=":1}"),))
    assert decoder.feed(event("response.output_item.done", output_index=2, item={**pieces, "arguments": '{"a":1}'})) == []
    last = decoder.feed(event("response.completed", response={"status": "completed", "output": []}))
    assert last == [Delta(finish_reason="tool_calls"), ChatEnd()]


@pytest.mark.parametrize(
    "failure",
    [
        event("response.failed", response={"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Wait"}}),
        event("error", code="rate_limit_exceeded", message="Wait", param=None, sequence_number=3),
        event("error", sequence_number=3, error={"code": "rate_limit_exceeded", "message": "Wait", "param": None}),
    ],
)
def test_failures_in_the_stream(failure):
    assert ResponsesDecoder("p").feed(failure) == [StreamError(code="rate_limit_exceeded", message="Wait")]


def test_what_is_no_answer():
    with pytest.raises(UpstreamProtocolError, match="empty"):
        ResponsesDecoder("p").feed(event("response.completed", response={"status": "completed", "output": []}))
    with pytest.raises(UpstreamProtocolError, match="empty"):
        decode_response(b'{"status":"completed","output":[]}', "p")
    with pytest.raises(UpstreamProtocolError, match="JSON"):
        ResponsesDecoder("p").feed(b'data: {"type":7}\n\n')
    with pytest.raises(ProviderFailed, match="server_error"):
        decode_response(b'{"status":"failed","error":{"code":"server_error","message":"x"}}', "p")
    with pytest.raises(UpstreamCut):
        ResponsesDecoder("p").end()
