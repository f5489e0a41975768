"""Answers put together, and arguments of tool calls as objects."""

import pytest

from gw.types.llm import Completion, Delta, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.chat_answer import CollectedAnswer, arguments_object, with_raw


def test_an_answer_is_put_together_from_its_pieces():
    pieces = [
        Delta(text="a", tool_calls=(ToolCallPiece(index=1, id="c1", name="f", arguments='{"x"'),)),
        Delta(text="b", reasoning="why", tool_calls=(ToolCallPiece(index=0, id="c0", name="g"),)),
        Delta(tool_calls=(ToolCallPiece(index=1, arguments=":1}"),)),
        UsageReport(usage=Usage(input_tokens=3)),
    ]
    answer = CollectedAnswer(pieces)
    choice = answer.first
    assert (choice.text, choice.reasoning, choice.refusal, choice.finish_reason) == ("ab", "why", "", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in choice.tool_calls] == [("c0", "g", ""), ("c1", "f", '{"x":1}')]
    assert answer.usage == Usage(input_tokens=3)


def test_an_unstreamed_answer_is_its_own_body():
    assert CollectedAnswer([Completion(text="a", raw=b"{}")]).raw == b"{}"
    assert CollectedAnswer([Completion(text="a")]).first.text == "a"
    assert CollectedAnswer([]).first.finish_reason == "stop"


def test_the_first_event_of_a_piece_carries_its_bytes():
    assert with_raw([], b"x") == [Delta(raw=b"x")]
    assert with_raw([Delta(text="a"), Delta(text="b")], b"x") == [Delta(text="a", raw=b"x"), Delta(text="b", raw=b"")]


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ("", {}), ("  ", {}), ("{}", {}), ('{"a":[1]}', {"a": [1]}), ("[1]", {"arguments": "[1]"}),
        ('{"a":', {"arguments": '{"a":'}), ("[" * 9_000, {"arguments": "[" * 9_000}),
    ],
)  # fmt: skip
def test_arguments_object(arguments, result):
    assert arguments_object(arguments) == result
