"""Answers of Ollama's own API, from golden transcripts, cut at every byte; and as we write them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire import ollama_chat
from gw.wire.ollama_chat import OllamaDecoder, OllamaEncoder, decode_answer
from tests.fakes.golden import golden

STREAM = golden("ollama/chat_stream")
USED = Usage(input_tokens=26, output_tokens=282, source="vendor")


def decoded(*pieces: bytes, keep_raw: bool = False) -> list[ChatEvent]:
    decoder = OllamaDecoder("p", keep_raw=keep_raw)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    if decoder.fault is not None:
        raise decoder.fault
    return events


def line(content: str = "", **more: object) -> bytes:
    return msgspec.json.encode({"message": {"role": "assistant", "content": content}, "done": False, **more}) + b"\n"


def test_thinking_text_and_tools():
    assert decoded(STREAM) == [
        Delta(reasoning="A tool, then."),
        Delta(text="One "),
        Delta(text="moment – ça va."),
        Delta(
            tool_calls=(
                ToolCallPiece(
                    index=0, id="call_20261120100000456789012_0", name="get_weather", arguments='{"city":"Tokyo","days":2}'
                ),
                ToolCallPiece(index=1, id="call_20261120100000456789012_1", name="now", arguments="{}"),
            )
        ),
        Delta(finish_reason="tool_calls"),
        UsageReport(usage=USED),
        ChatEnd(),
    ]


def test_cut_at_every_byte():
    complete = decoded(STREAM)
    for at in range(len(STREAM)):
        assert decoded(STREAM[:at], STREAM[at:]) == complete
    assert decoded(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == complete
    assert decoded(STREAM.replace(b"\n", b"\r\n\r\n")) == complete


def test_raw_is_the_stream_as_it_came():
    events = decoded(STREAM, keep_raw=True)
    assert OllamaEncoder(model="other", created_at="").encode(events) == STREAM


def test_an_error_inside_the_stream():
    events = decoded(golden("ollama/chat_error_stream"), line("late", done=True))
    data = "an error was encountered while running the model: CUDA error"
    assert events == [Delta(text="One "), StreamError(code="upstream_error", message=data)]


@pytest.mark.parametrize(
    ("vendor_value", "own_value"), [("stop", "stop"), ("length", "length"), ("load", "stop"), ("unload", "stop"), (None, "stop")]
)
def test_reasons(vendor_value, own_value):
    assert decoded(line("a"), line(done=True, done_reason=vendor_value))[1] == Delta(finish_reason=own_value)


def test_input_from_the_servers_cache_is_not_counted():
    assert decoded(line("a"), line(done=True, eval_count=3))[1:] == [Delta(finish_reason="stop"), ChatEnd()]


def test_the_last_line_may_lack_its_end():
    decoder = OllamaDecoder("p")
    decoder.feed(line("a") + line(done=True)[:-1])
    assert decoder.end() == [Delta(finish_reason="stop"), ChatEnd()]
    assert decoder.end() == []


@pytest.mark.parametrize("remaining", [b"", line("b"), line(done=True)[:-5]])
def test_a_stream_that_does_not_say_done_is_cut(remaining):
    decoder = OllamaDecoder("p")
    decoder.feed(line("a") + remaining)
    with pytest.raises(UpstreamCut):
        decoder.end()


@pytest.mark.parametrize("stream", [b"{\n", b"[]\n", b'{"message":7}\n', line(done=True), line("\u00f6").replace(b"\xc3", b"\xff")])
def test_malformed(stream):
    with pytest.raises(UpstreamProtocolError):
        decoded(stream)


def test_a_line_without_end():
    decoder = OllamaDecoder("p")
    decoder.feed(b"x" * ollama_chat.MAX_LINE_BYTES)
    with pytest.raises(UpstreamProtocolError):
        decoder.feed(b"x")


def test_an_unstreamed_answer():
    body = golden("ollama/chat")
    result = decode_answer(body, "p", keep_raw=True)
    usage = Usage(input_tokens=26, output_tokens=298, source="vendor")
    assert result == Completion(text="Hello! How are you today?", finish_reason="stop", usage=usage, raw=body)
    assert decode_answer(body, "p").raw is None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", UpstreamProtocolError),
        (b'{"message":{"content":""},"done":true}', UpstreamProtocolError),
        (b'{"error":"model runner has stopped"}', ProviderFailed),
    ],
)
def test_malformed_unstreamed_answers(body, error):
    with pytest.raises(error):
        decode_answer(body, "p")


def encoder():
    return OllamaEncoder(model="m", created_at="2026-11-20T10:00:00Z")


SAID: list[ChatEvent] = [
    Delta(reasoning="hm"),
    Delta(text="Hé"),
    Delta(tool_calls=(ToolCallPiece(index=0, id="c", name="f", arguments='{"a"'),)),
    Delta(tool_calls=(ToolCallPiece(index=0, arguments=":1}"),)),
    Delta(finish_reason="tool_calls"),
    UsageReport(usage=USED),
    ChatEnd(),
]


def test_write_and_read_back():
    writer = encoder()
    stream = b"".join(writer.encode([event]) for event in SAID)
    call = ToolCallPiece(index=0, id="call_20261120100000_0", name="f", arguments='{"a":1}')
    end = [Delta(finish_reason="tool_calls"), UsageReport(usage=USED), ChatEnd()]
    assert decoded(stream) == [Delta(reasoning="hm"), Delta(text="Hé"), Delta(tool_calls=(call,)), *end]
    complete = decode_answer(encoder().answer(SAID), "p")
    assert (complete.text, complete.tool_calls, complete.usage) == ("Hé", (call,), USED)
    last = msgspec.json.decode(stream.splitlines()[-1])
    assert (last["done"], last["done_reason"], last["model"]) == (True, "stop", "m")


def test_unstreamed_answers_and_failures():
    complete = Completion(text="hi", finish_reason="length", usage=USED)
    assert decoded(encoder().encode([complete])) == [Delta(text="hi"), Delta(finish_reason="length"), UsageReport(usage=USED), ChatEnd()]
    assert encoder().answer([Completion(text="", raw=b"{raw}")]) == b"{raw}"
    assert encoder().encode([StreamError(code="c", message="m")]) == b'{"error":"m"}\n'
    assert decode_answer(encoder().answer([Delta(refusal="no"), Delta(text="x", choice=1)]), "p").text == "no"


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_malformed_input_is_a_provider_error_or_nothing(pieces):
    decoder = OllamaDecoder("p", keep_raw=True)
    try:
        for piece in pieces:
            decoder.feed(piece)
        decoder.end()
    except ProviderError:
        pass


@given(at=st.integers(0, len(STREAM) - 1), byte=st.integers(0, 255))
def test_one_wrong_byte(at, byte):
    decoder = OllamaDecoder("p")
    try:
        events = decoder.feed(STREAM[:at] + bytes([byte]) + STREAM[at + 1 :]) + decoder.end()
    except ProviderError:
        return
    assert isinstance(events[-1], (ChatEnd, StreamError))
