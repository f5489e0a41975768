"""Answers of POST /responses, streamed or not, both roles.

Source: openai-python 3.52.0, `types/responses/response`, `response_stream_event` and the events and items they name, and
`lib/streaming/responses` (November 2026), which insists on `response.created` as the first event. Perplexity's own members:
perplexityai 0.46.1, `types/responses_usage`, and an answer recorded in vercel/ai, `agent-web-search.chunks.txt` (2026-09-26).

An answer is a list of items: a message with parts of text or refusal, a call of a function, reasoning. Each item and part is
announced, sent piece by piece, and repeated whole when it is done; the last event repeats the whole response. Events are
numbered from 0 in `sequence_number`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from gw.errors import EmptyAnswer
from gw.types.llm import (
    REFUSED,
    ChatEnd,
    ChatEvent,
    Completion,
    Delta,
    StreamError,
    ToolCallPiece,
    UsageReport,
)
from gw.types.usage import Dimensions, Usage
from gw.wire import billing, sse
from gw.wire.bounds import part_of, plausible, tokens
from gw.wire.chat_answer import ENDED_BY, as_delta, with_raw
from gw.wire.json_codec import BAD_JSON, MEMBERS, convert_or_none, decode_answer, decode_mended, decode_or
from gw.wire.sse_event import SseEvent
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import error_within, stream_error

# ---- client

_END = ChatEnd()
_UNFINISHED = ("queued", "in_progress")


class _Part(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Part] | None = None
    action: Any = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    """A complete answer, or the state of one inside an event."""

    status: str | None = None
    output: list[_Item] | None = None
    incomplete_details: _Incomplete | None = None
    usage: Any = None
    service_tier: Any = None
    tool_usage: Any = None
    error: Any = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: Any = None
    output_index: int = 0
    item: _Item | None = None
    response: _Response | None = None
    error: Any = None


class _InputDetails(msgspec.Struct, gc=False):
    """Perplexity calls them as Anthropic does."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None
    tool_calls_details: Any = None
    cost: Any = None
    cost_details: Any = None
    is_byok: Any = None


_EVENT = msgspec.json.Decoder(_Event)
_RESPONSE = msgspec.json.Decoder(_Response)
_ANY = msgspec.json.Decoder()
_NO_DETAILS = _InputDetails()
_NO_OUTPUT_DETAILS = _OutputDetails()


class _WebSearch(msgspec.Struct, gc=False):
    num_requests: int = 0


class _ToolUsage(msgspec.Struct, gc=False):
    web_search: _WebSearch | None = None


_BILLED = frozenset({"file_search_call", "code_interpreter_call", "image_generation_call"})
"""Items of tools that the vendor runs and bills apart, beside searches."""


class _ToolCalls(msgspec.Struct, gc=False):
    invocation: int = 0


_SEARCHES = ("search_web", "web_search")
"""Names of the web search in `tool_calls_details`; the recorded answer has the first."""


def _dimensions(response: _Response, calls: Mapping[str, _ToolCalls]) -> Dimensions:
    """Return what beside tokens the answer's price depends on. `calls` are those that the usage counts by their tool."""
    items = response.output or ()
    counted = convert_or_none(response.tool_usage, _ToolUsage)
    if counted is not None and counted.web_search is not None:
        searches = tokens(counted.web_search.num_requests)
    elif calls:
        searches = sum(tokens(calls[name].invocation) for name in _SEARCHES if name in calls)
    else:
        searches = sum(item.type == "web_search_call" and _searched(item.action) for item in items)
    billed = {item.type.removesuffix("_call") for item in items if item.type in _BILLED}
    billed |= {name for name, call in calls.items() if call.invocation > 0 and name not in _SEARCHES}
    return billing.dimensions(response.service_tier, searches=searches, addons=tuple(sorted(billed)))


def _searched(action: object) -> bool:
    """Return whether a call of the web search was one; opening a page is free."""
    return not isinstance(action, dict) or action.get("type") in (None, "search")


def _usage(response: _Response) -> Usage | None:
    """Return usage; None if it is missing or unreadable, which is no reason to lose the answer."""
    usage = convert_or_none(response.usage, _Usage)
    if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
        return None
    details = usage.input_tokens_details or _NO_DETAILS
    calls = convert_or_none(usage.tool_calls_details, dict[str, _ToolCalls]) or {}
    counted = Usage(
        input_tokens=tokens(usage.input_tokens), output_tokens=tokens(usage.output_tokens),
        cached_input_tokens=tokens(details.cached_tokens or details.cache_read_input_tokens),
        cache_write_tokens=tokens(details.cache_write_tokens or details.cache_creation_input_tokens),
        reasoning_tokens=part_of((usage.output_tokens_details or _NO_OUTPUT_DETAILS).reasoning_tokens, usage.output_tokens),
        source="vendor", dimensions=_dimensions(response, calls),
        vendor_figure=billing.stated_cost(usage.cost) or billing.openrouter_cost(usage.cost, usage.cost_details, usage.is_byok),
    )
    return plausible(counted)


def _finish(response: _Response, *, called: bool) -> str:
    if response.status == "incomplete":
        reason = response.incomplete_details.reason if response.incomplete_details is not None else None
        return "content_filter" if reason == "content_filter" else "length"
    return "tool_calls" if called else "stop"


class ResponsesDecoder(SseStreamDecoder[ChatEvent]):
    """Bytes of a streamed answer in, events out.

    With `keep_raw` each event of the stream yields an event that carries it, framed, as `raw`. A tool that the vendor runs
    itself counts as a tool call of its type: it is content, and the caller has seen it. Callers of another dialect get calls of
    their functions only. Such a call is passed on with its arguments: Perplexity announces its own search as a call, too, and
    ends it as `search_results`.
    """

    CLOSING_EVENT = "response.completed"

    def __init__(self, provider: str, *, keep_raw: bool = False) -> None:
        super().__init__(provider)
        self._keep_raw = keep_raw
        self._calls: dict[int, int] = {}  # index of an item → index of the call
        self._announced: dict[int, _Item] = {}  # calls not passed on yet
        self._called = self._has_content = False

    def _decode(self, event: SseEvent, events: list[ChatEvent]) -> None:
        if event.data == b"[DONE]":
            return
        data = event.data
        try:
            decoded = _EVENT.decode(data)
        except BAD_JSON:
            try:
                decoded, data = decode_mended(_EVENT, data)
            except BAD_JSON:
                raise self._malformed("an event is not the JSON expected") from None
        kind = decoded.type or event.event
        response = decoded.response
        if kind == "error" or decoded.error is not None or (kind == "response.failed" and response is not None):
            self._ended = True
            failure = data if response is None else response.error
            events.append(stream_error(failure if decoded.error is None else decoded.error))
            return
        ends = response is not None and kind in ("response.completed", "response.incomplete")
        common = self._last(response) if ends and response is not None else self._piece(kind, decoded)
        events += with_raw(common, sse.encode(data, kind)) if self._keep_raw else common
        if ends:
            self._ended = True
            events.append(_END)

    def _last(self, response: _Response) -> list[Delta | UsageReport]:
        finish = _finish(response, called=self._called)
        if not self._has_content and finish not in ENDED_BY:
            raise EmptyAnswer(provider=self._provider)
        usage = _usage(response)
        last: list[Delta | UsageReport] = [Delta(finish_reason=finish)]
        return last if usage is None else [*last, UsageReport(usage=usage)]

    def _piece(self, kind: str, event: _Event) -> list[Delta | UsageReport]:
        """Return an event of the stream as common events; [] for one without content."""
        if kind == "response.output_item.added" and event.item is not None:
            return self._item(event.output_index, event.item) if self._keep_raw else self._announce(event.output_index, event.item)
        if kind == "response.output_item.done" and event.item is not None and not self._keep_raw:
            return self._whole_call(event.output_index, event.item)
        text = event.delta
        if not isinstance(text, str) or not text:
            return []
        if kind == "response.output_text.delta":
            piece = Delta(text=text)
        elif kind == "response.refusal.delta":
            piece = Delta(refusal=text)
        elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            piece = Delta(reasoning=text)
        elif kind == "response.function_call_arguments.delta" and event.output_index in self._announced:
            announced = self._announced.pop(event.output_index)
            return [*self._item(event.output_index, announced), *self._piece(kind, event)]
        elif kind == "response.function_call_arguments.delta" and event.output_index in self._calls:
            piece = Delta(tool_calls=(ToolCallPiece(index=self._calls[event.output_index], arguments=text),))
        else:
            return []
        self._has_content = True
        return [piece]

    def _announce(self, index: int, item: _Item) -> list[Delta | UsageReport]:
        if item.type == "function_call":
            self._announced[index] = item
        return []

    def _whole_call(self, index: int, item: _Item) -> list[Delta | UsageReport]:
        """Return a call whose arguments have not come in pieces."""
        announced = self._announced.pop(index, None)
        return self._item(index, item) if announced is not None and item.type == "function_call" else []

    def _item(self, index: int, item: _Item) -> list[Delta | UsageReport]:
        if item.type in ("message", "reasoning"):
            return []   # its pieces follow
        self._has_content = True
        number = self._calls.setdefault(index, len(self._calls))
        if item.type == "function_call":
            self._called = True
            call = ToolCallPiece(index=number, id=item.call_id or "", name=item.name or "", arguments=item.arguments or "")
        else:
            call = ToolCallPiece(index=number, id=item.id or "", name=item.type)
        return [Delta(tool_calls=(call,))]


def decode_response(body: bytes, provider: str, *, keep_raw: bool = False) -> Completion:
    """Decode an unstreamed answer. Raises UpstreamProtocolError, and ProviderFailed for a failure with status 200."""
    answer, body = decode_answer(_RESPONSE, body, provider)
    if answer.error is not None or answer.status == "failed":
        raise error_within(provider, answer.error)
    output = answer.output or []
    parts = [part for item in output if item.type == "message" for part in item.content or ()]
    text = "".join(part.text or "" for part in parts if part.type == "output_text")
    refusal = "".join(part.refusal or "" for part in parts if part.type == "refusal")
    items = [item for item in output if item.type == "function_call" or (keep_raw and item.type not in ("message", "reasoning"))]
    calls = tuple(
        ToolCallPiece(index=at, id=item.call_id or item.id or "", name=item.name or item.type, arguments=item.arguments or "")
        for at, item in enumerate(items)
    )
    finish = _finish(answer, called=any(item.type == "function_call" for item in items))
    if not (text or refusal or calls) and finish not in ENDED_BY:
        raise EmptyAnswer(provider=provider)
    return Completion(
        text=text, refusal=refusal, tool_calls=calls, finish_reason=finish, usage=_usage(answer),
        raw=body if keep_raw else None,
    )


# ---- server

_Kind = Literal["output_text", "refusal", "reasoning_text", "summary_text"]


class _PartForm(msgspec.Struct, frozen=True):
    """Names of the events, the text and the place of one kind of part."""

    part_event: str
    text_event: str
    member: str
    index: str
    item: str
    within: str


_FORMS: Mapping[_Kind, _PartForm] = {
    "output_text": _PartForm(
        "response.content_part", "response.output_text", "text", "content_index", "message", "content"
    ),
    "refusal": _PartForm("response.content_part", "response.refusal", "refusal", "content_index", "message", "content"),
    "reasoning_text": _PartForm(
        "response.content_part", "response.reasoning_text", "text", "content_index", "reasoning", "content"
    ),
    "summary_text": _PartForm(
        "response.reasoning_summary_part", "response.reasoning_summary_text", "text", "summary_index", "reasoning",
        "summary",
    ),
}  # fmt: skip
_PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_"}


class _Open:
    """An item that is being sent. `kind` is that of its open part, whose text is `pieces`."""

    __slots__ = ("index", "item", "kind", "pieces")

    def __init__(self, index: int, item: dict[str, Any]) -> None:
        self.index = index
        self.item = item
        self.kind: _Kind | None = None
        self.pieces: list[str] = []


class ResponsesEncoder:
    """Events in, the bytes of a streamed or unstreamed answer out.

    Events with `raw` are sent unchanged. Others are built, from the first choice only. `echo` are the members of the response
    that repeat its request; with `summarized`, reasoning is sent as a summary. `on_complete` gets the complete response.
    """

    def __init__(
        self, *, id: str, created_at: int, model: str, echo: Mapping[str, Any], summarized: bool = False,   # noqa: A002  the wire's name
        on_complete: Callable[[dict[str, Any]], None] = lambda response: None,
    ) -> None:
        self.model = model
        self._response: dict[str, Any] = {
            "id": id, "object": "response", "created_at": created_at, "status": "in_progress", "background": False,
            "error": None, "incomplete_details": None, **echo, "model": model, "output": [], "usage": None,
        }
        self._reasoning: _Kind = "summary_text" if summarized else "reasoning_text"
        self._on_complete = on_complete
        self._sequence = 0
        self._first_raw = b""
        self._started = self._done = self._whole = False
        self._open: _Open | None = None  # message or reasoning
        self._calls: dict[int, _Open] = {}
        self._items = 0
        self._finish: str | None = None
        self._usage: Usage | None = None

    def encode(self, events: list[ChatEvent]) -> bytes:
        """Return one bytes object for all of `events`; b"" if there is nothing to send."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta:
                if event.raw is None:
                    self._delta(event, parts)
                elif event.raw:
                    self._first_raw = self._first_raw or event.raw
                    self._sequence += 1
                    parts.append(event.raw)
            elif type(event) is UsageReport:
                self._usage = event.usage
            elif isinstance(event, ChatEnd):
                self._end(parts)
            elif isinstance(event, StreamError):
                self._emit(parts, "error", {"code": event.code, "message": event.message, "param": None})
            elif isinstance(event, Completion):
                self._usage = event.usage
                self._delta(as_delta(event), parts)
                self._end(parts)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def answer(self, events: list[ChatEvent]) -> bytes:
        """Return the JSON body of an unstreamed answer: the upstream's own, or put together from events."""
        first = events[0]
        if isinstance(first, Completion) and first.raw is not None:
            return first.raw
        self._whole = True
        self.encode(events)
        return msgspec.json.encode(self._response)

    def failure(self, body: bytes) -> bytes:
        """Return the last event of an answer that failed, for an error in OpenAI's shape.

        Its code must be one of the SDK's `ResponseError`; the error's own members stand beside it.
        """
        error = decode_or(MEMBERS, decode_or(MEMBERS, body, {}).get("error", b"{}"), {})
        limited = b"rate_limit" in bytes(error.get("code", b""))
        parts: list[bytes] = []
        response = self._response
        if self._first_raw:   # the vendor's own response failed
            data = next(iter(sse.SseDecoder().feed(self._first_raw)), SseEvent(b"{}")).data
            begun = decode_or(MEMBERS, decode_or(MEMBERS, data, {}).get("response", b"{}"), {})
            response = {**response, **begun}
        else:
            self._start(parts)
        failure = {**error, "code": "rate_limit_exceeded" if limited else "server_error"}
        self._done = True
        failed = {**response, "status": "failed", "error": failure}
        self._emit(parts, "response.failed", {"response": failed})
        return b"".join(parts)

    # ---- events

    def _emit(self, parts: list[bytes], kind: str, members: dict[str, Any]) -> None:
        if self._whole:
            return
        event = {"type": kind, "sequence_number": self._sequence, **members}
        self._sequence += 1
        parts.append(sse.encode(msgspec.json.encode(event), kind))

    def _start(self, parts: list[bytes]) -> None:
        if not self._started:
            self._started = True
            self._response["model"] = self.model
            self._emit(parts, "response.created", {"response": self._response})
            self._emit(parts, "response.in_progress", {"response": self._response})

    def _delta(self, delta: Delta, parts: list[bytes]) -> None:
        if delta.choice != 0:
            return
        self._start(parts)
        if delta.reasoning:
            self._text(self._reasoning, delta.reasoning, parts)
        if delta.text:
            self._text("output_text", delta.text, parts)
        if delta.refusal:
            self._text("refusal", delta.refusal, parts)
        for piece in delta.tool_calls:
            self._call(piece, parts)
        self._finish = delta.finish_reason or self._finish

    def _text(self, kind: _Kind, text: str, parts: list[bytes]) -> None:
        form = _FORMS[kind]
        opened = self._open
        if opened is None or opened.item["type"] != form.item:
            self._close(parts)
            members = {"summary": []} if form.item == "reasoning" else {"role": "assistant", "content": []}
            opened = self._open = self._begin(form.item, members, parts)
        if opened.kind != kind:
            self._close_part(opened, parts)
            opened.kind = kind
            self._emit(parts, form.part_event + ".added", {**_place(opened, form), "part": _part(kind, form, "")})
        opened.pieces.append(text)
        logprobs: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
        self._emit(parts, form.text_event + ".delta", {**_place(opened, form), "delta": text, **logprobs})

    def _begin(self, kind: str, members: dict[str, Any], parts: list[bytes]) -> _Open:
        item_id = f"{_PREFIXES[kind]}{self._response['id'].removeprefix('resp_')}_{self._items}"
        item = {"id": item_id, "type": kind, "status": "in_progress", **members}
        opened = _Open(self._items, item)
        self._items += 1
        self._response["output"].append(item)
        self._emit(parts, "response.output_item.added", {"output_index": opened.index, "item": item})
        return opened

    def _close_part(self, opened: _Open, parts: list[bytes]) -> None:
        if opened.kind is None:
            return
        form, text = _FORMS[opened.kind], "".join(opened.pieces)
        place, part = _place(opened, form), _part(opened.kind, form, text)
        logprobs: dict[str, Any] = {"logprobs": []} if opened.kind == "output_text" else {}
        self._emit(parts, form.text_event + ".done", {**place, form.member: text, **logprobs})
        self._emit(parts, form.part_event + ".done", {**place, "part": part})
        opened.item.setdefault(form.within, []).append(part)
        opened.kind, opened.pieces = None, []

    def _close(self, parts: list[bytes], status: str = "completed") -> None:
        """Complete the open message or reasoning."""
        if (opened := self._open) is not None:
            self._open = None
            self._close_part(opened, parts)
            self._complete(opened, status, parts)

    def _complete(self, opened: _Open, status: str, parts: list[bytes]) -> None:
        opened.item["status"] = status
        self._emit(parts, "response.output_item.done", {"output_index": opened.index, "item": opened.item})

    def _call(self, piece: ToolCallPiece, parts: list[bytes]) -> None:
        """Send a piece of a call. Pieces of several may alternate, so a call is done when its arguments are complete JSON."""
        opened = self._calls.get(piece.index)
        if opened is None:
            self._close(parts)
            self._close_calls("completed", parts, complete_only=True)
            call_id = piece.id or f"call_{self._response['id'].removeprefix('resp_')}_{piece.index}"
            members = {"arguments": "", "call_id": call_id, "name": piece.name}
            opened = self._calls[piece.index] = self._begin("function_call", members, parts)
        if piece.arguments:
            opened.pieces.append(piece.arguments)
            place = {"item_id": opened.item["id"], "output_index": opened.index}
            self._emit(parts, "response.function_call_arguments.delta", {**place, "delta": piece.arguments})

    def _close_calls(self, status: str, parts: list[bytes], *, complete_only: bool = False) -> None:
        for opened in self._calls.values():
            item = opened.item
            if item["status"] != "in_progress":
                continue
            arguments = "".join(opened.pieces)
            if complete_only and not isinstance(decode_or(_ANY, arguments, None), dict):
                continue
            item["arguments"] = arguments
            place = {"item_id": item["id"], "output_index": opened.index}
            self._emit(parts, "response.function_call_arguments.done", {**place, "arguments": arguments})
            self._complete(opened, status, parts)

    def _end(self, parts: list[bytes]) -> None:
        if self._done:
            return
        self._done = True
        if self._first_raw:
            return
        self._start(parts)
        if self._finish == "content_filter" and not self._items:
            self._text("refusal", REFUSED, parts)
        refused = self._open is not None and self._open.kind == "refusal"
        reason = None if refused else _INCOMPLETE.get(self._finish or "")
        status = "completed" if reason is None else "incomplete"
        self._close(parts, status)
        self._close_calls(status, parts)
        response = self._response
        response["status"], response["usage"] = status, _usage_object(self._usage)
        response["incomplete_details"] = None if reason is None else {"reason": reason}
        self._on_complete(response)
        self._emit(parts, f"response.{status}", {"response": response})


_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reason → why a response is incomplete."""


def _place(opened: _Open, form: _PartForm) -> dict[str, Any]:
    """Return the members that say where a part belongs; its index is the number of parts before it."""
    return {
        "item_id": opened.item["id"], "output_index": opened.index, form.index: len(opened.item.get(form.within, ()))
    }


def _part(kind: _Kind, form: _PartForm, text: str) -> dict[str, Any]:
    more: dict[str, Any] = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    return {"type": kind, form.member: text, **more}


def _usage_object(usage: Usage | None) -> dict[str, Any]:
    used = usage or Usage()
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_input_tokens, "cache_write_tokens": used.cache_write_tokens},
        "output_tokens": used.output_tokens, "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens or 0},
        "total_tokens": used.input_tokens + used.output_tokens,
    }
