"""Answers of the Messages API, from golden transcripts and with their oddities, cut at every byte."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, ChatEvent, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.anthropic_messages_answer import REFUSED, MessagesDecoder, MessagesEncoder, decode_message
from tests.fakes.golden import golden

STREAM = golden("anthropic/message_stream")
USED = Usage(input_tokens=2_125, cached_input_tokens=2_000, cache_write_tokens=100, output_tokens=89, source="vendor")


def decoded(*pieces: bytes, keep_raw: bool = False) -> list[ChatEvent]:
    decoder = MessagesDecoder("p", keep_raw=keep_raw)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    if decoder.fault is not None:
        raise decoder.fault
    return events


def event(kind: str, **members: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode({"type": kind, **members}) + b"\n\n"


def text(index: int, value: str) -> bytes:
    return event("content_block_delta", index=index, delta={"type": "text_delta", "text": value})


def finished(reason: str, **usage: int) -> bytes:
    return event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 3, **usage})


STOP = event("message_stop")


def test_thinking_text_and_tools():
    assert decoded(STREAM) == [
        Delta(reasoning="Weather, so the tool."),
        Delta(text="Let me "),
        Delta(text="look – ça va?"),
        Delta(tool_calls=(ToolCallPiece(index=0, id="toolu_01T", name="get_weather"),)),
        Delta(tool_calls=(ToolCallPiece(index=0, arguments='{"location":'),)),
        Delta(tool_calls=(ToolCallPiece(index=0, arguments=' "Paris"}'),)),
        Delta(tool_calls=(ToolCallPiece(index=1, id="toolu_02T", name="now"),)),
        Delta(tool_calls=(ToolCallPiece(index=1, arguments="{}"),)),
        Delta(finish_reason="tool_calls"),
        UsageReport(usage=USED),
        ChatEnd(),
    ]


def test_cut_at_every_byte():
    data = decoded(STREAM)
    for at in range(len(STREAM)):
        assert decoded(STREAM[:at], STREAM[at:]) == data
    assert decoded(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == data


def test_raw_is_the_stream_as_it_came():
    events = decoded(STREAM, keep_raw=True)
    stripped = [msgspec.structs.replace(e, raw=None) for e in events if not isinstance(e, ChatEnd)]
    assert [e for e in stripped if e != Delta()] == decoded(STREAM)[:-1]
    again = MessagesEncoder(id="other", model="other").encode(events)
    assert again == STREAM


def test_a_refusal_tells_why():
    events = decoded(golden("anthropic/message_refused"))
    assert events[0] == Delta(refusal="This request could enable harm.", finish_reason="content_filter")
    assert decoded(finished("refusal"), STOP)[0] == Delta(refusal=REFUSED, finish_reason="content_filter")


def test_an_error_inside_the_stream():
    (error,) = decoded(golden("anthropic/overloaded_stream"), STOP)
    assert error == StreamError(code="overloaded_error", message="Overloaded")


@pytest.mark.parametrize(
    ("vendor_value", "own_value"),
    [
        ("end_turn", "stop"), ("stop_sequence", "stop"), ("pause_turn", "stop"), ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"), ("tool_use", "tool_calls"), ("something_new", "stop"),
    ],
)  # fmt: skip
def test_reasons(vendor_value, own_value):
    reasons = [e.finish_reason for e in decoded(text(0, "a"), finished(vendor_value), STOP) if isinstance(e, Delta)]
    assert reasons == [None, own_value]


def test_counters_of_the_end_replace_those_of_the_start():
    start = event("message_start", message={"usage": {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1}})
    reports = [e.usage for e in decoded(start, text(0, "a"), finished("end_turn", input_tokens=9), STOP) if isinstance(e, UsageReport)]
    assert reports == [Usage(input_tokens=13, cached_input_tokens=4, output_tokens=3, source="vendor")]


def test_usage_that_cannot_be_read_does_not_spoil_the_answer():
    odd = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": "many"})
    assert decoded(text(0, "a"), odd, STOP) == [Delta(text="a"), Delta(finish_reason="stop"), ChatEnd()]


def test_a_tool_with_its_complete_input():
    block = {"type": "tool_use", "id": "t", "name": "n", "input": {"a": "ö"}}
    start = event("content_block_start", index=1, content_block=block)
    events = decoded(start, event("content_block_stop", index=1), finished("tool_use"), STOP)
    assert events[0] == Delta(tool_calls=(ToolCallPiece(index=0, id="t", name="n", arguments='{"a":"ö"}'),))
    assert events[1] == Delta(finish_reason="tool_calls")


def test_unknown_elements_are_skipped():
    odd = [
        event("something_new", x=1),
        event("content_block_start", index=0, content_block={"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '{"q":1}'}),
        event("content_block_delta", index=0, delta={"type": "citations_delta", "citation": {"cited_text": "x"}}),
        event("content_block_stop", index=0),
        b": a comment\n\n",
    ]
    assert decoded(*odd, text(1, "a"), finished("end_turn"), STOP)[0] == Delta(text="a")
    stored = decoded(*odd, text(1, "a"), keep_raw=True)
    assert b"".join(e.raw for e in stored) == b"".join(odd[:-1]) + text(1, "a")


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"type":\n\n', b"data: []\n\n", event("content_block_delta", index="x", delta={}),
        event("content_block_start", index=0, content_block={"type": "tool_use", "input": {"a": "b"}}).replace(b'"b"', b'"\xff"'),
        finished("end_turn") + STOP, STOP,
    ],
)  # fmt: skip
def test_malformed(stream):
    with pytest.raises(UpstreamProtocolError):
        decoded(stream)


def test_an_end_before_its_reason_is_a_cut():
    decoder = MessagesDecoder("p")
    decoder.feed(text(0, "a"))
    with pytest.raises(UpstreamCut):
        decoder.end()


def test_a_missing_marker_after_the_reason_is_an_end():
    decoder = MessagesDecoder("p")
    decoder.feed(text(0, "a") + finished("end_turn"))
    assert decoder.end() == [ChatEnd()]
    assert decoder.end() == []
    assert decoder.feed(text(0, "late")) == []


def test_an_unstreamed_answer():
    body = golden("anthropic/message")
    result = decode_message(body, "p", keep_raw=True)
    assert (result.text, result.finish_reason, result.raw) == ("Looking.", "tool_calls", body)
    assert result.tool_calls == (ToolCallPiece(index=0, id="toolu_03", name="find", arguments='{"q":"Où?","n":2}'),)
    assert result.usage == Usage(input_tokens=18, cached_input_tokens=11, output_tokens=31, source="vendor")
    assert decode_message(body, "p").raw is None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", UpstreamProtocolError),
        (b"[]", UpstreamProtocolError),
        (b'{"content":[],"stop_reason":"end_turn"}', UpstreamProtocolError),
        (b'{"type":"error","error":{"type":"api_error","message":"x"}}', ProviderFailed),
    ],
)
def test_malformed_unstreamed_answers(body, error):
    with pytest.raises(error):
        decode_message(body, "p")


def test_an_unstreamed_refusal():
    body = b'{"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","explanation":"no"}}'
    result = decode_message(body, "p")
    assert (result.refusal, result.finish_reason) == ("no", "content_filter")


@given(st.lists(st.binary(max_size=80), max_size=6))
def test_malformed_input_is_a_provider_error_or_nothing(pieces):
    decoder = MessagesDecoder("p", keep_raw=True)
    try:
        for piece in pieces:
            decoder.feed(b"event: content_block_delta\ndata: " + piece + b"\n\n")
        decoder.end()
    except ProviderError:
        pass


@given(at=st.integers(0, len(STREAM) - 1), byte=st.integers(0, 255))
def test_one_wrong_byte(at, byte):
    spoilt = STREAM[:at] + bytes([byte]) + STREAM[at + 1 :]
    decoder = MessagesDecoder("p")
    try:
        events = decoder.feed(spoilt) + decoder.end()
    except ProviderError:
        return
    assert isinstance(events[-1], (ChatEnd, StreamError))
