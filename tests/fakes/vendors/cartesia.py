"""A vendor that speaks Cartesia's protocols: a plain ASGI app made from the server role of our own codecs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

import attrs
import trio

from gw.types.audio import CONTENT_TYPES
from gw.types.stt import ListenEnd
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, WordTiming
from gw.wire import cartesia_listen, cartesia_speak, wav
from gw.wire.live_messages import CancelContext, ContextText, Control
from tests.fakes.vendors.heard import heard, refused
from tests.fakes.vendors.live import LiveVendor, Peer, Session, TurnListener, form_of
from tests.fakes.vendors.scripted import Answer, Entry, json_of

FORGOTTEN_S = 1.0
"""A context is forgotten so long after its last audio."""
END_TIMEOUT_MS = 5_600.0
"""Default of `turn_end_timeout_ms` (cartesia 4.2.0: `AutoFinalizeWebsocketParams`)."""


@attrs.define
class _Context:
    server: cartesia_speak.CartesiaSpeakServer
    text: str = ""
    audio_s: float = 0.0
    spoken_at: float | None = None


@attrs.define(kw_only=True)
class FakeCartesia(LiveVendor):
    models: tuple[str, ...] = ("sonic-3", "ink-2")
    full_code: str = "concurrency_limited"
    """Its page "API errors"."""
    endpoint_s: float = 0.1
    """Silence after which a turn ends. The vendor decides it by meaning (its page "Turn detection"), and documents only the
    longest one."""

    _contexts: list[dict[str, _Context | None]] = attrs.field(factory=list)
    """Those of each socket that is open."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", "/tts/bytes"): self._bytes,
            ("POST", "/tts/sse"): self._sse,
            ("POST", "/stt"): self._stt,
            ("GET", "/voices"): self._voices,
        }

    def sockets(self) -> Mapping[str, Session]:
        return {
            "/tts/websocket": self._speak,
            "/stt/websocket": self._listen,
            "/stt/turns/websocket": self._turns,
        }

    def check_handshake(self, path: str, query: bytes) -> None:
        """Refuse what `STTManualFinalize` (cartesia 4.2.0) and LiveKit's `CartesiaOptions` exclude."""
        asked = parse_qsl(query.decode())
        terms, named = [value for name, value in asked if name == "keyterm"], dict(asked)
        if terms and (named["model"] == "ink-whisper" or len(terms) > 100 or sum(map(len, terms)) > 1_200):
            raise refused("too many keyterms, or a model without them", "keyterm")
        if path.startswith("/stt") and named["model"] != "ink-whisper" and named.get("language", "en") != "en":
            raise refused("this model knows English only", "language")

    def full_message(self) -> str:
        return "You have exceeded your plan's concurrency limit."

    def counts_socket(self, entry: Entry) -> bool:
        """Return whether it is for transcription: of speech, each context that is active takes a slot (its page on concurrency)."""
        return not entry.path.endswith("/tts/websocket")

    @property
    def in_use(self) -> int:
        http = sum(e.closed is None and e.status != 429 and not e.path.endswith("/tts/websocket") for e in self.ledger)
        return http + self.elsewhere + sum(one is not None for contexts in self._contexts for one in contexts.values())

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return cartesia_speak.error_body(code, message, "r")

    def stream_error_event(self, code: str) -> bytes:
        return cartesia_speak.as_sse([self.socket_error_frame()])

    def socket_error_frame(self) -> str:
        return cartesia_speak.error_frame(500, self.error_code, "scripted failure", None, "r")

    async def _voices(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"data":[],"has_more":false,"next_page":null}', "application/json")

    async def _bytes(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = cartesia_speak.parse_body(body, events=False)
        entry.fields = json_of(body) | {"text": request.text, "voice": request.voice}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(404, "voice_not_found", "Voice not found")  # cartesia 4.2.0: `NotFoundError`
            return
        await trio.sleep(self.first_token_after_s)
        fmt = request.format
        await answer.start(CONTENT_TYPES["wav" if request.in_wav else fmt.encoding])
        pieces = [] if self.empty else list(self.recorded(request.text, fmt))
        await self.answer_speech(answer, [wav.header(fmt, None), *pieces] if request.in_wav else pieces)
        await answer.end()

    async def _sse(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = cartesia_speak.parse_body(body, events=True)
        entry.fields = json_of(body) | {"text": request.text, "voice": request.voice}
        server = cartesia_speak.CartesiaSpeakServer("c", timestamps=request.want_timings)
        await answer.start("text/event-stream")
        pieces: list[list[SpeakEvent]] = [
            [*words, AudioChunk(data=data)] for data, words in self.timed_voice(request.text, request.format)
        ]
        await answer.paced(
            [*pieces, [SpeakEnd()]],
            self.speech_gap_s,
            lambda piece: cartesia_speak.as_sse(server.encode(piece)),
        )
        await answer.end()

    async def _stt(self, entry: Entry, body: bytes, answer: Answer) -> None:
        entry.fields, entry.audio = form_of(entry, body)
        if "-" in entry.fields.get("language", ""):  # `STTTranscribeParams`, cartesia 4.2.0
            raise refused("language must be an ISO-639-1 code", "language")
        info = wav.parse(entry.audio)
        length_s = info.format.seconds(len(entry.audio) - info.data_offset) if info is not None else 1.0
        await trio.sleep(self.first_token_after_s)
        words = "timestamp_granularities[]" in entry.fields
        result = heard(self.words_of(entry.audio), length_s, words=words)
        decoded = cartesia_listen.encode_transcript(result, request_id="r", words=words)
        await answer.send_complete(b'{"type":' if self.malformed else decoded, "application/json")

    async def _speak(self, peer: Peer) -> None:
        contexts: dict[str, _Context | None] = {}
        self._contexts.append(contexts)
        try:
            await self._speak_contexts(peer, contexts)
        finally:
            self._contexts.remove(contexts)

    async def _speak_contexts(self, peer: Peer, contexts: dict[str, _Context | None]) -> None:
        while (frame := await peer.receive()) is not None:
            decoded = cartesia_speak.parse_frame(frame)
            if isinstance(decoded, CancelContext):
                contexts[decoded.context] = None
                continue
            peer.entry.fields["voice"] = decoded.request.voice
            if self.voices is not None and decoded.request.voice not in self.voices:
                await peer.send(cartesia_speak.error_frame(404, "voice_not_found", "Voice not found", decoded.context, "r"))
                continue
            fault = _fault(decoded, contexts)
            if fault:
                contexts[decoded.context] = None
                await peer.send(cartesia_speak.error_frame(400, "invalid_request", fault, decoded.context, "r"))
                continue
            context = contexts.get(decoded.context)
            if context is None and self.slots is not None and self.in_use >= self.slots:
                contexts[decoded.context] = None
                await peer.send(cartesia_speak.error_frame(429, self.full_code, self.full_message(), decoded.context, "r"))
                continue
            if context is None:
                server = cartesia_speak.CartesiaSpeakServer(decoded.context, timestamps=decoded.request.want_timings)
                context = contexts[decoded.context] = _Context(server)
            context.text += decoded.text
            if decoded.flush or decoded.finish:
                await self._send_event(peer, context, decoded)
            if decoded.finish:
                contexts[decoded.context] = None

    async def _send_event(self, peer: Peer, context: _Context, decoded: ContextText) -> None:
        text, context.text = context.text, ""
        at_s = context.audio_s

        async def send(piece: tuple[bytes, list[WordTiming]]) -> None:
            data, words = piece
            timings = [WordTiming(word=w.word, start_s=w.start_s + at_s, end_s=w.end_s + at_s) for w in words]
            context.audio_s += decoded.request.format.seconds(len(data))
            await peer.send(*context.server.encode([*timings, AudioChunk(data=data)]))

        if text.strip():
            await self.utter(peer, self.timed_voice(text, decoded.request.format), send)
        await peer.send(*context.server.encode([SpeakEnd() if decoded.finish else Flushed()]))
        context.spoken_at = trio.current_time()
        peer.entry.fields["text"] = peer.entry.fields.get("text", "") + text

    async def _listen(self, peer: Peer) -> None:
        request = cartesia_listen.parse_query(peer.query)
        server, listener = cartesia_listen.CartesiaListenServer("r"), self.make_listener(request.format)
        while (frame := await peer.receive()) is not None:
            if isinstance(frame, bytes):
                peer.entry.audio += frame
                await peer.send(*server.encode(peer.heard(listener.feed(frame))))
            elif frame == "finalize":
                await peer.send(server.flush_done())
            else:
                peer.entry.outcome = "ended"
                await peer.send(*server.encode([ListenEnd()]))
                await peer.close()
                return

    async def _turns(self, peer: Peer) -> None:
        request = cartesia_listen.parse_query(peer.query)
        timeout_ms = float(dict(request.options).get("turn_end_timeout_ms", END_TIMEOUT_MS))
        server = cartesia_listen.CartesiaTurnsServer("r")
        turns = TurnListener(self.make_listener(request.format), min(self.endpoint_s, timeout_ms / 1000))
        await peer.send(*server.opening())
        while (frame := await peer.receive()) is not None:
            if isinstance(frame, bytes):
                peer.entry.audio += frame
                await peer.send(*server.encode(peer.heard(turns.feed(frame))))
            elif Control.FINISH in server.receive(frame):
                peer.entry.outcome = "ended"
                await peer.send(*server.encode([*peer.heard(turns.end()), ListenEnd()]))
                await peer.close()
                return
            else:
                timeout_ms = json_of(frame.encode()).get("turn", {}).get("end_timeout_ms", timeout_ms)
                turns.endpoint_s = min(self.endpoint_s, timeout_ms / 1000)


def _fault(decoded: ContextText, contexts: Mapping[str, _Context | None]) -> str:
    """Return the error for a message that the vendor refuses, else None."""
    context = contexts.get(decoded.context)
    if decoded.context not in contexts:
        return "" if any(map(str.isalnum, decoded.text)) else "transcript empty or contains only punctuation"
    if context is None:
        return "the context is over"
    forgotten = context.spoken_at is not None and trio.current_time() - context.spoken_at > FORGOTTEN_S
    return "the context has expired" if forgotten and not context.text else ""
