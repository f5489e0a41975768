"""Answers put together, and arguments of tool calls as objects."""

import pytest

from gw.wire.chat_answer import arguments_object


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ("", {}), ("  ", {}), ("{}", {}), ('{"a":[1]}', {"a": [1]}), ("[1]", {"arguments": "[1]"}),
        ('{"a":', {"arguments": '{"a":'}), ("[" * 9_000, {"arguments": "[" * 9_000}),
    ],
)  # fmt: skip
def test_arguments_object(arguments, result):
    assert arguments_object(arguments) == result
