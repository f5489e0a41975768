"""Arguments of tool calls as objects."""

import pytest

from gw.wire.tool_arguments import object_of


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", {}), ("  ", {}), ("{}", {}), ('{"a":[1]}', {"a": [1]}), ("[1]", {"arguments": "[1]"}),
        ('{"a":', {"arguments": '{"a":'}), ("[" * 9_000, {"arguments": "[" * 9_000}),
    ],
)  # fmt: skip
def test_object_of(arguments, found):
    assert object_of(arguments) == found
