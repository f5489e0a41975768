"""A chat call over HTTP, whatever its dialect: post a body, read an event stream or a whole answer. Not itself a provider.

What differs between dialects is a `ChatWire`; the codecs it names are pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from gw.errors import ClientProtocolError, ProviderRejected, UpstreamCut
from gw.net.http1 import HttpResponse, header_lines
from gw.providers.event_stream import Decoder
from gw.providers.http_call import Classify, HttpCall, is_type, json_lines
from gw.providers.spec import Account, ChatStream
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, StreamError, UsageReport
from gw.types.secret import Secret


@attrs.frozen(kw_only=True)
class ChatWire:
    """One dialect. The last argument of `decoder` and `whole`: keep the upstream's own bytes as `raw`."""

    dialect: str
    path: bytes
    """Below the provider's address."""
    stream_type: bytes
    """Content type of a streamed answer; any other is a whole one."""
    headers: Callable[[Secret], list[tuple[bytes, bytes]]]
    body: Callable[[ChatRequest, Account], bytes]
    """Raises ClientProtocolError for what this dialect cannot say."""
    decoder: Callable[[str, bool], Decoder[ChatEvent]]
    whole: Callable[[bytes, str, bool], Completion]
    classify: Classify
    passed: Callable[[ChatRequest], list[tuple[bytes, bytes]]] | None = None
    """Headers that a caller of the same dialect has sent for the upstream."""


class _StreamedChat:
    """As `EventStream`, where what matters has gone out once there was content, and an error may be an event as well."""

    def __init__(self, response: HttpResponse, provider: str, decoder: Decoder[ChatEvent]) -> None:
        self._response = response
        self._provider = provider
        self._decoder = decoder
        self._begun = False
        self._late: list[ChatEvent] = []

    async def receive(self) -> list[ChatEvent]:
        decoder = self._decoder
        if self._late:
            late, self._late = self._late, []
            return late
        fault = decoder.fault
        while fault is None:
            data = await self._response.receive_some()
            events = decoder.feed(data) if data else decoder.end()
            fault = decoder.fault
            if events and (fault is None or self._begun):
                return self._in_order(events)
            if not data:
                raise _past_the_end(self._provider)
        raise fault

    def _in_order(self, events: list[ChatEvent]) -> list[ChatEvent]:
        """What comes before an error event; that waits."""
        if not self._begun:
            for event in events:
                if isinstance(event, Delta) and event.has_content:
                    self._begun = True
        elif len(events) > 1:
            for at, event in enumerate(events):
                if at and isinstance(event, StreamError):
                    self._late = events[at:]
                    return events[:at]
        return events


class _WholeChat:
    """An unstreamed answer; to a caller that asked for a stream it is handed out as one."""

    __slots__ = ("_as_stream", "_done", "_keep_raw", "_provider", "_response", "_whole")

    def __init__(
        self, response: HttpResponse, provider: str, whole: Callable[[bytes, str, bool], Completion], keep_raw: bool, as_stream: bool
    ) -> None:
        self._response = response
        self._provider = provider
        self._whole = whole
        self._keep_raw = keep_raw
        self._as_stream = as_stream
        self._done = False

    async def receive(self) -> list[ChatEvent]:
        if self._done:
            raise _past_the_end(self._provider)
        self._done = True
        completion = self._whole(await self._response.read(), self._provider, self._keep_raw)
        return _as_stream(completion) if self._as_stream else [completion]


def _past_the_end(provider: str) -> UpstreamCut:
    return UpstreamCut(provider=provider, detail="read past the end of the answer")


def _as_stream(completion: Completion) -> list[ChatEvent]:
    events: list[ChatEvent] = [
        Delta(
            text=completion.text,
            refusal=completion.refusal,
            tool_calls=completion.tool_calls,
            finish_reason=completion.finish_reason or "stop",
        )
    ]
    if completion.usage is not None:
        events.append(UsageReport(usage=completion.usage))
    return [*events, ChatEnd()]


def chat_call(wire: ChatWire, request: ChatRequest, account: Account) -> HttpCall[ChatStream]:
    """`POST {base}{wire.path}`. Raises ProviderRejected for what this dialect cannot say, which another's may."""
    provider = account.provider_id
    accept = wire.stream_type if request.stream else b"application/json"
    headers = json_lines(wire.headers, account.api_key.reveal(), accept)
    same = request.dialect == wire.dialect
    if same and wire.passed is not None and (passed := wire.passed(request)):
        headers += header_lines(passed)
    try:
        body = wire.body(request, account)
    except ClientProtocolError as error:
        raise ProviderRejected(provider=provider, upstream_status=400, fault="candidate", detail=error.what) from None
    read = partial(_read, wire, provider, same, request.stream)
    return HttpCall(account, wire.path, headers, body, wire.classify, read)


def _read(wire: ChatWire, provider: str, keep_raw: bool, stream: bool, response: HttpResponse) -> ChatStream:
    if stream and is_type(response, wire.stream_type):
        return _StreamedChat(response, provider, wire.decoder(provider, keep_raw))
    return _WholeChat(response, provider, wire.whole, keep_raw, stream)
