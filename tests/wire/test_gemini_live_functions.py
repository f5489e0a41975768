"""Functions as declarations: JSON Schema where the model takes it, else Google's own subset, and the names of what was left out."""

from __future__ import annotations

import pytest

from gw.wire.gemini_live_functions import declarations, version_of

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False, "required": ["city"],
    "properties": {
        "city": {"type": "string", "description": "Its name.", "examples": ["Paris"]},
        "unit": {"anyOf": [{"$ref": "#/$defs/Unit"}, {"type": "null"}]},
        "days": {"type": "array", "items": {"type": ["integer", "string"]}},
        "kind": {"const": "forecast"},
    },
    "$defs": {"Unit": {"type": "string", "enum": ["C", "F"]}},
}  # fmt: skip
TOOL = {"type": "function", "name": "weather", "description": "Says it.", "parameters": SCHEMA}


@pytest.mark.parametrize(
    ("model", "version"),
    [("gemini-3.8-live", (3, 8)), ("gemini-2.5-flash-native-audio-latest", (2, 5)), ("gemini-live", (99, 0))],
)
def test_the_version_in_a_name(model, version):
    assert version_of(model) == version


@pytest.mark.parametrize(
    ("model", "behavior"),
    [("gemini-3.8-live", "BLOCKING"), ("gemini-3.1-flash-live-preview", None), ("gemini-3.8-live-extended-thinking", None)],
)
def test_a_newer_model_takes_the_schema_as_it_is(model, behavior):
    (declared,), left_out = declarations([TOOL], model)
    assert (declared["parametersJsonSchema"], declared.get("behavior"), left_out) == (SCHEMA, behavior, [])


def test_an_older_model_takes_googles_subset():
    (declared,), left_out = declarations([TOOL], "gemini-2.5-flash-native-audio-latest")
    assert declared == {
        "name": "weather", "description": "Says it.",
        "parameters": {
            "type": "OBJECT", "required": ["city"],
            "properties": {
                "city": {"type": "STRING", "description": "Its name."},
                "unit": {"type": "STRING", "enum": ["C", "F"], "nullable": True},
                "days": {"type": "ARRAY", "items": {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]}},
                "kind": {"enum": ["forecast"]},
            },
        },
    }  # fmt: skip
    assert left_out == ["additionalProperties", "examples"]


def test_a_schema_without_an_end():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "$defs": {}}
    node["$defs"]["Node"] = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    _, left_out = declarations([{"name": "f", "parameters": node}], "gemini-2.5-flash-live")
    assert left_out == ["$ref"]


def test_a_function_without_parameters():
    assert declarations([{"name": "f", "parameters": {"type": "object", "properties": {}}}], "gemini-2.5-x") == ([{"name": "f"}], [])
