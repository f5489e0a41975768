"""POST /chat/completions as its server: a caller's request, and the answer it gets, streamed or not.

Source: openai-python 3.52.0, types and recorded requests (November 2026). Members of a request are kept as raw JSON: only
those that routing needs are decoded, and unknown ones go on untouched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from gw.errors import ClientProtocolError
from gw.types.llm import (
    Ability,
    ChatEnd,
    ChatEvent,
    ChatRequest,
    Completion,
    Delta,
    StreamError,
    ToolCallPiece,
    UsageReport,
)
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import MOST_TOKENS
from gw.wire.chat_answer import CollectedAnswer, CollectedChoice, as_delta
from gw.wire.chat_messages import decode_messages
from gw.wire.json_codec import BAD_JSON
from gw.wire.openai_chat_client import stream_options

T = TypeVar("T")

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_INT = msgspec.json.Decoder(int)
_BOOLS = {b"true": True, b"false": False, b"null": False}
_TOOLS = ("tools", "functions")
_LIMITS = ("max_completion_tokens", "max_tokens")
_NULL = msgspec.Raw(b"null")
_EMPTY_LIST = re.compile(rb"\[\s*\]")
_NEEDS_NOTHING: frozenset[Ability] = frozenset()


def parse_request(body: bytes) -> ChatRequest:
    """Decode what routing needs of a request body, and keep every member raw.

    Raises ClientProtocolError, with `param` if a member is at fault.
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
    # A quotation mark inside a JSON string is escaped, so these bytes are a complete string: a type, or the same as text.
    needs: frozenset[Ability] = _NEEDS_NOTHING
    if b'"image_url"' in text or b'"input_audio"' in text:
        needs, characters = _media(text)
    for name in _TOOLS:
        if name in fields and _has_items(fields[name], name):
            needs |= {"tools"}
            break
    return ChatRequest(
        model="" if raw_model is None or raw_model == _NULL else _value(_TEXT, raw_model, "model", "a string"),
        fields=fields,
        stream=stream,
        include_usage=stream and _wants_usage(fields.get("stream_options")),
        needs=needs,
        input_characters=characters,
        max_output_tokens=_limit(fields),
    )


def _media(raw_messages: bytes) -> tuple[frozenset[Ability], int]:
    """Return the abilities that the parts need, and the characters of text: counting base64 would spoil the estimate."""
    needs: set[Ability] = set()
    conversation = decode_messages(raw_messages)
    if any(message.images for message in conversation):
        needs.add("vision")
    if any(message.audio for message in conversation):
        needs.add("audio_in")
    return frozenset(needs), sum(len(message.text) for message in conversation)


def _members(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        if not body.isascii():
            body.decode()   # msgspec does not check raw members
        return _FIELDS.decode(body)
    except msgspec.ValidationError:
        raise ClientProtocolError(what="the body must be a JSON object") from None
    except UnicodeDecodeError:
        raise ClientProtocolError(what="the body is not UTF-8") from None
    except RecursionError:
        raise ClientProtocolError(what="the JSON is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise ClientProtocolError(what=f"the body is not JSON: {error}") from None


def _value(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw, name: str, kind: str) -> T:
    try:
        return decoder.decode(raw)
    except BAD_JSON:
        raise ClientProtocolError(what=f"'{name}' must be {kind}", param=name) from None


def _flag(raw: msgspec.Raw | None, name: str) -> bool:
    if raw is None:
        return False
    value = _BOOLS.get(bytes(raw))
    if value is None:
        raise ClientProtocolError(what=f"'{name}' must be true or false", param=name)
    return value


def _has_items(raw: msgspec.Raw, name: str) -> bool:
    return raw != _NULL and bool(_value(_LIST, raw, name, "a list"))


def _limit(fields: Mapping[str, msgspec.Raw]) -> int | None:
    """Return the limit of output tokens by its newer or older name; -1 and 0, which some servers take, are no limit."""
    for name in _LIMITS:
        raw = fields.get(name)
        if raw is None or raw == _NULL:
            continue
        limit = _value(_INT, raw, name, "a whole number")
        if limit > MOST_TOKENS:
            raise ClientProtocolError(what=f"'{name}' must be at most {MOST_TOKENS}", param=name)
        if limit > 0:
            return limit
    return None


def _wants_usage(raw: msgspec.Raw | None) -> bool:
    if raw is None or raw == _NULL:
        return False
    return _flag(stream_options(raw).get("include_usage"), "stream_options.include_usage")


# ---- the answer


class ChatEncoder:
    """Events in, the bytes of a streamed or unstreamed answer out.

    Events with `raw` are sent unchanged. Others are built: role first, an index on every piece of a tool call, the
    finish reason in a chunk of its own. The usage chunk is left out unless the caller asked for it.
    """

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:   # noqa: A002  the wire's name
        self._common: dict[str, Any] = {"id": id, "created": created, "model": model}
        self._include_usage = include_usage
        self._started: set[int] = set()
        self._done = False

    def encode(self, events: list[ChatEvent]) -> bytes:
        """Return one bytes object for all of `events`; b"" if there is nothing to send."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta:
                if event.raw is None:
                    self._delta(event, parts)
                elif event.raw:
                    raw = event.raw
                    parts.append(b"data: " + raw + b"\n\n" if 10 not in raw else sse.encode(raw))
            elif type(event) is UsageReport:
                if self._include_usage:
                    parts.append(self._usage(event.usage) if event.raw is None else sse.encode(event.raw))
            elif isinstance(event, ChatEnd):
                self._end(parts)
            elif isinstance(event, StreamError):
                parts.append(self.error(event.code, event.message, "upstream_error"))
            elif isinstance(event, Completion):
                self._delta(as_delta(event), parts)
                if event.usage is not None and self._include_usage:
                    parts.append(self._usage(event.usage))
                self._end(parts)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def error(self, code: str, message: str, type: str) -> bytes:   # noqa: A002  the wire's name
        """Return a failure after the first byte, as OpenAI's SDKs read it."""
        error = {"message": message, "type": type, "param": None, "code": code}
        return sse.encode(msgspec.json.encode({"error": error}))

    def answer(self, events: list[ChatEvent]) -> bytes:
        """Return the JSON body of an unstreamed answer: the upstream's own, or put together from events."""
        answer = CollectedAnswer(events)
        if answer.raw is not None:
            return answer.raw
        choices = [_choice_object(index, choice) for index, choice in sorted(answer.choices.items())]
        choices = choices or [_choice_object(0, CollectedChoice())]
        body: dict[str, Any] = {**self._common, "object": "chat.completion", "choices": choices}
        if answer.usage is not None:
            body["usage"] = _usage_object(answer.usage)
        return msgspec.json.encode(body)

    def _end(self, parts: list[bytes]) -> None:
        if not self._done:
            self._done = True
            parts.append(sse.encode(b"[DONE]"))

    def _delta(self, delta: Delta, parts: list[bytes]) -> None:
        index = delta.choice
        if index not in self._started:
            self._started.add(index)
            parts.append(self._choice(index, {"role": "assistant", "content": ""}, None))
        message: dict[str, Any] = {}
        if delta.text:
            message["content"] = delta.text
        if delta.refusal:
            message["refusal"] = delta.refusal
        if delta.reasoning:
            message["reasoning"] = delta.reasoning
        if delta.tool_calls:
            message["tool_calls"] = [_piece_object(piece) for piece in delta.tool_calls]
        if message:
            parts.append(self._choice(index, message, None))
        if delta.finish_reason is not None:
            parts.append(self._choice(index, {}, delta.finish_reason))

    def _choice(self, index: int, delta: dict[str, Any], finish_reason: str | None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._chunk({"choices": [choice], "usage": None} if self._include_usage else {"choices": [choice]})

    def _usage(self, usage: Usage) -> bytes:
        return self._chunk({"choices": [], "usage": _usage_object(usage)})

    def _chunk(self, members: dict[str, Any]) -> bytes:
        return sse.encode(msgspec.json.encode({**self._common, "object": "chat.completion.chunk", **members}))


def _choice_object(index: int, choice: CollectedChoice) -> dict[str, Any]:
    text, refusal, calls = choice.text, choice.refusal, choice.tool_calls
    no_text = not text and (calls or refusal)
    message: dict[str, Any] = {"role": "assistant", "content": None if no_text else text, "refusal": refusal or None}
    if reasoning := choice.reasoning:
        message["reasoning"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return {"index": index, "message": message, "logprobs": None, "finish_reason": choice.finish_reason}


def _piece_object(piece: ToolCallPiece) -> dict[str, Any]:
    function: dict[str, str] = {"arguments": piece.arguments}
    if piece.name:
        function["name"] = piece.name
    head = {"id": piece.id, "type": "function"} if piece.id else {}
    return {"index": piece.index, **head, "function": function}


def _usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "audio_tokens": usage.input_audio_tokens,
        },
        "completion_tokens_details": {"audio_tokens": usage.output_audio_tokens},
    }


def error_body(
    *, type: str, code: str, message: str, request_id: str, param: object = None, **facts: object   # noqa: A002  the wire's name
) -> bytes:
    """Return `{"error": {…}}` as OpenAI's SDKs read it, with our request id and the error's other facts."""
    param = None if param is None else str(param)
    error = {"message": message, "type": type, "param": param, "code": code, "request_id": request_id}
    return msgspec.json.encode({"error": {**facts, **error}})
