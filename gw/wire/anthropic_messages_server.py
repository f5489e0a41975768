"""POST /v1/messages as its server: a caller's request in the common form, and the answer it gets, streamed or not.

Source: anthropic-python 2.11.0, `types/message_create_params` and the block params it names, `types/raw_*_event`,
`lib/streaming` (November 2026). Members that only this dialect has (thinking, cache control, tools that the vendor runs itself)
stay in `native` and reach an upstream of the same dialect, as does `anthropic-beta`, without which the vendor refuses members
of its betas; other upstreams get what OpenAI's members can express. The SDKs drop events without an `event:` line; LiveKit adds
the output tokens of `message_start` to those of `message_delta`, so the former are 0.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types import llm
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import MOST_TOKENS
from gw.wire.chat_answer import CollectedAnswer, arguments_object, as_delta
from gw.wire.json_codec import decode_request, present

_PRINTABLE = bytes(range(0x20, 0x7F))


class MessagesRequest(ChatRequest, frozen=True, kw_only=True):
    """A request with its `anthropic-beta` header, b"" if there is none."""

    beta: bytes = b""
    wants_thinking: bool = False
    """Whether the request enables thinking, so that the answer may contain it."""


class _Source(msgspec.Struct, gc=False):
    type: str = ""
    media_type: str = ""
    data: str = ""
    url: str = ""


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str | None = None
    source: _Source | None = None
    title: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[_Block]


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class _Choice(msgspec.Struct, gc=False):
    type: str = ""
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Format(msgspec.Struct, gc=False):
    type: str = ""
    schema: dict[str, Any] | None = None


class _Config(msgspec.Struct, gc=False):
    format: _Format | None = None


class _Metadata(msgspec.Struct, gc=False):
    user_id: str | None = None


class _Request(msgspec.Struct, gc=False):
    messages: list[_Message]
    max_tokens: int
    model: str | None = None
    system: str | list[_Block] | None = None
    stream: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    metadata: _Metadata | None = None
    output_config: _Config | None = None
    thinking: Any = None

    @property
    def wants_thinking(self) -> bool:
        kind = self.thinking.get("type") if isinstance(self.thinking, dict) else None
        return isinstance(kind, str) and kind not in ("", "disabled")


_REQUEST = msgspec.json.Decoder(_Request)


def parse_request(body: bytes, beta: bytes = b"") -> MessagesRequest:
    """Decode a request into the common form. Raises ClientProtocolError, with `param` if a member is at fault."""
    if beta.translate(None, _PRINTABLE):
        raise ClientProtocolError(what="anthropic-beta: printable ASCII only", param="anthropic-beta")
    request = decode_request(_REQUEST, body)
    if not request.messages:
        raise ClientProtocolError(what="messages: at least one message is required", param="messages")
    if not 0 <= request.max_tokens <= MOST_TOKENS:
        raise ClientProtocolError(what=f"max_tokens must be between 1 and {MOST_TOKENS}", param="max_tokens")
    translator = _Translator()
    messages = translator.conversation(request)
    fields = {"model": request.model or "", "messages": messages, **_settings(request)}
    if "tools" in fields:
        translator.needs.add("tools")
    return MessagesRequest(
        model=request.model or "", fields={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()},
        stream=bool(request.stream), include_usage=bool(request.stream), needs=frozenset(translator.needs),
        input_characters=translator.characters, max_output_tokens=request.max_tokens or None, dialect="anthropic",
        native=body, beta=beta, wants_thinking=request.wants_thinking,
    )


class _Translator:
    """Translation of a conversation into OpenAI's messages; collects the abilities it needs and counts its characters."""

    def __init__(self) -> None:
        self.needs: set[llm.Ability] = set()
        self.characters = 0

    def conversation(self, request: _Request) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        if system := _text(request.system):
            messages.append({"role": "system", "content": self._counted(system)})
        for message in request.messages:
            blocks = [_Block(type="text", text=message.content)] if isinstance(message.content, str) else message.content
            if message.role == "user":
                messages += self._user(blocks)
            elif message.role == "assistant":
                messages.append(self._assistant(blocks))
            elif message.role == "system":
                messages.append({"role": "system", "content": self._counted(_text(blocks))})
            else:
                raise ClientProtocolError(what="a message's role must be user, assistant or system", param="messages")
        return messages

    def _counted(self, text: str) -> str:
        self.characters += len(text)
        return text

    def _user(self, blocks: list[_Block]) -> list[dict[str, Any]]:
        """Return the messages of a user turn; tool results are separate messages and come first."""
        results = [self._result(block) for block in blocks if block.type == "tool_result"]
        parts = [part for block in blocks if (part := self._part(block)) is not None]
        if not parts and results:
            return results
        plain = all(part["type"] == "text" for part in parts)
        content = "\n".join(part["text"] for part in parts) if plain else parts
        return [*results, {"role": "user", "content": content}]

    def _result(self, block: _Block) -> dict[str, Any]:
        try:
            content = block.content
            text = content if isinstance(content, str) else _text(msgspec.convert(content or [], list[_Block]))
        except msgspec.ValidationError:
            raise ClientProtocolError(what="a tool_result's content is not of the expected form", param="messages") from None
        return {"role": "tool", "tool_call_id": block.tool_use_id or "", "content": self._counted(text)}

    def _part(self, block: _Block) -> dict[str, Any] | None:
        if block.type == "text":
            return {"type": "text", "text": self._counted(block.text or "")}
        source = block.source
        if source is None:
            return None
        if block.type == "document" and source.type == "text":
            return {"type": "text", "text": self._counted(source.data)}
        url = source.url if source.type == "url" else f"data:{source.media_type};base64,{source.data}"
        if block.type == "image":
            self.needs.add("vision")
            return {"type": "image_url", "image_url": {"url": url}}
        if block.type == "document" and source.type == "base64":
            return {"type": "file", "file": {"filename": block.title or "document.pdf", "file_data": url}}
        return None

    def _assistant(self, blocks: list[_Block]) -> dict[str, Any]:
        """Return text and calls; thinking is signed by the vendor, so no other can use it."""
        message: dict[str, Any] = {"role": "assistant", "content": self._counted(_text(blocks)) or None}
        calls = []
        for block in blocks:
            if block.type == "tool_use":
                arguments = self._counted(msgspec.json.encode(block.input or {}).decode())
                function = {"name": block.name or "", "arguments": arguments}
                calls.append({"id": block.id or "", "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        elif message["content"] is None:
            message["content"] = ""
        return message


def _text(content: str | list[_Block] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(block.text for block in content if block.type == "text" and block.text)


def _settings(request: _Request) -> dict[str, Any]:
    fields = present(
        max_completion_tokens=request.max_tokens or None, stream=request.stream or None,
        stop=request.stop_sequences or None, temperature=request.temperature, top_p=request.top_p,
        user=(request.metadata.user_id or None) if request.metadata is not None else None,
    )
    output_format = request.output_config.format if request.output_config is not None else None
    if output_format is not None and output_format.type == "json_schema":
        schema = {"name": "answer", "schema": output_format.schema or {}, "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields | _tool_settings(request)


def _tool_settings(request: _Request) -> dict[str, Any]:
    tools = [_tool(tool) for tool in request.tools or () if tool.type in (None, "custom") and tool.name]
    if not tools:
        return {}
    fields: dict[str, Any] = {"tools": tools}
    if (choice := request.tool_choice) is not None:
        named = {"type": "function", "function": {"name": choice.name or ""}}
        fields["tool_choice"] = {"any": "required", "none": "none", "tool": named}.get(choice.type, "auto")
        if choice.disable_parallel_tool_use:
            fields["parallel_tool_calls"] = False
    return fields


def _tool(tool: _Tool) -> dict[str, Any]:
    schema = tool.input_schema or {"type": "object"}
    function = present(
        name=tool.name, parameters=schema, description=tool.description or None, strict=tool.strict or None
    )
    return {"type": "function", "function": function}


# ---- the answer


STOP_REASONS = {
    "stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use",
    "content_filter": "refusal",
}  # fmt: skip


class MessagesEncoder:
    """Events in, the bytes of a streamed or unstreamed answer out.

    Events with `raw` are sent unchanged. Others are built, from the first choice only. Reasoning is left out unless
    `thinking`: a caller may send it back, and the vendor refuses thinking that it has not signed. `input_tokens` is the
    estimate for `message_start`, before the vendor has counted.
    """

    def __init__(
        self, *, id: str, model: str, input_tokens: int = 0, thinking: bool = False   # noqa: A002  the wire's name
    ) -> None:
        self._common: dict[str, Any] = {"id": id, "type": "message", "role": "assistant", "model": model}
        self._input_tokens = input_tokens
        self._thinking = thinking
        self._started = self._done = self._passes_raw = False
        self._open = ""  # open block: "text", "thinking" or "call <index>"; "" for none
        self._blocks = 0
        self._calls: dict[int, int] = {}
        self._finish: str | None = None
        self._refusal = ""
        self._usage: Usage | None = None

    def encode(self, events: list[ChatEvent]) -> bytes:
        """Return one bytes object for all of `events`; b"" if there is nothing to send."""
        parts: list[bytes] = []
        for event in events:
            if isinstance(event, Delta):
                if event.raw is None:
                    self._build(event, parts)
                else:
                    self._passes_raw = True
                    parts.append(event.raw)
            elif isinstance(event, UsageReport):
                self._usage = event.usage
                parts.append(event.raw or b"")
            elif isinstance(event, ChatEnd):
                self._end(parts)
            elif isinstance(event, StreamError):
                parts.append(self.error(event.code, event.message))
            elif isinstance(event, Completion):
                self._usage = event.usage
                self._build(as_delta(event), parts)
                self._end(parts)
        return b"".join(parts)

    def error(self, type: str, message: str) -> bytes:   # noqa: A002  the wire's name
        """Return a failure after the first byte, as the SDKs read it."""
        return _event({"type": "error", "error": {"type": type, "message": message}})

    def answer(self, events: list[ChatEvent]) -> bytes:
        """Return the JSON body of an unstreamed answer: the upstream's own, or put together from events."""
        answer = CollectedAnswer(events)
        if answer.raw is not None:
            return answer.raw
        choice = answer.first
        content: list[dict[str, Any]] = []
        if self._thinking and choice.reasoning:
            content.append({"type": "thinking", "thinking": choice.reasoning, "signature": ""})
        if choice.text:
            content.append({"type": "text", "text": choice.text})
        content += [_tool_use(call) for call in choice.tool_calls]
        stop = _stop(choice.finish_reason, choice.refusal)
        return msgspec.json.encode({**self._common, "content": content, **stop, "usage": _usage_object(answer.usage)})

    def _build(self, delta: Delta, parts: list[bytes]) -> None:
        if delta.choice != 0:
            return
        self._start(parts)
        self._finish = delta.finish_reason or self._finish
        self._refusal += delta.refusal
        if delta.reasoning and self._thinking:
            self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""}, parts)
            parts.append(self._delta(self._blocks - 1, {"type": "thinking_delta", "thinking": delta.reasoning}))
        if delta.text:
            self._block("text", {"type": "text", "text": ""}, parts)
            parts.append(self._delta(self._blocks - 1, {"type": "text_delta", "text": delta.text}))
        for piece in delta.tool_calls:
            self._tool(piece, parts)

    def _start(self, parts: list[bytes]) -> None:
        if self._started:
            return
        self._started = True
        usage = {**_usage_object(None), "input_tokens": self._input_tokens}
        message = {**self._common, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        parts.append(_event({"type": "message_start", "message": message}))

    def _block(self, name: str, block: dict[str, Any], parts: list[bytes]) -> None:
        """Open the block `name` unless it is open."""
        if self._open == name:
            return
        self._close(parts)
        self._open = name
        parts.append(_event({"type": "content_block_start", "index": self._blocks, "content_block": block}))
        self._blocks += 1

    def _close(self, parts: list[bytes]) -> None:
        if self._open:
            self._open = ""
            parts.append(_event({"type": "content_block_stop", "index": self._blocks - 1}))

    def _tool(self, piece: ToolCallPiece, parts: list[bytes]) -> None:
        if piece.index not in self._calls:
            name = piece.id or f"toolu_{piece.index}"
            self._calls[piece.index] = self._blocks
            block = {"type": "tool_use", "id": name, "name": piece.name, "input": {}}
            self._block(f"call {piece.index}", block, parts)
        if piece.arguments:
            delta = {"type": "input_json_delta", "partial_json": piece.arguments}
            parts.append(self._delta(self._calls[piece.index], delta))

    def _delta(self, index: int, delta: dict[str, Any]) -> bytes:
        return _event({"type": "content_block_delta", "index": index, "delta": delta})

    def _end(self, parts: list[bytes]) -> None:
        if self._done:
            return
        self._done = True
        if not self._passes_raw:
            self._start(parts)
            self._close(parts)
            stop = _stop(self._finish or ("tool_calls" if self._calls else "stop"), self._refusal)
            parts.append(_event({"type": "message_delta", "delta": stop, "usage": _usage_object(self._usage)}))
        parts.append(_event({"type": "message_stop"}))


def _event(event: dict[str, Any]) -> bytes:
    return sse.encode(msgspec.json.encode(event), event["type"])


def _stop(finish_reason: str, refusal: str) -> dict[str, Any]:
    finish_reason = "content_filter" if refusal else finish_reason
    stop: dict[str, Any] = {"stop_reason": STOP_REASONS.get(finish_reason, "end_turn"), "stop_sequence": None}
    if finish_reason == "content_filter":
        stop["stop_details"] = {"type": "refusal", "category": None, "explanation": refusal or None}
    return stop


def _tool_use(call: ToolCallPiece) -> dict[str, Any]:
    name = call.id or f"toolu_{call.index}"
    return {"type": "tool_use", "id": name, "name": call.name, "input": arguments_object(call.arguments)}


def _usage_object(usage: Usage | None) -> dict[str, int]:
    """Return the counters; input tokens exclude what was read from or written to the cache."""
    used = usage or Usage()
    read, written = used.cached_input_tokens, used.cache_write_tokens
    return {
        "input_tokens": max(0, used.input_tokens - read - written), "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read, "output_tokens": used.output_tokens,
    }


_ERROR_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 409: "conflict_error", 413: "request_too_large", 422: "invalid_request_error",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip


def error_body(*, status: int, message: str, request_id: str, **facts: object) -> bytes:
    """Return an error as the SDKs read it: its type follows from `status`; `facts` are further members."""
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    error = {**facts, "type": kind, "message": message}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})
