"""One request over HTTP, in any dialect: identify the caller, answer or fail in the protocol's own shape, stream.

A dialect is a `Dialect` and its handlers. Each handler owns its upstream in one `async with`. An exception before the head of
the response becomes a status and an error body; afterwards it becomes an error inside the stream (or, for raw audio, a cut
connection).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import lru_cache, partial
from typing import Generic, Protocol, TypeAlias, TypeVar

from gw.dialects import error_bodies, request_io
from gw.dialects.auth import identify, request_id
from gw.dialects.exchange import Dialect, Handler, HttpExchange, id_headers
from gw.dialects.keepalive import KeepAlive, SseResponse
from gw.dialects.place import wait_for_place
from gw.dialects.request_io import Headers, cancels, send_body, send_response, send_start, until_disconnect
from gw.dialects.upload import AudioReader, Upload
from gw.errors import ClientProtocolError, GwError
from gw.gateway import Gateway
from gw.relay.relay import ChatAnswer, SpeakAnswer, TranscribeAnswer
from gw.relay.response import ProviderStream, Response
from gw.types.asgi import LET_GO, Receive, Scope, Send
from gw.types.audio import CONTENT_TYPES
from gw.types.llm import ChatEvent, ChatRequest, Completion
from gw.types.pending import READY, Pending
from gw.types.printable import escaped
from gw.types.stt import TextDelta, TranscribeRequest, Transcript
from gw.types.tts import AudioChunk, SpeakEvent, SpeakRequest
from gw.types.usage import NANO
from gw.wire import wav

JSON = b"application/json"

S = TypeVar("S", bound=ProviderStream)
E = TypeVar("E")
Opening: TypeAlias = AbstractAsyncContextManager[Response[S, E]]
NewEncode: TypeAlias = Callable[[Response[S, E]], Callable[[list[E]], bytes]]
"""Returns the encoder of an answer's events."""


async def serve(
    dialect: Dialect, handler: Handler, gateway: Gateway, keepalive: KeepAlive, scope: Scope, receive: Receive, send: Send
) -> None:
    """Identify the caller and run its handler; turn what that raises before the head of the response into one."""
    exchange: HttpExchange | None = None
    try:
        caller = identify(gateway, scope, dialect=dialect.name)
        if "gw.places" in scope:
            await wait_for_place(gateway, scope, caller)
        if (coding := request_io.content_coding(scope)) is not None:
            receive = request_io.inflating(coding, receive, gateway.settings.serve.max_body_bytes())
        exchange = HttpExchange(dialect, gateway, keepalive, scope, receive, send, caller)
        scope = LET_GO  # by this frame: the exchange has it
        if (pending := await handler(exchange)) is not None:
            await pending
    except GwError as error:
        if exchange is not None and exchange.started:
            raise ConnectionAbortedError("the answer broke off after its first bytes") from None
        id_ = request_id(gateway, scope) if exchange is None else exchange.caller.request_id
        headers = [*id_headers(dialect, id_), *error_bodies.headers_of(error)]
        await send_response(send, dialect.status_of(error), JSON, dialect.error_body(error, id_), headers)


_VENDORS_ID = b"request-id"


def _ids(exchange: HttpExchange, answer: Response[S, E]) -> Headers:
    """Return the ids of the request: the vendor's own under the name that its clients send back, and `x-request-id` for ours."""
    id_ = answer.vendor_request_id
    if _VENDORS_ID not in exchange.dialect.id_headers:
        return exchange.id_headers
    exchange.gateway.relay.speech_ids.add(id_, exchange.caller.project)
    return [(name, id_.encode() if name == _VENDORS_ID else value) for name, value in exchange.id_headers]


ANSWER_HEADERS = (
    "X-GW-Model", "X-GW-Attempts", "X-GW-Ignored-Settings", "X-GW-Voice", "X-GW-Cost-USD", "X-GW-Vendor-Units", "X-GW-Cache",
    "Server-Timing",
)  # fmt: skip
"""Names of the headers that describe an answer: pages of `serve.cors_origins` may read them, docs/api.md lists them."""


def answer_headers(exchange: HttpExchange, answer: Response[S, E]) -> Headers:
    """Return ANSWER_HEADERS as far as known, after the request's ids, and the provider's rate limit."""
    meter = answer.meter
    started = meter.started
    own_ms = ((meter.first_call_at or started) - started) * 1000
    wait_ms = ((meter.content_at or started) - started) * 1000 - own_ms
    headers = [
        *(_ids(exchange, answer) if answer.vendor_request_id else exchange.id_headers),
        (b"x-gw-model", _header_text(answer.call.model.id)),
        (b"x-gw-attempts", b"%d" % len(meter.attempts)),
        (b"server-timing", b"gw;dur=%.3f, upstream;dur=%.3f" % (own_ms, wait_ms)),
    ]
    if ignored := answer.call.ignored_settings:
        headers.append((b"x-gw-ignored-settings", _header_text(", ".join(ignored))))
    if voice := answer.voice:
        headers.append((b"x-gw-voice", _header_text(voice)))
    if cache := answer.call.cache:
        headers.append((b"x-gw-cache", cache.encode()))
    record = meter.record
    if record is not None and record.cost_nusd is not None:
        headers.append((b"x-gw-cost-usd", b"%.9f" % (record.cost_nusd / NANO)))
    if (figure := answer.vendor_figure) is not None:
        headers.append((b"x-gw-vendor-units", b"%.15g %s" % (figure.amount, figure.unit.encode())))
    bucket = answer.call.gate.shared.bucket
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
    """Return a text with anything but visible ASCII escaped: settings that were not used have the names that a caller gave them."""
    return escaped(text).encode("ascii", "backslashreplace")


def while_connected(exchange: HttpExchange, work: Awaitable[None]) -> Awaitable[None]:
    """Await `work`, cancelled when the client leaves: by our own host, or by a task of ours on a host that does not cancel."""
    return work if cancels(exchange.scope) else until_disconnect(exchange.receive, work)


def stream_events(
    exchange: HttpExchange, opening: Opening[S, E], encoder: NewEncode[S, E],
    instead: Callable[[Response[S, E]], Awaitable[bool]] | None = None,
) -> Awaitable[None]:
    """Relay an answer as server-sent events. `instead` may answer in another way, unless a comment was sent before."""
    writer = _EventWriter(SseResponse(exchange.send, exchange.id_headers), encoder)
    return while_connected(exchange, _stream_events(exchange, opening, writer, instead))


async def _stream_events(
    exchange: HttpExchange, opening: Opening[S, E], writer: _EventWriter[S, E],
    instead: Callable[[Response[S, E]], Awaitable[bool]] | None,
) -> None:  # fmt: skip
    response = writer.response
    exchange.keepalive.watch(response)
    try:
        async with opening as answer:
            exchange.keepalive.forget(response)
            if instead is not None and not response.started and await instead(answer):
                return
            await response.begin(answer_headers(exchange, answer))
            writer.begin(answer)
            exchange.scope = LET_GO
            await answer.for_each(writer.write)
    except GwError as error:
        if not response.started:
            raise
        await response.write(_in_band(exchange, error), more=False)
    finally:
        exchange.keepalive.forget(response)


class _EventWriter(Generic[S, E]):
    """Writes an answer's events as server-sent events, without waiting where the client takes them at once."""

    __slots__ = ("_answer", "_encode", "_encoder", "response")

    _answer: Response[S, E]
    _encode: Callable[[list[E]], bytes]

    def __init__(self, response: SseResponse, encoder: NewEncode[S, E]) -> None:
        self.response = response
        self._encoder: NewEncode[S, E] | None = encoder

    def begin(self, answer: Response[S, E]) -> None:
        """Encode the events of `answer` from now on. What makes encoders is needed once, and is not kept."""
        encoder, self._encoder = self._encoder, None
        assert encoder is not None
        self._answer, self._encode = answer, encoder(answer)

    def write(self, events: list[E]) -> Pending:
        data, done = self._encode(events), self._answer.done
        if not data and not done:
            return None
        pending = self.response.write(data, more=not done)
        return None if pending is READY else pending


def stream_lines(
    exchange: HttpExchange, opening: Opening[S, E], encoder: NewEncode[S, E], content_type: bytes
) -> Awaitable[None]:
    """Relay an answer in a form without room for keep-alive comments. Its head is sent with the first content."""
    return while_connected(exchange, _stream_lines(exchange, opening, encoder, content_type))


async def _stream_lines(exchange: HttpExchange, opening: Opening[S, E], encoder: NewEncode[S, E], content_type: bytes) -> None:
    started = False
    try:
        async with opening as answer:
            encode = encoder(answer)
            while not answer.done:
                data = encode(await answer.receive())
                if not started:
                    started = True
                    await send_start(exchange.send, content_type, answer_headers(exchange, answer))
                if data or answer.done:
                    await send_body(exchange.send, data, more=not answer.done)
    except GwError as error:
        if not started:
            raise
        await send_body(exchange.send, _in_band(exchange, error), more=False)


def _in_band(exchange: HttpExchange, error: GwError) -> bytes:
    dialect = exchange.dialect
    return dialect.in_band(dialect.error_body(error, exchange.caller.request_id))


async def send_audio(
    exchange: HttpExchange, answer: SpeakAnswer, extra_headers: Headers | None = None, *, in_wav: bool = False
) -> None:
    """Relay the audio itself, with the content type of the provider's format; with `in_wav` the header of a WAV comes before samples."""
    while not answer.done:
        audio = join_audio(await answer.receive())
        if not exchange.started:
            exchange.started = True
            fmt = answer.stream.format  # only now: a conversion is chosen by the first piece
            if in_wav:
                audio = wav.header(fmt, None) + audio
            headers = [*answer_headers(exchange, answer), *(extra_headers or ())]
            await send_start(exchange.send, CONTENT_TYPES["wav" if in_wav else fmt.encoding].encode(), headers)
        if audio or answer.done:
            await send_body(exchange.send, audio, more=not answer.done)


def join_audio(events: list[SpeakEvent]) -> bytes:
    return b"".join([event.data for event in events if isinstance(event, AudioChunk)])


# ---- handlers that the dialects share


def billed_units(answer: SpeakAnswer, unit: str, text: str) -> bytes:
    """Return what the vendor that answered says it bills in this unit, else the characters of the text."""
    figure = answer.vendor_figure
    return b"%.15g" % (figure.amount if figure is not None and figure.unit == unit else len(text))


class ChatAnswerEncoder(Protocol):
    """Encoder of a chat dialect: of a streamed answer piece by piece, or of a complete one."""

    def encode(self, events: list[ChatEvent]) -> bytes: ...

    def answer(self, events: list[ChatEvent]) -> bytes: ...


def answer_chat(
    exchange: HttpExchange, request: ChatRequest, encoder: Callable[[ChatAnswer], ChatAnswerEncoder],
    lines: bytes | None = None, *, passes_raw: bool = True,
) -> Awaitable[None]:
    """Send a chat completion: unstreamed, as server-sent events, or as lines, if `lines` is their content type.

    `passes_raw`: a whole answer of an upstream of the same dialect goes out unchanged.
    """
    opening = exchange.gateway.relay.chat(request, exchange.caller)
    if not request.stream:
        return while_connected(exchange, _send_chat(exchange, opening, encoder, passes_raw))
    if lines is not None:
        return stream_lines(exchange, opening, partial(_encode_by, encoder), lines)
    return stream_events(exchange, opening, partial(_encode_by, encoder))


def _encode_by(encoder: Callable[[ChatAnswer], ChatAnswerEncoder], answer: ChatAnswer) -> Callable[[list[ChatEvent]], bytes]:
    return encoder(answer).encode


async def _send_chat(
    exchange: HttpExchange, opening: AbstractAsyncContextManager[ChatAnswer], encoder: Callable[[ChatAnswer], ChatAnswerEncoder],
    passes_raw: bool,
) -> None:  # fmt: skip
    events: list[ChatEvent] = []
    async with opening as answer:
        while not answer.done:
            events += await answer.receive()
        first = events[0]
        raw = first.raw if passes_raw and isinstance(first, Completion) else None
        body = raw if raw is not None else encoder(answer).answer(events)
        await send_response(exchange.send, 200, JSON, body, answer_headers(exchange, answer))


def answer_document(
    exchange: HttpExchange, request: ChatRequest, encode: Callable[[bytes, ChatAnswer], bytes] | None = None
) -> Awaitable[None]:
    """Send the vendor's answer to a request for a document (`ChatRequest.document`): as it is, or what `encode` makes of it."""

    async def work() -> None:
        async with exchange.gateway.relay.chat(request, exchange.caller) as answer:
            (event,) = await answer.receive()
            assert isinstance(event, Completion)
            body = event.raw or b""
            if encode is not None:
                body = encode(body, answer)
            await send_response(exchange.send, 200, JSON, body, answer_headers(exchange, answer))

    return while_connected(exchange, work())


def answer_speech(
    exchange: HttpExchange, request: SpeakRequest, extra_headers: Callable[[SpeakAnswer], Headers] | None = None
) -> Awaitable[None]:
    """Send speech as plain audio, as it comes."""

    async def work() -> None:
        async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
            headers = extra_headers(answer) if extra_headers is not None else None
            await send_audio(exchange, answer, headers, in_wav=request.in_wav)

    return while_connected(exchange, work())


def answer_transcript(
    exchange: HttpExchange, request: TranscribeRequest, encode: Callable[[Transcript, TranscribeAnswer], tuple[bytes, str]],
    complete: Callable[[bytes], bytes] | None = None, must_encode: Callable[[], bool] | None = None,
) -> Awaitable[None]:
    """Send a transcript: the body of an upstream of the same dialect, or else what `encode` returns, and its content type.

    `complete` adds what the caller's clients insist on to either body. `must_encode` is called with the transcript at hand, and
    returns whether no upstream's body will do.
    """

    async def work() -> None:
        async with exchange.gateway.relay.transcribe(request, exchange.caller) as answer:
            transcript = await read_transcript(answer)
            is_own = answer.call.spec.dialect == exchange.dialect.name and not (must_encode is not None and must_encode())
            if transcript.raw is not None and is_own:
                body, content_type = transcript.raw, transcript.content_type
            else:
                body, content_type = encode(transcript, answer)
            if complete is not None:
                body = complete(body)
            await send_response(exchange.send, 200, content_type.encode(), body, answer_headers(exchange, answer))

    return while_connected(exchange, work())


async def read_transcript(answer: Response[S, TextDelta | Transcript]) -> Transcript:
    """Read an answer to its end."""
    while True:
        event = (await answer.receive())[-1]
        if not isinstance(event, TextDelta):
            return event


async def read_audio(exchange: HttpExchange, upload: Upload) -> None:
    """Fill `upload` from a body that is the audio itself. Raises ClientProtocolError, TooLarge, or OSError when the client leaves."""
    reader = AudioReader(exchange.scope, exchange.receive, upload)
    while await reader.read():
        pass
    if not upload.size:
        raise ClientProtocolError(what="the body has no audio")
