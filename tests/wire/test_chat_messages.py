"""Conversations in OpenAI's form, typed."""

from __future__ import annotations

import json

import pytest

from gw.errors import ClientProtocolError
from gw.types.llm import ToolCallPiece
from gw.wire.chat_messages import ChatMessage, InputAudio, decode_messages


def test_messages_typed():
    conversation = [
        {"role": "system", "content": "Be short."},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "one"}, {"type": "text", "text": "two"},
                {"type": "image_url", "image_url": {"url": "https://e/x.png", "detail": "low"}},
                {"type": "image_url", "image_url": "https://e/y.png"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
                {"type": "new_kind", "what": 1},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "c2", "type": "custom"},
        ]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    assert decode_messages(json.dumps(conversation).encode()) == [
        ChatMessage(role="system", text="Be short."),
        ChatMessage(
            role="user", text="one\ntwo", name="ann", images=("https://e/x.png", "https://e/y.png"),
            audio=(InputAudio(data="AAAA", format="mp3"),),
        ),
        ChatMessage(role="assistant", tool_calls=(ToolCallPiece(index=0, id="c1", name="f", arguments="{}"),)),
        ChatMessage(role="assistant", text="no"),
        ChatMessage(role="tool", tool_call_id="c1", text="42"),
    ]


@pytest.mark.parametrize("message", [1, {}, {"role": 1}, {"role": "user", "content": 3}])
def test_a_malformed_message(message):
    with pytest.raises(ClientProtocolError, match="message"):
        decode_messages(json.dumps([message]).encode())
