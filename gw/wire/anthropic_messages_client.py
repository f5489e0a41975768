"""POST /v1/messages as its client: the request body, and the answer, streamed or not.

Source: anthropic-python 2.11.0, `types/message_create_params` and the params it names, `types/raw_*_event`, `types/usage`,
`types/stop_reason` (November 2026); models that refuse sampling settings or a prefilled answer: litellm 1.109.1
(`supports_sampling_params`, `supports_assistant_prefill`).

A request of OpenAI's form is turned into: a top-level system text, alternating turns that begin with the user's, content
as blocks, tool results in the user's turn, tool arguments as objects. Members that only this dialect has (`thinking`, `top_k`,
`cache_control` …) pass through if a caller adds them.

An answer is a list of blocks. Text becomes `Delta.text`, thinking `Delta.reasoning`, a `tool_use` block a tool call with the
next index. Counters are cumulative: those of `message_delta` replace those of `message_start`. Their `input_tokens` excludes
what was read from or written to the cache; our `Usage` counts all of the input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UpstreamCut, UpstreamProtocolError
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import tokens
from gw.wire.chat_answer import ENDED_BY, arguments_object, with_raw
from gw.wire.chat_messages import ChatFields, Function, Message, Part, Tool, decode_fields
from gw.wire.json_codec import BAD_JSON, convert_or_none, present
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import error_within, stream_error

DEFAULT_MAX_TOKENS = 4_096  # the member is mandatory here and optional in OpenAI's dialect
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PASSED_ON = ("thinking", "top_k", "cache_control", "output_config", "speed", "container")
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_VERSION = re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
_SAMPLING_ENDS = (4, 7)  # from this version on `temperature` and `top_p` are refused
_PREFILL_ENDS = (4, 6)  # from this version on a conversation cannot end with the assistant's turn
_OPENING = "(start)"
"""User's text before a conversation that is empty or begins with the assistant: the way to ask for a greeting."""
_CONTINUE = "(continue)"
_NO_RESULT = "(no result)"
_JSON_ONLY = "Answer with one JSON object and nothing else."  # this dialect has no `json_object`, only schemas

Block = dict[str, Any]


class _Fields(ChatFields, gc=False):
    """Members of OpenAI's request that have a counterpart."""

    tools: list[Tool] | None = None
    functions: list[Function] | None = None
    tool_choice: str | Tool | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    safety_identifier: str | None = None


def upstream_body(request: ChatRequest, model: str) -> bytes:
    """Return the body for an upstream of this dialect: a caller's own with another `model`. Raises ClientProtocolError."""
    if request.dialect == "anthropic" and request.native:
        return msgspec.json.encode({**_MEMBERS.decode(request.native), "model": model})
    fields = decode_fields(request, _Fields)
    version = _version(model)
    system, turns = _conversation(fields.messages)
    if turns[-1]["role"] == "assistant":
        _end_with_user(turns, prefill=version is None or version < _PREFILL_ENDS)
    if fields.wants_json:
        system.append({"type": "text", "text": _JSON_ONLY})
    body = present(
        model=model, max_tokens=request.max_output_tokens or DEFAULT_MAX_TOKENS, system=system or None, messages=turns,
        stream=request.stream or None,
    )
    body |= _tools(fields)
    if version is None or version < _SAMPLING_ENDS:
        body |= _sampling(fields)
    body |= _settings(fields, request.fields)
    return msgspec.json.encode(body)


def _version(model: str) -> tuple[int, int] | None:
    match = _VERSION.match(model)
    return (int(match[1]), int(match[2] or 0)) if match else None


# ---- the conversation


def _conversation(messages: list[Message]) -> tuple[list[Block], list[Block]]:
    """Return the blocks of the system text, and turns that alternate and begin with the user's."""
    system: list[Block] = []
    turns: list[Block] = []
    for message in messages:
        if message.role in ("system", "developer"):
            system += _text_blocks(message)
        elif message.role == "assistant":
            _add(turns, "assistant", [*_text_blocks(message), *_tool_uses(message)])
        elif message.role in ("tool", "function"):
            _add(turns, "user", [_tool_result(message)])
        else:
            _add(turns, "user", _user_blocks(message))
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": _OPENING}]})
    _answer_tools(turns)
    return system, turns


def _add(turns: list[Block], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return   # empty content is refused
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": role, "content": blocks})


def _text_block(part: Part) -> Block:
    return {"type": "text", "text": part.text or part.refusal, **present(cache_control=part.cache_control)}


def _text_blocks(message: Message) -> list[Block]:
    return [_text_block(part) for part in message.parts if (part.text or part.refusal or "").strip()]


def _user_blocks(message: Message) -> list[Block]:
    blocks: list[Block] = []
    for part in message.parts:
        if part.image:
            blocks.append({"type": "image", "source": _image(part.image)})
        elif (part.text or "").strip():
            blocks.append(_text_block(part))
        elif part.type in ("input_audio", "file"):
            raise ClientProtocolError(what=f"this model does not accept {part.type}", param="messages")
    return blocks


def _image(url: str) -> Block:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, _, data = url[5:].partition(",")
    media_type, _, coding = head.partition(";")
    if coding.rpartition(";")[2] != "base64" or not data:
        raise ClientProtocolError(what="an image's data: URL must be base64", param="messages")
    return {"type": "base64", "media_type": media_type or "image/png", "data": data}


def _tool_uses(message: Message) -> list[Block]:
    return [
        {"type": "tool_use", "id": call.id, "name": call.function.name, "input": arguments_object(call.function.arguments)}
        for call in message.tool_calls or ()
        if call.function is not None
    ]


def _tool_result(message: Message) -> Block:
    text = "\n".join(block["text"] for block in _text_blocks(message))
    return {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": text}


def _answer_tools(turns: list[Block]) -> None:
    """Answer every call in the next turn, results first; a result without its call becomes text."""
    calls: list[str] = []
    for turn in turns:   # grows by the turn that answers the last one's calls
        if turn["role"] == "user":
            turn["content"] = _results_first(turn["content"], calls)
            calls = []
        else:
            calls = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
            if calls and turn is turns[-1]:
                turns.append({"role": "user", "content": []})


def _results_first(blocks: list[Block], calls: list[str]) -> list[Block]:
    results = {b["tool_use_id"]: b for b in blocks if b["type"] == "tool_result" and b["tool_use_id"] in calls}
    missing = {"type": "tool_result", "content": _NO_RESULT, "is_error": True}
    first = [results.get(call) or {**missing, "tool_use_id": call} for call in calls]
    others = [
        {"type": "text", "text": f"(result of a tool) {block['content']}"} if block["type"] == "tool_result" else block
        for block in blocks
        if block["type"] != "tool_result" or block["tool_use_id"] not in results
    ]
    return [*first, *others]


def _end_with_user(turns: list[Block], *, prefill: bool) -> None:
    """Prepare a conversation that ends with the assistant, to be continued if the model can (`prefill`)."""
    if not prefill:
        turns.append({"role": "user", "content": [{"type": "text", "text": _CONTINUE}]})
    elif turns[-1]["content"][-1]["type"] == "text":
        last = turns[-1]["content"][-1]
        last["text"] = last["text"].rstrip()   # trailing space is refused


# ---- the settings


def _tools(fields: _Fields) -> dict[str, Any]:
    functions = [tool.function for tool in fields.tools or () if tool.function is not None] + (fields.functions or [])
    if not functions:
        return {}
    choice = _choice(fields.tool_choice)
    if fields.parallel_tool_calls is False and choice.get("type") != "none":
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": True}
    tools = [_tool(function) for function in functions]
    return {"tools": tools, "tool_choice": choice} if choice else {"tools": tools}


def _tool(function: Function) -> Block:
    schema = {"type": "object", **(function.parameters or {"properties": {}})}
    return present(
        name=function.name, description=function.description or None, input_schema=schema, strict=function.strict or None
    )


def _choice(choice: str | Tool | None) -> Block:
    if isinstance(choice, Tool):
        return {"type": "tool", "name": choice.function.name} if choice.function is not None else {}
    kind = {"none": "none", "auto": "auto", "required": "any"}.get(choice or "")
    return {"type": kind} if kind else {}


def _sampling(fields: _Fields) -> dict[str, Any]:
    """Return one sampling setting, as newer models take only one. Temperature goes to 2 in OpenAI's dialect, to 1 here."""
    if fields.temperature is not None:
        return {"temperature": min(fields.temperature, 1.0)}
    return {} if fields.top_p is None else {"top_p": fields.top_p}


def _settings(fields: _Fields, raw_fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if stops := [stop for stop in fields.stops if stop.strip()]:   # white space alone is refused
        body["stop_sequences"] = stops
    if user := fields.safety_identifier or fields.user:
        body["metadata"] = {"user_id": user}
    config: dict[str, Any] = {}
    if (schema := fields.json_schema) is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    if fields.reasoning_effort in _EFFORTS:
        config["effort"] = _EFFORTS[fields.reasoning_effort]
    elif fields.reasoning_effort == "none":
        body["thinking"] = {"type": "disabled"}
    if config:
        body["output_config"] = config
    return body | {name: raw_fields[name] for name in _PASSED_ON if name in raw_fields}


# ---- the answer


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
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


_EVENT = msgspec.json.Decoder(_Event)
_ANSWER = msgspec.json.Decoder(_Answer)


def _usage(start: object, last: object) -> Usage | None:
    """Return the counters of the end, or else of the start; None if unreadable, which is no reason to lose the answer."""
    first, final = convert_or_none(start, _Usage), convert_or_none(last, _Usage)
    if first is None and final is None:
        return None

    def either(name: str) -> int:
        count = getattr(final, name, None)
        return tokens(getattr(first, name, None) if count is None else count)

    read, written = either("cache_read_input_tokens"), either("cache_creation_input_tokens")
    return Usage(
        input_tokens=tokens(either("input_tokens") + read + written), cached_input_tokens=read,
        cache_write_tokens=written, output_tokens=either("output_tokens"), source="vendor",
    )


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

    def _decode(self, event: sse.SseEvent, events: list[ChatEvent]) -> None:
        try:
            decoded = _EVENT.decode(event.data)
            kind = decoded.type or event.event
            common = self._common_events(kind, decoded)
        except BAD_JSON:
            raise self._malformed("an event is not the JSON expected") from None
        if kind == "error" or decoded.error is not None:
            self._ended = True
            events.append(stream_error(event.data if decoded.error is None else decoded.error))
        elif kind == "message_stop":
            self._stop(events)
        else:
            events += with_raw(common, sse.encode(event.data, kind)) if self._keep_raw else common

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
            raise self._malformed("empty answer")
        self._ended = True
        events.append(_END)


def decode_message(body: bytes, provider: str, *, keep_raw: bool = False) -> Completion:
    """Decode an unstreamed answer. Raises UpstreamProtocolError, and ProviderFailed for an error with status 200."""
    try:
        answer = _ANSWER.decode(body)
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
        raise UpstreamProtocolError(provider=provider, detail="empty answer")
    return Completion(
        text=text, refusal=_refusal(reason, answer.stop_details), tool_calls=calls, finish_reason=_finish(reason),
        usage=_usage(None, answer.usage), raw=body if keep_raw else None,
    )


def _tool_call(index: int, block: _Block) -> ToolCallPiece:
    arguments = bytes(block.input).decode() or "{}"
    return ToolCallPiece(index=index, id=block.id or "", name=block.name or "", arguments=arguments)
