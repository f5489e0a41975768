"""POST /v1/messages: the request an upstream of this dialect is sent. The other parts of the dialect are named below.

Source: anthropic-python 2.11.0, `types/message_create_params` and the params it names (November 2026); which models take
no sampling settings and no begun answer: litellm 1.109.1 (`supports_sampling_params`, `supports_assistant_prefill`).

A request of OpenAI's shape is turned into: a top-level system text, alternating turns that begin with the user's, content
as blocks, results of tools in the user's turn, arguments of tools as objects. Members of this dialect that OpenAI's has
not (`thinking`, `top_k`, `cache_control` …) pass through when a caller adds them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.llm import ChatRequest
from gw.wire.anthropic_messages_decode import MessagesDecoder, decode_message
from gw.wire.anthropic_messages_encode import MessagesEncoder
from gw.wire.anthropic_messages_parse import MessagesRequest, parse_request, wants_thinking
from gw.wire.json_codec import BAD_JSON
from gw.wire.tool_arguments import object_of

__all__ = [
    "DEFAULT_MAX_TOKENS", "MessagesDecoder", "MessagesEncoder", "MessagesRequest", "decode_message", "parse_request",
    "upstream_body", "wants_thinking",
]  # fmt: skip

DEFAULT_MAX_TOKENS = 4_096
"""The member is mandatory here and optional in OpenAI's dialect."""
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PASSED_ON = ("thinking", "top_k", "cache_control", "output_config", "speed", "container")
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_VERSION = re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
_SAMPLING_ENDS = (4, 7)
"""From this version on `temperature` and `top_p` are refused."""
_PREFILL_ENDS = (4, 6)
"""From this version on a conversation cannot end with the assistant's turn."""
_OPENING = "(start)"
"""Said for the user where a conversation would begin with the assistant, or be empty: a greeting is asked for so."""
_CONTINUE = "(continue)"
_NO_RESULT = "(no result)"
_JSON_ONLY = "Answer with one JSON object and nothing else."
"""This dialect has no `json_object`, only schemas."""

Block = dict[str, Any]


class _Address(msgspec.Struct, gc=False):
    url: str = ""


class _Part(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: _Address | str | None = None
    cache_control: dict[str, Any] | None = None


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Call(msgspec.Struct, gc=False):
    id: str = ""
    type: str = ""
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _Schema(msgspec.Struct, gc=False):
    schema: dict[str, Any] = {}


class _Format(msgspec.Struct, gc=False):
    type: str = ""
    json_schema: _Schema | None = None


class _Request(msgspec.Struct, gc=False):
    """The members of OpenAI's request that have a counterpart."""

    messages: list[_Message]
    tools: list[_Call] | None = None
    functions: list[_Function] | None = None
    tool_choice: str | _Call | None = None
    parallel_tool_calls: bool | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    response_format: _Format | None = None
    reasoning_effort: str | None = None
    user: str | None = None
    safety_identifier: str | None = None


def upstream_body(request: ChatRequest, model: str) -> bytes:
    """The body for an upstream of this dialect.

    A caller's own Messages request goes on with only `model` replaced. Raises ClientProtocolError for what cannot be said
    in this dialect.
    """
    if request.dialect == "anthropic" and request.native:
        try:
            return msgspec.json.encode({**_FIELDS.decode(request.native), "model": model})
        except BAD_JSON:
            raise ClientProtocolError(what="the body is not a JSON object") from None
    try:
        asked = msgspec.json.decode(msgspec.json.encode(request.fields), type=_Request)
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"the request is not of the expected form: {error}") from None
    version = _version(model)
    system, turns = _conversation(asked.messages)
    if turns[-1]["role"] == "assistant":
        _end_with_user(turns, prefill=version is None or version < _PREFILL_ENDS)
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_output_tokens or DEFAULT_MAX_TOKENS}
    if asked.response_format is not None and asked.response_format.type == "json_object":
        system.append({"type": "text", "text": _JSON_ONLY})
    if system:
        body["system"] = system
    body["messages"] = turns
    if request.stream:
        body["stream"] = True
    body |= _tools(asked)
    if version is None or version < _SAMPLING_ENDS:
        body |= _sampling(asked)
    body |= _rest(asked, request.fields)
    return msgspec.json.encode(body)


def _version(model: str) -> tuple[int, int] | None:
    found = _VERSION.match(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


# ---- the conversation


def _conversation(messages: list[_Message]) -> tuple[list[Block], list[Block]]:
    """Blocks of the system text, and turns that alternate and begin with the user's."""
    system: list[Block] = []
    turns: list[Block] = []
    for message in messages:
        if message.role in ("system", "developer"):
            system += _text_blocks(message)
        elif message.role == "assistant":
            _add(turns, "assistant", [*_text_blocks(message), *_tool_uses(message)])
        elif message.role in ("tool", "function"):
            _add(turns, "user", [_tool_result(message)])
        else:
            _add(turns, "user", _user_blocks(message))
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
    _answer_tools(turns)
    return system, turns


def _add(turns: list[Block], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return   # empty content is refused
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def _parts(message: _Message) -> list[_Part]:
    content = message.content
    return [_Part(type="text", text=content)] if isinstance(content, str) else content or []


def _text_block(part: _Part) -> Block:
    block: Block = {"type": "text", "text": part.text or part.refusal}
    if part.cache_control is not None:
        block["cache_control"] = part.cache_control
    return block


def _text_blocks(message: _Message) -> list[Block]:
    return [_text_block(part) for part in _parts(message) if (part.text or part.refusal or "").strip()]


def _user_blocks(message: _Message) -> list[Block]:
    blocks: list[Block] = []
    for part in _parts(message):
        url = part.image_url.url if isinstance(part.image_url, _Address) else part.image_url
        if url:
            blocks.append({"type": "image", "source": _image(url)})
        elif (part.text or "").strip():
            blocks.append(_text_block(part))
        elif part.type in ("input_audio", "file"):
            raise ClientProtocolError(what=f"this model takes no {part.type}", param="messages")
    return blocks


def _image(url: str) -> Block:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, _, data = url[5:].partition(",")
    media_type, _, coding = head.partition(";")
    if coding.rpartition(";")[2] != "base64" or not data:
        raise ClientProtocolError(what="an image's data: address must be base64", param="messages")
    return {"type": "base64", "media_type": media_type or "image/png", "data": data}


def _tool_uses(message: _Message) -> list[Block]:
    return [
        {"type": "tool_use", "id": call.id, "name": call.function.name, "input": object_of(call.function.arguments)}
        for call in message.tool_calls or ()
        if call.function is not None
    ]


def _tool_result(message: _Message) -> Block:
    text = "\n".join(block["text"] for block in _text_blocks(message))
    return {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": text}


def _answer_tools(turns: list[Block]) -> None:
    """Every call must be answered in the next turn, results first; a result without its call is told as text."""
    asked: list[str] = []
    at = 0
    while at < len(turns):
        turn = turns[at]
        if turn["role"] == "user":
            turn["content"] = _results_first(turn["content"], asked)
            asked = []
        else:
            asked = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
            if asked and at + 1 == len(turns):
                turns.append({"role": "user", "content": []})
        at += 1


def _results_first(blocks: list[Block], asked: list[str]) -> list[Block]:
    results = {b["tool_use_id"]: b for b in blocks if b["type"] == "tool_result" and b["tool_use_id"] in asked}
    missing = {"type": "tool_result", "content": _NO_RESULT, "is_error": True}
    first = [results.get(call) or {**missing, "tool_use_id": call} for call in asked]
    others = [
        {"type": "text", "text": f"(result of a tool) {block['content']}"} if block["type"] == "tool_result" else block
        for block in blocks
        if block["type"] != "tool_result" or block["tool_use_id"] not in results
    ]
    return [*first, *others]


def _end_with_user(turns: list[Block], *, prefill: bool) -> None:
    """A conversation that ends with the assistant: its answer is continued, where the model takes that."""
    if not prefill:
        turns.append({"role": "user", "content": [{"type": "text", "text": _CONTINUE}]})
    elif turns[-1]["content"][-1]["type"] == "text":
        last = turns[-1]["content"][-1]
        last["text"] = last["text"].rstrip()   # trailing space is refused


# ---- the settings


def _tools(asked: _Request) -> dict[str, Any]:
    functions = [tool.function for tool in asked.tools or () if tool.function is not None] + (asked.functions or [])
    if not functions:
        return {}
    choice = _choice(asked.tool_choice)
    if asked.parallel_tool_calls is False and choice.get("type") != "none":
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": True}
    tools = [_tool(function) for function in functions]
    return {"tools": tools, "tool_choice": choice} if choice else {"tools": tools}


def _tool(function: _Function) -> Block:
    tool: Block = {"name": function.name}
    if function.description:
        tool["description"] = function.description
    tool["input_schema"] = {"type": "object", **(function.parameters or {"properties": {}})}
    if function.strict:
        tool["strict"] = True
    return tool


def _choice(choice: str | _Call | None) -> Block:
    if isinstance(choice, _Call):
        return {"type": "tool", "name": choice.function.name} if choice.function is not None else {}
    kind = {"none": "none", "auto": "auto", "required": "any"}.get(choice or "")
    return {"type": kind} if kind else {}


def _sampling(asked: _Request) -> dict[str, Any]:
    """Temperature goes to 2 in OpenAI's dialect and to 1 here; newer models take only one of the two."""
    if asked.temperature is not None:
        return {"temperature": min(asked.temperature, 1.0)}
    return {} if asked.top_p is None else {"top_p": asked.top_p}


def _rest(asked: _Request, fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    if any(stop.strip() for stop in stops):
        body["stop_sequences"] = [stop for stop in stops if stop.strip()]   # of white space only is refused
    if user := asked.safety_identifier or asked.user:
        body["metadata"] = {"user_id": user}
    config: dict[str, Any] = {}
    if asked.response_format is not None and asked.response_format.json_schema is not None:
        config["format"] = {"type": "json_schema", "schema": asked.response_format.json_schema.schema}
    if asked.reasoning_effort in _EFFORTS:
        config["effort"] = _EFFORTS[asked.reasoning_effort]
    elif asked.reasoning_effort == "none":
        body["thinking"] = {"type": "disabled"}
    if config:
        body["output_config"] = config
    return body | {name: fields[name] for name in _PASSED_ON if name in fields}
