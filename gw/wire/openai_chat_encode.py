"""The answer of /chat/completions, whole or streamed, as we send it to a caller (or a fake vendor to us).

Source: openai-python 3.52.0 (November 2026).
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.types.llm import ChatEnd, ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire import sse


class ChatEncoder:
    """Events in, the bytes of a streamed answer out; or of a whole one.

    What has `raw` goes out as it came. The rest is built: role first, an index on every piece of a tool call, the
    reason to stop in a chunk of its own. The usage chunk is left out unless the caller asked for it.
    """

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:   # noqa: A002  the wire's name
        self._facts: dict[str, Any] = {"id": id, "created": created, "model": model}
        self._include_usage = include_usage
        self._begun: set[int] = set()
        self._done = False

    def encode(self, events: list[ChatEvent]) -> bytes:
        """One bytes object for all of `events`, b"" when none of them shows."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta:
                if event.raw is None:
                    self._built(event, parts)
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
                self._unstreamed(event, parts)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def error(self, code: str, message: str, type: str) -> bytes:   # noqa: A002  the wire's name
        """A failure after the first byte, as OpenAI's SDKs read it."""
        error = {"message": message, "type": type, "param": None, "code": code}
        return sse.encode(msgspec.json.encode({"error": error}))

    def completion(self, events: list[ChatEvent]) -> bytes:
        """The JSON body of a whole answer: the upstream's own, or put together from pieces."""
        usage: Usage | None = None
        answers: dict[int, _Answer] = {}
        for event in events:
            if isinstance(event, Completion):
                if event.raw is not None:
                    return event.raw
                usage = event.usage or usage
                answers.setdefault(0, _Answer()).add(_as_delta(event))
            elif isinstance(event, Delta):
                if event.choice in answers or event.has_content or event.refusal or event.finish_reason:
                    answers.setdefault(event.choice, _Answer()).add(event)
            elif isinstance(event, UsageReport):
                usage = event.usage
        choices = [answers[index].choice(index) for index in sorted(answers)] or [_Answer().choice(0)]
        body: dict[str, Any] = {**self._facts, "object": "chat.completion", "choices": choices}
        if usage is not None:
            body["usage"] = _usage_object(usage)
        return msgspec.json.encode(body)

    def _end(self, parts: list[bytes]) -> None:
        if not self._done:
            self._done = True
            parts.append(sse.encode(b"[DONE]"))

    def _unstreamed(self, whole: Completion, parts: list[bytes]) -> None:
        self._built(_as_delta(whole), parts)
        if whole.usage is not None and self._include_usage:
            parts.append(self._usage(whole.usage))
        self._end(parts)

    def _built(self, delta: Delta, parts: list[bytes]) -> None:
        choice = delta.choice
        if choice not in self._begun:
            self._begun.add(choice)
            parts.append(self._choice(choice, {"role": "assistant", "content": ""}, None))
        said: dict[str, Any] = {}
        if delta.text:
            said["content"] = delta.text
        if delta.refusal:
            said["refusal"] = delta.refusal
        if delta.reasoning:
            said["reasoning"] = delta.reasoning
        if delta.tool_calls:
            said["tool_calls"] = [_call_object(piece) for piece in delta.tool_calls]
        if said:
            parts.append(self._choice(choice, said, None))
        if delta.finish_reason is not None:
            parts.append(self._choice(choice, {}, delta.finish_reason))

    def _choice(self, index: int, said: dict[str, Any], finish_reason: str | None) -> bytes:
        choice = {"index": index, "delta": said, "logprobs": None, "finish_reason": finish_reason}
        return self._framed({"choices": [choice], "usage": None} if self._include_usage else {"choices": [choice]})

    def _usage(self, usage: Usage) -> bytes:
        return self._framed({"choices": [], "usage": _usage_object(usage)})

    def _framed(self, members: dict[str, Any]) -> bytes:
        return sse.encode(msgspec.json.encode({**self._facts, "object": "chat.completion.chunk", **members}))


class _Answer:
    """One choice of an answer being put together."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.refusal: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, list[ToolCallPiece]] = {}
        self.finish_reason: str | None = None

    def add(self, delta: Delta) -> None:
        self.text.append(delta.text)
        self.refusal.append(delta.refusal)
        self.reasoning.append(delta.reasoning)
        for piece in delta.tool_calls:
            self.calls.setdefault(piece.index, []).append(piece)
        self.finish_reason = delta.finish_reason or self.finish_reason

    def choice(self, index: int) -> dict[str, Any]:
        text, refusal, reasoning = "".join(self.text), "".join(self.refusal), "".join(self.reasoning)
        silent = not text and (self.calls or refusal)
        message: dict[str, Any] = {"role": "assistant", "content": None if silent else text, "refusal": refusal or None}
        if reasoning:
            message["reasoning"] = reasoning
        if self.calls:
            message["tool_calls"] = [_whole_call_object(pieces) for _, pieces in sorted(self.calls.items())]
        finish_reason = self.finish_reason or ("tool_calls" if self.calls else "stop")
        return {"index": index, "message": message, "logprobs": None, "finish_reason": finish_reason}


def _as_delta(whole: Completion) -> Delta:
    return Delta(
        text=whole.text, refusal=whole.refusal, tool_calls=whole.tool_calls, finish_reason=whole.finish_reason or "stop"
    )


def _call_object(piece: ToolCallPiece) -> dict[str, Any]:
    function: dict[str, str] = {"arguments": piece.arguments}
    if piece.name:
        function["name"] = piece.name
    head = {"id": piece.id, "type": "function"} if piece.id else {}
    return {"index": piece.index, **head, "function": function}


def _whole_call_object(pieces: list[ToolCallPiece]) -> dict[str, Any]:
    function = {"name": "".join(p.name for p in pieces), "arguments": "".join(p.arguments for p in pieces)}
    return {"id": next((p.id for p in pieces if p.id), ""), "type": "function", "function": function}


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
    *, type: str, code: str, message: str, param: str | None, request_id: str, **facts: object   # noqa: A002  the wire's name
) -> bytes:
    """Return `{"error": {…}}` as OpenAI's SDKs read it, with our request id and the error's other facts."""
    error = {"message": message, "type": type, "param": param, "code": code, "request_id": request_id}
    return msgspec.json.encode({"error": {**facts, **error}})
