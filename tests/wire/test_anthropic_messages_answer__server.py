"""Answers of the Messages API as we write them: read back by the decoder, and by the rules of real clients."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gw.types.llm import ChatEnd, ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.anthropic_messages_answer import MessagesDecoder, MessagesEncoder, decode_message

USED = Usage(input_tokens=30, cached_input_tokens=20, cache_write_tokens=4, output_tokens=7, source="vendor")
TOOL = (
    Delta(tool_calls=(ToolCallPiece(index=0, id="c1", name="find"),)),
    Delta(tool_calls=(ToolCallPiece(index=0, arguments='{"q":'),)),
    Delta(tool_calls=(ToolCallPiece(index=0, arguments="1}"),)),
)


def encoder(**more):
    return MessagesEncoder(id="msg_1", model="claude-x", **more)


def events_of(stream: bytes) -> list[tuple[str, dict]]:
    result = []
    for block in stream.split(b"\n\n")[:-1]:
        name, data = block.split(b"\n")
        result.append((name.removeprefix(b"event: ").decode(), msgspec.json.decode(data.removeprefix(b"data: "))))
    return result


def test_order_and_names():
    end = [Delta(finish_reason="tool_calls"), UsageReport(usage=USED), ChatEnd()]
    spoken: list[ChatEvent] = [Delta(text="Hé"), Delta(text="llo"), *TOOL, *end]
    writer = encoder(input_tokens=12)
    events = events_of(b"".join(writer.encode([event]) for event in spoken))
    assert all(name == event["type"] for name, event in events)
    assert [name for name, _ in events] == [
        "message_start",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    start, last = events[0][1]["message"], events[-2][1]
    assert (start["usage"]["input_tokens"], start["usage"]["output_tokens"]) == (12, 0)
    assert last["delta"]["stop_reason"] == "tool_use"
    assert last["usage"] == {
        "input_tokens": 6, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 20, "output_tokens": 7,
    }  # fmt: skip
    assert [event["index"] for name, event in events if name == "content_block_start"] == [0, 1]


@given(
    st.lists(
        st.one_of(
            st.text(min_size=1).map(lambda t: Delta(text=t)),
            st.builds(
                lambda i, a: Delta(tool_calls=(ToolCallPiece(index=i, id=f"c{i}", name=f"n{i}", arguments=a),)),
                st.integers(0, 3),
                st.text(min_size=1, max_size=5),
            ),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_write_and_read_back(spoken):
    stream = encoder().encode([*spoken, Delta(finish_reason="length"), UsageReport(usage=USED), ChatEnd()])
    events = MessagesDecoder("p").feed(stream)
    assert "".join(e.text for e in events if isinstance(e, Delta)) == "".join(e.text for e in spoken)

    def arguments(deltas):
        result: dict[int, str] = {}
        for delta in deltas:
            for piece in delta.tool_calls if isinstance(delta, Delta) else ():
                result[piece.index] = result.get(piece.index, "") + piece.arguments
        return sorted(result.values())

    assert arguments(events) == arguments(spoken)
    assert [e.finish_reason for e in events if isinstance(e, Delta) and e.finish_reason] == ["length"]
    assert [e.usage for e in events if isinstance(e, UsageReport)] == [USED]
    assert events[-1] == ChatEnd()


def test_thinking_only_if_it_was_requested():
    spoken: list[ChatEvent] = [Delta(reasoning="hm"), Delta(text="yes"), Delta(finish_reason="stop"), ChatEnd()]
    assert b"hm" not in encoder().encode(spoken)
    shown = MessagesDecoder("p").feed(encoder(thinking=True).encode(spoken))
    assert shown[0] == Delta(reasoning="hm")
    body = msgspec.json.decode(encoder(thinking=True).answer(spoken))
    assert [block["type"] for block in body["content"]] == ["thinking", "text"]
    assert [block["type"] for block in msgspec.json.decode(encoder().answer(spoken))["content"]] == ["text"]


def test_other_choices_are_left_out():
    assert b"two" not in encoder().encode([Delta(text="one"), Delta(text="two", choice=1), ChatEnd()])


def test_a_refusal():
    spoken: list[ChatEvent] = [Delta(refusal="I can"), Delta(refusal="not."), Delta(finish_reason="stop"), ChatEnd()]
    (name, last), _ = events_of(encoder().encode(spoken))[-2:]
    assert name == "message_delta"
    assert last["delta"]["stop_reason"] == "refusal"
    assert last["delta"]["stop_details"] == {"type": "refusal", "category": None, "explanation": "I cannot."}
    assert decode_message(encoder().answer(spoken), "p").refusal == "I cannot."


def test_an_error():
    ((name, event),) = events_of(encoder().encode([StreamError(code="overloaded", message="busy")]))
    assert (name, event["error"]) == ("error", {"type": "overloaded", "message": "busy"})


def test_an_unstreamed_and_a_streamed_answer():
    complete = Completion(
        text="hi",
        tool_calls=(ToolCallPiece(index=0, id="c", name="n", arguments='{"a":1}'),),
        finish_reason="tool_calls",
        usage=USED,
    )
    assert decode_message(encoder().answer([complete]), "p") == complete
    assert encoder().answer([Completion(text="", raw=b"{raw}")]) == b"{raw}"
    events = MessagesDecoder("p").feed(encoder().encode([complete]))
    assert events[0] == Delta(text="hi")
    assert events[-1] == ChatEnd()


def test_arguments_that_are_no_object():
    spoken: list[ChatEvent] = [Delta(tool_calls=(ToolCallPiece(index=0, name="n", arguments="[1"),)), ChatEnd()]
    (block,) = msgspec.json.decode(encoder().answer(spoken))["content"]
    assert block == {"type": "tool_use", "id": "toolu_0", "name": "n", "input": {"arguments": "[1"}}
