"""Deepgram's API: `/v1/listen` (by HTTP for recordings), `/v2/listen`, `/v1/speak` and `/v2/speak` by HTTP and WebSocket.

If the upstream is Deepgram too, its own answer goes out unchanged. Settings are in the query. Live transcription is one session
per socket. Live speech is a session per utterance (the text between two `Flush`), each with its own record; audio keeps the
order of the utterances, since frames do not say to which they belong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

import attrs

from gw.dialects import error_bodies, live_transcription
from gw.dialects.arriving_upload import receive_audio
from gw.dialects.callbacks import CUT, Callback, deliver, forget, keep
from gw.dialects.exchange import Dialect, HttpExchange, Routes  # fmt: skip
from gw.dialects.http_handler import JSON, answer_speech, answer_transcript, billed_units, read_audio, read_transcript
from gw.dialects.remote_recording import by_url
from gw.dialects.request_io import Headers, header, send_response
from gw.dialects.speech_contexts import Context, Contexts, open_contexts
from gw.dialects.upload import Upload
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession
from gw.errors import GwError, Overloaded, Stopping, StoreUnavailable
from gw.net.recordings import check_url, split_credential
from gw.relay.background_work import Work
from gw.relay.relay import SpeakAnswer, TranscribeAnswer
from gw.types.stt import TranscribeRequest, Transcript
from gw.types.tts import Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest
from gw.wire import deepgram_flux_listen, deepgram_listen_server, deepgram_recordings, deepgram_speak
from gw.wire.deepgram_speak import DeepgramSpeakServer, FluxSpeakServer
from gw.wire.json_frames import Frame
from gw.wire.live_messages import ContextText, DirectReply, SpeakMessage, Text, TtsCommand
from gw.wire.sentences import heard_words

CODES = {
    "invalid_request": "Bad Request", "unsupported_setting": "Bad Request", "unauthorized": "INVALID_AUTH",
    "forbidden": "INSUFFICIENT_PERMISSIONS", "budget_exceeded": "ASR_PAYMENT_REQUIRED", "rate_limited": "TOO_MANY_REQUESTS",
    "project_not_found": "PROJECT_NOT_FOUND",
}  # fmt: skip
"""The vendor's `err_code` for ours (its page on errors, November 2026)."""

error_body = partial(error_bodies.body_by, error_bodies.without_param(deepgram_listen_server.error_body), codes=CODES)
DIALECT = Dialect(name="deepgram", error_body=error_body, id_headers=(b"x-request-id", b"dg-request-id"))


def _is_json(exchange: HttpExchange) -> bool:
    content_type = (header(exchange.scope, b"content-type") or b"").decode("latin-1")
    return content_type.partition(";")[0].strip().lower() == "application/json"


async def listen(exchange: HttpExchange) -> None:
    """Answer with the transcript, or with `callback` at once with the request's id; the transcript is sent there then."""
    url, method = deepgram_recordings.callback_of(exchange.query)
    if url:
        await _listen_for(_callback(exchange, url, method), exchange)
        return
    async with exchange.upload() as upload:
        if _is_json(exchange):
            request = await _by_url(exchange, upload)
            await answer_transcript(exchange, request, partial(_encode, exchange, request, upload))
            return
        async with receive_audio(exchange, upload, partial(_parse, exchange, upload)) as received:

            def encode(transcript: Transcript, answer: TranscribeAnswer) -> tuple[bytes, str]:
                return _encode(exchange, received.request, upload, transcript, answer)

            await answer_transcript(exchange, received.request, encode)


async def _listen_for(callback: Callback, exchange: HttpExchange) -> None:
    upload = exchange.upload()
    handed_over = False
    try:
        if _is_json(exchange):
            request = await _by_url(exchange, upload)
        else:
            await read_audio(exchange, upload)
            request = _parse(exchange, upload)
        exchange.gateway.relay.resolve(request.model, "stt", exchange.caller)
        exchange.gateway.relay.refuse_unsupported(request, exchange.caller)
        encode = partial(_encode, exchange, request, upload)
        await _accept(exchange, callback, lambda: _call_back(exchange, request, upload, encode, callback))
        handed_over = True
    finally:
        if not handed_over:
            await upload.__aexit__(None, None, None)
    body = deepgram_recordings.accepted_body(exchange.caller.request_id)
    await send_response(exchange.send, 200, JSON, body, exchange.id_headers)


async def _accept(exchange: HttpExchange, callback: Callback, work: Work) -> None:
    """Store what is sent should gw be stopped before the result, and start. Raises StoreError, ConfigError, Overloaded."""
    gateway, id_ = exchange.gateway, exchange.caller.request_id
    await keep(gateway, callback, error_body(Stopping(what=CUT), id_), id_)
    try:
        gateway.background.start(work)
    except Overloaded:
        await forget(gateway, id_)
        raise


def _parse(exchange: HttpExchange, upload: Upload) -> TranscribeRequest:
    return deepgram_recordings.parse_recording(exchange.query, upload, upload.audio_seconds, upload.format)


async def _by_url(exchange: HttpExchange, upload: Upload) -> TranscribeRequest:
    url = deepgram_recordings.parse_url(await exchange.body())
    return by_url(exchange.gateway, url, "url", upload, partial(_parse, exchange, upload))


def _encode(
    exchange: HttpExchange, request: TranscribeRequest, upload: Upload, transcript: Transcript, answer: TranscribeAnswer
) -> tuple[bytes, str]:
    id_ = exchange.caller.request_id
    created = datetime.fromtimestamp(answer.meter.timestamp, UTC).isoformat().replace("+00:00", "Z")
    body = deepgram_recordings.encode_transcript(
        transcript, request_id=id_, created=created, duration_s=request.audio_seconds or upload.audio_seconds,
        sha256=sha256(id_.encode()).hexdigest(), utterances="segment" in request.timestamps,
    )
    return body, "application/json"


def _callback(exchange: HttpExchange, url: str, method: bytes) -> Callback:
    """Return the callback as the vendor makes it.

    Source: docs "STT Callback" (November 2026): the header `dg-token` names the key of the request, an answer other than 2xx
    has it tried again up to ten times, thirty seconds apart. A user and password in the address are for basic authentication.
    """
    url, credential = split_credential(url)
    check_url(url, "callback")
    headers = [(b"dg-token", (exchange.caller.key_id or exchange.caller.project).encode("ascii", "replace"))]
    proof = (b"authorization", credential) if credential else (b"", b"")
    return Callback(url=url, headers=headers, credential=proof, method=method, pause_s=30.0)


async def _call_back(
    exchange: HttpExchange, request: TranscribeRequest, upload: Upload,
    encode: Callable[[Transcript, TranscribeAnswer], tuple[bytes, str]], callback: Callback,
) -> None:
    """Transcribe, and send the transcript or the error. The vendor itself would send its own id, so it does not call back."""
    gateway, id_ = exchange.gateway, exchange.caller.request_id
    try:
        async with gateway.relay.transcribe(request, exchange.caller) as answer:
            transcript = await read_transcript(answer)
            if transcript.raw is not None and answer.call.spec.dialect == DIALECT.name:
                body = deepgram_recordings.with_request_id(transcript.raw, id_)
            else:
                body, _ = encode(transcript, answer)
    except GwError as error:
        body = error_body(error, id_)
    except OSError as error:  # the spool
        body = error_body(StoreUnavailable(what=f"the upload cannot be read: {error.strerror}"), id_)
    finally:
        await upload.__aexit__(None, None, None)
    await deliver(gateway, callback, body, id_)


async def speak(exchange: HttpExchange) -> None:
    request = deepgram_speak.parse_http(exchange.query, await exchange.body())

    def headers(answer: SpeakAnswer) -> Headers:
        model = answer.call.model.name.encode("ascii", "replace")
        return [(b"dg-model-name", model), (b"dg-char-count", billed_units(answer, "characters", request.text))]

    await answer_speech(exchange, request, headers)


ROUTES: Routes = {
    ("POST", "/v1/listen"): listen,
    ("POST", "/v1/speak"): speak,
    ("POST", "/v2/speak"): speak,
}
"""The second `speak` is that of Flux, with the same requests and answers."""


# ---- WebSockets


MAX_SPOKEN = 20  # utterances of which is known at what time of the audio each word is spoken
_SUBPROTOCOLS = ("token", "bearer")


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    return [deepgram_listen_server.error_frame(error_bodies.spoken_code(error, CODES), error.message)]


SOCKET_DIALECT = SocketDialect(name="deepgram", error_body=error_body, error_frames=_error_frames)


def _handshake(session: WebSocketSession) -> tuple[str | None, list[tuple[bytes, bytes]]]:
    """Return the subprotocol to choose (a browser offers it beside its key) and Deepgram's header for the request id."""
    chosen = next((name for name in session.socket.offered if name.lower() in _SUBPROTOCOLS), None)
    return chosen, [(b"dg-request-id", session.caller.request_id.encode())]


def listen_live(session: WebSocketSession) -> Awaitable[None]:
    options = deepgram_listen_server.parse_query(session.scope.get("query_string", b""))
    created = datetime.fromtimestamp(session.gateway.clock.now(), UTC).isoformat().replace("+00:00", "Z")
    server = deepgram_listen_server.DeepgramListenServer(options, request_id=session.caller.request_id, created=created)
    subprotocol, headers = _handshake(session)
    return live_transcription.listen(session, options.request, server, subprotocol=subprotocol, headers=headers)


def listen_by_turns(session: WebSocketSession) -> Awaitable[None]:
    """Serve `WS /v2/listen`, where each update repeats the turn so far."""
    request = deepgram_flux_listen.parse_query(session.scope.get("query_string", b""))
    server = deepgram_flux_listen.FluxListenServer(request_id=session.caller.request_id)
    subprotocol, headers = _handshake(session)
    return live_transcription.listen(session, request, server, subprotocol=subprotocol, headers=headers)


async def speak_live(session: WebSocketSession) -> None:
    request = deepgram_speak.parse_live_query(session.scope.get("query_string", b""))
    await _speak(session, request, DeepgramSpeakServer(request_id=session.caller.request_id, model=request.model))


async def speak_flux(session: WebSocketSession) -> None:
    """Serve `WS /v2/speak`, the protocol of Flux TTS."""
    request = deepgram_speak.parse_live_query(session.scope.get("query_string", b""))
    id_ = session.caller.request_id
    await _speak(session, request, FluxSpeakServer(request_id=id_, model=request.model, fmt=request.format))


async def _speak(session: WebSocketSession, request: SpeakLiveRequest, server: DeepgramSpeakServer) -> None:
    session.gateway.relay.resolve(request.model, "tts", session.caller)
    subprotocol, headers = _handshake(session)
    await session.accept(subprotocol, headers)
    await session.socket.send(server.opening())
    async with open_contexts(session) as contexts:
        await _Speech(session, request, server, contexts).run()
    await session.socket.close()


@attrs.frozen(eq=False)
class _Spoken:
    """An utterance whose audio the client has got, or gets now."""

    context: Context
    begins_ms: int


@attrs.define(eq=False)
class _Speech:
    """One socket. The contexts are named by the number of the utterance."""

    _session: WebSocketSession
    _request: SpeakLiveRequest
    _server: DeepgramSpeakServer
    _contexts: Contexts
    _utterance: int = 0
    _spoken: list[_Spoken] = attrs.field(factory=list)
    """Utterances sent since the last interruption, where the client can say how far it has played."""

    async def run(self) -> None:
        """Serve until the client closes or leaves."""
        while (frame := await self._session.socket.receive()) is not None:
            for message in self._server.receive(frame):
                if message is TtsCommand.CLOSE:
                    await self._close()
                    return
                await self._handle(message)

    async def _handle(self, message: SpeakMessage) -> None:
        match message:
            case DirectReply(frame=frame):
                await self._session.socket.send(frame)
            case Text(text=text):
                await self._contexts.deliver(ContextText(context=str(self._utterance), text=text), self._open)
            case TtsCommand.FINISH:
                if not await self._finish():
                    await self._session.socket.send(self._server.encode([Flushed()])[0])
            case TtsCommand.CLEAR:
                answer = self._interrupted()
                self._contexts.drop_all()
                self._utterance += 1
                await self._session.socket.send(answer)

    def _interrupted(self) -> str:
        """Return the answer to an interruption; it has the text that was heard if the client says how far it has played."""
        server = self._server
        if not isinstance(server, FluxSpeakServer) or server.offset_ms is None:
            self._spoken.clear()
            return server.cleared()
        offset_ms = server.offset_ms
        heard = next((spoken for spoken in reversed(self._spoken) if spoken.begins_ms <= offset_ms), None)
        self._spoken.clear()
        if heard is None or heard.context.live is None:
            return server.interrupted(text_spoken="", text_remaining="")
        live = heard.context.live
        spoken = heard_words(live.text.text, live.spoken_until((offset_ms - heard.begins_ms) / 1000))
        return server.interrupted(text_spoken=spoken, text_remaining=live.text.text[len(spoken) :].lstrip())

    async def _finish(self) -> bool:
        """Finish the current utterance; return False if it has no text."""
        name = str(self._utterance)
        if not self._contexts.knows(name):
            return False
        await self._contexts.deliver(ContextText(context=name, finish=True), self._open)
        self._utterance += 1
        return True

    async def _close(self) -> None:
        await self._finish()
        await self._contexts.wait_ended()
        for frame in self._server.closing():
            await self._session.socket.send(frame)

    def _open(self, message: ContextText) -> Context:
        request, server = self._request, self._server
        if isinstance(server, FluxSpeakServer) and server.speed is not None:
            request = attrs.evolve(request, speed=server.speed)

        def error_frames(error: GwError) -> Sequence[Frame]:
            return [deepgram_speak.error_frame(error_bodies.spoken_code(error, CODES), error.message)]

        def encode(events: list[SpeakEvent]) -> Sequence[Frame]:
            return self._encode(context, events)

        context = self._contexts.open(message.context, request, encode, error_frames, after=self._contexts.last)
        return context

    def _encode(self, context: Context, events: list[SpeakEvent]) -> Sequence[Frame]:
        """Encode an utterance's events: its end answers the client's `Flush`, the provider's own flushes do not."""
        if isinstance(self._server, FluxSpeakServer) and not (self._spoken and self._spoken[-1].context is context):
            self._spoken.append(_Spoken(context, self._server.position_ms))
            del self._spoken[:-MAX_SPOKEN]
        events = [event for event in events if not isinstance(event, Flushed)]
        return self._server.encode([Flushed() if isinstance(event, SpeakEnd) else event for event in events])


SOCKETS: dict[str, SocketHandler] = {
    "/v1/listen": listen_live,
    "/v2/listen": listen_by_turns,
    "/v1/speak": speak_live,
    "/v2/speak": speak_flux,
}
