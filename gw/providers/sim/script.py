"""The replies of the `sim` language models. No I/O.

Messages and tools are read from OpenAI's fields; other members are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from gw.types.llm import ChatRequest, ToolCallPiece
from gw.wire import chat_messages
from gw.wire.chat_messages import ChatMessage
from gw.wire.json_codec import BAD_JSON

_BUILT_IN: Mapping[str, str] = {
    "weather": "It is sunny in Paris.",
    "cancel": "I have cancelled your booking. Is there anything else I can do for you?",
    "book": "Gladly. For how many people, and at what time?",
    "table": "Gladly. For how many people, and at what time?",
    "people": "You are booked. We look forward to seeing you.",
    "opening hours": "We are open every day from nine in the morning until ten at night.",
    "open": "We are open every day from nine in the morning until ten at night.",
    "close": "We are open every day from nine in the morning until ten at night.",
    "address": "You find us at twelve Harbour Street, next to the station.",
    "where": "You find us at twelve Harbour Street, next to the station.",
    "menu": "Today we have tomato soup, grilled fish and an apple tart.",
    "price": "The menu of the day is eighteen euros.",
    "how much": "The menu of the day is eighteen euros.",
    "human": "I am putting you through to a colleague. One moment, please.",
    "your name": "I am the assistant of this gateway's demo.",
    "who are you": "I am the assistant of this gateway's demo.",
    "how are you": "Very well, thank you. What can I do for you?",
    "time": "It is half past nine.",
    "joke": "I would tell you a joke about UDP, but you might not get it.",
    "thank": "You are welcome.",
    "goodbye": "Goodbye, and have a nice day.",
    "bye": "Goodbye, and have a nice day.",
    "hello": "Hello! How can I help you?",
}
"""A small restaurant's answers: part of what was said → the reply. The first one that fits counts."""
_DEFAULT = "I can tell you our opening hours, book a table, or read you the menu. What would you like?"
_DEPTH = 8  # levels of a tool's schema that are followed
_TOKEN = re.compile(r"\s*\S+|\s+")
_FRAGMENT = 16  # characters of one streamed piece of a tool call's arguments
_T = TypeVar("_T")


class _Function(msgspec.Struct):
    name: str
    parameters: dict[str, object] | None = None


class _Tool(msgspec.Struct):
    function: _Function | None = None


class _NamedFunction(msgspec.Struct):
    name: str = ""


class _Choice(msgspec.Struct):
    function: _NamedFunction | None = None


class TextReply(msgspec.Struct, frozen=True):
    text: str


class Refusal(msgspec.Struct, frozen=True):
    text: str


class ToolReply(msgspec.Struct, frozen=True):
    """`arguments` is JSON text."""

    name: str
    arguments: str


Reply: TypeAlias = TextReply | Refusal | ToolReply

_tools = msgspec.json.Decoder(list[_Tool] | None)
_choice = msgspec.json.Decoder(str | _Choice | None)
_functions = msgspec.json.Decoder(list[_Function] | None)
_named = msgspec.json.Decoder(str | _NamedFunction | None)


def read_messages(request: ChatRequest) -> list[ChatMessage]:
    """Raises ValueError when the messages are missing or not of OpenAI's shape."""
    if "messages" not in request.fields:
        raise ValueError("messages is missing")
    return chat_messages.messages(request)


def echo(messages: Sequence[ChatMessage]) -> TextReply:
    """Reply with the last message of the user."""
    return TextReply(_last_user(messages))


def scripted(messages: Sequence[ChatMessage], fields: Mapping[str, msgspec.Raw], replies: Mapping[str, str]) -> Reply:
    """Reply with a tool call if the user spoke last and tools are offered, with a tool's answer, or with a scripted line.

    `replies` come before the built-in ones; a key matches anywhere in the user's last message, in any case. Raises
    ValueError when tools, tool_choice or their older form are not of OpenAI's shape.
    """
    last = messages[-1] if messages else None
    if last is not None and last.role == "tool":
        return TextReply(f"Here is what I found: {last.text}")
    text = _last_user(messages)
    if last is not None and last.role == "user" and (function := _chosen(fields)) is not None:
        schema = {"type": "object", **(function.parameters or {})}
        return ToolReply(function.name, msgspec.json.encode(_example(schema, text, _DEPTH)).decode())
    lowered = text.lower()
    for lines in (replies, _BUILT_IN):
        for key, reply in lines.items():
            if key.lower() in lowered:
                return TextReply(reply)
    return TextReply(_DEFAULT)


def tokens(text: str) -> list[str]:
    """Cut `text` before the blanks of each word; joined, the tokens are `text` again."""
    return _TOKEN.findall(text)


def count_tokens(text: str) -> int:
    """Count one token for every four characters of a word, rounded up."""
    return sum((len(word) + 3) // 4 for word in text.split())


def tool_pieces(reply: ToolReply, call_id: str) -> list[ToolCallPiece]:
    """Return the call as it is streamed: id and name first, then its arguments in fragments."""
    text = reply.arguments
    return [
        ToolCallPiece(index=0, id=call_id, name=reply.name),
        *(ToolCallPiece(index=0, arguments=text[i : i + _FRAGMENT]) for i in range(0, len(text), _FRAGMENT)),
    ]


def _decode(decoder: msgspec.json.Decoder[_T], name: str, raw: msgspec.Raw) -> _T:
    try:
        return decoder.decode(raw)
    except BAD_JSON:
        raise ValueError(f"{name} does not have the expected shape") from None


def _last_user(messages: Sequence[ChatMessage]) -> str:
    return next((m.text for m in reversed(messages) if m.role == "user"), "")


def _chosen(fields: Mapping[str, msgspec.Raw]) -> _Function | None:
    """Return the tool named by tool_choice, else the first; None without tools or with tool_choice "none".

    `functions` and `function_call` are the older form, which Home Assistant's extension still sends.
    """
    if "tools" in fields:
        functions = [tool.function for tool in _decode(_tools, "tools", fields["tools"]) or () if tool.function]
        choice = _decode(_choice, "tool_choice", fields["tool_choice"]) if "tool_choice" in fields else None
        named = choice.function if isinstance(choice, _Choice) else None
    else:
        functions = list(_decode(_functions, "functions", fields["functions"]) or ()) if "functions" in fields else []
        choice = _decode(_named, "function_call", fields["function_call"]) if "function_call" in fields else None
        named = choice if isinstance(choice, _NamedFunction) else None
    if choice == "none" or not functions:
        return None
    wanted = named.name if named is not None else functions[0].name
    return next((f for f in functions if f.name == wanted), None)


def _example(schema: object, text: str, depth: int) -> object:
    """Return a value that fits a JSON schema: strings are the user's `text`, numbers are 1, booleans true."""
    if not isinstance(schema, dict) or not depth:
        return None
    if "const" in schema:
        return schema["const"]
    for source in ("enum", "anyOf", "oneOf"):
        options = schema.get(source)
        if isinstance(options, list) and options:
            return options[0] if source == "enum" else _example(options[0], text, depth - 1)
    kinds = schema.get("type")
    match kinds[0] if isinstance(kinds, list) and kinds else kinds:
        case "object":
            properties = schema.get("properties")
            members = properties.items() if isinstance(properties, dict) else ()
            return {name: _example(member, text, depth - 1) for name, member in members}
        case "array":
            return [_example(schema["items"], text, depth - 1)] if "items" in schema else []
        case "number" | "integer":
            return 1
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return text
