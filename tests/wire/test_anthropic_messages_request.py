"""OpenAI's request as a Messages request: what each member becomes, and what the vendor would refuse otherwise."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError
from gw.wire import openai_chat
from gw.wire.anthropic_messages_request import DEFAULT_MAX_TOKENS, parse_request, upstream_body

HI = [{"role": "user", "content": "hi"}]


def sent(messages=HI, model="claude-haiku-4-5", **fields):
    body = msgspec.json.encode({"model": "m", "messages": messages, **fields})
    return msgspec.json.decode(upstream_body(openai_chat.parse_request(body), model))


def text(value):
    return {"type": "text", "text": value}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def call(id_, name="find", arguments="{}"):
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_the_least():
    assert sent() == {"model": "claude-haiku-4-5", "max_tokens": DEFAULT_MAX_TOKENS, "messages": [user(text("hi"))]}


def test_system_texts_go_up_and_turns_alternate():
    decoded = sent(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "  "}]},
            {"role": "assistant", "content": "yes"},
            {"role": "developer", "content": "And kind."},
            {"role": "assistant", "content": None},
            {"role": "user", "content": "three"},
        ]
    )
    assert decoded["system"] == [text("Be brief."), text("And kind.")]
    assert decoded["messages"] == [user(text("one"), text("two")), assistant(text("yes")), user(text("three"))]


@pytest.mark.parametrize("messages", [[{"role": "system", "content": "Greet."}], [{"role": "user", "content": " "}]])
def test_a_conversation_begins_with_the_user(messages):
    assert sent(messages)["messages"] == [user(text("(start)"))]
    after = sent([*messages, {"role": "assistant", "content": "Hello!"}, *HI])["messages"]
    assert after == [user(text("(start)")), assistant(text("Hello!")), user(text("hi"))]


def test_a_begun_answer_is_continued_where_the_model_takes_that():
    started = [*HI, {"role": "assistant", "content": "The answer is  "}]
    assert sent(started)["messages"][-1] == assistant(text("The answer is"))
    assert sent(started, model="claude-sonnet-4-6")["messages"][-1] == user(text("(continue)"))
    assert sent(started, model="claude-haiku-5-5")["messages"][-1] == user(text("(continue)"))


def test_tools_and_their_results():
    decoded = sent(
        [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [call("a", arguments='{"q":1}'), call("b", arguments="oops")]},
            {"role": "tool", "tool_call_id": "b", "content": "rain"},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "sun"}]},
            {"role": "user", "content": "so?"},
        ]
    )
    assert decoded["messages"] == [
        user(text("weather?")),
        assistant(
            text("Let me look."),
            {"type": "tool_use", "id": "a", "name": "find", "input": {"q": 1}},
            {"type": "tool_use", "id": "b", "name": "find", "input": {"arguments": "oops"}},
        ),
        user(
            {"type": "tool_result", "tool_use_id": "a", "content": "sun"},
            {"type": "tool_result", "tool_use_id": "b", "content": "rain"},
            text("so?"),
        ),
    ]


def test_calls_without_results_and_results_without_calls():
    unanswered = sent([*HI, {"role": "assistant", "tool_calls": [call("a")]}, {"role": "user", "content": "never mind"}])
    result = {"type": "tool_result", "tool_use_id": "a", "content": "(no result)", "is_error": True}
    assert unanswered["messages"][-1] == user(result, text("never mind"))
    last = sent([*HI, {"role": "assistant", "tool_calls": [call("a")]}])
    assert last["messages"][-1] == user(result)
    orphan = sent([{"role": "tool", "tool_call_id": "x", "content": "42"}, *HI])
    assert orphan["messages"] == [user(text("(result of a tool) 42"), text("hi"))]


def test_pictures():
    parts = [
        {"type": "text", "text": "what?"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/AA"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
    ]
    (turn,) = sent([{"role": "user", "content": parts}])["messages"]
    assert turn["content"][1:] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/AA"}},
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png,abc"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ],
)
def test_requests_this_dialect_cannot_express(part):
    with pytest.raises(ClientProtocolError):
        sent([{"role": "user", "content": [part]}])


FUNCTION = {"name": "f", "description": "d", "parameters": {"properties": {"a": {"type": "string"}}}, "strict": True}
TOOL = {"type": "function", "function": FUNCTION}


def test_tools_as_schemas():
    assert sent(tools=[TOOL, {"type": "function", "function": {"name": "g"}}])["tools"] == [
        {
            "name": "f",
            "description": "d",
            "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}},
            "strict": True,
        },
        {"name": "g", "input_schema": {"type": "object", "properties": {}}},
    ]
    assert sent(functions=[{"name": "old"}])["tools"] == [{"name": "old", "input_schema": {"type": "object", "properties": {}}}]


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, {"type": "tool", "name": "f"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({"parallel_tool_calls": False, "tool_choice": "required"}, {"type": "any", "disable_parallel_tool_use": True}),
        ({"parallel_tool_calls": False, "tool_choice": "none"}, {"type": "none"}),
    ],
)
def test_tool_choice(fields, choice):
    assert sent(tools=[TOOL], **fields).get("tool_choice") == choice
    assert "tool_choice" not in sent(**fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_completion_tokens": 6, "max_tokens": 5}, {"max_tokens": 6}),
        ({"stream": True}, {"stream": True}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"stop": ["a", "\n"]}, {"stop_sequences": ["a"]}),
        ({"stop": "\n"}, {}),
        ({"temperature": 1.7}, {"temperature": 1.0}),
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"user": "u"}, {"metadata": {"user_id": "u"}}),
        ({"safety_identifier": "s", "user": "u"}, {"metadata": {"user_id": "s"}}),
        ({"reasoning_effort": "minimal"}, {"output_config": {"effort": "low"}}),
        ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"thinking": {"type": "adaptive"}, "top_k": 3}, {"thinking": {"type": "adaptive"}, "top_k": 3}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"system": [text("Answer with one JSON object and nothing else.")]}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}},
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        ),
        ({"frequency_penalty": 1, "n": 1, "seed": 3, "logprobs": True, "store": False}, {}),
    ],
)
def test_settings(fields, expected):
    assert sent(**fields) == {**sent(), **expected}


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("claude-haiku-4-5-20251001", True), ("claude-sonnet-4-20250514", True), ("claude-opus-4-6", True),
        ("claude-opus-4-7", False), ("claude-sonnet-5", False), ("claude-sonnet-5-5", False), ("some-alias", True),
    ],
)  # fmt: skip
def test_newer_models_take_no_sampling(model, takes):
    assert ("temperature" in sent(model=model, temperature=0.5)) is takes


def test_a_callers_own_request_goes_on_untouched():
    body = b'{"model":"mine","max_tokens":7,"messages":[{"role":"user","content":"hi"}],"thinking":{"type":"adaptive"},"x":1.0}'
    assert upstream_body(parse_request(body), "claude-x") == body.replace(b'"mine"', b'"claude-x"')


messages = st.lists(
    st.one_of(
        st.builds(lambda r, t: {"role": r, "content": t}, st.sampled_from(["user", "assistant", "system"]), st.text(max_size=4)),
        st.builds(lambda i: {"role": "assistant", "tool_calls": [call(i)]}, st.sampled_from("abc")),
        st.builds(lambda i: {"role": "tool", "tool_call_id": i, "content": "r"}, st.sampled_from("abc")),
    ),
    min_size=1,
    max_size=10,
)


@given(messages)
def test_every_conversation_keeps_the_vendors_rules(conversation):
    turns = sent(conversation, model="claude-sonnet-5-5")["messages"]
    assert [turn["role"] for turn in turns] == ["user" if i % 2 == 0 else "assistant" for i in range(len(turns))]
    assert turns[-1]["role"] == "user"
    requested: list[str] = []
    for turn in turns:
        assert turn["content"]
        assert all(block["text"].strip() for block in turn["content"] if block["type"] == "text")
        answered = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        assert answered == requested
        requested = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
    assert requested == []
