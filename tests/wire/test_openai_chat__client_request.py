"""Chat requests as an upstream gets them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gw.wire.openai_chat import parse_request, upstream_body

HI = [{"role": "user", "content": "hi"}]


def parsed(**members: Any):
    return parse_request(json.dumps({"model": "m", "messages": HI, **members}).encode())


def test_the_upstream_body_differs_only_where_it_must():
    body = (
        '{"model":"openai/x","messages":[{"role":"user","content":"h\\u00e4 \U0001f600"}],"temperature":0.30,'
        '"vendor_new":{"a":[1,2.50]},"seed":12345678901234567890}'
    )
    sent = upstream_body(parse_request(body.encode()), "x")
    assert sent.decode() == body.replace("openai/x", "x")


def test_usage_is_always_requested_from_a_streaming_upstream():
    sent = json.loads(upstream_body(parsed(stream=True), "x"))
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}
    sent = json.loads(upstream_body(parsed(stream=True, stream_options={"include_usage": False, "include_obfuscation": False}), "x"))
    assert sent["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    sent = json.loads(upstream_body(parsed(stream=True, stream_options=None), "x"))
    assert sent["stream_options"] == {"include_usage": True}
    assert "stream_options" not in json.loads(upstream_body(parsed(), "x"))


def test_a_request_of_another_dialect_can_be_sent_too():
    request = parsed(stream=False)
    request = msgspec.structs.replace(request, stream=True)
    assert json.loads(upstream_body(request, "x"))["stream"] is True
