"""Answers of vendors, from golden transcripts and with their known oddities, cut at every byte."""

import json

import pytest

from gw.errors import ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, ChatEvent, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.openai_chat import ChatDecoder, decode_completion
from tests.fakes.golden import golden


def decoded(*pieces: bytes) -> list[ChatEvent]:
    decoder = ChatDecoder("p")
    events = [event for piece in pieces for event in decoder.feed(piece)]
    if decoder.fault is not None:
        raise decoder.fault
    return events


def sent(*chunks: object, done: bool = True) -> bytes:
    lines = [b"data: " + (c if isinstance(c, bytes) else json.dumps(c).encode()) + b"\n\n" for c in chunks]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def choice(delta: dict | None = None, finish: str | None = None, index: int = 0, **more: object) -> dict:
    return {"choices": [{"index": index, "delta": delta or {}, "finish_reason": finish}], **more}


def payloads(stream: bytes) -> list[bytes]:
    return [line.removeprefix(b"data: ") for line in stream.split(b"\n\n") if line]


def test_a_stream_of_openai():
    stream = golden("openai/chat_stream")
    events = decoded(stream)
    raws = payloads(stream)
    assert events == [
        Delta(raw=raws[0]),
        Delta(text="Grüß", raw=raws[1]),
        Delta(text=" dich.", raw=raws[2]),
        Delta(finish_reason="stop", raw=raws[3]),
        UsageReport(
            usage=Usage(input_tokens=21, cached_input_tokens=16, output_tokens=6, reasoning_tokens=0, source="vendor"), raw=raws[4]
        ),
        ChatEnd(),
    ]


def test_a_tool_call_in_pieces():
    stream = golden("openai/chat_stream_tools")
    events = decoded(stream)
    pieces = [piece for event in events if isinstance(event, Delta) for piece in event.tool_calls]
    assert pieces == [
        ToolCallPiece(index=0, id="call_a", name="weather"),
        ToolCallPiece(index=0, arguments='{"city":'),
        ToolCallPiece(index=0, arguments='"Rome"}'),
        ToolCallPiece(index=1, id="call_b", name="clock", arguments="{}"),
    ]
    assert [e.raw for e in events if isinstance(e, Delta)] == payloads(stream)[:-1]


def test_usage_in_x_groq_is_reported_once_at_the_end():
    events = decoded(golden("openai/chat_stream_groq"))
    assert [e.reasoning for e in events if isinstance(e, Delta) and e.reasoning] == ["Short."]
    assert events[-2:] == [UsageReport(usage=Usage(input_tokens=9, output_tokens=4, source="vendor")), ChatEnd()]
    assert sum(isinstance(e, UsageReport) for e in events) == 1


def test_a_chunk_without_choices_is_not_always_usage():
    stream = golden("openai/chat_stream_azure")
    events = decoded(stream)
    assert events[0] == Delta(raw=payloads(stream)[0])
    assert events[-2:] == [UsageReport(usage=Usage(input_tokens=3, output_tokens=2, source="vendor")), ChatEnd()]


@pytest.mark.parametrize(
    "name", ["chat_stream", "chat_stream_tools", "chat_stream_groq", "chat_stream_azure"]
)
def test_cut_at_every_byte(name):
    stream = golden(f"openai/{name}")
    data = decoded(stream)
    assert decoded(*(stream[i : i + 1] for i in range(len(stream)))) == data
    for at in range(0, len(stream), 7):
        assert decoded(stream[:at], stream[at:]) == data


def test_usage_on_a_chunk_of_its_own_replaces_that_on_choice_chunks():
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    events = decoded(sent(choice({"content": "a"}, "stop", usage={"prompt_tokens": 5}), {"choices": [], "usage": usage}))
    assert [e.usage.output_tokens for e in events if isinstance(e, UsageReport)] == [2]


@pytest.mark.parametrize("usage", ["12", [1], {"prompt_tokens": "x"}])
def test_unreadable_usage_does_not_spoil_an_answer(usage):
    events = decoded(sent(choice({"content": "a"}, "stop", usage=usage), {"choices": [], "usage": usage}))
    assert [type(e) for e in events] == [Delta, ChatEnd]


def test_negative_and_missing_counts_are_zero():
    usage = {"prompt_tokens": -1, "completion_tokens": None, "prompt_tokens_details": None}
    events = decoded(sent(choice({"content": "a"}, "stop"), {"choices": [], "usage": usage}))
    assert isinstance(events[1], UsageReport)
    assert events[1].usage == Usage(source="vendor")


@pytest.mark.parametrize(
    ("payload", "code", "message"),
    [
        ({"error": {"message": "over", "type": "server_error", "code": "overloaded"}}, "overloaded", "over"),
        ({"error": "plain"}, "upstream_error", "plain"),
        ({"choices": [], "x_groq": {"id": "r", "error": "broke"}}, "upstream_error", "broke"),
        ({**choice({"content": "x"}), "error": {"message": "m", "code": 502}}, "502", "m"),
    ],
)
def test_an_error_in_the_stream(payload, code, message):
    decoder = ChatDecoder("p")
    assert decoder.feed(sent(payload, choice({"content": "late"}))) == [StreamError(code=code, message=message)]
    assert decoder.feed(sent(choice({"content": "later"}))) == []
    assert decoder.end() == []


def test_an_error_event_by_its_type():
    stream = b'event: error\ndata: {"message":"over","code":"c"}\n\n'
    assert decoded(stream) == [StreamError(code="c", message="over")]


def test_no_key_in_a_stream_error():
    [event] = decoded(sent({"error": {"message": "bad key sk-abcdefghijklmnop", "code": "x"}}, done=False))
    assert isinstance(event, StreamError)
    assert event.message == "bad key [removed]"


def test_calls_without_an_index_are_counted_by_id_and_built_anew():
    def piece(**call: object) -> dict:
        return choice({"tool_calls": [call]})

    events = decoded(sent(
        piece(id="a", function={"name": "f", "arguments": "{"}),
        piece(function={"arguments": "}"}),
        piece(id="b", function={"name": "g", "arguments": "{}"}),
        piece(id="a", function={"arguments": " "}),
        choice(finish="tool_calls"),
    ))
    deltas = [e for e in events if isinstance(e, Delta)]
    assert [p.index for d in deltas for p in d.tool_calls] == [0, 0, 1, 0]
    assert [d.raw is None for d in deltas] == [True, True, True, True, False]


def test_the_older_form_of_a_call():
    events = decoded(sent(choice({"function_call": {"name": "f", "arguments": "{}"}}, "function_call")))
    assert isinstance(events[0], Delta)
    assert events[0].tool_calls == (ToolCallPiece(index=0, name="f", arguments="{}"),)


def test_several_choices_in_one_chunk_are_sent_on_once():
    payload = {"choices": [
        {"index": 0, "delta": {"content": "a"}, "finish_reason": None},
        {"index": 1, "delta": {"content": "b"}, "finish_reason": None},
    ]}
    events = decoded(sent(payload, done=False))
    assert events == [Delta(text="a", raw=json.dumps(payload).encode()), Delta(text="b", choice=1, raw=b"")]


def test_content_in_parts_other_reasoning_and_unknown_things():
    events = decoded(sent(
        {"type": "ping"},
        b"",
        choice({"content": [{"type": "text", "text": "a"}, {"type": "thinking"}, {"type": "text", "text": "b"}]}),
        choice({"reasoning_content": "hm"}),
        choice({"refusal": "no"}, "stop"),
        done=False,
    ))
    assert [(e.text, e.reasoning, e.refusal) for e in events if isinstance(e, Delta)] == [
        ("ab", "", ""), ("", "hm", ""), ("", "", "no"),
    ]


@pytest.mark.parametrize(
    "payload",
    [
        b"{", b"not json", b"[1]", b'{"choices":3}', b'{"choices":[{"delta":{"content":5}}]}', b"[" * 100_000,
        b'{"choices":[{"delta":{"content":"\xff"}}]}',
    ],
)
def test_malformed_chunks(payload):
    with pytest.raises(UpstreamProtocolError):
        decoded(sent(payload, done=False))


def test_an_endless_event():
    decoder = ChatDecoder("p")
    with pytest.raises(UpstreamProtocolError, match="larger"):
        [decoder.feed(b"x" * 1_000_000) for _ in range(5)]


@pytest.mark.parametrize(
    "stream",
    [sent(), sent(choice({"role": "assistant", "content": ""}), choice(finish="stop")), sent({"choices": []})],
)
def test_an_empty_answer_is_a_failure(stream):
    with pytest.raises(UpstreamProtocolError, match="empty answer"):
        decoded(stream)


def test_a_filtered_answer_may_be_empty():
    assert [type(e) for e in decoded(sent(choice(finish="content_filter")))] == [Delta, ChatEnd]


class TestTheEndOfTheConnection:
    def test_after_the_marker(self):
        decoder = ChatDecoder("p")
        decoder.feed(sent(choice({"content": "a"}, "stop")))
        assert decoder.end() == []

    def test_without_the_marker_after_a_reason_to_stop(self):
        decoder = ChatDecoder("p")
        decoder.feed(sent(choice({"content": "a"}, "stop", usage={"prompt_tokens": 1}), done=False))
        assert decoder.end() == [UsageReport(usage=Usage(input_tokens=1, source="vendor")), ChatEnd()]
        assert decoder.end() == []

    def test_with_a_marker_that_lacks_its_empty_line(self):
        decoder = ChatDecoder("p")
        decoder.feed(sent(choice({"content": "a"}), done=False) + b"data: [DONE]")
        assert decoder.end() == [ChatEnd()]

    def test_in_the_middle(self):
        decoder = ChatDecoder("p")
        decoder.feed(sent(choice({"content": "a"}), done=False) + b'data: {"cho')
        with pytest.raises(UpstreamCut, match="finish_reason"):
            decoder.end()


def test_an_unstreamed_answer():
    body = golden("openai/chat_completion")
    result = decode_completion(body, "p")
    assert result.tool_calls == (ToolCallPiece(index=0, id="call_a", name="weather", arguments='{"city":"Rome"}'),)
    assert result.finish_reason == "tool_calls"
    assert result.usage == Usage(input_tokens=40, cached_input_tokens=32, output_tokens=12, reasoning_tokens=0, source="vendor")
    assert result.raw == body


def data(message: object, finish: str = "stop", **more: object) -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}).encode()


def test_unstreamed_answers_of_other_kinds():
    assert decode_completion(data({"content": "hi"}), "p").text == "hi"
    assert decode_completion(data({"content": "hi"}), "p").usage is None
    assert decode_completion(data({"content": None, "refusal": "no"}), "p").refusal == "no"
    assert decode_completion(data({"content": None, "audio": {"data": "AA"}}), "p").text == ""
    assert decode_completion(data({"content": ""}, "content_filter"), "p").finish_reason == "content_filter"
    called = decode_completion(data({"function_call": {"name": "f", "arguments": "{}"}}, "function_call"), "p")
    assert called.tool_calls == (ToolCallPiece(index=0, name="f", arguments="{}"),)
    groq = decode_completion(data({"content": "a"}, x_groq={"id": "r", "usage": {"prompt_tokens": 2}}), "p")
    assert groq.usage == Usage(input_tokens=2, source="vendor")


@pytest.mark.parametrize("body", [b'{"choices":[]}', b"{}", data({"content": ""}), data(None), data({})])
def test_an_unstreamed_answer_without_content(body):
    with pytest.raises(UpstreamProtocolError, match="empty answer"):
        decode_completion(body, "p")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"choices":[1]}'])
def test_a_malformed_unstreamed_answer(body):
    with pytest.raises(UpstreamProtocolError, match="JSON"):
        decode_completion(body, "p")


def test_an_error_with_status_200():
    with pytest.raises(ProviderFailed) as caught:
        decode_completion(b'{"error":{"message":"over","code":"busy"}}', "p")
    assert (caught.value.upstream_code, caught.value.detail) == ("busy", "an error inside the answer: busy")


def test_an_error_with_status_200_does_not_tell_the_vendors_words():
    with pytest.raises(ProviderFailed) as caught:
        decode_completion(b'{"error":{"message":"Incorrect API key provided: hunter2-internal"}}', "p")
    assert "hunter2" not in str(caught.value)
    assert caught.value.upstream_code == "upstream_error"


def test_thinking_that_used_up_the_limit_is_an_answer_and_is_counted():
    usage = {"prompt_tokens": 10, "completion_tokens": 2_000}
    used = Usage(input_tokens=10, output_tokens=2_000, source="vendor")
    result = decode_completion(data({"content": ""}, "length", usage=usage), "p")
    assert (result.text, result.finish_reason, result.usage) == ("", "length", used)
    _first, last, report, end = decoded(
        sent(choice({"role": "assistant", "content": ""}), choice(finish="length"), {"choices": [], "usage": usage})
    )
    assert isinstance(last, Delta)
    assert last.finish_reason == "length"
    assert isinstance(report, UsageReport)
    assert report.usage == used
    assert end == ChatEnd()


def test_absurd_counts_are_no_usage():
    digits = "9" * 400
    body = b'{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":%s,"completion_tokens":1}}' % digits.encode()
    assert decode_completion(body, "p").usage is None


@pytest.mark.parametrize("usage", [{}, {"queue_time": 1.5}, {"prompt_tokens": None}])
def test_usage_without_counts_is_none(usage):
    assert decode_completion(data({"content": "a"}, usage=usage), "p").usage is None
    events = decoded(sent(choice({"content": "a"}, "stop"), {"choices": [], "usage": usage}))
    assert [type(e) for e in events] == [Delta, ChatEnd]


def test_for_a_caller_of_another_dialect_nothing_is_raw():
    decoder = ChatDecoder("p", keep_raw=False)
    azure = b'data: {"choices":[],"prompt_filter_results":[]}\n\n'
    events = decoder.feed(azure + golden("openai/chat_stream"))
    stored = decoded(golden("openai/chat_stream"))
    assert [getattr(e, "raw", None) for e in events] == [None] * len(stored)
    assert [type(e) for e in events] == [type(e) for e in stored]
    body = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()
    assert decode_completion(body, "p", keep_raw=False).raw is None
