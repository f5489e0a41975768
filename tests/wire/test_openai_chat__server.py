"""Chat requests: members that routing needs, and malformed requests."""

import json
from typing import Any

import pytest

from gw.errors import ClientProtocolError
from gw.wire.openai_chat import parse_request

HI = [{"role": "user", "content": "hi"}]
TOO_DEEP = 1_000_000  # levels: since Python 3.14 the size of the stack decides, and a hundred thousand fit


def parsed(**members: Any):
    return parse_request(json.dumps({"model": "m", "messages": HI, **members}).encode())


def test_a_plain_request():
    request = parse_request(b'{"messages":[{"role":"user","content":"hi"}]}')
    assert (request.model, request.stream, request.include_usage, request.needs) == ("", False, False, frozenset())
    assert request.max_output_tokens is None
    assert request.input_characters == len('[{"role":"user","content":"hi"}]')


def test_members_that_routing_needs():
    request = parsed(
        model="openai/gpt-x", stream=True, stream_options={"include_usage": True}, tools=[{"type": "function"}],
        max_completion_tokens=50, max_tokens=80,
    )
    assert (request.model, request.stream, request.include_usage) == ("openai/gpt-x", True, True)
    assert request.needs == {"tools"}
    assert request.max_output_tokens == 50
    assert parsed(max_tokens=80).max_output_tokens == 80
    assert parsed(max_tokens=10**9).max_output_tokens == 10**9
    assert parsed(max_tokens=-1).max_output_tokens is None
    assert parsed(functions=[{"name": "f"}]).needs == {"tools"}
    assert parsed(stream_options={"include_usage": True}).include_usage is False, "nothing is streamed"


def test_null_is_as_good_as_absent():
    request = parsed(model=None, stream=None, stream_options=None, tools=None, max_tokens=None, functions=[])
    assert (request.model, request.stream, request.needs) == ("", False, frozenset())


def test_pictures_and_sound():
    content = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 10_000}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
    ]
    request = parsed(messages=[{"role": "user", "content": content}])
    assert request.needs == {"vision", "audio_in"}
    assert request.input_characters == len("what is this?"), "base64 is no text"
    assert parsed(messages=[{"role": "user", "content": "image_url"}]).needs == frozenset()
    assert parsed(messages=[{"role": "user", "content": 'say "image_url": 1'}]).needs == frozenset()


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"[]", b"12", b'"x"', b"null", b"{", b"{}x", b"\xff", b"\xef\xbb\xbf{}", b"[" * 100_000,
        b'{"messages":[{"role":"user","content":"hi"}],"temperature":NaN}',
        b'{"messages":[{"role":"user","content":"hi"}],"temperature":-Infinity}',
        b'{"messages":[{"role":"user","content":"\xff\xfe"}]}',
        b'{"messages":[{"role":"user","content":"hi"}],"\xff":1}',
        b'{"messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
        b'{"messages":' + b"[" * TOO_DEEP + b"]" * TOO_DEEP + b"}",
        b'{"messages":[1],"x":' + b'{"a":' * TOO_DEEP + b"1" + b"}" * TOO_DEEP + b"}",
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    ],
)
def test_malformed_requests_are_refused(body):
    with pytest.raises(ClientProtocolError) as caught:
        parse_request(body)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"messages": None}, "messages"), ({"messages": []}, "messages"), ({"messages": {}}, "messages"),
        ({"messages": "hi"}, "messages"), ({"model": 3}, "model"), ({"stream": "true"}, "stream"), ({"stream": 1}, "stream"),
        ({"stream": True, "stream_options": []}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"tools": {}}, "tools"), ({"max_tokens": "9"}, "max_tokens"), ({"max_tokens": 10**9 + 1}, "max_tokens"),
        ({"max_tokens": 10**400}, "max_tokens"), ({"max_completion_tokens": 10**19}, "max_completion_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": 5}]}]}, "messages"),
    ],
)
def test_a_bad_member_is_named(members, param):
    with pytest.raises(ClientProtocolError) as caught:
        parsed(**members)
    assert caught.value.param == param


def test_missing_messages_are_named():
    with pytest.raises(ClientProtocolError, match="required") as caught:
        parse_request(b'{"model":"m"}')
    assert caught.value.param == "messages"
