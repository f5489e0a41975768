"""Ollama's POST /api/chat, both roles: requests, and answers of one JSON object a line (one object if not streamed).

Source: ollama-python 0.6.3, `_types` and `_client` (November 2026), and the project's API documentation. Differences from
OpenAI's dialect: settings are in `options`, tool arguments are objects, calls have no ids (a result names the tool), images are
bare base64, and streaming is the default. The last line of an answer has `done: true`, the reason and the counts; a failure in
mid-stream is a line `{"error": "…"}` under status 200.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, EmptyAnswer, UpstreamCut, UpstreamProtocolError
from gw.types import llm
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.bounds import MOST_TOKENS, plausible, tokens
from gw.wire.chat_answer import CollectedAnswer, CollectedChoice, arguments_object, as_delta, with_raw
from gw.wire.chat_messages import ChatFields, ChatMessage, decode_fields
from gw.wire.json_codec import BAD_JSON, MEMBERS, decode_client, decode_request, present
from gw.wire.stream_decoder import StreamDecoder
from gw.wire.vendor_errors import error_within, stream_error

MAX_LINE_BYTES = 4 * 1024 * 1024  # a line is a token or a list of tool calls; an unstreamed answer is read elsewhere
_OPTIONS = ("temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty")
"""Settings with the same name in both dialects."""
_PASSED_ON = ("keep_alive", "think", "format")
_EFFORTS: dict[str, bool | str] = {
    "none": False, "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high",
}  # fmt: skip
_IMAGE_TYPES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGO": "image/gif", "UklGR": "image/webp"}
"""First characters of an image in base64 → its type."""
_END = ChatEnd()

Object = dict[str, Any]


# ---- the request, as a client


class _Fields(ChatFields, gc=False):
    tools: list[Object] | None = None
    tool_choice: Any = None


def upstream_body(request: ChatRequest, model: str, settings: Mapping[str, object]) -> bytes:
    """Return the body for an upstream of this dialect. A caller's own request goes on with only `model` replaced.

    `settings` are the provider entry's `num_ctx`, `keep_alive`, `think`; the caller's own values override them. Raises
    ClientProtocolError for what this dialect cannot express.
    """
    if request.dialect == "ollama" and request.native:
        return _native_body(request.native, model, settings)
    fields = decode_fields(request, _Fields)
    tools: dict[str, str] = {}
    messages = [_message(message.joined(), tools) for message in fields.messages]
    body = present(
        model=model, messages=messages, stream=request.stream,
        tools=fields.tools if fields.tools and fields.tool_choice != "none" else None,
        options=_options(request, fields, settings) or None,
        keep_alive=settings.get("keep_alive"), think=_EFFORTS.get(fields.reasoning_effort or "", settings.get("think")),
        format="json" if fields.wants_json and fields.json_schema is None else fields.json_schema,
    )
    return msgspec.json.encode(body | {name: request.fields[name] for name in _PASSED_ON if name in request.fields})


def _native_body(native: bytes, model: str, settings: Mapping[str, object]) -> bytes:
    body: Object = {**MEMBERS.decode(native), "model": model}
    if "num_ctx" in settings:
        options = msgspec.json.decode(body["options"], type=Object | None) if "options" in body else None
        body["options"] = {"num_ctx": settings["num_ctx"], **(options or {})}
    for name in ("keep_alive", "think"):
        if name in settings:
            body.setdefault(name, settings[name])
    return msgspec.json.encode(body)


def _options(request: ChatRequest, fields: _Fields, settings: Mapping[str, object]) -> Object:
    raw = request.fields
    options = present(num_ctx=settings.get("num_ctx"))
    options |= {name: raw[name] for name in _OPTIONS if name in raw and bytes(raw[name]) != b"null"}
    options |= present(num_predict=request.max_output_tokens, stop=fields.stops if fields.stop else None)
    if "options" in raw:   # added by a caller of OpenAI's dialect
        added = decode_client(MEMBERS, raw["options"], "'options' must be an object", "options")
        options |= added
    return options


def _message(message: ChatMessage, tools: dict[str, str]) -> Object:
    """Return a message; `tools` collects the ids of calls → their tools."""
    body: Object = {"role": "system" if message.role == "developer" else message.role, "content": message.text}
    if message.images:
        body["images"] = [_base64(url) for url in message.images]
    if message.tool_calls:
        tools |= {call.id: call.name for call in message.tool_calls}
        body["tool_calls"] = [_call_object(call) for call in message.tool_calls]
    if message.role == "tool" and (name := tools.get(message.tool_call_id) or message.name):
        body["tool_name"] = name
    return body


def _call_object(call: ToolCallPiece) -> Object:
    return {"function": {"name": call.name, "arguments": arguments_object(call.arguments)}}


def _base64(url: str) -> str:
    head, _, data = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise ClientProtocolError(what="this server takes images as base64 data: URLs only", param="messages")
    return data


# ---- the request, as a server


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: Object | None = None

    @property
    def arguments_text(self) -> str:
        return msgspec.json.encode(self.arguments or {}).decode()


class _Call(msgspec.Struct, gc=False):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct, gc=False):
    """A message of a request or of an answer."""

    role: str = "assistant"
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[_Call] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class _RequestOptions(msgspec.Struct, gc=False):
    num_predict: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: list[str] | None = None


class _Request(msgspec.Struct, gc=False):
    model: str = ""
    messages: list[_Message] = []
    stream: bool | None = None
    tools: list[Object] | None = None
    format: Any = None
    options: _RequestOptions | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse_request(body: bytes) -> ChatRequest:
    """Decode a caller's request into the common form. Raises ClientProtocolError."""
    request = decode_request(_REQUEST, body)
    stream = request.stream is not False
    fields: Object = {"model": request.model, "messages": _common_messages(request.messages), "stream": stream}
    needs: set[llm.Ability] = {"vision"} if any(message.images for message in request.messages) else set()
    if request.tools:
        fields["tools"] = request.tools
        needs.add("tools")
    if request.format == "json":
        fields["response_format"] = {"type": "json_object"}
    elif isinstance(request.format, dict):
        fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": request.format}}
    options = msgspec.structs.asdict(request.options or _RequestOptions())
    limit = options.pop("num_predict")
    limit = min(limit, MOST_TOKENS) if limit is not None and limit > 0 else None  # -1 and -2: no limit
    fields |= present(**options, max_completion_tokens=limit)
    return ChatRequest(
        model=request.model, fields={name: msgspec.Raw(msgspec.json.encode(value)) for name, value in fields.items()},
        stream=stream, include_usage=stream, needs=frozenset(needs),
        input_characters=sum(len(message.content or "") for message in request.messages), max_output_tokens=limit,
        dialect="ollama", native=body,
    )


def _common_messages(messages: list[_Message]) -> list[Object]:
    """Return OpenAI's messages. Call ids are invented: a result belongs to the first unanswered call of its tool."""
    common: list[Object] = []
    open_calls: list[tuple[str, str]] = []
    count = 0
    for message in messages:
        converted: Object = {"role": message.role, "content": message.content or ""}
        if message.images:
            images = [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in message.images]
            converted["content"] = [{"type": "text", "text": message.content or ""}, *images]
        calls: list[Object] = []
        for call in message.tool_calls or ():
            call_id = call.id or f"call_{count}"
            count += 1
            open_calls.append((call_id, call.function.name))
            function = {"name": call.function.name, "arguments": call.function.arguments_text}
            calls.append({"id": call_id, "type": "function", "function": function})
        if calls:
            converted["tool_calls"] = calls
        if message.role == "tool":
            converted["tool_call_id"] = message.tool_call_id or _close_call(open_calls, message.tool_name)
        common.append(converted)
    return common


def _close_call(open_calls: list[tuple[str, str]], name: str | None) -> str:
    for at, (call_id, tool) in enumerate(open_calls):
        if name is None or tool == name:
            del open_calls[at]
            return call_id
    return f"call_{name or 0}"


def _data_url(image: str) -> str:
    kind = next((kind for start, kind in _IMAGE_TYPES.items() if image.startswith(start)), "image/png")
    return f"data:{kind};base64,{image}"


# ---- the answer, as a client


class _Line(msgspec.Struct, gc=False):
    """A line of a streamed answer, or an unstreamed one."""

    message: _Message | None = None
    created_at: str = ""
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None

    def usage(self) -> Usage | None:
        """Return usage; None if the input was not counted (the server had it cached): an estimate is nearer."""
        if self.prompt_eval_count is None:
            return None
        read, written = tokens(self.prompt_eval_count), tokens(self.eval_count)
        return plausible(Usage(input_tokens=read, output_tokens=written, source="vendor"))

    def calls(self, first: int) -> tuple[ToolCallPiece, ...]:
        """Return complete calls, counted from `first`. Ids contain the line's time, so that those of two turns differ."""
        stamp = "".join(c for c in self.created_at if c.isdigit())[:23]
        calls = (self.message.tool_calls if self.message is not None else None) or ()
        return tuple(
            ToolCallPiece(
                index=first + i, id=call.id or f"call_{stamp}_{first + i}", name=call.function.name,
                arguments=call.function.arguments_text,
            )
            for i, call in enumerate(calls)
        )

    def finish_reason(self, has_calls: bool) -> str:
        return "length" if self.done_reason == "length" else "tool_calls" if has_calls else "stop"


_LINE = msgspec.json.Decoder(_Line)


class OllamaDecoder(StreamDecoder[ChatEvent]):
    """Bytes of a streamed answer in, events out; with `keep_raw` the first event of a line carries it, without its LF."""

    def __init__(self, provider: str, *, keep_raw: bool = False) -> None:
        super().__init__(provider)
        self._keep_raw = keep_raw
        self._buffer = bytearray()
        self._calls = 0
        self._has_content = self._ended = False

    def feed(self, data: bytes) -> list[ChatEvent]:
        """Return the events that `data` completes. Raises UpstreamProtocolError (malformed, or no content)."""
        at = data.rfind(b"\n") + 1
        lines = b""
        if at:
            lines = bytes(self._buffer) + data[:at]
            self._buffer.clear()
        self._buffer += data[at:]
        if len(self._buffer) > MAX_LINE_BYTES:
            raise self._malformed("a line is too long")
        events: list[ChatEvent] = []
        try:
            for line in lines.split(b"\n"):
                self._decode(line.strip(), events)
        except UpstreamProtocolError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[ChatEvent]:
        """Return the last events after a clean end; the last line may lack its LF. Raises UpstreamCut if none said `done`."""
        events: list[ChatEvent] = []
        last, self._buffer = bytes(self._buffer).strip(), bytearray()
        if last and not self._ended:
            try:
                self._decode(last, events)
            except UpstreamProtocolError:
                raise UpstreamCut(provider=self._provider, detail="the stream ended inside a line") from None
        if not self._ended:
            raise UpstreamCut(provider=self._provider, detail="the stream ended without a line that says done")
        return events

    def _decode(self, raw: bytes, events: list[ChatEvent]) -> None:
        if not raw or self._ended:
            return
        try:
            line = _LINE.decode(raw)
            common = self._common_events(line)
        except BAD_JSON:
            raise self._malformed("a line is not the JSON expected") from None
        if line.error is not None:
            self._ended = True
            events.append(stream_error(line.error))
            return
        events += with_raw(common, raw) if self._keep_raw else common
        if line.done:
            if not self._has_content:
                raise EmptyAnswer(provider=self._provider)
            self._ended = True
            events.append(_END)

    def _common_events(self, line: _Line) -> list[Delta | UsageReport]:
        events: list[Delta | UsageReport] = []
        message = line.message
        if message is not None and (message.content or message.thinking or message.tool_calls):
            self._has_content = True
            calls = line.calls(self._calls)
            self._calls += len(calls)
            events.append(Delta(text=message.content or "", reasoning=message.thinking or "", tool_calls=calls))
        if line.done:
            reason = line.finish_reason(self._calls > 0)
            self._has_content = self._has_content or reason == "length"
            events.append(Delta(finish_reason=reason))
            if (usage := line.usage()) is not None:
                events.append(UsageReport(usage=usage))
        return events


def decode_answer(body: bytes, provider: str, *, keep_raw: bool = False) -> Completion:
    """Decode an unstreamed answer. Raises UpstreamProtocolError, and ProviderFailed for an error with status 200."""
    try:
        answer = _LINE.decode(body)
        calls = answer.calls(0)
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    if answer.error is not None:
        raise error_within(provider, answer.error)
    message = answer.message or _Message()
    reason = answer.finish_reason(bool(calls))
    if not (message.content or calls or message.thinking) and reason != "length":
        raise EmptyAnswer(provider=provider)
    return Completion(
        text=message.content or "", tool_calls=calls, finish_reason=reason, usage=answer.usage(),
        raw=body if keep_raw else None,
    )


# ---- the answer, as a server


class OllamaEncoder:
    """Events in, lines out; or one object. Events with `raw` are sent unchanged; tool calls are sent complete, near the end.

    `created_at` (RFC 3339) is that of every line. A refusal becomes text: this dialect has no member for it.
    """

    def __init__(self, *, model: str, created_at: str) -> None:
        self._common = {"model": model, "created_at": created_at}
        self._choice = CollectedChoice()
        self._usage: Usage | None = None
        self._passes_raw = self._done = False

    def encode(self, events: list[ChatEvent]) -> bytes:
        """Return one bytes object for all of `events`; b"" if there is nothing to send."""
        parts: list[bytes] = []
        for event in events:
            if isinstance(event, (Delta, UsageReport)) and event.raw is not None:
                self._passes_raw = True
                if event.raw:
                    parts.append(event.raw + b"\n")
            elif isinstance(event, Delta):
                self._delta(event, parts)
            elif isinstance(event, UsageReport):
                self._usage = event.usage
            elif isinstance(event, ChatEnd):
                self._end(parts)
            elif isinstance(event, StreamError):
                parts.append(error_body(event.message or event.code) + b"\n")
            else:
                self._usage = event.usage
                self._delta(as_delta(event), parts)
                self._end(parts)
        return b"".join(parts)

    def answer(self, events: list[ChatEvent]) -> bytes:
        """Return the JSON body of an unstreamed answer: the upstream's own, or put together from events."""
        answer = CollectedAnswer(events)
        if answer.raw is not None:
            return answer.raw
        choice = answer.first
        calls = [_call_object(call) for call in choice.tool_calls]
        message = present(
            content=choice.text + choice.refusal, thinking=choice.reasoning or None, tool_calls=calls or None
        )
        return msgspec.json.encode(self._object(message, **_last(choice, answer.usage)))

    def _delta(self, delta: Delta, parts: list[bytes]) -> None:
        if delta.choice != 0:
            return
        self._choice.add(delta)
        message: Object = {"content": delta.text + delta.refusal}
        if delta.reasoning:
            message["thinking"] = delta.reasoning
        if message["content"] or delta.reasoning:
            parts.append(self._line(message, done=False))

    def _end(self, parts: list[bytes]) -> None:
        if self._done or self._passes_raw:
            return
        self._done = True
        if calls := self._choice.tool_calls:
            message = {"content": "", "tool_calls": [_call_object(call) for call in calls]}
            parts.append(self._line(message, done=False))
        parts.append(self._line({"content": ""}, **_last(self._choice, self._usage)))

    def _line(self, message: Object, **members: Any) -> bytes:
        return msgspec.json.encode(self._object(message, **members)) + b"\n"

    def _object(self, message: Object, **members: Any) -> Object:
        return {**self._common, "message": {"role": "assistant", **message}, **members}


def _last(choice: CollectedChoice, usage: Usage | None) -> Object:
    last: Object = {"done": True, "done_reason": "length" if choice.finish_reason == "length" else "stop"}
    if usage is not None:
        last |= {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}
    return last


def error_body(message: str, **facts: object) -> bytes:
    """Return `{"error": "…"}`, the body of an answer or a line inside one, with the error's other facts."""
    return msgspec.json.encode({"error": message, **facts})
