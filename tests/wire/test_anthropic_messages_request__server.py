"""A caller's Messages request in the common form."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError
from gw.wire import chat_messages
from gw.wire.anthropic_messages_request import parse_request

HI = [{"role": "user", "content": "hi"}]


def parsed(messages=HI, **fields):
    return parse_request(msgspec.json.encode({"model": "m", "max_tokens": 9, "messages": messages, **fields}))


def fields_of(request):
    return {name: msgspec.json.decode(raw) for name, raw in request.fields.items()}


def test_the_least():
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}'
    request = parse_request(body)
    assert fields_of(request) == {"model": "m", "messages": HI, "max_completion_tokens": 9}
    assert (request.dialect, request.native, request.max_output_tokens) == ("anthropic", body, 9)
    assert (request.model, request.stream, request.needs, request.input_characters) == ("m", False, frozenset(), 2)


def test_a_conversation_with_tools():
    request = parsed(
        [
            {"role": "user", "content": [{"type": "text", "text": "weather?", "cache_control": {"type": "ephemeral"}}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "a", "name": "find", "input": {"q": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "sun"}]},
                    {"type": "text", "text": "so?"},
                ],
            },
        ],
        system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}],
        tools=[
            {"name": "find", "description": "d", "input_schema": {"type": "object"}, "strict": True},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        stream=True,
    )
    result = fields_of(request)
    function = {"name": "find", "arguments": '{"q":1}'}
    assert result["messages"] == [
        {"role": "system", "content": "Be\nbrief."},
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": "Looking.", "tool_calls": [{"id": "a", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "content": "sun"},
        {"role": "user", "content": "so?"},
    ]
    tool = {"name": "find", "parameters": {"type": "object"}, "description": "d", "strict": True}
    assert result["tools"] == [{"type": "function", "function": tool}]
    assert (result["tool_choice"], result["parallel_tool_calls"]) == ("required", False)
    assert (request.needs, request.stream, request.include_usage) == ({"tools"}, True, True)
    assert chat_messages.messages(request)[3].tool_call_id == "a"


def test_pictures_and_documents():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}}
    note = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a note"}}
    paper = {"type": "document", "title": "t.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}}
    request = parsed([{"role": "user", "content": [picture, linked, note, paper]}])
    (message,) = fields_of(request)["messages"]
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        {"type": "text", "text": "a note"},
        {"type": "file", "file": {"filename": "t.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
    ]
    assert (request.needs, request.input_characters) == ({"vision"}, 6)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"stop_sequences": ["x"]}, {"stop": ["x"]}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}),
        ({"thinking": {"type": "adaptive"}, "top_k": 4, "service_tier": "auto"}, {}),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True}}},
        ),
        ({"tool_choice": {"type": "auto"}}, {}),
    ],
)
def test_settings(given_, expected):
    assert fields_of(parsed(**given_)) == {**fields_of(parsed()), **expected}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, "auto"), ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ],
)  # fmt: skip
def test_tool_choice(choice, expected):
    assert fields_of(parsed(tools=[{"name": "f"}], tool_choice=choice))["tool_choice"] == expected


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b'{"model":"m","max_tokens":1,"messages":[]}', "messages"),
        (b'{"model":"m","messages":[{"role":"user","content":"x"}]}', "max_tokens"),
        (b'{"model":"m","max_tokens":-1,"messages":[{"role":"user","content":"x"}]}', "max_tokens"),
        (b'{"model":"m","max_tokens":1,"messages":[{"role":"robot","content":"x"}]}', "messages"),
        (b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":7}]}', "messages"),
        (b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","content":7}]}]}', "messages"),
        (b'{"model":7,"max_tokens":1,"messages":[{"role":"user","content":"x"}]}', "model"),
        (b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"\xff"}]}', None),
    ],
)
def test_malformed_requests(body, param):
    with pytest.raises(ClientProtocolError) as caught:
        parse_request(body)
    assert caught.value.param == param


def test_the_beta_header_is_passed_on_unchanged():
    body = msgspec.json.encode({"model": "m", "max_tokens": 9, "messages": HI})
    assert parse_request(body, b"one-2026, two-2026").beta == b"one-2026, two-2026"
    with pytest.raises(ClientProtocolError) as caught:
        parse_request(body, b"one\r\nx-api-key: k")
    assert caught.value.param == "anthropic-beta"


def test_wants_thinking():
    def wants_thinking(thinking):
        request = {"model": "m", "max_tokens": 9, "messages": HI, "thinking": thinking}
        return parse_request(msgspec.json.encode(request)).wants_thinking

    assert wants_thinking({"type": "adaptive"})
    assert not any(map(wants_thinking, ({"type": "disabled"}, {"type": 7}, {}, None, [])))


NAMES = st.sampled_from(["type", "role", "content", "text", "tool_use_id", "input", "source"])
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(ODD)
def test_odd_messages_are_refused_or_understood(value):
    try:
        request = parsed([value] if not isinstance(value, list) else value)
    except ClientProtocolError:
        return
    chat_messages.messages(request)
