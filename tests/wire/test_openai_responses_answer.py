"""Answers of the Responses API as the vendor writes them."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Dimensions, Usage
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
    usage = decode_response(msgspec.json.encode(counted), "p").usage
    assert usage is not None
    assert usage.dimensions == Dimensions(tier="flex", searches=1, addons=("file_search",))
    reported = {**counted, "tool_usage": {"web_search": {"num_requests": 3}}}
    usage = decode_response(msgspec.json.encode(reported), "p").usage
    assert usage is not None
    assert usage.dimensions.searches == 3


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
    (delta,) = ResponsesDecoder("p").feed(event("response.output_item.added", output_index=0, item=item))
    assert isinstance(delta, Delta)
    assert delta.has_content


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
