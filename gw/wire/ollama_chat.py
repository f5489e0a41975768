"""Ollama's POST /api/chat: the request, both roles. Answers: `ollama_chat_answer`.

Source: ollama-python 0.6.3, `_types` (November 2026), and the project's API documentation. What differs from OpenAI's
dialect: settings stand in `options`, arguments of tool calls are objects, calls have no ids (a result names the tool),
pictures are bare base64, and a stream is the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.llm import Ability, ChatRequest
from gw.wire.bounds import MOST_TOKENS
from gw.wire.json_codec import BAD_JSON
from gw.wire.ollama_chat_answer import OllamaDecoder, OllamaEncoder, decode_answer, error_body
from gw.wire.tool_arguments import object_of

__all__ = ["OllamaDecoder", "OllamaEncoder", "decode_answer", "error_body", "parse_request", "upstream_body"]

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OPTIONS = ("temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")
"""Of the same name on both sides."""
_PASSED_ON = ("keep_alive", "think", "format")
_THINKS: dict[str, bool | str] = {
    "none": False, "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high",
}  # fmt: skip
_MEDIA = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGO": "image/gif", "UklGR": "image/webp"}
"""How base64 of a picture begins → its type."""

Object = dict[str, Any]


class _Address(msgspec.Struct, gc=False):
    url: str = ""


class _Part(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: _Address | str | None = None


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct, gc=False):
    id: str = ""
    function: _Function | None = None


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _Schema(msgspec.Struct, gc=False):
    schema: Object = {}


class _Format(msgspec.Struct, gc=False):
    type: str = ""
    json_schema: _Schema | None = None


class _Request(msgspec.Struct, gc=False):
    messages: list[_Message]
    tools: list[Object] | None = None
    tool_choice: Any = None
    stop: str | list[str] | None = None
    response_format: _Format | None = None
    reasoning_effort: str | None = None


def upstream_body(request: ChatRequest, model: str, settings: Mapping[str, object]) -> bytes:
    """The body for an upstream of this dialect. A caller's own request goes on with only `model` replaced.

    `settings` of the provider entry: `num_ctx`, `keep_alive`, `think`; what the caller says goes before them. Raises
    ClientProtocolError for what cannot be said in this dialect.
    """
    if request.dialect == "ollama" and request.native:
        return _native_body(request.native, model, settings)
    try:
        asked = msgspec.json.decode(msgspec.json.encode(request.fields), type=_Request)
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"the request is not of the expected form: {error}") from None
    body: Object = {"model": model, "messages": _messages(asked.messages), "stream": request.stream}
    if asked.tools and asked.tool_choice != "none":
        body["tools"] = asked.tools
    if options := _options(request, asked, settings):
        body["options"] = options
    body |= {name: settings[name] for name in ("keep_alive", "think") if name in settings}
    if asked.response_format is not None:
        shape = asked.response_format.json_schema
        if shape is not None:
            body["format"] = shape.schema
        elif asked.response_format.type == "json_object":
            body["format"] = "json"
    if asked.reasoning_effort in _THINKS:
        body["think"] = _THINKS[asked.reasoning_effort]
    return msgspec.json.encode(body | {name: request.fields[name] for name in _PASSED_ON if name in request.fields})


def _native_body(native: bytes, model: str, settings: Mapping[str, object]) -> bytes:
    try:
        body: Object = {**_FIELDS.decode(native), "model": model}
        options = msgspec.json.decode(body["options"], type=Object | None) if "options" in body else None
    except BAD_JSON:
        raise ClientProtocolError(what="the body is not of the expected form") from None
    if "num_ctx" in settings:
        body["options"] = {"num_ctx": settings["num_ctx"], **(options or {})}
    for name in ("keep_alive", "think"):
        if name in settings:
            body.setdefault(name, settings[name])
    return msgspec.json.encode(body)


def _options(request: ChatRequest, asked: _Request, settings: Mapping[str, object]) -> Object:
    fields = request.fields
    options: Object = {}
    if "num_ctx" in settings:
        options["num_ctx"] = settings["num_ctx"]
    options |= {name: fields[name] for name in _OPTIONS if name in fields and bytes(fields[name]) != b"null"}
    if request.max_output_tokens is not None:
        options["num_predict"] = request.max_output_tokens
    if asked.stop:
        options["stop"] = [asked.stop] if isinstance(asked.stop, str) else asked.stop
    if "options" in fields:   # an addition of the caller's to OpenAI's members
        try:
            options |= msgspec.json.decode(fields["options"], type=Object)
        except BAD_JSON:
            raise ClientProtocolError(what="'options' must be an object", param="options") from None
    return options


def _messages(messages: list[_Message]) -> list[Object]:
    names: dict[str, str] = {}
    """Id of a call → its tool."""
    return [_message(message, names) for message in messages]


def _message(message: _Message, names: dict[str, str]) -> Object:
    content = message.content
    parts = [_Part(type="text", text=content)] if isinstance(content, str) else content or []
    made: Object = {"role": "system" if message.role == "developer" else message.role}
    made["content"] = "\n".join(text for part in parts if (text := part.text or part.refusal))
    if images := [_image(part.image_url) for part in parts if part.image_url]:
        made["images"] = images
    calls = [call for call in message.tool_calls or () if call.function is not None]
    if calls:
        made["tool_calls"] = [_called(call, names) for call in calls]
    if message.role == "tool" and (name := names.get(message.tool_call_id or "") or message.name):
        made["tool_name"] = name
    return made


def _called(call: _Call, names: dict[str, str]) -> Object:
    function = call.function or _Function()
    names[call.id] = function.name
    return {"function": {"name": function.name, "arguments": object_of(function.arguments)}}


def _image(address: _Address | str) -> str:
    url = address.url if isinstance(address, _Address) else address
    head, _, data = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise ClientProtocolError(what="this server takes pictures as base64 data: addresses only", param="messages")
    return data


# ---- as a server


class _NativeFunction(msgspec.Struct, gc=False):
    name: str = ""
    arguments: Object = {}


class _NativeCall(msgspec.Struct, gc=False):
    function: _NativeFunction
    id: str | None = None


class _NativeMessage(msgspec.Struct, gc=False):
    role: str
    content: str | None = None
    images: list[str] | None = None
    tool_calls: list[_NativeCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class _NativeOptions(msgspec.Struct, gc=False):
    num_predict: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: list[str] | None = None


class _Native(msgspec.Struct, gc=False):
    model: str = ""
    messages: list[_NativeMessage] = []
    stream: bool | None = None
    tools: list[Object] | None = None
    format: Any = None
    options: _NativeOptions | None = None


_NATIVE = msgspec.json.Decoder(_Native)


def parse_request(body: bytes) -> ChatRequest:
    """A caller's request → the common form. Raises ClientProtocolError."""
    try:
        body.decode()
        asked = _NATIVE.decode(body)
    except msgspec.ValidationError as error:
        raise ClientProtocolError(what=f"the body is not of the expected form: {error}") from None
    except BAD_JSON:
        raise ClientProtocolError(what="the body is not JSON") from None
    stream = asked.stream is not False
    fields: Object = {"model": asked.model, "messages": _common_messages(asked.messages), "stream": stream}
    needs: set[Ability] = {"vision"} if any(message.images for message in asked.messages) else set()
    if asked.tools:
        fields["tools"] = asked.tools
        needs.add("tools")
    if asked.format == "json":
        fields["response_format"] = {"type": "json_object"}
    elif isinstance(asked.format, dict):
        fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": asked.format}}
    limit = _settings(asked.options, fields)
    return ChatRequest(
        model=asked.model,
        fields={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()},
        stream=stream,
        include_usage=stream,
        needs=frozenset(needs),
        input_characters=sum(len(message.content or "") for message in asked.messages),
        max_output_tokens=limit,
        dialect="ollama",
        native=body,
    )


def _settings(options: _NativeOptions | None, fields: Object) -> int | None:
    """Adds OpenAI's members; returns the limit of tokens (-1 and -2 are none)."""
    if options is None:
        return None
    told = msgspec.structs.asdict(options)
    fields |= {name: value for name, value in told.items() if value is not None and name != "num_predict"}
    limit = options.num_predict
    if limit is None or limit <= 0:
        return None
    fields["max_completion_tokens"] = min(limit, MOST_TOKENS)
    return min(limit, MOST_TOKENS)


def _common_messages(messages: list[_NativeMessage]) -> list[Object]:
    """Ids are made up: a result belongs to the first unanswered call of its tool."""
    made: list[Object] = []
    open_calls: list[tuple[str, str]] = []
    count = 0
    for message in messages:
        told: Object = {"role": message.role, "content": message.content or ""}
        if message.images:
            pictures = [{"type": "image_url", "image_url": {"url": _data_address(image)}} for image in message.images]
            told["content"] = [{"type": "text", "text": message.content or ""}, *pictures]
        calls: list[Object] = []
        for call in message.tool_calls or ():
            call_id = call.id or f"call_{count}"
            count += 1
            open_calls.append((call_id, call.function.name))
            arguments = msgspec.json.encode(call.function.arguments).decode()
            function = {"name": call.function.name, "arguments": arguments}
            calls.append({"id": call_id, "type": "function", "function": function})
        if calls:
            told["tool_calls"] = calls
        if message.role == "tool":
            told["tool_call_id"] = message.tool_call_id or _answered(open_calls, message.tool_name)
        made.append(told)
    return made


def _answered(open_calls: list[tuple[str, str]], name: str | None) -> str:
    for at, (call_id, tool) in enumerate(open_calls):
        if name is None or tool == name:
            del open_calls[at]
            return call_id
    return f"call_{name or 0}"


def _data_address(image: str) -> str:
    kind = next((kind for start, kind in _MEDIA.items() if image.startswith(start)), "image/png")
    return f"data:{kind};base64,{image}"
