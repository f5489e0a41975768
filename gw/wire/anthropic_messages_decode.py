"""The answer of /v1/messages, whole or streamed, as an upstream sends it.

Source: anthropic-python 2.11.0, `types/raw_*_event`, `types/usage`, `types/stop_reason` (November 2026). Theory of
operation: an answer is a list of blocks. Text becomes `Delta.text`, thinking `Delta.reasoning`, a `tool_use` block a tool
call with the next index. Counters are cumulative: those of `message_delta` replace those of `message_start`. There
`input_tokens` leaves out what was read from or written to the cache; in our `Usage` it is all of the input.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import tokens
from gw.wire.json_codec import BAD_JSON
from gw.wire.stream_decoder import Midway
from gw.wire.vendor_errors import error_within, stream_error

_END = ChatEnd()
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Theirs → ours; one that is not known is a stop."""
_SAY_WHY = ("content_filter", "length")
"""With these an answer without text is one."""
REFUSED = "The model refused to answer."


class _StopDetails(msgspec.Struct, gc=False):
    explanation: str | None = None


class _Block(msgspec.Struct, gc=False):
    """A block, or a delta of one, or the delta of the message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"")
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Message(msgspec.Struct, gc=False):
    content: list[_Block] | None = None
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    usage: Any = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Block | None = None
    usage: Any = None
    error: Any = None


class _Whole(_Message, gc=False):
    type: str = ""
    error: Any = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


_EVENT = msgspec.json.Decoder(_Event)
_WHOLE = msgspec.json.Decoder(_Whole)


def _counters(told: object) -> _Usage | None:
    """None where there is none, or none that can be read: an answer is not thrown away for its bill."""
    try:
        return None if told is None else msgspec.convert(told, _Usage)
    except msgspec.ValidationError:
        return None


def _usage(start: _Usage | None, last: _Usage | None) -> Usage | None:
    """The counters of the end, where they are told, else those of the start."""
    if start is None and last is None:
        return None
    first, final = start or _Usage(), last or _Usage()

    def either(name: str) -> int:
        told = getattr(final, name)
        return tokens(getattr(first, name) if told is None else told)

    read, written = either("cache_read_input_tokens"), either("cache_creation_input_tokens")
    return Usage(
        input_tokens=tokens(either("input_tokens") + read + written),
        cached_input_tokens=read,
        cache_write_tokens=written,
        output_tokens=either("output_tokens"),
        source="vendor",
    )


def _finish(reason: str) -> str:
    return FINISH_REASONS.get(reason, "stop")


def _refusal(reason: str, details: _StopDetails | None) -> str:
    return ((details.explanation if details is not None else None) or REFUSED) if reason == "refusal" else ""


class MessagesDecoder(Midway[ChatEvent]):
    """Bytes of a streamed answer in, events out.

    With `keep_raw` each event of the stream comes as one event that carries it, framed, as `raw`; only `message_stop` has
    none, since `ChatEnd` stands for it.
    """

    def __init__(self, provider: str, *, keep_raw: bool = False) -> None:
        self._provider = provider
        self._keep_raw = keep_raw
        self._sse = sse.SseDecoder()
        self._start: _Usage | None = None
        self._calls: dict[int, bool] = {}
        """Open and past tool_use blocks by index; whether arguments have come."""
        self._numbers: dict[int, int] = {}
        self._finished = self._answered = self._ended = False

    def feed(self, data: bytes) -> list[ChatEvent]:
        """Raises UpstreamProtocolError for what is no event, and at the end for an answer without anything in it."""
        try:
            pieces = self._sse.feed(data)
        except sse.SseTooLong as error:
            raise UpstreamProtocolError(provider=self._provider, detail=str(error)) from None
        events: list[ChatEvent] = []
        try:
            for piece in pieces:
                if not self._ended and piece.data:
                    self._event(piece, events)
        except UpstreamProtocolError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[ChatEvent]:
        """The connection has ended cleanly: an end after a stop_reason, else raises UpstreamCut."""
        events: list[ChatEvent] = []
        if not self._ended:
            if not self._finished:
                raise UpstreamCut(provider=self._provider, detail="the stream ended without a stop_reason")
            self._stop(events)
        return events

    def _event(self, piece: sse.SseEvent, events: list[ChatEvent]) -> None:
        try:
            event = _EVENT.decode(piece.data)
            kind = event.type or piece.event
            told = self._told(kind, event)
        except BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="an event is not the JSON expected") from None
        if kind == "error" or event.error is not None:
            code, message = stream_error(piece.data if event.error is None else event.error)
            self._ended = True
            events.append(StreamError(code=code, message=message))
            return
        if kind == "message_stop":
            self._stop(events)
            return
        if self._keep_raw:
            raw = sse.encode(piece.data, kind)
            first = msgspec.structs.replace(told[0], raw=raw) if told else Delta(raw=raw)
            events += [first, *(msgspec.structs.replace(other, raw=b"") for other in told[1:])]
        else:
            events += told

    def _told(self, kind: str, event: _Event) -> list[Delta | UsageReport]:
        """What an event says in common terms; nothing for those we do not know."""
        if kind == "content_block_delta" and event.delta is not None:
            return self._piece(event.index, event.delta)
        if kind == "content_block_start" and event.content_block is not None:
            return self._begun(event.index, event.content_block)
        if kind == "content_block_stop" and self._calls.get(event.index) is False:
            self._calls[event.index] = True
            return [self._call(event.index, arguments="{}")]   # no arguments at all: an object without members
        if kind == "message_start" and event.message is not None:
            self._start = _counters(event.message.usage)
        if kind == "message_delta":
            return self._finishing(event)
        return []

    def _begun(self, index: int, block: _Block) -> list[Delta | UsageReport]:
        if block.type == "tool_use":
            self._numbers.setdefault(index, len(self._numbers))
            whole = bytes(block.input) if bytes(block.input) not in (b"", b"{}", b"null") else b""
            self._calls[index] = bool(whole)
            return [self._call(index, id=block.id or "", name=block.name or "", arguments=whole.decode())]
        return self._piece(index, block)   # text of a block's start is mostly ""

    def _piece(self, index: int, delta: _Block) -> list[Delta | UsageReport]:
        if delta.text and delta.type.startswith("text"):
            self._answered = True
            return [Delta(text=delta.text)]
        if delta.thinking:
            self._answered = True
            return [Delta(reasoning=delta.thinking)]
        if delta.partial_json and index in self._calls:
            self._calls[index] = True
            return [self._call(index, arguments=delta.partial_json)]
        return []

    def _call(self, index: int, id: str = "", name: str = "", arguments: str = "") -> Delta:   # noqa: A002  the field's name
        self._answered = True
        piece = ToolCallPiece(index=self._numbers[index], id=id, name=name, arguments=arguments)
        return Delta(tool_calls=(piece,))

    def _finishing(self, event: _Event) -> list[Delta | UsageReport]:
        told: list[Delta | UsageReport] = []
        if event.delta is not None and event.delta.stop_reason is not None:
            reason = event.delta.stop_reason
            self._finished = True
            self._answered = self._answered or _finish(reason) in _SAY_WHY
            told.append(Delta(finish_reason=_finish(reason), refusal=_refusal(reason, event.delta.stop_details)))
        usage = _usage(self._start, _counters(event.usage))
        if usage is not None and self._finished:
            told.append(UsageReport(usage=usage))
        return told

    def _stop(self, events: list[ChatEvent]) -> None:
        if not self._answered:
            raise UpstreamProtocolError(provider=self._provider, detail="empty answer")
        self._ended = True
        events.append(_END)


def decode_message(body: bytes, provider: str, *, keep_raw: bool = False) -> Completion:
    """A whole answer. Raises UpstreamProtocolError (malformed, or nothing in it), ProviderFailed (an error with status 200)."""
    try:
        found = _WHOLE.decode(body)
        uses = (block for block in found.content or () if block.type == "tool_use")
        calls = tuple(_whole_call(i, block) for i, block in enumerate(uses))
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    if found.error is not None or found.type == "error":
        raise error_within(provider, body if found.error is None else found.error)
    blocks = found.content or []
    text = "".join(block.text or "" for block in blocks if block.type == "text")
    reason = found.stop_reason or "end_turn"
    thought = any(block.thinking for block in blocks)
    if not (text or calls or thought) and _finish(reason) not in _SAY_WHY:
        raise UpstreamProtocolError(provider=provider, detail="empty answer")
    return Completion(
        text=text,
        refusal=_refusal(reason, found.stop_details),
        tool_calls=calls,
        finish_reason=_finish(reason),
        usage=_usage(None, _counters(found.usage)),
        raw=body if keep_raw else None,
    )


def _whole_call(index: int, block: _Block) -> ToolCallPiece:
    arguments = bytes(block.input).decode() or "{}"
    return ToolCallPiece(index=index, id=block.id or "", name=block.name or "", arguments=arguments)
