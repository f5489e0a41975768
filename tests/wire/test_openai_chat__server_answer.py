"""Answers as callers get them; and the pair of encoder and decoder joined."""

import json

import msgspec
import pytest

from gw.types.llm import ChatEnd, ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.openai_chat import ChatDecoder, ChatEncoder, decode_completion, error_body
from tests.fakes.golden import golden

USAGE = Usage(
    input_tokens=7, cached_input_tokens=3, output_tokens=2, reasoning_tokens=1, input_audio_tokens=1, output_audio_tokens=1, source="vendor"
)


def encoder(include_usage: bool = True) -> ChatEncoder:
    return ChatEncoder(id="chatcmpl-9", created=1_795_000_000, model="m", include_usage=include_usage)


def chunks(data: bytes) -> list[dict]:
    lines = data.decode().split("\n\n")
    assert lines.pop() == ""
    return [json.loads(line.removeprefix("data: ")) if line != "data: [DONE]" else {"done": True} for line in lines]


@pytest.mark.parametrize("name", ["chat_stream", "chat_stream_tools", "chat_stream_azure"])
def test_answers_of_the_same_dialect_go_out_unchanged(name):
    stream = golden(f"openai/{name}")
    events = ChatDecoder("p").feed(stream)
    if name == "chat_stream_azure":   # usage stood on choice chunks; who asks gets the chunk of its own as well
        events = [e for e in events if not isinstance(e, UsageReport)]
    assert encoder().encode(events) == stream


def test_the_usage_chunk_is_left_out_unless_requested():
    stream = golden("openai/chat_stream")
    sent = encoder(include_usage=False).encode(ChatDecoder("p").feed(stream))
    blocks = stream.split(b"\n\n")
    assert sent == b"\n\n".join(blocks[:4] + blocks[5:])
    assert encoder(include_usage=False).encode([UsageReport(usage=USAGE)]) == b""


def test_uncounted_details_of_a_completion_are_left_out():
    """Groq's SDK insists on a number of reasoning tokens wherever there are details."""
    (built,) = chunks(encoder().encode([UsageReport(usage=msgspec.structs.replace(USAGE, output_audio_tokens=0, reasoning_tokens=None))]))
    assert "completion_tokens_details" not in built["usage"]


def test_one_chunk_over_several_lines_stays_one_event():
    assert encoder().encode([Delta(raw=b'{\n"choices":[]}')]) == b'data: {\ndata: "choices":[]}\n\n'
    assert encoder().encode([Delta(raw=b"")]) == b""


def test_a_built_stream():
    writer = encoder()
    data = writer.encode([Delta(text="Hal"), Delta(text="lo", finish_reason="stop"), UsageReport(usage=USAGE)])
    data += writer.encode([ChatEnd()])
    data += writer.encode([ChatEnd()])
    head = {"id": "chatcmpl-9", "created": 1_795_000_000, "model": "m", "object": "chat.completion.chunk"}

    def chunk(delta: dict, finish: str | None = None) -> dict:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        return {**head, "choices": choices, "usage": None}

    assert chunks(data) == [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hal"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        {**head, "choices": [], "usage": {
            "prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0, "audio_tokens": 1},
            "completion_tokens_details": {"audio_tokens": 1, "reasoning_tokens": 1},
        }},
        {"done": True},
    ]
    assert "usage" not in chunks(encoder(include_usage=False).encode([Delta(text="a")]))[1]


def test_built_tool_calls_refusals_and_choices():
    writer = encoder(include_usage=False)
    data = writer.encode([
        Delta(),
        Delta(tool_calls=(ToolCallPiece(index=0, id="a", name="f"),)),
        Delta(tool_calls=(ToolCallPiece(index=0, arguments="{}"),)),
        Delta(refusal="no", reasoning="hm", choice=1),
    ])
    deltas = [(c["choices"][0]["index"], c["choices"][0]["delta"]) for c in chunks(data)]
    role = {"role": "assistant", "content": ""}
    assert deltas == [
        (0, role),
        (0, {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        (0, {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
        (1, role),
        (1, {"refusal": "no", "reasoning": "hm"}),
    ]


def test_a_failure_in_the_stream():
    error = {"message": "m", "type": "ProviderFailed", "param": None, "code": "upstream_failed"}
    assert chunks(encoder().error("upstream_failed", "m", "ProviderFailed")) == [{"error": error}]
    [error] = chunks(encoder().encode([StreamError(code="c", message="m")]))
    assert error["error"]["code"] == "c"


def test_an_unstreamed_answer_to_a_caller_who_requested_a_stream():
    complete = decode_completion(golden("openai/chat_completion"), "p")
    events = ChatDecoder("p").feed(encoder().encode([complete]))
    assert [p for e in events if isinstance(e, Delta) for p in e.tool_calls] == list(complete.tool_calls)
    assert events[-1] == ChatEnd()
    assert any(isinstance(e, UsageReport) and e.usage == complete.usage for e in events)
    assert encoder(include_usage=False).encode([complete]).count(b"data: ") == 4


BUILT: list[ChatEvent] = [
    Delta(reasoning="hm"), Delta(text="a\nb "), Delta(text='"ü"'),
    Delta(tool_calls=(ToolCallPiece(index=0, id="x", name="f", arguments="{"),)),
    Delta(tool_calls=(ToolCallPiece(index=0, arguments="}"),)),
    Delta(finish_reason="tool_calls"),
    UsageReport(usage=USAGE),
    ChatEnd(),
]


def stripped(events: list[ChatEvent]) -> list[ChatEvent]:
    """Without raw bytes and the opening chunk."""
    result: list[ChatEvent] = []
    for event in events:
        if isinstance(event, Delta):
            plain = msgspec.structs.replace(event, raw=None)
            result += [] if plain == Delta() else [plain]
        else:
            result.append(UsageReport(usage=event.usage) if isinstance(event, UsageReport) else event)
    return result


def test_the_pair_agrees_at_every_cut():
    stream = encoder().encode(BUILT)
    for at in range(0, len(stream), 3):
        reader = ChatDecoder("p")
        assert stripped(reader.feed(stream[:at]) + reader.feed(stream[at:])) == BUILT


class TestWholeAnswers:
    def test_the_upstreams_own(self):
        body = golden("openai/chat_completion")
        assert encoder().answer([decode_completion(body, "p")]) == body

    def test_from_pieces(self):
        body = json.loads(encoder().answer(BUILT))
        assert body["object"] == "chat.completion"
        assert body["choices"] == [{
            "index": 0, "logprobs": None, "finish_reason": "tool_calls",
            "message": {
                "role": "assistant", "content": 'a\nb "ü"', "refusal": None, "reasoning": "hm",
                "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
        }]
        assert body["usage"]["total_tokens"] == 9
        assert decode_completion(json.dumps(body).encode(), "p").usage == USAGE

    def test_from_a_stream_of_the_same_dialect(self):
        body = json.loads(encoder().answer(ChatDecoder("p").feed(golden("openai/chat_stream_tools"))))
        message = body["choices"][0]["message"]
        assert message["content"] is None
        assert [c["function"]["arguments"] for c in message["tool_calls"]] == ['{"city":"Rome"}', "{}"]
        assert "usage" not in body

    def test_from_a_built_completion(self):
        body = json.loads(encoder().answer([Completion(text="", refusal="no", usage=USAGE)]))
        assert body["choices"][0]["message"] == {"role": "assistant", "content": None, "refusal": "no"}
        assert body["choices"][0]["finish_reason"] == "stop"

    def test_several_choices(self):
        body = json.loads(encoder().answer([Delta(text="b", choice=1), Delta(text="a"), Delta(text="a")]))
        assert [(c["index"], c["message"]["content"]) for c in body["choices"]] == [(0, "aa"), (1, "b")]
        assert all(c["finish_reason"] == "stop" for c in body["choices"])

    def test_from_nothing(self):
        assert json.loads(encoder().answer([ChatEnd()]))["choices"][0]["message"]["content"] == ""


def test_our_error_body():
    result = msgspec.json.decode(
        error_body(
            type="BudgetExceededError", code="budget_exceeded", message="m", param=None, request_id="r1",
            daily_budget=2.5, message_="x",
        )
    )
    assert result == {
        "error": {
            "type": "BudgetExceededError", "code": "budget_exceeded", "message": "m", "param": None, "request_id": "r1",
            "daily_budget": 2.5, "message_": "x",
        }
    }


# ---- for clients of Groq


def groq_encoder() -> ChatEncoder:
    return ChatEncoder(id="chatcmpl-9", created=1_795_000_000, model="m", include_usage=False, groq_request="r1")


def about_groq(encoded: bytes) -> list[dict[str, object]]:
    chunks = [msgspec.json.decode(line[6:]) for line in encoded.split(b"\n\n") if line.startswith(b"data: {")]
    return [{"choices": len(chunk["choices"]), **chunk["x_groq"]} for chunk in chunks if "x_groq" in chunk]


def test_clients_of_groq_find_the_usage_of_a_stream_where_groq_sends_it():
    events = [Delta(text="hi"), Delta(finish_reason="stop"), UsageReport(usage=Usage(input_tokens=3, output_tokens=1)), ChatEnd()]
    (about,) = about_groq(groq_encoder().encode(events))
    assert (about["id"], about["choices"], about["usage"]["total_tokens"]) == ("req_r1", 1, 4)
    whole = Completion(text="hi", usage=Usage(input_tokens=3, output_tokens=1))
    assert about_groq(groq_encoder().encode([whole])) == [about]


def test_groqs_own_usage_is_not_repeated():
    raw = b'{"choices":[],"x_groq":{"id":"req_01","usage":{"prompt_tokens":3}}}'
    events = [Delta(text="hi", raw=raw), UsageReport(usage=Usage(input_tokens=3)), ChatEnd()]
    (about,) = about_groq(groq_encoder().encode(events))
    assert about["id"] == "req_01"


def test_whole_answers_for_clients_of_groq_name_the_request():
    whole = Completion(text="hi", usage=Usage(input_tokens=3, output_tokens=1))
    assert msgspec.json.decode(groq_encoder().answer([whole]))["x_groq"] == {"id": "req_r1"}
    own = Completion(text="hi", raw=b'{"id":"a","x_groq":{"id":"req_01"}}')
    assert msgspec.json.decode(groq_encoder().answer([own]))["x_groq"] == {"id": "req_01"}
