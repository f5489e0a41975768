"""Requests of Ollama's own API, both roles."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import ClientProtocolError
from gw.wire import chat_messages, openai_chat
from gw.wire.ollama_chat import parse_request, upstream_body

HI = [{"role": "user", "content": "hi"}]


def sent(messages=HI, settings=None, **fields):
    body = msgspec.json.encode({"model": "m", "messages": messages, **fields})
    return msgspec.json.decode(upstream_body(openai_chat.parse_request(body), "llama3.2", settings or {}))


def test_the_least():
    assert sent() == {"model": "llama3.2", "messages": HI, "stream": False}


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"stream": True}, {"stream": True}),
        ({"tools": [TOOL]}, {"tools": [TOOL]}),
        ({"tools": [TOOL], "tool_choice": "none"}, {}),
        ({"max_tokens": 5}, {"options": {"num_predict": 5}}),
        ({"temperature": 0.5, "top_p": 0.9, "seed": 3}, {"options": {"temperature": 0.5, "top_p": 0.9, "seed": 3}}),
        ({"temperature": None, "frequency_penalty": 1}, {"options": {"frequency_penalty": 1}}),
        ({"stop": "END"}, {"options": {"stop": ["END"]}}),
        ({"stop": ["a", "b"]}, {"options": {"stop": ["a", "b"]}}),
        ({"response_format": {"type": "json_object"}}, {"format": "json"}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}}}}, {"format": {"a": 1}}),
        ({"response_format": {"type": "text"}}, {}),
        ({"reasoning_effort": "none"}, {"think": False}),
        ({"reasoning_effort": "minimal"}, {"think": "low"}),
        ({"options": {"num_ctx": 99}, "keep_alive": "1h", "think": True}, {"options": {"num_ctx": 99}, "keep_alive": "1h", "think": True}),
        ({"n": 1, "user": "u", "stream_options": {}}, {}),
    ],
)
def test_settings(fields, expected):
    assert sent(**fields) == {**sent(), **expected}


def test_settings_of_the_entry_stand_behind_the_callers():
    settings = {"num_ctx": 8_192, "keep_alive": "10m", "think": False, "api": "native"}
    result = sent(settings=settings)
    assert (result["options"], result["keep_alive"], result["think"]) == ({"num_ctx": 8_192}, "10m", False)
    result = sent(settings=settings, options={"num_ctx": 5}, keep_alive=0, reasoning_effort="high", max_tokens=2)
    assert (result["options"], result["keep_alive"], result["think"]) == ({"num_ctx": 5, "num_predict": 2}, 0, "high")


def test_a_conversation():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]
    result = sent(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "what"}, image, {"type": "text", "text": "is it?"}]},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        ]
    )
    assert result["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "what\nis it?", "images": ["AAAA"]},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "content": "a cat", "tool_name": "f"},
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]}]},
        {"options": 7},
        {"tools": [7]},
    ],
)
def test_requests_this_dialect_cannot_express(fields):
    with pytest.raises(ClientProtocolError):
        sent(**fields)


def test_a_callers_own_request_goes_on():
    body = b'{"model":"mine","messages":[],"options":{"seed":1},"logprobs":true}'
    assert upstream_body(parse_request(body), "llama", {}) == body.replace(b"mine", b"llama")
    result = msgspec.json.decode(upstream_body(parse_request(body), "llama", {"num_ctx": 7, "keep_alive": "1h"}))
    assert result == {"model": "llama", "messages": [], "options": {"num_ctx": 7, "seed": 1}, "logprobs": True, "keep_alive": "1h"}
    data = b'{"model":"mine","messages":[],"options":{"num_ctx":1},"keep_alive":5}'
    result = msgspec.json.decode(upstream_body(parse_request(data), "llama", {"num_ctx": 7, "keep_alive": "1h"}))
    assert (result["options"], result["keep_alive"]) == ({"num_ctx": 1}, 5)


def fields_of(request):
    return {name: msgspec.json.decode(raw) for name, raw in request.fields.items()}


def test_a_callers_request_in_common_terms():
    calls = [{"function": {"name": "f", "arguments": {"a": 1}}}, {"function": {"name": "g", "arguments": {}}}]
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "look", "images": ["/9j/AA"]},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "content": "two", "tool_name": "g"},
            {"role": "tool", "content": "one"},
        ],
        "tools": [TOOL],
        "format": {"type": "object"},
        "options": {"num_predict": 8, "temperature": 0.1, "stop": ["x"], "num_ctx": 5},
    }
    request = parse_request(msgspec.json.encode(body))
    result = fields_of(request)
    look, requested, two, one = result.pop("messages")
    assert look["content"][1]["image_url"]["url"] == "data:image/jpeg;base64,/9j/AA"
    assert [call["function"]["arguments"] for call in requested["tool_calls"]] == ['{"a":1}', "{}"]
    first, second = (call["id"] for call in requested["tool_calls"])
    assert (two["tool_call_id"], one["tool_call_id"]) == (second, first)
    assert result == {
        "model": "m",
        "stream": True,
        "tools": [TOOL],
        "temperature": 0.1,
        "stop": ["x"],
        "max_completion_tokens": 8,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
    }
    assert (request.needs, request.dialect, request.max_output_tokens) == ({"vision", "tools"}, "ollama", 8)
    assert request.stream
    assert chat_messages.messages(request)[0].images == ("data:image/jpeg;base64,/9j/AA",)


def test_a_stream_is_the_default_and_minus_one_no_limit():
    request = parse_request(b'{"model":"m","messages":[],"stream":false,"format":"json","options":{"num_predict":-1}}')
    assert (request.stream, request.include_usage, request.max_output_tokens) == (False, False, None)
    assert fields_of(request)["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"messages":7}', b'{"messages":[{"role":7}]}', b'{"model":"\xff"}'])
def test_malformed_requests(body):
    with pytest.raises(ClientProtocolError):
        parse_request(body)
