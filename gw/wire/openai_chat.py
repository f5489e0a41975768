"""POST /chat/completions, both roles: requests, and answers, streamed or not.

Source: openai-python 3.52.0 and groq-python 1.7.0, types, recorded requests and streams (November 2026).

Members of a request are kept as raw JSON: only those that routing needs are decoded, and unknown ones go on untouched.

One SSE event holds one chunk; a chunk with a choice becomes a `Delta` that carries the chunk's own bytes as `raw`, so that an
encoder of the same dialect sends them on unchanged. Servers differ in where they report usage: in a last chunk without choices
(OpenAI), in the last or in every chunk with a choice, or in `x_groq`. A chunk without choices is reported at once; usage from
chunks with a choice is kept, the latest replacing the earlier, and reported once before the end. A later `UsageReport` replaces
an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gw.errors import ClientProtocolError, EmptyAnswer, UpstreamCut, UpstreamProtocolError
from gw.types import llm
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.usage import NO_DIMENSIONS, Dimensions, Usage
from gw.wire import billing, chat_functions, sse, x_groq
from gw.wire.bounds import MOST_TOKENS, part_of, plausible, tokens
from gw.wire.chat_answer import ENDED_BY, CollectedAnswer, CollectedChoice, as_delta
from gw.wire.chat_messages import decode_messages
from gw.wire.json_codec import (
    BAD_JSON,
    MEMBERS,
    convert_or_none,
    decode_answer,
    decode_client,
    decode_mended,
    decode_or,
    decode_request,
)
from gw.wire.openai_chunks import (
    Chunk,
    ChunkCall,
    ChunkChoice,
    ChunkMessage,
    ChunkText,
    ChunkTokens,
    ChunkUsage,
    ChunkWithAnyUsage,
)
from gw.wire.sse_event import SseEvent
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import error_within, stream_error

T = TypeVar("T")

_DONE = b"[DONE]"
_END = ChatEnd()
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_INT = msgspec.json.Decoder(int)
_ANY = msgspec.json.Decoder()
_HOURS = re.compile(r"(\d{1,6})h")
_BOOLS = {b"true": True, b"false": False, b"null": False}
_NULL = msgspec.Raw(b"null")
_TRUE = msgspec.Raw(b"true")
_EMPTY_LIST = re.compile(rb"\[\s*\]")
_NEEDS_NOTHING: frozenset[llm.Ability] = frozenset()


# ---- the request


def parse_request(body: bytes) -> ChatRequest:
    """Decode what routing needs; keep every member raw. Raises ClientProtocolError, with `param` if a member is at fault."""
    fields = decode_request(MEMBERS, body)
    raw_messages = fields.get("messages")
    if raw_messages is None:
        raise ClientProtocolError(what="'messages' is required", param="messages")
    stream = _flag(fields.get("stream"), "stream")
    text = bytes(raw_messages)
    characters = len(text)
    if not text.startswith(b"[{"):  # else one look will do
        _check_messages(text)
    # A quotation mark inside a JSON string is escaped, so these bytes are a complete string: a type, or the same as text.
    needs = _NEEDS_NOTHING
    if text.find(b'"image_url"') >= 0 or text.find(b'"input_audio"') >= 0:  # cheaper than `in`, which tries them as numbers first
        needs, characters = _media(text)
    if "tools" in fields or "functions" in fields:
        needs = _with_tools(needs, fields)
    return ChatRequest(
        model=_model(fields.get("model")), fields=fields, stream=stream,
        include_usage=stream and _wants_usage(fields.get("stream_options")), needs=needs,
        input_characters=characters, max_output_tokens=_limit(fields),
    )


def _model(raw: msgspec.Raw | None) -> str:
    if raw is None or raw == _NULL:
        return ""
    return decode_client(_TEXT, raw, "'model' must be a string", "model")


def _check_messages(text: bytes) -> None:
    if not text.startswith(b"["):
        raise ClientProtocolError(what="'messages' must be a list", param="messages")
    if _EMPTY_LIST.match(text):
        raise ClientProtocolError(what="'messages' must not be empty", param="messages")


def _with_tools(needs: frozenset[llm.Ability], fields: Mapping[str, msgspec.Raw]) -> frozenset[llm.Ability]:
    for name in ("tools", "functions"):
        if name in fields and fields[name] != _NULL and _value(_LIST, fields[name], name, "a list"):
            return needs | {"tools"}
    return needs


def _media(raw_messages: bytes) -> tuple[frozenset[llm.Ability], int]:
    """Return the abilities that the parts need, and the characters of text: counting base64 would spoil the estimate."""
    conversation = decode_messages(raw_messages)
    needs: set[llm.Ability] = {"vision"} if any(message.images for message in conversation) else set()
    if any(message.audio for message in conversation):
        needs.add("audio_in")
    return frozenset(needs), sum(len(message.text) for message in conversation)


def _value(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw, name: str, kind: str) -> T:
    return decode_client(decoder, raw, f"'{name}' must be {kind}", name)


def _flag(raw: msgspec.Raw | None, name: str) -> bool:
    if raw is None:
        return False
    value = _BOOLS.get(bytes(raw))
    if value is None:
        raise ClientProtocolError(what=f"'{name}' must be true or false", param=name)
    return value


def _limit(fields: Mapping[str, msgspec.Raw]) -> int | None:
    """Return the limit of output tokens by its newer or older name; -1 and 0, which some servers take, are no limit."""
    for name in ("max_completion_tokens", "max_tokens"):
        raw = fields.get(name)
        if raw is None or raw == _NULL:
            continue
        limit = _value(_INT, raw, name, "a whole number")
        if limit > MOST_TOKENS:
            raise ClientProtocolError(what=f"'{name}' must be at most {MOST_TOKENS}", param=name)
        if limit > 0:
            return limit
    return None


def _wants_usage(raw: msgspec.Raw | None) -> bool:
    options = {} if raw is None or raw == _NULL else decoded_stream_options(raw)
    return _flag(options.get("include_usage"), "stream_options.include_usage")


def upstream_body(request: ChatRequest, model: str, *, stream_options: bool = True) -> bytes:
    """Return the body for an upstream of this dialect: `model` replaced, usage requested when streaming, else untouched.

    Without `stream_options` the vendor reports usage of its own accord, and would refuse to be asked for it.
    """
    fields: dict[str, Any] = dict(request.fields)
    fields["model"] = model
    if not stream_options:
        fields.pop("stream_options", None)
    if request.stream:
        fields["stream"] = _TRUE
        options = fields.get("stream_options")
        if stream_options and (options is None or not request.include_usage):  # else the caller's own options request it
            own = {} if options is None or options == _NULL else decoded_stream_options(options)
            fields["stream_options"] = {**own, "include_usage": _TRUE}
    return msgspec.json.encode(fields)


def decoded_stream_options(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Decode the member `stream_options`. Raises ClientProtocolError."""
    return _value(MEMBERS, raw, "stream_options", "an object")


def requested_dimensions(request: ChatRequest) -> Dimensions:
    """Return what the request asks for that has a price of its own; an answer's own `service_tier` is more certain."""
    raw = request.fields.get("service_tier")
    return NO_DIMENSIONS if raw is None else billing.dimensions(decode_or(_TEXT, raw, ""))


def caches_for_long(request: ChatRequest) -> bool:
    """Return whether what is written to the vendor's cache stays there for more than twelve hours, which costs more.

    Source: openai-python 3.52.0, `prompt_cache_options.ttl`; the price as litellm 1.109.1 has it (`above_12hr`).
    """
    raw = request.fields.get("prompt_cache_options")
    if raw is None:
        return False
    options = decode_or(_ANY, raw, None)
    ttl = options.get("ttl") if isinstance(options, dict) else None
    hours = _HOURS.fullmatch(ttl) if isinstance(ttl, str) else None
    return hours is not None and int(hours[1]) > 12


# ---- the answer, as a client


_CHUNK = msgspec.json.Decoder(Chunk)
_CHUNK_WITH_ANY_USAGE = msgspec.json.Decoder(ChunkWithAnyUsage)
_NO_TOKENS = ChunkTokens()
_NO_USAGE = ChunkUsage()


_RAN_TOOLS = ("executed_tools",)
"""Groq runs tools of its own (search, a browser, code) and bills them apart; the answer does not count them by price."""


def usage_of(value: object, tier: object = None, addons: tuple[str, ...] = ()) -> Usage | None:
    """Return usage; None if it is missing or unreadable, which is no reason to lose the answer.

    `tier`: `service_tier` of the answer, the tier that served it, whatever the request asked for.
    """
    usage = value if isinstance(value, ChunkUsage) else convert_or_none(value, ChunkUsage)
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return None
    prompt, completion = usage.prompt_tokens_details or _NO_TOKENS, usage.completion_tokens_details or _NO_TOKENS
    cached = prompt.cached_tokens or usage.prompt_cache_hit_tokens or usage.cached_tokens
    written, heard, spoken = prompt.cache_write_tokens, prompt.audio_tokens, completion.audio_tokens
    output, reasoning = _output(usage, completion.reasoning_tokens)
    counted = Usage(
        input_tokens=tokens(usage.prompt_tokens), cached_input_tokens=tokens(cached) if cached else 0,
        cache_write_tokens=tokens(written) if written else 0, output_tokens=tokens(output),
        input_audio_tokens=tokens(heard) if heard else 0, output_audio_tokens=tokens(spoken) if spoken else 0, source="vendor",
        reasoning_tokens=part_of(reasoning, output),
        dimensions=billing.dimensions(tier, addons=addons) if tier or addons else NO_DIMENSIONS,
        vendor_figure=billing.openrouter_cost(usage.cost, usage.cost_details, usage.is_byok) if usage.cost_details else None,
    )
    return plausible(counted)


def _chunk_of(data: bytes) -> tuple[Chunk | ChunkWithAnyUsage, bytes]:
    """Decode a chunk whose usage has another form, mended if necessary; return also the JSON it was decoded from. Raises BAD_JSON."""
    try:
        return _CHUNK_WITH_ANY_USAGE.decode(data), data
    except BAD_JSON:
        return decode_mended(_CHUNK_WITH_ANY_USAGE, data)


def _output(usage: ChunkUsage, reasoning: int | None) -> tuple[int | None, int | None]:
    """Return the tokens of output, reasoning included, and those of the reasoning.

    Some vendors count reasoning in `total_tokens` and not in `completion_tokens`: xAI, which names its number (pipecat-ai 1.14.0,
    `services/xai/llm.py`), and Gemini's compatible endpoint, which does not (Clarifai/clarifai-python#978).
    """
    if usage.total_tokens is not None and usage.prompt_tokens is not None and usage.completion_tokens is not None:
        beside = usage.total_tokens - usage.prompt_tokens - usage.completion_tokens
        if beside > 0 and reasoning in (None, beside):
            return usage.completion_tokens + beside, beside
    return usage.completion_tokens, reasoning


def _thoughts(content: str | list[ChunkText] | None) -> str:
    """Return the reasoning among the parts of a content."""
    if not isinstance(content, list):
        return ""
    return "".join(thought.text or "" for part in content for thought in part.thinking or ())


def _text(content: str | list[ChunkText] | None) -> str:
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
        self._tier: object = None
        self._addons: tuple[str, ...] = ()
        self._finished = self._has_content = False
        self._call_ids: tuple[str, ...] = ()

    def end(self) -> list[ChatEvent]:
        """Return the last events after a clean end. Raises UpstreamCut without a finish_reason or marker (some send none)."""
        events: list[ChatEvent] = []
        if not self._ended:
            if not self._finished and not any(event.data == _DONE for event in self._sse.end()):
                raise UpstreamCut(provider=self._provider, detail="the stream ended without a finish_reason")
            self._finish(events)
        return events

    def _decode(self, event: SseEvent, events: list[ChatEvent]) -> None:
        data = event.data
        if data == _DONE:
            self._finish(events)
            return
        chunk: Chunk | ChunkWithAnyUsage
        try:
            chunk = _CHUNK.decode(data)
        except BAD_JSON:
            try:
                chunk, data = _chunk_of(data)
            except BAD_JSON:
                raise self._malformed("a chunk is not the JSON expected") from None
        usage: object = chunk.usage
        error = chunk.error
        if chunk.service_tier is not None:
            self._tier = chunk.service_tier
        if chunk.x_groq is not None:
            usage, error = chunk.x_groq.usage if not usage or usage == _NO_USAGE else usage, error or chunk.x_groq.error
        if error is not None or event.event == "error":
            self._ended = True
            events.append(stream_error(data if error is None else error))
        elif chunk.choices:
            self._latest_usage = usage or self._latest_usage
            raw = data if self._keep_raw else None
            for choice in chunk.choices:
                events.append(self._delta(choice, raw))
                raw = b"" if self._keep_raw else None
        elif usage is not None:
            report = usage_of(usage, self._tier, self._addons)
            if report is not None:
                self._latest_usage = None
                events.append(UsageReport(usage=report, raw=data if self._keep_raw else None))
        elif chunk.choices is not None and self._keep_raw:
            events.append(Delta(raw=data))   # Azure's filter results, padding

    def _finish(self, events: list[ChatEvent]) -> None:
        usage = usage_of(self._latest_usage, self._tier, self._addons)
        if usage is not None:
            events.append(UsageReport(usage=usage))
        if not self._has_content:
            raise EmptyAnswer(provider=self._provider) if self._finished else self._malformed("empty answer")
        self._ended = True
        events.append(_END)

    def _delta(self, choice: ChunkChoice, raw: bytes | None) -> Delta:
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
        if delta.executed_tools:
            self._addons = _RAN_TOOLS
        text = delta.content if isinstance(delta.content, str) else _text(delta.content)
        if isinstance(delta.content, list):
            raw = None   # clients insist on a text, so an encoder must build the chunk anew
        refusal = delta.refusal or ""
        reasoning = delta.reasoning or delta.reasoning_content or _thoughts(delta.content)
        if not self._has_content and (text or calls or refusal or reasoning or delta.audio is not None):
            self._has_content = True
        return Delta(
            text=text, refusal=refusal, reasoning=reasoning, tool_calls=calls, finish_reason=finish_reason,
            choice=choice.index, raw=raw,
        )

    def _pieces(self, delta: ChunkMessage) -> tuple[tuple[ToolCallPiece, ...], bool]:
        """Return the pieces of tool calls, and whether all of them had their index."""
        if not delta.tool_calls:
            return (ChunkCall(function=delta.function_call).piece(0),), True   # the form before tools
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
            self._call_ids = (*self._call_ids, call_id)
        return self._call_ids.index(call_id) if call_id else max(0, len(self._call_ids) - 1)


def decode_completion(body: bytes, provider: str, keep_raw: bool = True) -> Completion:
    """Decode an unstreamed answer: its first choice; `raw` has all. Raises UpstreamProtocolError, ProviderFailed."""
    answer: Chunk | ChunkWithAnyUsage
    try:
        answer = _CHUNK.decode(body)
    except BAD_JSON:
        mended = decode_answer(_CHUNK_WITH_ANY_USAGE, body, provider)
        answer, body = mended
    usage: object = answer.usage
    error = answer.error
    if (groq := answer.x_groq) is not None:
        usage, error = groq.usage if not usage or usage == _NO_USAGE else usage, error or groq.error
    if error is not None:
        raise error_within(provider, error)
    if not answer.choices:
        raise UpstreamProtocolError(provider=provider, detail="empty answer")
    choice = answer.choices[0]
    message = choice.message or ChunkMessage()
    text = _text(message.content)
    refusal = message.refusal or ""
    calls = tuple([call.piece(i) for i, call in enumerate(message.tool_calls)]) if message.tool_calls else ()
    if message.function_call is not None and not calls:
        calls = (ChunkCall(function=message.function_call).piece(0),)
    reasoning = message.reasoning or message.reasoning_content or _thoughts(message.content)
    has_content = text or refusal or calls or reasoning or message.audio is not None
    if not has_content and choice.finish_reason not in ENDED_BY:
        raise EmptyAnswer(provider=provider)
    addons = _RAN_TOOLS if message.executed_tools else ()
    keep_raw = keep_raw and not isinstance(message.content, list)   # clients insist on a text
    return Completion(
        text=text, refusal=refusal, reasoning=reasoning or "", tool_calls=calls, finish_reason=choice.finish_reason,
        usage=usage_of(usage, answer.service_tier, addons), raw=body if keep_raw else None,
    )


# ---- the answer, as a server


class ChatEncoder:
    """Events in, the bytes of a streamed or unstreamed answer out.

    Events with `raw` are sent unchanged. Others are built: role first, an index on every piece of a tool call, the
    finish reason in a chunk of its own. The usage chunk is left out unless the caller asked for it. With `groq_request`, the id
    of the request of a client of Groq, that client finds the usage where Groq sends it, whatever it asked for. With `older`, calls
    of tools are sent in the form of `functions`.
    """

    __slots__ = ("_created", "_done", "_groq_request", "_groq_usage_sent", "_id", "_include_usage", "_model", "_older", "_started")

    def __init__(
        self, *, id: str, created: int, model: str, include_usage: bool, groq_request: str = "",   # noqa: A002  the wire's name
        older: bool = False,
    ) -> None:
        self._id, self._created, self._model = id, created, model
        self._groq_request = groq_request
        self._groq_usage_sent = not groq_request
        self._include_usage = include_usage
        self._older = older
        self._started: tuple[int, ...] = ()
        self._done = False

    def encode(self, events: list[ChatEvent]) -> bytes:
        """Return one bytes object for all of `events`; b"" if there is nothing to send."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta:
                if event.raw is None:
                    self._delta(event, parts)
                elif event.raw:
                    raw = event.raw
                    if not self._groq_usage_sent:
                        self._groq_usage_sent = x_groq.reports_usage(raw)
                    parts.append(b"data: " + raw + b"\n\n" if 10 not in raw else sse.encode(raw))
            elif type(event) is UsageReport:
                self._usage_for_groq(event.usage, parts)
                if self._include_usage:
                    parts.append(self._usage(event.usage) if event.raw is None else sse.encode(event.raw))
            elif isinstance(event, ChatEnd):
                self._end(parts)
            elif isinstance(event, StreamError):
                parts.append(self.error(event.code, event.message, "upstream_error"))
            elif isinstance(event, Completion):
                self._delta(as_delta(event), parts)
                if event.usage is not None:
                    self._usage_for_groq(event.usage, parts)
                if event.usage is not None and self._include_usage:
                    parts.append(self._usage(event.usage))
                self._end(parts)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def error(self, code: str, message: str, type: str) -> bytes:   # noqa: A002  the wire's name
        """Return a failure after the first byte, as OpenAI's SDKs read it."""
        error = {"message": message, "type": type, "param": None, "code": code}
        return sse.encode(msgspec.json.encode({"error": error}))

    def answer(self, events: list[ChatEvent]) -> bytes:
        """Return the JSON body of an unstreamed answer: the upstream's own, or put together from events."""
        answer = CollectedAnswer(events)
        body = answer.raw if answer.raw is not None else self._built(answer)
        return x_groq.with_groq_id(body, self._groq_request) if self._groq_request else body

    def _built(self, answer: CollectedAnswer) -> bytes:
        choices = [_choice_object(index, choice, self._older) for index, choice in sorted(answer.choices.items())]
        choices = choices or [_choice_object(0, CollectedChoice(), self._older)]
        body = self._body("chat.completion", {"choices": choices})
        if answer.usage is not None:
            body["usage"] = _usage_object(answer.usage)
        return msgspec.json.encode(body)

    def _usage_for_groq(self, usage: Usage, parts: list[bytes]) -> None:
        """Send the usage in a chunk with a choice, since clients skip those without one."""
        if self._groq_usage_sent:
            return
        self._groq_usage_sent = True
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
        about = {"id": x_groq.id_of(self._groq_request), "usage": _usage_object(usage)}
        parts.append(self._chunk({"choices": [choice], "x_groq": about}))

    def _end(self, parts: list[bytes]) -> None:
        if not self._done:
            self._done = True
            parts.append(sse.encode(b"[DONE]"))

    def _delta(self, delta: Delta, parts: list[bytes]) -> None:
        index = delta.choice
        if index not in self._started:
            self._started += (index,)
            parts.append(self._choice(index, {"role": "assistant", "content": ""}, None))
        message: dict[str, Any] = {"content": delta.text} if delta.text else {}
        if delta.refusal:
            message["refusal"] = delta.refusal
        if delta.reasoning:
            message["reasoning"] = delta.reasoning
        if delta.tool_calls:
            message |= _calls_object(delta.tool_calls, self._older)
        if message:
            parts.append(self._choice(index, message, None))
        if delta.finish_reason is not None:
            parts.append(self._choice(index, {}, _finish(delta.finish_reason, self._older)))

    def _choice(self, index: int, delta: dict[str, Any], finish_reason: str | None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._chunk({"choices": [choice], "usage": None} if self._include_usage else {"choices": [choice]})

    def _usage(self, usage: Usage) -> bytes:
        return self._chunk({"choices": [], "usage": _usage_object(usage)})

    def _chunk(self, members: dict[str, Any]) -> bytes:
        return sse.encode(msgspec.json.encode(self._body("chat.completion.chunk", members)))

    def _body(self, kind: str, members: dict[str, Any]) -> dict[str, Any]:
        return {"id": self._id, "created": self._created, "model": self._model, "object": kind, **members}


def _choice_object(index: int, choice: CollectedChoice, older: bool) -> dict[str, Any]:
    text, refusal, calls = choice.text, choice.refusal, choice.tool_calls
    no_text = not text and (calls or refusal)
    message: dict[str, Any] = {"role": "assistant", "content": None if no_text else text, "refusal": refusal or None}
    if reasoning := choice.reasoning:
        message["reasoning"] = reasoning
    if calls and older:
        message[chat_functions.FINISH] = chat_functions.call_of(calls)
    elif calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return {"index": index, "message": message, "logprobs": None, "finish_reason": _finish(choice.finish_reason, older)}


def _finish(reason: str, older: bool) -> str:
    return chat_functions.FINISH if older and reason == "tool_calls" else reason


def _calls_object(pieces: Sequence[ToolCallPiece], older: bool) -> dict[str, Any]:
    if not older:
        return {"tool_calls": [_piece_object(piece) for piece in pieces]}
    call = chat_functions.call_of(pieces)
    return {chat_functions.FINISH: call} if call else {}


def _piece_object(piece: ToolCallPiece) -> dict[str, Any]:
    function: dict[str, str] = {"arguments": piece.arguments}
    if piece.name:
        function["name"] = piece.name
    head = {"id": piece.id, "type": "function"} if piece.id else {}
    return {"index": piece.index, **head, "function": function}


def _usage_object(usage: Usage) -> dict[str, Any]:
    # Groq's SDK insists on `reasoning_tokens` in the details of a completion: there are none where the vendor counts neither.
    details = {"audio_tokens": usage.output_audio_tokens, "reasoning_tokens": usage.reasoning_tokens or 0}
    spoken = usage.output_audio_tokens or usage.reasoning_tokens is not None
    return {
        "prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_input_tokens, "cache_write_tokens": usage.cache_write_tokens,
            "audio_tokens": usage.input_audio_tokens,
        },
        **({"completion_tokens_details": details} if spoken else {}),
    }


def error_body(
    *, type: str, code: str | None, message: str, param: object = None, **members: object   # noqa: A002  the wire's name
) -> bytes:
    """Return `{"error": {…}}` as OpenAI's SDKs read it, with further members."""
    param = None if param is None else str(param)
    error = {"message": message, "type": type, "param": param, "code": code}
    return msgspec.json.encode({"error": {**error, **members, **error}})
