"""ElevenLabs' API: text-to-speech in its four forms and `POST /v1/speech-to-text`; as WebSockets, speech with one context or
many, and realtime transcription.

`close_context` has two meanings: the text is complete, or the user interrupted. At the vendor, what was flushed is still
spoken, and other text is dropped unless `auto_mode` is on (see `gw.wire.elevenlabs_speak_live`). Here, an interruption also
stops what is being spoken, since nobody hears it and it costs money. Apps whose text is complete send the last flush and
`close_context` together: in one step at the end of a turn (`tts.py` of livekit-plugins-elevenlabs 1.8.9, and
`on_turn_context_completed` of Pipecat 1.14.0). An interruption comes at least a reaction time later: Pipecat's
`on_audio_context_interrupted` closes a context whose audio is being played; LiveKit's client closes one only that it has not
flushed, and drops the audio of others itself. So it is an interruption if text was not flushed, if it comes later than that,
or for a context that was closed before. One case is taken for an interruption by mistake: Pipecat also closes a context in
mid-speech when its voice settings change, and the rest of that sentence is not heard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial

import attrs
import msgspec
import trio

from gw.dialects import error_bodies, http_handler, live_transcription
from gw.dialects.arriving_upload import receive_form
from gw.dialects.exchange import Dialect, HttpExchange, Routes
from gw.dialects.http_handler import JSON
from gw.dialects.remote_recording import by_url
from gw.dialects.request_io import Headers, send_response
from gw.dialects.speech_contexts import Context, Contexts, open_contexts
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession, close_code_of
from gw.errors import GwError
from gw.relay.relay import SpeakAnswer, TranscribeAnswer
from gw.types.stt import TranscribeRequest, Transcript
from gw.types.tts import SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest, WordTiming
from gw.wire import elevenlabs_listen, elevenlabs_settings, elevenlabs_speak, elevenlabs_speak_live
from gw.wire.json_frames import Frame
from gw.wire.live_messages import ContextText, TtsCommand
from gw.wire.query import query_pairs

CODES = {
    "unauthorized": "invalid_api_key", "forbidden": "missing_permissions", "budget_exceeded": "quota_exceeded",
    "rate_limited": "rate_limit_exceeded", "overloaded": "system_busy",
}  # fmt: skip
"""The vendor's `detail.code` for ours (its help pages on errors, November 2026)."""


def error_body(error: GwError, request_id: str) -> bytes:
    status = error_bodies.status_of(error)
    return error_bodies.body_by(partial(elevenlabs_speak.error_body, status), error, request_id, CODES)


DIALECT = Dialect(
    name="elevenlabs", error_body=error_body, in_band=lambda body: body + b"\n",
    id_headers=(b"x-request-id", b"request-id"),
)


async def _parse(exchange: HttpExchange, *, timings: bool) -> SpeakRequest:
    voice = exchange.scope["path_params"]["voice"]
    request = elevenlabs_speak.parse(voice, exchange.query, await exchange.body(), timings=timings)
    ids = exchange.gateway.relay.speech_ids
    return elevenlabs_speak.keep_ids(request, lambda named: ids.own(named, exchange.caller.project))


async def speech(exchange: HttpExchange) -> None:
    """Answer both the streamed and the unstreamed form: the same audio, sent as it comes."""
    request = await _parse(exchange, timings=False)

    def headers(answer: SpeakAnswer) -> Headers:
        return [(b"character-cost", http_handler.billed_units(answer, "credits", request.text))]

    await http_handler.answer_speech(exchange, request, headers)


async def timed(exchange: HttpExchange) -> None:
    request = await _parse(exchange, timings=True)

    async def work() -> None:
        events: list[SpeakEvent] = []
        async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
            while not answer.done:
                events += await answer.receive()
            timings = [event for event in events if isinstance(event, WordTiming)]
            body = msgspec.json.encode(elevenlabs_speak.timed_object(http_handler.join_audio(events), timings))
            await send_response(exchange.send, 200, JSON, body, http_handler.answer_headers(exchange, answer))

    await http_handler.while_connected(exchange, work())


async def timed_stream(exchange: HttpExchange) -> None:
    request = await _parse(exchange, timings=True)
    opening = exchange.gateway.relay.speak(request, exchange.caller)
    await http_handler.stream_lines(exchange, opening, lambda answer: elevenlabs_speak.encode_lines, JSON)


async def recording(exchange: HttpExchange) -> None:
    async with exchange.upload() as upload:

        def parse() -> TranscribeRequest:
            def parsed() -> TranscribeRequest:
                fields = [*upload.fields, *query_pairs(exchange.query)]
                return elevenlabs_listen.parse_form(fields, upload, upload.format, upload.audio_seconds)

            param, url = elevenlabs_listen.url_in(upload.fields)
            return by_url(exchange.gateway, url, param, upload, parsed) if url else parsed()

        async with receive_form(exchange, upload, parse, elevenlabs_settings.URLS) as received:

            def encode(transcript: Transcript, answer: TranscribeAnswer) -> tuple[bytes, str]:
                id_, seconds = exchange.caller.request_id, received.request.audio_seconds or upload.audio_seconds
                return elevenlabs_listen.encode_transcript(transcript, request_id=id_, duration_s=seconds), "application/json"

            await http_handler.answer_transcript(exchange, received.request, encode)


ROUTES: Routes = {
    ("POST", "/v1/text-to-speech/{voice}"): speech,
    ("POST", "/v1/text-to-speech/{voice}/stream"): speech,
    ("POST", "/v1/text-to-speech/{voice}/with-timestamps"): timed,
    ("POST", "/v1/text-to-speech/{voice}/stream/with-timestamps"): timed_stream,
    ("POST", "/v1/speech-to-text"): recording,
}


# ---- WebSockets

TOGETHER_S = 0.5
"""A `close_context` that comes later than this after the last text or flush is an interruption."""


def _speech_error(error: GwError, request_id: str, context: str | None = None) -> Sequence[Frame]:
    return [elevenlabs_speak_live.error_frame(error_bodies.spoken_code(error, CODES), error.message, close_code_of(error), context)]


SPEECH = SocketDialect(
    name="elevenlabs", error_body=error_body, error_frames=_speech_error, key_in=elevenlabs_speak_live.key_in
)


async def speak_live(session: WebSocketSession, *, many: bool) -> None:
    """Serve `multi-stream-input` (`many`) or `stream-input`."""
    voice, query = session.scope["path_params"]["voice"], session.scope.get("query_string", b"")
    request = elevenlabs_speak_live.parse_query(voice, query)
    session.gateway.relay.resolve(request.model, "tts", session.caller)
    await session.accept()
    async with open_contexts(session, prewarm=many) as contexts:
        await _Speech(session, request, contexts, many=many).run()
    await session.socket.close()


class _Speech:
    """One socket."""

    def __init__(self, session: WebSocketSession, request: SpeakLiveRequest, contexts: Contexts, *, many: bool) -> None:
        self._session = session
        self._request = request
        self._contexts = contexts
        self._many = many
        self._settings: dict[str, dict[str, str]] = {}  # settings of contexts without text so far
        self._wordless: set[str] = set()  # contexts that were opened and have no text so far
        self._failure: GwError | None = None
        self._auto = dict(request.options).get("auto_mode") == "true"
        self._unflushed: set[str] = set()  # contexts with text that was not flushed
        self._written_at: dict[str, float] = {}  # time of the last text or flush of each open context

    async def run(self) -> None:
        """Serve until the client closes or leaves. Raises GwError if the only context of the socket failed."""
        while (frame := await self._session.socket.receive()) is not None:
            message = elevenlabs_speak_live.parse_frame(frame, many=self._many)
            if isinstance(message, TtsCommand):
                await self._contexts.finish_all()
                break
            await self._handle(message)
            if message.finish and not self._many:
                break
        else:
            return
        await self._contexts.wait_ended()
        if self._failure is not None and not self._many:
            raise self._failure

    async def _handle(self, message: ContextText) -> None:
        name = message.context
        if self._contexts.find(name) is None:
            if message.settings:
                self._settings.setdefault(name, {}).update(message.settings)
            if not self._contexts.knows(name) and not message.text.strip():  # an opening or a keep-alive
                if not message.finish:
                    self._wordless.add(name)
                elif name in self._wordless:
                    self._wordless.discard(name)
                    self._settings.pop(name, None)
                    await self._send_final(name)
                return
        self._wordless.discard(name)
        if self._many and self._interrupts(message):
            self._contexts.drop(name)
            await self._send_final(name)
            return
        await self._contexts.deliver(message, self._open)

    async def _send_final(self, name: str) -> None:
        """Tell the client that a context is over: LiveKit's plugin waits for it, also where nothing was to be spoken."""
        if self._many:
            server = elevenlabs_speak_live.ElevenSpeakServer(name, self._request.format)
            for frame in server.encode([SpeakEnd()]):
                await self._session.socket.send(frame)

    def _interrupts(self, message: ContextText) -> bool:
        """Note a message to a context; return whether it closes the context because the user interrupted."""
        name, now = message.context, trio.current_time()
        context = self._contexts.find(name)
        if context is None:
            self._unflushed.discard(name)
        elif message.finish and not message.text.strip() and not message.flush:
            dropped = name in self._unflushed and not self._auto
            late = now - self._written_at.pop(name, now) > TOGETHER_S
            self._unflushed.discard(name)
            return context.finished or dropped or late
        if message.flush:
            self._unflushed.discard(name)
        elif message.text.strip():
            self._unflushed.add(name)
        if message.flush or message.text.strip():
            self._written_at[name] = now
        return False

    def _open(self, message: ContextText) -> Context:
        name, request = message.context, self._request
        if settings := self._settings.pop(name, None):
            more = elevenlabs_speak_live.ignorable(settings)
            options = (*request.options, *settings.items())
            request = attrs.evolve(request, options=options, ignorable=(*request.ignorable, *more))

        def error_frames(error: GwError) -> Sequence[Frame]:
            self._failure = error
            return _speech_error(error, "", name) if self._many else []  # else sent when the socket is closed

        server = elevenlabs_speak_live.ElevenSpeakServer(name if self._many else None, request.format)
        return self._contexts.open(name, request, server.encode, error_frames)


_ERROR_KINDS = {401: "auth_error", 402: "quota_exceeded", 429: "rate_limited"}


def _transcription_error(error: GwError, request_id: str) -> Sequence[Frame]:
    status = error_bodies.status_of(error)
    kind = _ERROR_KINDS.get(status, "invalid_request" if status < 500 else "transcriber_error")
    return [elevenlabs_listen.error_frame(kind, error.message)]


TRANSCRIPTION = SocketDialect(name="elevenlabs", error_body=error_body, error_frames=_transcription_error)


def listen_live(session: WebSocketSession) -> Awaitable[None]:
    options = elevenlabs_listen.parse_query(session.scope.get("query_string", b""))
    server = elevenlabs_listen.ElevenListenServer(options, session_id=session.caller.request_id)
    return live_transcription.listen(session, options.request, server)


SPEECH_SOCKETS: dict[str, SocketHandler] = {
    "/v1/text-to-speech/{voice}/multi-stream-input": partial(speak_live, many=True),
    "/v1/text-to-speech/{voice}/stream-input": partial(speak_live, many=False),
}
TRANSCRIPTION_SOCKETS: dict[str, SocketHandler] = {"/v1/speech-to-text/realtime": listen_live}
