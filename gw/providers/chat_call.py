"""A chat call over HTTP, for every dialect: post a body, read an event stream or one JSON answer. Not itself a provider.

What differs between dialects is a `ChatWire`; the codecs it names are pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from gw.errors import ClientProtocolError, ProviderRejected
from gw.net.http1 import HttpResponse, header_lines
from gw.providers.http_call import Classify, Decoder, EventStream, HttpCall, is_type, json_lines, past_the_end
from gw.providers.spec import Account, ChatStream
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, StreamError, UsageReport
from gw.types.secret import Secret
from gw.wire.chat_answer import as_delta


@attrs.frozen(kw_only=True)
class ChatWire:
    """One dialect. The last argument of `decoder` and `decode` (for an answer in one piece): keep the raw bytes as `raw`."""

    dialect: str
    path: bytes
    """Below the provider's address."""
    stream_type: bytes
    """Content type of a streamed answer; any other answer is one JSON document."""
    headers: Callable[[Secret], list[tuple[bytes, bytes]]]
    body: Callable[[ChatRequest, Account], bytes]
    """Raises ClientProtocolError for a request that this dialect cannot express."""
    decoder: Callable[[str, bool], Decoder[ChatEvent]]
    decode: Callable[[bytes, str, bool], Completion]
    classify: Classify
    passed: Callable[[ChatRequest], list[tuple[bytes, bytes]]] | None = None
    """Headers that a caller of the same dialect has sent for the upstream."""


class ChatEvents(EventStream[ChatEvent]):
    """A streamed answer. It counts as started with its first content, and an error may be one of its events."""

    def _pass_on(self, events: list[ChatEvent]) -> list[ChatEvent]:
        """Return the events before an error event, and keep that for the next call."""
        if not self._started:
            for event in events:
                if isinstance(event, Delta) and event.has_content:
                    self._started = True
        elif len(events) > 1:
            for at, event in enumerate(events):
                if at and isinstance(event, StreamError):
                    self._next = events[at:]
                    return events[:at]
        return events


class _WholeChat:
    """An answer that is not streamed, or is turned into a stream for a client that requested one."""

    __slots__ = ("_as_stream", "_decode", "_keep_raw", "_provider", "_read", "_response")

    def __init__(
        self, response: HttpResponse, provider: str, decode: Callable[[bytes, str, bool], Completion], keep_raw: bool, as_stream: bool
    ) -> None:
        self._response = response
        self._provider = provider
        self._decode = decode
        self._keep_raw = keep_raw
        self._as_stream = as_stream
        self._read = False

    async def receive(self) -> list[ChatEvent]:
        if self._read:
            raise past_the_end(self._provider)
        self._read = True
        if (body := self._response.read_now()) is None:
            body = await self._response.read()
        completion = self._decode(body, self._provider, self._keep_raw)
        return _as_stream(completion) if self._as_stream else [completion]


def _as_stream(completion: Completion) -> list[ChatEvent]:
    usage = [UsageReport(usage=completion.usage)] if completion.usage is not None else []
    return [as_delta(completion), *usage, ChatEnd()]


def chat_call(wire: ChatWire, request: ChatRequest, account: Account) -> HttpCall[ChatStream]:
    """`POST {base}{wire.path}`, streamed or whole.

    Events carry the upstream's own bytes where the client speaks the same dialect. Raises ProviderRejected for a request
    that this dialect cannot express; another's may.
    """
    provider = account.provider_id
    accept = wire.stream_type if request.stream else b"application/json"
    headers = json_lines(wire.headers, account, accept)
    same = request.dialect == wire.dialect
    if same and wire.passed is not None and (passed := wire.passed(request)):
        headers += header_lines(passed)
    try:
        body = wire.body(request, account)
    except ClientProtocolError as error:
        raise ProviderRejected(
            provider=provider, upstream_status=400, fault="request", detail=error.what, upstream_param=error.param or ""
        ) from None
    read = partial(_read, wire, provider, same, request.stream)
    return HttpCall(account, wire.path, headers, body, wire.classify, read)


def _read(wire: ChatWire, provider: str, keep_raw: bool, stream: bool, response: HttpResponse) -> ChatStream:
    if stream and is_type(response, wire.stream_type):
        return ChatEvents(response, provider, wire.decoder(provider, keep_raw))
    return _WholeChat(response, provider, wire.decode, keep_raw, stream)
