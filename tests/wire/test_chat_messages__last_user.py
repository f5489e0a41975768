from __future__ import annotations

import json

import msgspec
import pytest

from gw.types.llm import ChatRequest
from gw.wire.chat_messages import MAX_TRIED, last_user

SYSTEM = {"role": "system", "content": "Be brief."}
TOOL = [{"role": "assistant", "tool_calls": [{"id": "1"}]}, {"role": "tool", "tool_call_id": "1", "content": "18 degrees"}]


def request(messages):
    return ChatRequest(model="m", fields={"messages": msgspec.Raw(json.dumps(messages).encode())})


def user(content):
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([user("hello")], "hello"),
        ([SYSTEM, user("one"), {"role": "assistant", "content": "two"}, user("three")], "three"),
        ([user([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "b"}])], "a\nb"),
        ([SYSTEM, user("weather"), *TOOL], "weather"),
        ([user(None)], ""),
    ],
)
def test_the_last_user_message(messages, text):
    result = last_user(request(messages))
    assert result is not None
    assert result.text == text


@pytest.mark.parametrize(
    "messages",
    [[], [SYSTEM], "no list", [1], [{"role": "user", "content": 3}], [user("early"), *[SYSTEM] * MAX_TRIED]],
)
def test_no_user_message(messages):
    assert last_user(request(messages)) is None
    assert last_user(ChatRequest(model="m", fields={})) is None


def test_the_mark_is_that_of_the_messages_before():
    """A tool's answer comes after the user's message; another conversation has said something else before it."""
    first, again = last_user(request([SYSTEM, user("x")])), last_user(request([SYSTEM, user("x"), *TOOL]))
    other = last_user(request([SYSTEM, user("y"), {"role": "assistant", "content": "z"}, user("x")]))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.context == again.context != other.context
