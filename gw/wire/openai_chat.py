"""POST /chat/completions: the request, both roles. Answers: `openai_chat_decode`, `openai_chat_encode`.

Source: openai-python 3.52.0, types and recorded requests (November 2026). Members are kept as raw JSON: only what routing
needs is looked at, and what we do not know goes on untouched. A provider of another dialect reads the conversation
with `messages`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.llm import Ability, ChatRequest, ToolCallPiece
from gw.wire.bounds import MOST_TOKENS
from gw.wire.json_codec import BAD_JSON
from gw.wire.openai_chat_decode import ChatDecoder, decode_completion
from gw.wire.openai_chat_encode import ChatEncoder, error_body

__all__ = [
    "ChatDecoder", "ChatEncoder", "ChatMessage", "InputAudio", "decode_completion", "error_body", "messages",
    "parse_request", "upstream_body",
]

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_INT = msgspec.json.Decoder(int)
_BOOLS = {b"true": True, b"false": False, b"null": False}
_TOOLS = ("tools", "functions")
_LIMITS = ("max_completion_tokens", "max_tokens")
_NULL = msgspec.Raw(b"null")
_TRUE = msgspec.Raw(b"true")
_EMPTY_LIST = re.compile(rb"\[\s*\]")
_NEEDS_NOTHING: frozenset[Ability] = frozenset()


def parse_request(body: bytes) -> ChatRequest:
    """A request body → what routing needs, the rest raw.

    Raises ClientProtocolError, with `param` where a member is at fault.
    """
    fields = _members(body)
    raw_messages = fields.get("messages")
    if raw_messages is None:
        raise ClientProtocolError(what="'messages' is required", param="messages")
    raw_model = fields.get("model")
    stream = _flag(fields.get("stream"), "stream")
    text = bytes(raw_messages)
    characters = len(text)
    if not text.startswith(b"["):
        raise ClientProtocolError(what="'messages' must be a list", param="messages")
    if _EMPTY_LIST.match(text):
        raise ClientProtocolError(what="'messages' must not be empty", param="messages")
    # A quotation mark inside a JSON string is escaped, so these bytes are a whole string: a type, or a lucky text.
    needs: frozenset[Ability] = _NEEDS_NOTHING
    if b'"image_url"' in text or b'"input_audio"' in text:
        needs, characters = _media(_conversation(text))
    for name in _TOOLS:
        if name in fields and _has_items(fields[name], name):
            needs |= {"tools"}
            break
    return ChatRequest(
        model="" if raw_model is None else _string(raw_model, "model"),
        fields=fields,
        stream=stream,
        include_usage=stream and _asks_usage(fields.get("stream_options")),
        needs=needs,
        input_characters=characters,
        max_output_tokens=_limit(fields),
    )


def upstream_body(request: ChatRequest, model: str) -> bytes:
    """The body for an upstream of this dialect: `model` replaced, usage asked for when streaming, else untouched."""
    fields: dict[str, Any] = dict(request.fields)
    fields["model"] = model
    if request.stream:
        fields["stream"] = _TRUE
        options = fields.get("stream_options")
        if options is None or not request.include_usage:  # else the caller's own say it
            known = {} if options is None or options == _NULL else _options(options)
            fields["stream_options"] = {**known, "include_usage": _TRUE}
    return msgspec.json.encode(fields)


class InputAudio(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is base64; `format` wav or mp3."""

    data: str
    format: str = "wav"


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message for a provider of another dialect; text parts are joined by line ends."""

    role: str
    text: str = ""
    images: tuple[str, ...] = ()
    """Addresses, `data:` ones too."""
    audio: tuple[InputAudio, ...] = ()
    tool_calls: tuple[ToolCallPiece, ...] = ()
    tool_call_id: str = ""
    name: str = ""


def messages(request: ChatRequest) -> list[ChatMessage]:
    """The conversation, typed. Raises ClientProtocolError for a message that is none."""
    return _conversation(request.fields["messages"])


class _Address(msgspec.Struct, gc=False):
    url: str = ""


class _Part(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: _Address | str | None = None
    input_audio: InputAudio | None = None


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


_MESSAGES = msgspec.json.Decoder(list[_Message])


def _conversation(raw: bytes | msgspec.Raw) -> list[ChatMessage]:
    try:
        return [_message(m) for m in _MESSAGES.decode(raw)]
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"a message is not of the expected form: {error}", param="messages") from None


def _message(message: _Message) -> ChatMessage:
    content = message.content
    parts = [_Part(type="text", text=content)] if isinstance(content, str) else content or []
    pieces = tuple(
        ToolCallPiece(index=i, id=c.id, name=c.function.name, arguments=c.function.arguments)
        for i, c in enumerate(message.tool_calls or ())
        if c.function is not None
    )
    urls = (p.image_url.url if isinstance(p.image_url, _Address) else p.image_url for p in parts)
    return ChatMessage(
        role=message.role,
        text="\n".join(text for p in parts if (text := p.text or p.refusal)),
        images=tuple(url for url in urls if url),
        audio=tuple(p.input_audio for p in parts if p.input_audio is not None),
        tool_calls=pieces,
        tool_call_id=message.tool_call_id or "",
        name=message.name or "",
    )


def _media(conversation: list[ChatMessage]) -> tuple[frozenset[Ability], int]:
    """Abilities the parts need, and the characters of text: base64 would make the estimate worthless."""
    needs: set[Ability] = set()
    if any(m.images for m in conversation):
        needs.add("vision")
    if any(m.audio for m in conversation):
        needs.add("audio_in")
    return frozenset(needs), sum(len(m.text) for m in conversation)


def _members(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        if not body.isascii():
            body.decode()   # raw members are not checked by the parser
        return _FIELDS.decode(body)
    except msgspec.ValidationError:
        raise ClientProtocolError(what="the body must be a JSON object") from None
    except UnicodeDecodeError:
        raise ClientProtocolError(what="the body is not UTF-8") from None
    except RecursionError:
        raise ClientProtocolError(what="the JSON is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise ClientProtocolError(what=f"the body is not JSON: {error}") from None


def _flag(raw: msgspec.Raw | None, name: str) -> bool:
    if raw is None:
        return False
    value = _BOOLS.get(bytes(raw))
    if value is None:
        raise ClientProtocolError(what=f"'{name}' must be true or false", param=name)
    return value


def _string(raw: msgspec.Raw, name: str) -> str:
    if raw == _NULL:
        return ""
    try:
        return _TEXT.decode(raw)
    except BAD_JSON:
        raise ClientProtocolError(what=f"'{name}' must be a string", param=name) from None


def _array(raw: msgspec.Raw, name: str) -> list[msgspec.Raw]:
    try:
        return _LIST.decode(raw)
    except BAD_JSON:
        raise ClientProtocolError(what=f"'{name}' must be a list", param=name) from None


def _has_items(raw: msgspec.Raw, name: str) -> bool:
    return raw != _NULL and bool(_array(raw, name))


def _limit(fields: Mapping[str, msgspec.Raw]) -> int | None:
    """The limit of output tokens by its newer or older name, at most MOST_TOKENS; some servers take -1 or 0 for none."""
    for name in _LIMITS:
        raw = fields.get(name)
        if raw is None or raw == _NULL:
            continue
        try:
            limit = _INT.decode(raw)
        except BAD_JSON:
            raise ClientProtocolError(what=f"'{name}' must be a whole number", param=name) from None
        if limit > MOST_TOKENS:
            raise ClientProtocolError(what=f"'{name}' must be at most {MOST_TOKENS}", param=name)
        if limit > 0:
            return limit
    return None


def _options(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _FIELDS.decode(raw)
    except BAD_JSON:
        raise ClientProtocolError(what="'stream_options' must be an object", param="stream_options") from None


def _asks_usage(raw: msgspec.Raw | None) -> bool:
    if raw is None or raw == _NULL:
        return False
    return _flag(_options(raw).get("include_usage"), "stream_options.include_usage")
