"""The answer of /v1/messages, whole or streamed, as we send it to a caller (or a fake vendor to us).

Source: anthropic-python 2.11.0, `types/raw_*_event` and `lib/streaming` (November 2026). The SDKs drop events without an
`event:` line; LiveKit adds the output tokens of `message_start` to those of `message_delta`, so the former are 0.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.types.llm import ChatEnd, ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.tool_arguments import object_of

STOP_REASONS = {
    "stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use",
    "content_filter": "refusal",
}  # fmt: skip


class MessagesEncoder:
    """Events in, the bytes of a streamed answer out; or of a whole one.

    What has `raw` goes out as it came. The rest is built; of several choices the first is told. Reasoning is left out
    unless `thinking`: a caller may send it back, and the vendor refuses thinking that it has not signed. `input_tokens` is
    what `message_start` says, before the vendor has counted.
    """

    def __init__(
        self, *, id: str, model: str, input_tokens: int = 0, thinking: bool = False   # noqa: A002  the wire's name
    ) -> None:
        self._facts: dict[str, Any] = {"id": id, "type": "message", "role": "assistant", "model": model}
        self._input_tokens = input_tokens
        self._thinking = thinking
        self._begun = self._done = self._passing = False
        self._open = ""
        """The block that is open: "text", "thinking", "call <index>"; "" for none."""
        self._blocks = 0
        self._calls: dict[int, int] = {}
        self._finish: str | None = None
        self._refusal = ""
        self._usage: Usage | None = None

    def encode(self, events: list[ChatEvent]) -> bytes:
        """One bytes object for all of `events`, b"" when none of them shows."""
        parts: list[bytes] = []
        for event in events:
            if isinstance(event, Delta):
                if event.raw is None:
                    self._built(event, parts)
                else:
                    self._passing = True
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
                self._built(_as_delta(event), parts)
                self._end(parts)
        return b"".join(parts)

    def error(self, type: str, message: str) -> bytes:   # noqa: A002  the wire's name
        """A failure after the first byte, as the SDKs read it."""
        return _event({"type": "error", "error": {"type": type, "message": message}})

    def message(self, events: list[ChatEvent]) -> bytes:
        """The JSON body of a whole answer: the upstream's own, or put together from pieces."""
        text: list[str] = []
        thinking: list[str] = []
        calls: dict[int, list[ToolCallPiece]] = {}
        for event in events:
            if isinstance(event, Completion):
                if event.raw is not None:
                    return event.raw
                self._usage = event.usage or self._usage
                event = _as_delta(event)
            if isinstance(event, Delta) and event.choice == 0:
                text.append(event.text)
                thinking.append(event.reasoning)
                for piece in event.tool_calls:
                    calls.setdefault(piece.index, []).append(piece)
                self._note(event)
            elif isinstance(event, UsageReport):
                self._usage = event.usage
        content: list[dict[str, Any]] = []
        if self._thinking and any(thinking):
            content.append({"type": "thinking", "thinking": "".join(thinking), "signature": ""})
        if any(text):
            content.append({"type": "text", "text": "".join(text)})
        content += [_tool_use(index, pieces) for index, pieces in sorted(calls.items())]
        stop = self._stop(bool(calls))
        return msgspec.json.encode({**self._facts, "content": content, **stop, "usage": _usage_object(self._usage)})

    def _note(self, delta: Delta) -> None:
        self._finish = delta.finish_reason or self._finish
        self._refusal += delta.refusal

    def _built(self, delta: Delta, parts: list[bytes]) -> None:
        if delta.choice != 0:
            return
        self._begin(parts)
        self._note(delta)
        if delta.reasoning and self._thinking:
            self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""}, parts)
            parts.append(self._delta(self._blocks - 1, {"type": "thinking_delta", "thinking": delta.reasoning}))
        if delta.text:
            self._block("text", {"type": "text", "text": ""}, parts)
            parts.append(self._delta(self._blocks - 1, {"type": "text_delta", "text": delta.text}))
        for piece in delta.tool_calls:
            self._tool(piece, parts)

    def _begin(self, parts: list[bytes]) -> None:
        if self._begun:
            return
        self._begun = True
        usage = {**_usage_object(None), "input_tokens": self._input_tokens}
        message = {**self._facts, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
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

    def _stop(self, called: bool) -> dict[str, Any]:
        finish = self._finish or ("tool_calls" if called else "stop")
        if self._refusal:
            finish = "content_filter"
        stop: dict[str, Any] = {"stop_reason": STOP_REASONS.get(finish, "end_turn"), "stop_sequence": None}
        if finish == "content_filter":
            stop["stop_details"] = {"type": "refusal", "category": None, "explanation": self._refusal or None}
        return stop

    def _end(self, parts: list[bytes]) -> None:
        if self._done:
            return
        self._done = True
        if not self._passing:
            self._begin(parts)
            self._close(parts)
            usage = _usage_object(self._usage)
            parts.append(_event({"type": "message_delta", "delta": self._stop(bool(self._calls)), "usage": usage}))
        parts.append(_event({"type": "message_stop"}))


def _event(event: dict[str, Any]) -> bytes:
    return sse.encode(msgspec.json.encode(event), event["type"])


def _as_delta(whole: Completion) -> Delta:
    return Delta(
        text=whole.text, refusal=whole.refusal, tool_calls=whole.tool_calls, finish_reason=whole.finish_reason or "stop"
    )


def _tool_use(index: int, pieces: list[ToolCallPiece]) -> dict[str, Any]:
    name = "".join(piece.name for piece in pieces)
    arguments = "".join(piece.arguments for piece in pieces)
    return {
        "type": "tool_use",
        "id": next((piece.id for piece in pieces if piece.id), f"toolu_{index}"),
        "name": name,
        "input": object_of(arguments),
    }


def _usage_object(usage: Usage | None) -> dict[str, int]:
    """Input without what was read from or written to the cache."""
    used = usage or Usage()
    read, written = used.cached_input_tokens, used.cache_write_tokens
    return {
        "input_tokens": max(0, used.input_tokens - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": used.output_tokens,
    }


_ERROR_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 409: "conflict_error", 413: "request_too_large", 422: "invalid_request_error",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip


def error_body(*, status: int, message: str, request_id: str, **facts: object) -> bytes:
    """Return an error as the SDKs read it: its type follows from `status`; `facts` are further members."""
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return msgspec.json.encode(
        {"type": "error", "error": {**facts, "type": kind, "message": message}, "request_id": request_id}
    )
