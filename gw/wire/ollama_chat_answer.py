"""The answer of Ollama's /api/chat: one JSON object a line, or one object when no stream was asked for. Both roles.

Source: ollama-python 0.6.3, `_types.ChatResponse` and `_client` (November 2026), and the project's API documentation. The
last line has `done: true`, the reason and the counts; a failure in mid-stream is a line `{"error": "…"}` under status 200.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.bounds import tokens
from gw.wire.json_codec import BAD_JSON
from gw.wire.stream_decoder import Midway
from gw.wire.tool_arguments import object_of
from gw.wire.vendor_errors import error_within, stream_error

_END = ChatEnd()
MAX_LINE_BYTES = 4 * 1024 * 1024
"""A line is a token or a list of tool calls; an unstreamed answer is read whole elsewhere."""


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: dict[str, Any] | None = None


class _Call(msgspec.Struct, gc=False):
    function: _Function
    id: str | None = None


class _Said(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(msgspec.Struct, gc=False):
    message: _Said | None = None
    created_at: str = ""
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_LINE = msgspec.json.Decoder(_Line)


def _usage(line: _Line) -> Usage | None:
    """None where the input was not counted (it was in the server's cache): an estimate is nearer than nothing."""
    if line.prompt_eval_count is None:
        return None
    return Usage(
        input_tokens=tokens(line.prompt_eval_count), output_tokens=tokens(line.eval_count), source="vendor"
    )


def _calls(line: _Line, said: _Said, first: int) -> tuple[ToolCallPiece, ...]:
    """Whole calls, counted from `first`. Ids are made of the line's time, so that those of two turns differ."""
    stamp = "".join(c for c in line.created_at if c.isdigit())[:23]
    return tuple(
        ToolCallPiece(
            index=first + i,
            id=call.id or f"call_{stamp}_{first + i}",
            name=call.function.name,
            arguments=msgspec.json.encode(call.function.arguments or {}).decode(),
        )
        for i, call in enumerate(said.tool_calls or ())
    )


def _reason(line: _Line, called: bool) -> str:
    if line.done_reason == "length":
        return "length"
    return "tool_calls" if called else "stop"


class OllamaDecoder(Midway[ChatEvent]):
    """Bytes of a streamed answer in, events out; with `keep_raw` the first event of a line carries it, without its end."""

    def __init__(self, provider: str, *, keep_raw: bool = False) -> None:
        self._provider = provider
        self._keep_raw = keep_raw
        self._buffer = bytearray()
        self._called = 0
        self._answered = self._ended = False

    def feed(self, data: bytes) -> list[ChatEvent]:
        """Raises UpstreamProtocolError for what is no line of this dialect, and for an answer with nothing in it."""
        buffer = self._buffer
        at = data.rfind(b"\n")
        if at < 0:
            buffer += data
            if len(buffer) > MAX_LINE_BYTES:
                raise self._malformed("a line is too long")
            return []
        whole = bytes(buffer) + data[:at]
        self._buffer = bytearray(data[at + 1 :])
        if len(self._buffer) > MAX_LINE_BYTES:
            raise self._malformed("a line is too long")
        events: list[ChatEvent] = []
        try:
            for line in whole.split(b"\n"):
                self._line(line.strip(), events)
        except UpstreamProtocolError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[ChatEvent]:
        """The connection has ended cleanly; the last line may lack its end. Raises UpstreamCut unless it said `done`."""
        events: list[ChatEvent] = []
        rest, self._buffer = bytes(self._buffer).strip(), bytearray()
        if rest and not self._ended:
            try:
                self._line(rest, events)
            except UpstreamProtocolError:
                raise UpstreamCut(provider=self._provider, detail="the stream ended inside a line") from None
        if not self._ended:
            raise UpstreamCut(provider=self._provider, detail="the stream ended without a line that says done")
        return events

    def _line(self, raw: bytes, events: list[ChatEvent]) -> None:
        if not raw or self._ended:
            return
        try:
            line = _LINE.decode(raw)
            told = self._told(line)
        except BAD_JSON:
            raise self._malformed("a line is not the JSON expected") from None
        if line.error is not None:
            code, message = stream_error(line.error)
            self._ended = True
            events.append(StreamError(code=code, message=message))
            return
        if self._keep_raw:
            first = msgspec.structs.replace(told[0], raw=raw) if told else Delta(raw=raw)
            told = [first, *(msgspec.structs.replace(other, raw=b"") for other in told[1:])]
        events += told
        if line.done:
            if not self._answered:
                raise self._malformed("empty answer")
            self._ended = True
            events.append(_END)

    def _told(self, line: _Line) -> list[Delta | UsageReport]:
        told: list[Delta | UsageReport] = []
        said = line.message or _Said()
        if said.content or said.thinking or said.tool_calls:
            self._answered = True
            calls = _calls(line, said, self._called)
            self._called += len(calls)
            told.append(Delta(text=said.content or "", reasoning=said.thinking or "", tool_calls=calls))
        if line.done:
            reason = _reason(line, self._called > 0)
            self._answered = self._answered or reason == "length"
            told.append(Delta(finish_reason=reason))
            if (usage := _usage(line)) is not None:
                told.append(UsageReport(usage=usage))
        return told

    def _malformed(self, detail: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(provider=self._provider, detail=detail)


def decode_answer(body: bytes, provider: str, *, keep_raw: bool = False) -> Completion:
    """A whole answer. Raises UpstreamProtocolError (malformed, or nothing in it), ProviderFailed (an error with status 200)."""
    try:
        found = _LINE.decode(body)
        said = found.message or _Said()
        calls = _calls(found, said, 0)
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    if found.error is not None:
        raise error_within(provider, found.error)
    reason = _reason(found, bool(calls))
    if not (said.content or calls or said.thinking) and reason != "length":
        raise UpstreamProtocolError(provider=provider, detail="empty answer")
    return Completion(
        text=said.content or "",
        tool_calls=calls,
        finish_reason=reason,
        usage=_usage(found),
        raw=body if keep_raw else None,
    )


class OllamaEncoder:
    """Events in, lines out; or one object. What has `raw` goes out as it came; tool calls go out whole, near the end.

    `created_at` (RFC 3339) is that of every line. A refusal is told as text: this dialect has no word for it.
    """

    def __init__(self, *, model: str, created_at: str) -> None:
        self._facts = {"model": model, "created_at": created_at}
        self._calls: dict[int, list[ToolCallPiece]] = {}
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._passing = self._done = False

    def encode(self, events: list[ChatEvent]) -> bytes:
        """One bytes object for all of `events`, b"" when none of them shows."""
        parts: list[bytes] = []
        for event in events:
            if isinstance(event, (Delta, UsageReport)) and event.raw is not None:
                self._passing = True
                if event.raw:
                    parts.append(event.raw + b"\n")
            elif isinstance(event, Delta):
                self._built(event, parts)
            elif isinstance(event, UsageReport):
                self._usage = event.usage
            elif isinstance(event, ChatEnd):
                self._end(parts)
            elif isinstance(event, StreamError):
                parts.append(error_body(event.message or event.code) + b"\n")
            else:
                self._usage = event.usage
                self._built(_as_delta(event), parts)
                self._end(parts)
        return b"".join(parts)

    def answer(self, events: list[ChatEvent]) -> bytes:
        """The JSON body of a whole answer: the upstream's own, or put together from pieces."""
        said: list[Delta] = []
        for event in events:
            if isinstance(event, Completion):
                if event.raw is not None:
                    return event.raw
                self._usage = event.usage or self._usage
                event = _as_delta(event)
            if isinstance(event, Delta) and event.choice == 0:
                self._note(event)
                said.append(event)
            elif isinstance(event, UsageReport):
                self._usage = event.usage
        message: dict[str, Any] = {"content": "".join(d.text + d.refusal for d in said)}
        if thinking := "".join(d.reasoning for d in said):
            message["thinking"] = thinking
        if self._calls:
            message["tool_calls"] = self._whole_calls()
        return msgspec.json.encode(self._object(message, **self._last()))

    def _note(self, delta: Delta) -> None:
        for piece in delta.tool_calls:
            self._calls.setdefault(piece.index, []).append(piece)
        self._finish = delta.finish_reason or self._finish

    def _built(self, delta: Delta, parts: list[bytes]) -> None:
        if delta.choice != 0:
            return
        self._note(delta)
        message: dict[str, Any] = {"content": delta.text + delta.refusal}
        if delta.reasoning:
            message["thinking"] = delta.reasoning
        if message["content"] or delta.reasoning:
            parts.append(msgspec.json.encode(self._object(message, done=False)) + b"\n")

    def _end(self, parts: list[bytes]) -> None:
        if self._done or self._passing:
            return
        self._done = True
        if self._calls:
            message = {"content": "", "tool_calls": self._whole_calls()}
            parts.append(msgspec.json.encode(self._object(message, done=False)) + b"\n")
        parts.append(msgspec.json.encode(self._object({"content": ""}, **self._last())) + b"\n")

    def _object(self, message: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {**self._facts, "message": {"role": "assistant", **message}, **more}

    def _last(self) -> dict[str, Any]:
        last: dict[str, Any] = {"done": True, "done_reason": "length" if self._finish == "length" else "stop"}
        if self._usage is not None:
            last |= {"prompt_eval_count": self._usage.input_tokens, "eval_count": self._usage.output_tokens}
        return last

    def _whole_calls(self) -> list[dict[str, Any]]:
        made = []
        for _, pieces in sorted(self._calls.items()):
            name, arguments = "".join(p.name for p in pieces), "".join(p.arguments for p in pieces)
            made.append({"function": {"name": name, "arguments": object_of(arguments)}})
        return made


def _as_delta(whole: Completion) -> Delta:
    return Delta(
        text=whole.text, refusal=whole.refusal, tool_calls=whole.tool_calls, finish_reason=whole.finish_reason or "stop"
    )


def error_body(message: str, **facts: object) -> bytes:
    """`{"error": "…"}`, of an answer or of a line inside one; the facts of the error stand beside."""
    return msgspec.json.encode({**facts, "error": message})
