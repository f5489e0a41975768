"""The answer of /chat/completions, whole or streamed, as an upstream sends it.

Source: openai-python 3.52.0 and groq-python 1.7.0, types and recorded streams (November 2026). Theory of operation: one SSE event holds one
chunk; a chunk with a choice becomes a `Delta` that carries the chunk's own bytes as `raw`, so that an encoder of the
same dialect sends them on unchanged. Where usage stands differs between servers: on a last chunk without choices
(OpenAI), on the last or on every choice chunk, or in `x_groq`. A chunk without choices is reported as it comes; usage
on choice chunks is kept, the last one standing, and reported once before the end. A later `UsageReport` replaces an
earlier one.
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

_DONE = b"[DONE]"
_END = ChatEnd()
_SAY_WHY = ("content_filter", "length")
"""With these an answer without text is one: what a model thinks unseen can use up the caller's limit, and is billed."""


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Text(msgspec.Struct, gc=False):
    text: str | None = None


class _Said(msgspec.Struct, gc=False):
    """A delta or a message."""

    content: str | list[_Text] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    audio: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None


class _XGroq(msgspec.Struct, gc=False):
    usage: Any = None
    error: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    x_groq: _XGroq | None = None
    error: Any = None


class _Tokens(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    audio_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Tokens | None = None
    completion_tokens_details: _Tokens | None = None


_CHUNK = msgspec.json.Decoder(_Chunk)
_NO_TOKENS = _Tokens()


def _usage(told: object) -> Usage | None:
    """None where there is none, or none that can be read: an answer is not thrown away for its bill."""
    if told is None:
        return None
    try:
        found = msgspec.convert(told, _Usage)
    except msgspec.ValidationError:
        return None
    if found.prompt_tokens is None and found.completion_tokens is None:
        return None
    inside, outside = found.prompt_tokens_details or _NO_TOKENS, found.completion_tokens_details or _NO_TOKENS
    return Usage(
        input_tokens=tokens(found.prompt_tokens),
        cached_input_tokens=tokens(inside.cached_tokens),
        cache_write_tokens=tokens(inside.cache_write_tokens),
        output_tokens=tokens(found.completion_tokens),
        input_audio_tokens=tokens(inside.audio_tokens),
        output_audio_tokens=tokens(outside.audio_tokens),
        source="vendor",
    )


def _joined(content: str | list[_Text] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text or "" for part in content)


class ChatDecoder(Midway[ChatEvent]):
    """Bytes of a streamed answer in, events out.

    Several choices in one chunk become several deltas: the first carries `raw`, the others b"". A chunk whose tool
    calls lack their index has no `raw`: clients insist on the index, so an encoder must build it anew. Without `keep_raw`
    (the caller speaks another dialect) there is no `raw` at all.
    """

    def __init__(self, provider: str, *, keep_raw: bool = True) -> None:
        self._provider = provider
        self._keep_raw = keep_raw
        self._sse = sse.SseDecoder()
        self._pending: object = None
        self._finished = False
        self._answered = False
        self._ended = False
        self._call_ids: list[str] = []

    def feed(self, data: bytes) -> list[ChatEvent]:
        """Raises UpstreamProtocolError for what is no chunk, and at the end for an answer without anything in it."""
        try:
            pieces = self._sse.feed(data)
        except sse.SseTooLong as error:
            raise UpstreamProtocolError(provider=self._provider, detail=str(error)) from None
        events: list[ChatEvent] = []
        try:
            for piece in pieces:
                if self._ended:
                    break
                if piece.data == _DONE:
                    self._finish(events)
                elif piece.data:
                    self._chunk(piece, events)
        except UpstreamProtocolError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[ChatEvent]:
        """The connection has ended cleanly.

        Some servers end without a marker: that is an end after a finish_reason, else raises UpstreamCut.
        """
        events: list[ChatEvent] = []
        if not self._ended:
            if not self._finished and not any(piece.data == _DONE for piece in self._sse.end()):
                raise UpstreamCut(provider=self._provider, detail="the stream ended without a finish_reason")
            self._finish(events)
        return events

    def _finish(self, events: list[ChatEvent]) -> None:
        usage = _usage(self._pending)
        if usage is not None:
            events.append(UsageReport(usage=usage))
        if not self._answered:
            raise UpstreamProtocolError(provider=self._provider, detail="empty answer")
        self._ended = True
        events.append(_END)

    def _chunk(self, piece: sse.SseEvent, events: list[ChatEvent]) -> None:
        payload = piece.data
        try:
            chunk = _CHUNK.decode(payload)
        except BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a chunk is not the JSON expected") from None
        usage = chunk.usage
        groq = chunk.x_groq
        fault = chunk.error
        if groq is not None:
            usage = usage or groq.usage
            fault = fault or groq.error
        if fault is not None or piece.event == "error":
            code, message = stream_error(payload if fault is None else fault)
            self._ended = True
            events.append(StreamError(code=code, message=message))
        elif chunk.choices:
            self._pending = usage or self._pending
            raw = payload if self._keep_raw else None
            for choice in chunk.choices:
                events.append(self._delta(choice, raw))
                raw = b"" if self._keep_raw else None
        elif usage is not None:
            report = _usage(usage)
            if report is not None:
                self._pending = None
                events.append(UsageReport(usage=report, raw=payload if self._keep_raw else None))
        elif chunk.choices is not None and self._keep_raw:
            events.append(Delta(raw=payload))   # Azure's filter results, padding

    def _delta(self, choice: _Choice, raw: bytes | None) -> Delta:
        said = choice.delta
        finish_reason = choice.finish_reason
        if finish_reason is not None:
            self._finished = True
            if finish_reason in _SAY_WHY:
                self._answered = True
        if said is None:
            return Delta(finish_reason=finish_reason, choice=choice.index, raw=raw)
        calls: tuple[ToolCallPiece, ...] = ()
        if said.tool_calls or said.function_call is not None:
            calls, whole = self._pieces(said)
            raw = raw if whole else None
        text = said.content if isinstance(said.content, str) else _joined(said.content)
        refusal = said.refusal or ""
        reasoning = said.reasoning or said.reasoning_content or ""
        if not self._answered and (text or calls or refusal or reasoning or said.audio is not None):
            self._answered = True
        return Delta(
            text=text, refusal=refusal, reasoning=reasoning, tool_calls=calls, finish_reason=finish_reason,
            choice=choice.index, raw=raw,
        )

    def _pieces(self, said: _Said) -> tuple[tuple[ToolCallPiece, ...], bool]:
        """Pieces of tool calls, and whether all of them had their index."""
        if not said.tool_calls:
            old = said.function_call or _Function()   # the form before tools
            return (ToolCallPiece(index=0, name=old.name or "", arguments=old.arguments or ""),), True
        pieces = []
        whole = True
        for call in said.tool_calls:
            index = call.index
            if index is None:
                whole = False
                index = self._index_of(call.id)
            function = call.function or _Function()
            pieces.append(
                ToolCallPiece(
                    index=index, id=call.id or "", name=function.name or "", arguments=function.arguments or ""
                )
            )
        return tuple(pieces), whole

    def _index_of(self, call_id: str | None) -> int:
        """A new id is the next call; a piece without an id belongs to the last one."""
        if call_id and call_id not in self._call_ids:
            self._call_ids.append(call_id)
        return self._call_ids.index(call_id) if call_id else max(0, len(self._call_ids) - 1)


def decode_completion(body: bytes, provider: str, keep_raw: bool = True) -> Completion:
    """A whole answer; of several choices the first is told and `raw`, if kept, has all.

    Raises UpstreamProtocolError (malformed, or nothing in it), ProviderFailed (an error object with status 200).
    """
    try:
        found = _CHUNK.decode(body)
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    fault = found.error or (found.x_groq.error if found.x_groq else None)
    if fault is not None:
        raise error_within(provider, fault)
    if not found.choices:
        raise UpstreamProtocolError(provider=provider, detail="empty answer")
    choice = found.choices[0]
    said = choice.message or _Said()
    text = said.content if isinstance(said.content, str) else _joined(said.content)
    refusal = said.refusal or ""
    calls: tuple[ToolCallPiece, ...] = ()
    if said.tool_calls:
        calls = tuple([_whole_call(i, call) for i, call in enumerate(said.tool_calls)])
    if said.function_call is not None and not calls:
        calls = (_whole_call(0, _Call(function=said.function_call)),)
    reasoning = said.reasoning or said.reasoning_content
    said_something = text or refusal or calls or reasoning or said.audio is not None
    if not said_something and choice.finish_reason not in _SAY_WHY:
        raise UpstreamProtocolError(provider=provider, detail="empty answer")
    usage = _usage(found.usage or (found.x_groq.usage if found.x_groq else None))
    return Completion(
        text=text, refusal=refusal, tool_calls=calls, finish_reason=choice.finish_reason, usage=usage,
        raw=body if keep_raw else None,
    )


def _whole_call(index: int, call: _Call) -> ToolCallPiece:
    function = call.function or _Function()
    return ToolCallPiece(index=index, id=call.id or "", name=function.name or "", arguments=function.arguments or "")
