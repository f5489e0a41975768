"""Answers of POST /v1/messages, streamed or not, both roles.

Source: anthropic-python 2.11.0, `types/raw_*_event`, `types/usage`, `types/stop_reason`, `lib/streaming` (November 2026).

An answer is a list of blocks. Text becomes `Delta.text`, thinking `Delta.reasoning`, a `tool_use` block a tool call with the
next index. Counters are cumulative: those of `message_delta` replace those of `message_start`. Their `input_tokens` excludes
what was read from or written to the cache; our `Usage` counts all of the input.

The SDKs drop events without an `event:` line; LiveKit adds the output tokens of `message_start` to those of `message_delta`,
so the former are 0.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import EmptyAnswer, UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire import billing, sse
from gw.wire.bounds import part_of, plausible, tokens
from gw.wire.chat_answer import ENDED_BY, CollectedAnswer, arguments_object, as_delta, with_raw
from gw.wire.json_codec import BAD_JSON, convert_or_none, decode_answer, decode_mended
from gw.wire.sse_event import SseEvent
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import error_within, stream_error

# ---- client

_END = ChatEnd()
FINISH_REASONS = {
    "end_turn": "stop", "stop_sequence": "stop", "pause_turn": "stop", "max_tokens": "length",
    "model_context_window_exceeded": "length", "tool_use": "tool_calls", "refusal": "content_filter",
}  # fmt: skip
"""The vendor's → ours; an unknown one is a stop."""
REFUSED = "The model refused to answer."


class _StopDetails(msgspec.Struct, gc=False):
    explanation: str | None = None


class _Block(msgspec.Struct, gc=False):
    """A block, a delta of one, or the delta of the message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"")
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Answer(msgspec.Struct, gc=False):
    """An unstreamed answer, an error in its place, or the head of a streamed answer."""

    type: str = ""
    content: list[_Block] | None = None
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    usage: Any = None
    error: Any = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    message: _Answer | None = None
    content_block: _Block | None = None
    delta: _Block | None = None
    usage: Any = None
    error: Any = None


class _Usage(msgspec.Struct, gc=False):
    """Members as of anthropic 2.12.0; in a stream `message_start` has all of them, `message_delta` the counters.

    Members of type Any are read on their own: an unreadable one is no reason to lose the counters.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: Any = None
    cache_creation: Any = None
    server_tool_use: Any = None
    service_tier: Any = None
    inference_geo: Any = None
    speed: Any = None


_EVENT = msgspec.json.Decoder(_Event)
_ANSWER = msgspec.json.Decoder(_Answer)


def _usage(start: object, last: object) -> Usage | None:
    """Return the counters of the end, or else of the start; None if unreadable, which is no reason to lose the answer."""
    first, final = convert_or_none(start, _Usage), convert_or_none(last, _Usage)
    if all(report is None or report.input_tokens is None for report in (first, final)):
        return None

    def either(name: str) -> int:
        count = getattr(final, name, None)
        return tokens(getattr(first, name, None) if count is None else count)

    def named(name: str) -> Any:
        value = getattr(final, name, None)
        return getattr(first, name, None) if value is None else value

    def within(name: str, member: str) -> int | None:
        result = named(name)
        count = result.get(member) if isinstance(result, dict) else None
        return tokens(count) if type(count) is int else None

    read, written = either("cache_read_input_tokens"), either("cache_creation_input_tokens")
    counted = Usage(
        input_tokens=tokens(either("input_tokens") + read + written), cached_input_tokens=read,
        cache_write_tokens=written, output_tokens=either("output_tokens"), source="vendor",
        reasoning_tokens=part_of(within("output_tokens_details", "thinking_tokens"), either("output_tokens")),
        dimensions=billing.dimensions(
            # A faster model run (`speed`) has prices of its own, as a tier has; the two are not combined.
            billing.special(named("speed")) or named("service_tier"),
            named("inference_geo"),
            searches=within("server_tool_use", "web_search_requests") or 0,
            cache_write_long_tokens=within("cache_creation", "ephemeral_1h_input_tokens") or 0,
        ),
    )
    return plausible(counted)


def _finish(reason: str) -> str:
    return FINISH_REASONS.get(reason, "stop")


def _refusal(reason: str, details: _StopDetails | None) -> str:
    return ((details.explanation if details is not None else None) or REFUSED) if reason == "refusal" else ""


class MessagesDecoder(SseStreamDecoder[ChatEvent]):
    """Bytes of a streamed answer in, events out.

    With `keep_raw` each event of the stream yields an event that carries it, framed, as `raw`, except `message_stop`, which
    `ChatEnd` stands for.
    """

    def __init__(self, provider: str, *, keep_raw: bool = False) -> None:
        super().__init__(provider)
        self._keep_raw = keep_raw
        self._start: object = None  # usage in `message_start`
        self._calls: dict[int, bool] = {}  # index of a tool_use block, open or closed → whether arguments have come
        self._call_indices: dict[int, int] = {}
        self._finished = self._has_content = False

    def end(self) -> list[ChatEvent]:
        """Return the last events after the connection ended cleanly. Raises UpstreamCut unless a stop_reason has come."""
        events: list[ChatEvent] = []
        if not self._ended:
            if not self._finished:
                raise UpstreamCut(provider=self._provider, detail="the stream ended without a stop_reason")
            self._stop(events)
        return events

    def _decode(self, event: SseEvent, events: list[ChatEvent]) -> None:
        data = event.data
        try:
            try:
                decoded = _EVENT.decode(data)
            except BAD_JSON:
                decoded, data = decode_mended(_EVENT, data)
            kind = decoded.type or event.event
            common = self._common_events(kind, decoded)
        except BAD_JSON:
            raise self._malformed("an event is not the JSON expected") from None
        if kind == "error" or decoded.error is not None:
            self._ended = True
            events.append(stream_error(data if decoded.error is None else decoded.error))
        elif kind == "message_stop":
            self._stop(events)
        else:
            events += with_raw(common, sse.encode(data, kind)) if self._keep_raw else common

    def _common_events(self, kind: str, event: _Event) -> list[Delta | UsageReport]:
        """Return an event of the stream as common events; [] for an unknown one."""
        if kind == "content_block_delta" and event.delta is not None:
            return self._piece(event.index, event.delta)
        if kind == "content_block_start" and event.content_block is not None:
            return self._block_start(event.index, event.content_block)
        if kind == "content_block_stop" and self._calls.get(event.index) is False:
            self._calls[event.index] = True
            return [self._call(event.index, arguments="{}")]   # no arguments: an empty object
        if kind == "message_start" and event.message is not None:
            self._start = event.message.usage
        if kind == "message_delta":
            return self._message_delta(event)
        return []

    def _block_start(self, index: int, block: _Block) -> list[Delta | UsageReport]:
        if block.type == "tool_use":
            self._call_indices.setdefault(index, len(self._call_indices))
            arguments = bytes(block.input) if bytes(block.input) not in (b"", b"{}", b"null") else b""
            self._calls[index] = bool(arguments)
            return [self._call(index, id=block.id or "", name=block.name or "", arguments=arguments.decode())]
        return self._piece(index, block)   # text of a block's start is mostly ""

    def _piece(self, index: int, delta: _Block) -> list[Delta | UsageReport]:
        if delta.text and delta.type.startswith("text"):
            self._has_content = True
            return [Delta(text=delta.text)]
        if delta.thinking:
            self._has_content = True
            return [Delta(reasoning=delta.thinking)]
        if delta.partial_json and index in self._calls:
            self._calls[index] = True
            return [self._call(index, arguments=delta.partial_json)]
        return []

    def _call(self, index: int, id: str = "", name: str = "", arguments: str = "") -> Delta:   # noqa: A002  the field's name
        self._has_content = True
        piece = ToolCallPiece(index=self._call_indices[index], id=id, name=name, arguments=arguments)
        return Delta(tool_calls=(piece,))

    def _message_delta(self, event: _Event) -> list[Delta | UsageReport]:
        events: list[Delta | UsageReport] = []
        if event.delta is not None and event.delta.stop_reason is not None:
            reason = event.delta.stop_reason
            self._finished = True
            self._has_content = self._has_content or _finish(reason) in ENDED_BY
            events.append(Delta(finish_reason=_finish(reason), refusal=_refusal(reason, event.delta.stop_details)))
        usage = _usage(self._start, event.usage)
        if usage is not None and self._finished:
            events.append(UsageReport(usage=usage))
        return events

    def _stop(self, events: list[ChatEvent]) -> None:
        if not self._has_content:
            raise EmptyAnswer(provider=self._provider) if self._finished else self._malformed("empty answer")
        self._ended = True
        events.append(_END)


def decode_message(body: bytes, provider: str, *, keep_raw: bool = False) -> Completion:
    """Decode an unstreamed answer. Raises UpstreamProtocolError, and ProviderFailed for an error with status 200."""
    answer, body = decode_answer(_ANSWER, body, provider)
    try:
        uses = [block for block in answer.content or () if block.type == "tool_use"]
        calls = tuple(_tool_call(i, block) for i, block in enumerate(uses))
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    if answer.error is not None or answer.type == "error":
        raise error_within(provider, body if answer.error is None else answer.error)
    blocks = answer.content or []
    text = "".join(block.text or "" for block in blocks if block.type == "text")
    reason = answer.stop_reason or "end_turn"
    has_content = text or calls or any(block.thinking for block in blocks)
    if not has_content and _finish(reason) not in ENDED_BY:
        raise EmptyAnswer(provider=provider)
    return Completion(
        text=text, refusal=_refusal(reason, answer.stop_details), tool_calls=calls, finish_reason=_finish(reason),
        usage=_usage(None, answer.usage), raw=body if keep_raw else None,
    )


def _tool_call(index: int, block: _Block) -> ToolCallPiece:
    arguments = bytes(block.input).decode() or "{}"
    return ToolCallPiece(index=index, id=block.id or "", name=block.name or "", arguments=arguments)


# ---- server

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


def _usage_object(usage: Usage | None) -> dict[str, Any]:
    """Return the counters; input tokens exclude what was read from or written to the cache."""
    used = usage or Usage()
    read, written = used.cached_input_tokens, used.cache_write_tokens
    known = used.reasoning_tokens is not None
    return {
        "input_tokens": max(0, used.input_tokens - read - written), "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read, "output_tokens": used.output_tokens,
        **({"output_tokens_details": {"thinking_tokens": used.reasoning_tokens}} if known else {}),
    }


_ERROR_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 409: "conflict_error", 413: "request_too_large", 422: "invalid_request_error",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip


def error_body(*, status: int, message: str, request_id: str, **facts: object) -> bytes:
    """Return an error as the SDKs read it: its type follows from `status`; `facts` are further members."""
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    error = {"type": kind, "message": message}
    return msgspec.json.encode({"type": "error", "error": {**error, **facts, **error}, "request_id": request_id})
