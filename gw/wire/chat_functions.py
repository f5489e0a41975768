"""OpenAI's form of tools before `tools`: `functions`, `function_call`, and messages of the role `function`.

Upstreams of OpenAI's dialect get it as it came. For the others it becomes tools, and their answers become it again: one call
at most, since the older form has no place for more.

Source: openai-python 3.52.0, `types/chat/completion_create_params.py` and `chat_completion_function_message_param.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gw.types.llm import ToolCallPiece
from gw.wire.json_codec import decode_client

_LIST: msgspec.json.Decoder[Sequence[dict[str, Any]]] = msgspec.json.Decoder(list[dict[str, Any]])
_CHOICE = msgspec.json.Decoder(str | dict[str, Any] | None)
_NULL = b"null"
FINISH = "function_call"


def is_older(fields: Mapping[str, msgspec.Raw]) -> bool:
    """Return whether a request offers functions in the older form, so that its answer must have it, too."""
    return "functions" in fields and bytes(fields["functions"]) != _NULL and "tools" not in fields


def as_tools(fields: Mapping[str, msgspec.Raw]) -> Mapping[str, msgspec.Raw]:
    """Return the members of a request, in the newer form. Raises ClientProtocolError."""
    if "functions" not in fields and b'"function_call"' not in bytes(fields.get("messages", b"")):
        return fields
    newer: dict[str, Any] = {name: raw for name, raw in fields.items() if name not in ("functions", "function_call")}
    if is_older(fields):
        functions = decode_client(_LIST, fields["functions"], "'functions' must be a list of functions", "functions")
        newer |= {"tools": [{"type": "function", "function": function} for function in functions], "parallel_tool_calls": False}
        if (raw := fields.get("function_call")) is not None:
            choice = decode_client(_CHOICE, raw, "'function_call' must be none, auto or the name of a function", "function_call")
            newer["tool_choice"] = {"type": "function", "function": choice} if isinstance(choice, dict) else choice
    if (raw := fields.get("messages")) is not None:
        newer["messages"] = _messages(decode_client(_LIST, raw, "'messages' must be a list of messages", "messages"))
    return {name: value if isinstance(value, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(value)) for name, value in newer.items()}


def _messages(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with a tool call in place of each `function_call`. The next result of that function belongs to it."""
    newer: list[dict[str, Any]] = []
    ids: dict[object, str] = {}
    for message in messages:
        call, name = message.get("function_call"), message.get("name")
        if isinstance(call, dict) and not message.get("tool_calls"):
            id_ = ids[call.get("name")] = f"call_{len(newer)}"
            message = {**message, "tool_calls": [{"id": id_, "type": "function", "function": call}]}
        elif message.get("role") == "function" and name in ids:
            message = {**message, "role": "tool", "tool_call_id": ids[name]}
        newer.append({name: value for name, value in message.items() if name != "function_call"})
    return newer


def call_of(pieces: Sequence[ToolCallPiece]) -> dict[str, str]:
    """Return the first call of an answer, or pieces of it, in the older form; nothing for pieces of other calls."""
    first = [piece for piece in pieces if piece.index == 0]
    if not first:
        return {}
    name = "".join(piece.name for piece in first)
    return {**({"name": name} if name else {}), "arguments": "".join(piece.arguments for piece in first)}
