"""Conversation of a chat request in OpenAI's form, typed: for providers of another dialect, which translate it.

The last user message can be read alone, without decoding the conversation before it.
"""

from __future__ import annotations

from typing import Any, TypeVar
from zlib import crc32

import msgspec

from gw.errors import ClientProtocolError
from gw.types.llm import ChatRequest, LastUser, ToolCallPiece
from gw.wire import chat_functions
from gw.wire.json_codec import BAD_JSON

F = TypeVar("F", bound="ChatFields")


class InputAudio(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is base64; `format` is wav or mp3."""

    data: str
    format: str = "wav"


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message, its text parts joined by line ends."""

    role: str
    text: str = ""
    images: tuple[str, ...] = ()
    """URLs, `data:` ones included."""
    audio: tuple[InputAudio, ...] = ()
    tool_calls: tuple[ToolCallPiece, ...] = ()
    tool_call_id: str = ""
    name: str = ""


class _ImageUrl(msgspec.Struct, gc=False):
    url: str = ""


class Part(msgspec.Struct, gc=False):
    """One part of a message's content."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: _ImageUrl | str | None = None
    input_audio: InputAudio | None = None
    cache_control: dict[str, Any] | None = None
    """Anthropic's, added by some callers."""

    @property
    def image(self) -> str:
        """URL of the image; "" for a part of another kind."""
        return (self.image_url.url if isinstance(self.image_url, _ImageUrl) else self.image_url) or ""


class Function(msgspec.Struct, gc=False):
    """A function that may be called, or the call of one."""

    name: str = ""
    arguments: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, gc=False):
    """A tool, the call of one, or the choice of one."""

    id: str = ""
    function: Function | None = None


class Message(msgspec.Struct, gc=False):
    """One message, its content part by part."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[Tool] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @property
    def parts(self) -> list[Part]:
        content = self.content
        return [Part(type="text", text=content)] if isinstance(content, str) else content or []

    def joined(self) -> ChatMessage:
        calls = tuple(
            ToolCallPiece(index=i, id=call.id, name=call.function.name, arguments=call.function.arguments)
            for i, call in enumerate(self.tool_calls or ())
            if call.function is not None
        )
        parts = self.parts
        return ChatMessage(
            role=self.role, text="\n".join(text for part in parts if (text := part.text or part.refusal)),
            images=tuple(part.image for part in parts if part.image),
            audio=tuple(part.input_audio for part in parts if part.input_audio is not None), tool_calls=calls,
            tool_call_id=self.tool_call_id or "", name=self.name or "",
        )


class _JsonSchema(msgspec.Struct, gc=False):
    schema: dict[str, Any] = {}


class _ResponseFormat(msgspec.Struct, gc=False):
    type: str = ""
    json_schema: _JsonSchema | None = None


class ChatFields(msgspec.Struct, gc=False):
    """Request members with a counterpart in every other dialect; a dialect adds its own in a subclass."""

    messages: list[Message]
    stop: str | list[str] | None = None
    response_format: _ResponseFormat | None = None
    reasoning_effort: str | None = None

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def json_schema(self) -> dict[str, Any] | None:
        """Schema that the answer must follow."""
        form = self.response_format
        return form.json_schema.schema if form is not None and form.json_schema is not None else None

    @property
    def wants_json(self) -> bool:
        """Return whether the answer must be a JSON object of any schema."""
        return self.response_format is not None and self.response_format.type == "json_object"


_MESSAGES = msgspec.json.Decoder(list[Message])


def decode_fields(request: ChatRequest, fields: type[F]) -> F:
    """Decode the members of `request` that `fields` declares. Raises ClientProtocolError."""
    try:
        return msgspec.json.decode(msgspec.json.encode(chat_functions.as_tools(request.fields)), type=fields)
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"the request is not of the expected form: {error}") from None


def messages(request: ChatRequest) -> list[ChatMessage]:
    """Return the conversation. Raises ClientProtocolError for a malformed message."""
    return decode_messages(chat_functions.as_tools(request.fields)["messages"])


def decode_messages(raw: bytes | msgspec.Raw) -> list[ChatMessage]:
    """Decode the JSON of a conversation. Raises ClientProtocolError for a malformed message."""
    try:
        return [message.joined() for message in _MESSAGES.decode(raw)]
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"a message is not of the expected form: {error}", param="messages") from None


# ---- the last user message


MAX_TRIED = 32  # messages tried, from the end: a turn's tool results follow the user's message


_ANSWERS = ("assistant", "tool", "function")


class _LastPart(msgspec.Struct, gc=False):
    text: str | None = None


class _LastMessage(msgspec.Struct, gc=False):
    role: str = ""
    content: str | list[_LastPart] | None = None


_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_LAST_MESSAGE = msgspec.json.Decoder(_LastMessage)


def last_user(request: ChatRequest) -> LastUser | None:
    """Return the last user message; None if there is none, or messages are not of the usual form."""
    try:
        messages = _LIST.decode(request.fields["messages"])
        answered = False
        for at in range(len(messages) - 1, max(-1, len(messages) - 1 - MAX_TRIED), -1):
            message = _LAST_MESSAGE.decode(messages[at])
            if message.role == "user":
                before = bytes(messages[at - 1]) if at else b""
                return LastUser(_text(message.content), crc32(before, at), answered)
            answered = answered or message.role in _ANSWERS
    except (KeyError, *BAD_JSON):
        pass
    return None


def _text(content: str | list[_LastPart] | None) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text)
