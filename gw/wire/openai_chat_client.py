"""POST /chat/completions as its client: the request body, and the answer, streamed or not.

Source: openai-python 3.52.0 and groq-python 1.7.0, types and recorded streams (November 2026). Theory of operation: one SSE
event holds one chunk; a chunk with a choice becomes a `Delta` that carries the chunk's own bytes as `raw`, so that an encoder
of the same dialect sends them on unchanged. Servers differ in where they report usage: in a last chunk without choices
(OpenAI), in the last or in every chunk with a choice, or in `x_groq`. A chunk without choices is reported at once; usage from
chunks with a choice is kept, the latest replacing the earlier, and reported once before the end. A later `UsageReport` replaces
an earlier one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import tokens
from gw.wire.chat_answer import ENDED_BY
from gw.wire.json_codec import BAD_JSON, decode_upstream
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import error_within, stream_error

_DONE = b"[DONE]"
_END = ChatEnd()
_NULL = msgspec.Raw(b"null")
_TRUE = msgspec.Raw(b"true")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def upstream_body(request: ChatRequest, model: str) -> bytes:
    """Return the body for an upstream of this dialect: `model` replaced, usage requested when streaming, else untouched."""
    fields: dict[str, Any] = dict(request.fields)
    fields["model"] = model
    if request.stream:
        fields["stream"] = _TRUE
        options = fields.get("stream_options")
        if options is None or not request.include_usage:  # else the caller's own options request it
            own = {} if options is None or options == _NULL else stream_options(options)
            fields["stream_options"] = {**own, "include_usage": _TRUE}
    return msgspec.json.encode(fields)


def stream_options(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Decode the member `stream_options`. Raises ClientProtocolError."""
    try:
        return _FIELDS.decode(raw)
    except BAD_JSON:
        raise ClientProtocolError(what="'stream_options' must be an object", param="stream_options") from None


# ---- the answer


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None

    def piece(self, index: int) -> ToolCallPiece:
        function = self.function or _Function()
        return ToolCallPiece(index=index, id=self.id or "", name=function.name or "", arguments=function.arguments or "")


class _Text(msgspec.Struct, gc=False):
    text: str | None = None


class _Message(msgspec.Struct, gc=False):
    """A message, or a delta of one."""

    content: str | list[_Text] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    audio: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None


class _XGroq(msgspec.Struct, gc=False):
    usage: Any = None
    error: Any = None


class _Chunk(msgspec.Struct, gc=False):
    """A chunk of a streamed answer, or an unstreamed one."""

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
_NO_GROQ = _XGroq()


def _usage(value: object) -> Usage | None:
    """Return usage; None if it is missing or unreadable, which is no reason to lose the answer."""
    if value is None:
        return None
    try:
        usage = msgspec.convert(value, _Usage)
    except msgspec.ValidationError:
        return None
    if usage.prompt_tokens is None and usage.completion_tokens is None:
        return None
    prompt, completion = usage.prompt_tokens_details or _NO_TOKENS, usage.completion_tokens_details or _NO_TOKENS
    return Usage(
        input_tokens=tokens(usage.prompt_tokens),
        cached_input_tokens=tokens(prompt.cached_tokens),
        cache_write_tokens=tokens(prompt.cache_write_tokens),
        output_tokens=tokens(usage.completion_tokens),
        input_audio_tokens=tokens(prompt.audio_tokens),
        output_audio_tokens=tokens(completion.audio_tokens),
        source="vendor",
    )


def _text(content: str | list[_Text] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text or "" for part in content)


class ChatDecoder(SseStreamDecoder[ChatEvent]):
    """Bytes of a streamed answer in, events out.

    Several choices in one chunk become several deltas: the first carries `raw`, the others b"". A chunk whose tool
    calls lack their index has no `raw`: clients insist on the index, so an encoder must build it anew. Without `keep_raw`
    (the caller speaks another dialect) there is no `raw` at all.
    """

    def __init__(self, provider: str, *, keep_raw: bool = True) -> None:
        super().__init__(provider)
        self._keep_raw = keep_raw
        self._latest_usage: object = None
        self._finished = False
        self._has_content = False
        self._call_ids: list[str] = []

    def end(self) -> list[ChatEvent]:
        """Return the last events after the connection ended cleanly.

        Some servers end without a marker: after a finish_reason that is an end; otherwise raises UpstreamCut.
        """
        events: list[ChatEvent] = []
        if not self._ended:
            if not self._finished and not any(event.data == _DONE for event in self._sse.end()):
                raise UpstreamCut(provider=self._provider, detail="the stream ended without a finish_reason")
            self._finish(events)
        return events

    def _decode(self, event: sse.SseEvent, events: list[ChatEvent]) -> None:
        data = event.data
        if data == _DONE:
            self._finish(events)
            return
        try:
            chunk = _CHUNK.decode(data)
        except BAD_JSON:
            raise self._malformed("a chunk is not the JSON expected") from None
        usage = chunk.usage
        error = chunk.error
        if chunk.x_groq is not None:
            usage = usage or chunk.x_groq.usage
            error = error or chunk.x_groq.error
        if error is not None or event.event == "error":
            code, message = stream_error(data if error is None else error)
            self._ended = True
            events.append(StreamError(code=code, message=message))
        elif chunk.choices:
            self._latest_usage = usage or self._latest_usage
            raw = data if self._keep_raw else None
            for choice in chunk.choices:
                events.append(self._delta(choice, raw))
                raw = b"" if self._keep_raw else None
        elif usage is not None:
            report = _usage(usage)
            if report is not None:
                self._latest_usage = None
                events.append(UsageReport(usage=report, raw=data if self._keep_raw else None))
        elif chunk.choices is not None and self._keep_raw:
            events.append(Delta(raw=data))   # Azure's filter results, padding

    def _finish(self, events: list[ChatEvent]) -> None:
        usage = _usage(self._latest_usage)
        if usage is not None:
            events.append(UsageReport(usage=usage))
        if not self._has_content:
            raise self._malformed("empty answer")
        self._ended = True
        events.append(_END)

    def _delta(self, choice: _Choice, raw: bytes | None) -> Delta:
        delta = choice.delta
        finish_reason = choice.finish_reason
        if finish_reason is not None:
            self._finished = True
            if finish_reason in ENDED_BY:
                self._has_content = True
        if delta is None:
            return Delta(finish_reason=finish_reason, choice=choice.index, raw=raw)
        calls: tuple[ToolCallPiece, ...] = ()
        if delta.tool_calls or delta.function_call is not None:
            calls, indexed = self._pieces(delta)
            raw = raw if indexed else None
        text = delta.content if isinstance(delta.content, str) else _text(delta.content)
        refusal = delta.refusal or ""
        reasoning = delta.reasoning or delta.reasoning_content or ""
        if not self._has_content and (text or calls or refusal or reasoning or delta.audio is not None):
            self._has_content = True
        return Delta(
            text=text, refusal=refusal, reasoning=reasoning, tool_calls=calls, finish_reason=finish_reason,
            choice=choice.index, raw=raw,
        )

    def _pieces(self, delta: _Message) -> tuple[tuple[ToolCallPiece, ...], bool]:
        """Return the pieces of tool calls, and whether all of them had their index."""
        if not delta.tool_calls:
            return (_Call(function=delta.function_call).piece(0),), True   # the form before tools
        pieces = []
        indexed = True
        for call in delta.tool_calls:
            if call.index is None:
                indexed = False
                pieces.append(call.piece(self._index_of(call.id)))
            else:
                pieces.append(call.piece(call.index))
        return tuple(pieces), indexed

    def _index_of(self, call_id: str | None) -> int:
        """Return the index of a call that lacks one: a new id is the next call, no id continues the last."""
        if call_id and call_id not in self._call_ids:
            self._call_ids.append(call_id)
        return self._call_ids.index(call_id) if call_id else max(0, len(self._call_ids) - 1)


def decode_completion(body: bytes, provider: str, keep_raw: bool = True) -> Completion:
    """Decode an unstreamed answer: its first choice; `raw`, if kept, has all of them.

    Raises UpstreamProtocolError (malformed, or without content), ProviderFailed (an error object with status 200).
    """
    answer = decode_upstream(_CHUNK, body, provider, "the answer")
    groq = answer.x_groq or _NO_GROQ
    error = answer.error or groq.error
    if error is not None:
        raise error_within(provider, error)
    if not answer.choices:
        raise UpstreamProtocolError(provider=provider, detail="empty answer")
    choice = answer.choices[0]
    message = choice.message or _Message()
    text = _text(message.content)
    refusal = message.refusal or ""
    calls = tuple([call.piece(i) for i, call in enumerate(message.tool_calls)]) if message.tool_calls else ()
    if message.function_call is not None and not calls:
        calls = (_Call(function=message.function_call).piece(0),)
    reasoning = message.reasoning or message.reasoning_content
    has_content = text or refusal or calls or reasoning or message.audio is not None
    if not has_content and choice.finish_reason not in ENDED_BY:
        raise UpstreamProtocolError(provider=provider, detail="empty answer")
    return Completion(
        text=text, refusal=refusal, tool_calls=calls, finish_reason=choice.finish_reason,
        usage=_usage(answer.usage or groq.usage), raw=body if keep_raw else None,
    )
