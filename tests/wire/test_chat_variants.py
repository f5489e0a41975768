"""Requests as vendors take them that refuse some members of OpenAI's, or call them otherwise."""

from __future__ import annotations

import msgspec
import pytest

from gw.types.chat_variant import ChatVariant
from gw.wire import openai_chat
from gw.wire.chat_variants import settings_of, upstream_body

HI = [{"role": "user", "content": "hi"}]
STRICT = ChatVariant(
    refuses=frozenset({"seed", "user", "n", "tools", "logprobs", "response_format.json_schema", "stop", "service_tier"}),
    renames={"max_completion_tokens": "max_tokens"}, developer_role=False, message_names=False, stream_options=False,
)  # fmt: skip


def parsed(**fields):
    return openai_chat.parse_request(msgspec.json.encode({"model": "m", "messages": HI, **fields}))


def sent(variant=STRICT, **fields):
    return msgspec.json.decode(upstream_body(parsed(**fields), "vendors-name", variant))


@pytest.mark.parametrize(
    ("fields", "needed", "tuning"),
    [
        ({}, (), ()),
        ({"seed": 3, "user": "u", "temperature": 1}, (), ("seed", "user")),
        ({"n": 2}, ("n",), ()),
        ({"n": 1, "logprobs": False, "stop": [], "service_tier": "auto", "seed": None}, (), ()),
        ({"stop": "END", "logprobs": True}, ("stop",), ("logprobs",)),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, ("response_format",), ()),
        ({"response_format": {"type": "json_object"}}, (), ()),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, ("tools",), ()),
        ({"messages": [{**HI[0], "name": "Ann"}]}, (), ("name",)),
        ({"messages": [{"role": "user", "content": 'the word "name"'}]}, (), ()),
    ],
)
def test_settings_that_a_vendor_refuses(fields, needed, tuning):
    assert settings_of(parsed(**fields), STRICT) == (needed, tuning)


def test_a_vendor_that_refuses_nothing_gets_what_openai_gets():
    request = parsed(seed=3, stream=True, tools=[{"type": "function", "function": {"name": "f"}}])
    assert upstream_body(request, "m", ChatVariant()) == openai_chat.upstream_body(request, "m")
    assert settings_of(request, ChatVariant()) == ((), ())


def test_refused_members_are_left_out_and_others_renamed():
    fields = sent(seed=3, n=1, max_completion_tokens=9, temperature=0.5, response_format={"type": "json_object"})
    assert fields == {
        "model": "vendors-name", "messages": HI, "max_tokens": 9, "temperature": 0.5, "response_format": {"type": "json_object"},
    }  # fmt: skip
    assert "response_format" not in sent(response_format={"type": "json_schema", "json_schema": {}})


def test_a_member_under_both_names_is_kept_once():
    assert sent(max_completion_tokens=9, max_tokens=5)["max_tokens"] == 5


def test_roles_and_names_of_messages():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "name": "Ann", "content": 'say "developer"'},
        {"role": "assistant", "tool_calls": [call]},
    ]
    assert sent(messages=messages)["messages"] == [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": 'say "developer"'}, messages[2],
    ]  # fmt: skip
    kept = ChatVariant(refuses=frozenset({"seed"}))
    assert sent(kept, messages=messages)["messages"] == messages


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_a_vendor_without_stream_options_is_not_asked_for_usage(options):
    assert sent(stream=True, **options) == {"model": "vendors-name", "messages": HI, "stream": True}
    asked = sent(ChatVariant(), stream=True, **options)
    assert asked["stream_options"] == {"include_usage": True}
