"""What every HTTP dialect does with one request: know the caller, answer or fail in the protocol's own shape, stream.

A dialect is a `Dialect` and its handlers. Each handler owns its upstream in one `async with`; whatever is raised before the
head of the answer becomes a status and an error body, afterwards an error inside the stream (or, for raw audio, a cut
connection).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import TypeVar

import msgspec

from gw.dialects import error_bodies
from gw.dialects.auth import identify, request_id
from gw.dialects.keepalive import KeepAlive, SseResponse
from gw.dialects.request_io import Headers, cancels, read_body, send_piece, send_start, send_whole, until_disconnect
from gw.errors import GwError
from gw.gateway import Gateway
from gw.relay.relay import SpeakAnswer
from gw.relay.response import EventStream, Response
from gw.types.asgi import Receive, Scope, Send
from gw.types.audio import CONTENT_TYPES
from gw.types.caller import Caller
from gw.types.stt import TextDelta, Transcript
from gw.types.tts import AudioChunk, SpeakEvent
from gw.types.usage import NANO
from gw.wire import sse

JSON = b"application/json"
_MEGABYTE = 1_000_000

S = TypeVar("S", bound=EventStream)
E = TypeVar("E")


def _as_event(body: bytes) -> bytes:
    return sse.encode(body)


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is that of a provider's dialect, whose answers then pass through unchanged.

    `error_body` makes the body of a failed answer from the error and the request's id; `in_band` frames such a body where
    the head of a streamed answer has gone.
    """

    name: str
    error_body: Callable[[GwError, str], bytes] = error_bodies.body_of
    in_band: Callable[[bytes], bytes] = _as_event
    id_headers: tuple[bytes, ...] = (b"x-request-id",)


class HttpExchange(msgspec.Struct, eq=False):
    """One request. `started`: the head of a plain answer has gone, so a failure can only cut it."""

    dialect: Dialect
    gateway: Gateway
    keepalive: KeepAlive
    scope: Scope
    receive: Receive
    send: Send
    caller: Caller
    id_headers: Headers
    started: bool = False


Handler = Callable[[HttpExchange], Awaitable[None]]


async def serve(
    dialect: Dialect,
    handler: Handler,
    gateway: Gateway,
    keepalive: KeepAlive,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Run one handler: identify the caller, and answer what it raises before the head of its answer."""
    exchange: HttpExchange | None = None
    try:
        caller = identify(gateway, scope, dialect=dialect.name)
        ids = _id_headers(dialect, caller.request_id)
        exchange = HttpExchange(dialect, gateway, keepalive, scope, receive, send, caller, ids)
        await handler(exchange)
    except GwError as error:
        if exchange is not None and exchange.started:
            raise ConnectionAbortedError("the answer broke off after its first bytes") from None
        id_ = request_id(scope)
        headers = [*_id_headers(dialect, id_), *error_bodies.headers_of(error)]
        await send_whole(send, error_bodies.status_of(error), JSON, dialect.error_body(error, id_), headers)


def _id_headers(dialect: Dialect, id_: str) -> Headers:
    value = id_.encode()
    return [(name, value) for name in dialect.id_headers]


def answer_headers(exchange: HttpExchange, answer: Response[S, E]) -> Headers:
    """Who answered, after how many attempts, how long the gateway took, and the provider's bucket."""
    meter = answer.meter
    started = meter.started
    own_ms = ((meter.first_call_at or started) - started) * 1000
    wait_ms = ((meter.content_at or started) - started) * 1000 - own_ms
    headers = [
        *exchange.id_headers,
        (b"x-gw-model", _header_text(answer.call.model.id)),
        (b"x-gw-attempts", b"%d" % len(meter.attempts)),
        (b"server-timing", b"gw;dur=%.3f, upstream;dur=%.3f" % (own_ms, wait_ms)),
    ]
    record = meter.record
    if record is not None and record.cost_nusd is not None:
        headers.append((b"x-gw-cost-usd", b"%.9f" % (record.cost_nusd / NANO)))
    bucket = answer.call.gate.bucket
    if bucket is not None:
        remaining, reset_s = bucket.left(meter.last_event_at or meter.started)
        headers += [
            (b"x-ratelimit-limit-requests", b"%d" % (answer.call.provider.requests_per_minute or 0)),
            (b"x-ratelimit-remaining-requests", b"%d" % remaining),
            (b"x-ratelimit-reset-requests", b"%.3fs" % reset_s),
        ]
    return headers


@lru_cache(maxsize=1_024)
def _header_text(text: str) -> bytes:
    """Model names are the administrator's text: anything that is no visible ASCII is escaped."""
    return text.encode("ascii", "backslashreplace").replace(b"\r", b"").replace(b"\n", b"")


def body_of(exchange: HttpExchange) -> Awaitable[bytes]:
    """The whole body, as large as `serve.max_body_mb` allows. Raises TooLarge."""
    limit = int(exchange.gateway.settings.serve.max_body_mb * _MEGABYTE)
    return read_body(exchange.receive, limit_bytes=limit)


def upload_limit(exchange: HttpExchange) -> int:
    """Bytes of `serve.max_upload_mb`."""
    return int(exchange.gateway.settings.serve.max_upload_mb * _MEGABYTE)


def while_connected(exchange: HttpExchange, work: Callable[[], Awaitable[None]]) -> Awaitable[None]:
    """`work`, cancelled when the client leaves: by our host, or by a task of ours under one that does not do that."""
    return work() if cancels(exchange.scope) else until_disconnect(exchange.receive, work)


async def stream_events(
    exchange: HttpExchange,
    opening: AbstractAsyncContextManager[Response[S, E]],
    encoder: Callable[[Response[S, E]], Callable[[list[E]], bytes]],
    instead: Callable[[Response[S, E]], Awaitable[bool]] | None = None,
) -> None:
    """Relay an answer as server-sent events. `instead` may answer in another way, unless a comment went out before."""
    response = SseResponse(exchange.send, exchange.id_headers)
    exchange.keepalive.watch(response)
    try:
        async with opening as answer:
            exchange.keepalive.forget(response)
            if instead is not None and not response.started and await instead(answer):
                return
            await response.begin(answer_headers(exchange, answer))
            encode = encoder(answer)
            while not answer.done:
                data = encode(await answer.receive())
                if data or answer.done:
                    await response.write(data, more=not answer.done)
    except GwError as error:
        if not response.started:
            raise
        dialect = exchange.dialect
        await response.write(dialect.in_band(dialect.error_body(error, exchange.caller.request_id)), more=False)
    finally:
        exchange.keepalive.forget(response)


async def stream_lines(
    exchange: HttpExchange,
    opening: AbstractAsyncContextManager[Response[S, E]],
    encoder: Callable[[Response[S, E]], Callable[[list[E]], bytes]],
    content_type: bytes,
) -> None:
    """Relay an answer in a form that has no room for signs of life. Its head goes out with the first content."""
    begun = False
    try:
        async with opening as answer:
            encode = encoder(answer)
            while not answer.done:
                data = encode(await answer.receive())
                if not begun:
                    begun = True
                    await send_start(exchange.send, content_type, answer_headers(exchange, answer))
                if data or answer.done:
                    await send_piece(exchange.send, data, more=not answer.done)
    except GwError as error:
        if not begun:
            raise
        dialect = exchange.dialect
        body = dialect.in_band(dialect.error_body(error, exchange.caller.request_id))
        await send_piece(exchange.send, body, more=False)


async def send_audio(exchange: HttpExchange, answer: SpeakAnswer, more: Headers | None = None) -> None:
    """Relay the audio itself, under the content type of what the provider sends."""
    content_type = CONTENT_TYPES[answer.stream.format.encoding]
    while not answer.done:
        audio = audio_of(await answer.receive())
        if not exchange.started:
            exchange.started = True
            headers = [*answer_headers(exchange, answer), *(more or ())]
            await send_start(exchange.send, content_type.encode(), headers)
        if audio or answer.done:
            await send_piece(exchange.send, audio, more=not answer.done)


def audio_of(events: list[SpeakEvent]) -> bytes:
    return b"".join(e.data for e in events if isinstance(e, AudioChunk))


async def whole_transcript(answer: Response[S, TextDelta | Transcript]) -> Transcript:
    """Read to the end."""
    while True:
        event = (await answer.receive())[-1]
        if not isinstance(event, TextDelta):
            return event
