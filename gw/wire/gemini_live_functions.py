"""Functions of OpenAI's realtime API as declarations of Gemini Live.

Sources, November 2026: google-genai 3.6.1, `types.py` (`FunctionDeclaration`, `Schema`); googleapis/python-genai#1147 (up to Gemini 2.5,
the Live models ignore `parametersJsonSchema`); livekit/agents#7302 (from 3.1 on they take it, and `additionalProperties` in `parameters`
is refused); pipecat-ai 1.14.0, `gemini_live/llm.py` (from 3.8 on, a model goes on talking while a function runs unless its declaration
says `BLOCKING`, which thinking models refuse).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gw.wire.openai_realtime_settings import Members

_VERSION = re.compile(r"(\d+)\.(\d+)")
_SCHEMA = frozenset({
    "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "required", "minProperties", "maxProperties", "minLength",
    "maxLength", "pattern", "example", "propertyOrdering", "default", "minimum", "maximum",
})  # fmt: skip
"""Members of a `Schema` that are those of JSON Schema."""
_DEEPEST = 16  # levels of a schema; a recursive one has no end


def version_of(model: str) -> tuple[int, int]:
    """Return the version in a model's name; (99, 0) without one: the newest is meant."""
    version = _VERSION.search(model)
    return (int(version[1]), int(version[2])) if version is not None else (99, 0)


def declarations(tools: Sequence[Members], model: str) -> tuple[list[Members], list[str]]:
    """Return the declarations of functions, and the keywords of their schemas that the model cannot take."""
    version, left_out = version_of(model), dict[str, None]()
    made = []
    for tool in tools:
        declared: Members = {"name": tool["name"]}
        if tool.get("description"):
            declared["description"] = tool["description"]
        parameters = tool.get("parameters")
        if isinstance(parameters, dict) and parameters.get("properties"):
            if version >= (3, 0):
                declared["parametersJsonSchema"] = parameters
            else:
                definitions = parameters.get("$defs") or parameters.get("definitions") or {}
                declared["parameters"] = _schema(parameters, definitions, left_out, 0)
        if version >= (3, 8) and "thinking" not in model:
            declared["behavior"] = "BLOCKING"
        made.append(declared)
    return made, list(left_out)


def _schema(schema: Mapping[str, Any], definitions: Mapping[str, Any], left_out: dict[str, None], depth: int) -> Members:
    if depth > _DEEPEST:
        left_out["$ref"] = None
        return {"type": "OBJECT"}
    if isinstance(named := schema.get("$ref"), str):
        schema = {**definitions.get(named.rpartition("/")[2], {}), **{name: value for name, value in schema.items() if name != "$ref"}}

    def inner(value: Any) -> Members:
        return _schema(value, definitions, left_out, depth + 1) if isinstance(value, dict) else {}

    made: Members = {}
    for name, value in schema.items():
        match name:
            case "type":
                kinds = [value] if isinstance(value, str) else [kind for kind in value if kind != "null"]
                made |= {"type": kinds[0].upper()} if len(kinds) == 1 else {"anyOf": [{"type": kind.upper()} for kind in kinds]}
                if not isinstance(value, str) and "null" in value:
                    made["nullable"] = True
            case "properties":
                made[name] = {key: inner(member) for key, member in value.items()}
            case "items":
                made[name] = inner(value)
            case "anyOf" | "oneOf":
                kinds = [each for each in value if each.get("type") != "null"]
                made |= inner(kinds[0]) if len(kinds) == 1 else {"anyOf": [inner(each) for each in kinds]}
                if len(kinds) < len(value):
                    made["nullable"] = True
            case "const":
                made["enum"] = [str(value)]
            case "$defs" | "definitions" | "$schema":
                pass
            case _ if name in _SCHEMA:
                made[name] = value
            case _:
                left_out[name] = None
    return made
