"""Answers of the Responses API as we write them: in the documented order, valid for the SDK's types, and read back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gw.types.llm import REFUSED, ChatEnd, Completion, Delta, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.openai_responses_answer import ResponsesDecoder, ResponsesEncoder, decode_response
from gw.wire.openai_responses_request import parse_request

USED = Usage(input_tokens=30, cached_input_tokens=20, cache_write_tokens=4, output_tokens=7, reasoning_tokens=5, source="vendor")
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def encoder(**more: Any) -> ResponsesEncoder:
    request = parse_request(b'{"input":"Hi","metadata":{"a":"b"}}')
    return ResponsesEncoder(id="resp_1", created_at=7, model="m", echo={**request.echo, "store": False}, **more)


def call(index: int, arguments: str, **head: str) -> Delta:
    return Delta(tool_calls=(ToolCallPiece(index=index, arguments=arguments, **head),))


def streamed(events: list[Any], **more: Any) -> list[dict[str, Any]]:
    """Encode each event for itself; check the frames, the numbers and the SDK's types."""
    writer = encoder(**more)
    stream = b"".join(writer.encode([event]) for event in events)
    result: list[dict[str, Any]] = []
    for block in stream.split(b"\n\n")[:-1]:
        name, data = block.split(b"\n")
        result.append(msgspec.json.decode(data.removeprefix(b"data: ")))
        assert name.decode() == "event: " + result[-1]["type"]
        EVENT.validate_json(data.removeprefix(b"data: "))
    assert [event["sequence_number"] for event in result] == list(range(len(result)))
    return result


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_the_order_of_events():
    events = streamed([
        Delta(reasoning="Hm."), Delta(text="Hé"), Delta(text="llo"), call(0, "", id="c1", name="find"), call(0, '{"q":'),
        call(0, "1}"), call(1, "{}", id="c2", name="look"), Delta(finish_reason="tool_calls"), UsageReport(usage=USED), ChatEnd(),
    ], summarized=True)  # fmt: skip
    assert kinds(events) == [
        "created", "in_progress",
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done",
        "reasoning_summary_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
        "function_call_arguments.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["reasoning", "message", "function_call", "function_call"]
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == response["output"]
    assert response["output"][2] == {
        "id": "fc_1_2", "type": "function_call", "status": "completed", "arguments": '{"q":1}', "call_id": "c1", "name": "find",
    }  # fmt: skip
    assert response["usage"] == {
        "input_tokens": 30, "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 4}, "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 37,
    }  # fmt: skip
    assert response["metadata"] == {"a": "b"}


def test_reasoning_without_a_summary():
    events = streamed([Delta(reasoning="Hm."), Delta(text="Hi"), ChatEnd()])
    assert "reasoning_text.delta" in kinds(events)
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hm."


def test_pieces_of_calls_that_alternate():
    pieces = [call(0, '{"a"', id="c1", name="f"), call(1, '{"b"', id="c2", name="g"), call(0, ":1}"), call(1, ":2}")]
    output = streamed([*pieces, ChatEnd()])[-1]["response"]["output"]
    assert [item["arguments"] for item in output] == ['{"a":1}', '{"b":2}']


@pytest.mark.parametrize(
    ("events", "status", "reason", "part"),
    [
        ([Delta(refusal="No."), Delta(finish_reason="stop")], "completed", None, {"type": "refusal", "refusal": "No."}),
        ([Delta(finish_reason="content_filter")], "completed", None, {"type": "refusal", "refusal": REFUSED}),
        ([Delta(text="Hi", finish_reason="length")], "incomplete", "max_output_tokens", None),
        ([Delta(text="Hi", finish_reason="content_filter")], "incomplete", "content_filter", None),
    ],
)
def test_how_an_answer_ends(events, status, reason, part):
    last = streamed([*events, ChatEnd()])[-1]
    response = last["response"]
    assert (last["type"], response["status"]) == ("response." + status, status)
    assert response["incomplete_details"] == (None if reason is None else {"reason": reason})
    (item,) = response["output"]
    assert item["status"] == status
    assert part is None or item["content"] == [part]


def test_a_whole_answer_equals_the_streamed_one():
    events = [Delta(reasoning="Hm."), Delta(text="Hi"), call(0, "{}", id="c", name="f"), UsageReport(usage=USED), ChatEnd()]
    body = encoder().answer(events)
    assert msgspec.json.decode(body) == streamed(events)[-1]["response"]
    Response.model_validate_json(body)
    whole = Completion(text="Hi", tool_calls=(ToolCallPiece(index=0, id="c", name="f", arguments="{}"),), usage=USED)
    assert decode_response(encoder().answer([whole]), "p") == msgspec.structs.replace(whole, finish_reason="tool_calls")


def test_a_completed_response_is_handed_over():
    kept: list[dict[str, Any]] = []
    writer = encoder(on_complete=kept.append)
    writer.encode([Delta(text="Hi")])
    assert kept == []
    writer.encode([ChatEnd()])
    assert kept[0]["output"][0]["content"][0]["text"] == "Hi"


ERROR = b'{"error":{"message":"no","type":"T","param":null,"code":"%s","request_id":"r"}}'


@pytest.mark.parametrize(("code", "expected"), [(b"rate_limited", "rate_limit_exceeded"), (b"upstream_failed", "server_error")])
@pytest.mark.parametrize("begun", [True, False])
def test_a_failure(code, expected, begun):
    writer = encoder()
    before = writer.encode([Delta(text="Hi")]) if begun else b""
    stream = before + writer.failure(ERROR % code)
    events = [msgspec.json.decode(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: ")]
    assert [EVENT.validate_python(event).type for event in events][0::len(events) - 1] == ["response.created", "response.failed"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["error"] == {"message": "no", "type": "T", "param": None, "code": expected, "request_id": "r"}


def test_the_failure_of_a_response_that_passed_through():
    raw = b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_theirs","model":"x"}}\n\n'
    writer = encoder()
    assert writer.encode([Delta(raw=raw)]) == raw
    (event,) = [line[6:] for line in writer.failure(ERROR % b"x").split(b"\n") if line.startswith(b"data: ")]
    failed = msgspec.json.decode(event)
    assert (failed["sequence_number"], failed["response"]["id"], failed["response"]["status"]) == (1, "resp_theirs", "failed")


@given(
    st.lists(
        st.one_of(
            st.text(min_size=1).map(lambda t: Delta(text=t)),
            st.text(min_size=1).map(lambda t: Delta(reasoning=t)),
            st.builds(lambda i, a: call(i, a, id=f"c{i}", name=f"n{i}"), st.integers(0, 3), st.text()),
        ),
        min_size=1,
    )
)
def test_what_is_written_is_read_back(deltas):
    writer = encoder()
    stream = b"".join(writer.encode([delta]) for delta in deltas) + writer.encode([UsageReport(usage=USED), ChatEnd()])
    events = ResponsesDecoder("p").feed(stream)
    read = [event for event in events if isinstance(event, Delta)]
    assert "".join(d.text for d in read) == "".join(d.text for d in deltas)
    assert "".join(d.reasoning for d in read) == "".join(d.reasoning for d in deltas)

    def arguments(of: list[Delta]) -> list[str]:
        joined: dict[int, str] = {}
        for delta in of:
            for piece in delta.tool_calls:
                joined[piece.index] = joined.get(piece.index, "") + piece.arguments
        return sorted(joined.values())

    assert arguments(read) == arguments(deltas)
    assert events[-2:] == [UsageReport(usage=USED), ChatEnd()]
