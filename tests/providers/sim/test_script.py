import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.providers.sim.script import ToolReply, count_tokens, scripted, tokens, tool_pieces
from gw.wire.chat_messages import ChatMessage


@given(st.text())
def test_tokens_join_to_the_text(text):
    assert "".join(tokens(text)) == text
    assert sum(map(count_tokens, tokens(text))) == count_tokens(text)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("  ", 0), ("a", 1), ("four", 1), ("fives", 2), ("ab cd", 2)])
def test_a_token_is_four_characters_of_a_word(text, count):
    assert count_tokens(text) == count


def arguments(schema):
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    fields = {"tools": msgspec.Raw(msgspec.json.encode([tool]))}
    reply = scripted([ChatMessage(role="user", text="said")], fields, {})
    assert isinstance(reply, ToolReply)
    return msgspec.json.decode(reply.arguments)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "said"),
        ({"type": "string", "enum": ["x", "y"]}, "x"),
        ({"type": "number"}, 1),
        ({"type": "integer"}, 1),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["integer", "null"]}, 1),
        ({"const": 3}, 3),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, True),
        ({"type": "array", "items": {"type": "string"}}, ["said"]),
        ({"type": "array"}, []),
        ({"type": "object", "properties": {"b": {"type": "integer"}}}, {"b": 1}),
        ({}, "said"),
        (True, None),
    ],
)
def test_arguments_fit_their_schema(schema, value):
    assert arguments({"type": "object", "properties": {"a": schema}}) == {"a": value}


def test_a_tool_without_parameters_gets_none():
    assert arguments(None) == {}


def test_a_deep_schema_is_followed_so_far():
    schema = {"type": "string"}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    value, depth = arguments(schema), 0
    while value:
        value, depth = value["a"], depth + 1
    assert depth < 10


@given(st.text())
def test_tool_pieces_join_to_the_arguments(text):
    first, *remainder = tool_pieces(ToolReply("f", text), "call_1")
    assert (first.id, first.name, first.arguments) == ("call_1", "f", "")
    assert "".join(piece.arguments for piece in remainder) == text
