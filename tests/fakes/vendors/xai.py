"""The speech of xAI: a plain ASGI app made from the server role of our own codecs. Its chat is `FakeVariant`, its conversations
`XaiConversation`.

Source of what it refuses: the vendor's pages on speech to text and text to speech, and livekit-plugins-xai 1.8.9, whose clients wait for
`transcript.created` (November 2026). `tests/clients/test_fake_xai_speech_plugins.py` reads these answers with LiveKit's plugin and Pipecat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

import attrs
import msgspec
import trio

from gw.errors import ClientProtocolError
from gw.types.audio import CONTENT_TYPES
from gw.types.stt import Transcript
from gw.types.tts import AudioChunk, Flushed, SpeakLiveRequest, WordTiming
from gw.wire import multipart, openai_chat, xai_listen, xai_speak
from gw.wire.live_messages import Text, TtsCommand
from gw.wire.xai_listen import XaiListenServer
from tests.fakes.vendors.heard import heard, refused
from tests.fakes.vendors.job_vendor import JobVendor
from tests.fakes.vendors.live import OpenTurn, Peer, Session, TurnListener, form_of
from tests.fakes.vendors.scripted import Answer, Entry, json_of

_PREFIX = "/v1"


@attrs.define(kw_only=True)
class FakeXai(JobVendor):
    """Answer as xAI does. With `endpoint_s` an utterance ends after the silence that the session sets."""

    models: tuple[str, ...] = ("grok-voice-transcribe-2.0", "grok-voice-transcribe-1.0")
    created_after_s: float = 0.0
    """After how long a transcription begins, which `transcript.created` says."""
    openai_errors: bool = False
    """Scripted errors have OpenAI's shape, whose codes a suite may choose."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        own = {("GET", "/models"): self._models, ("POST", xai_listen.PATH): self._stt, ("POST", xai_speak.PATH): self._tts}
        return {(method, prefix + path): handler for prefix in (_PREFIX, "") for (method, path), handler in own.items()}

    def sockets(self) -> Mapping[str, Session]:
        own = {xai_listen.PATH: self._listen, xai_speak.PATH: self._speak}
        return {prefix + path: run for prefix in (_PREFIX, "") for path, run in own.items()}

    def check_handshake(self, path: str, query: bytes) -> None:
        if path.endswith(xai_speak.PATH):
            xai_speak.parse_query(query)
            return
        self._check_model(xai_listen.parse_query(query).model)

    def error_response(self, status: int, code: str, message: str) -> bytes:
        if self.openai_errors:
            return openai_chat.error_body(type="t", code=code, message=message, param=None, request_id="")
        return msgspec.json.encode({"code": "Client specified an invalid argument", "error": message})

    def socket_error_frame(self) -> str:
        return xai_listen.error_frame("scripted failure")

    def _check_model(self, model: str) -> None:
        """Refuse an unknown model; without one the vendor takes its default."""
        if model and model not in self.models:
            raise refused(f"The model {model} does not exist", "model")

    async def _models(self, entry: Entry, body: bytes, answer: Answer) -> None:
        models = [{"id": name, "created": 1_790_000_000, "object": "model", "owned_by": "xai"} for name in self.models]
        await answer.send_complete(msgspec.json.encode({"data": models, "object": "list"}), "application/json")

    async def _stt(self, entry: Entry, body: bytes, answer: Answer) -> None:
        _, entry.audio = form_of(entry, body)
        pairs = _fields_before_file(entry, body)
        entry.fields = {**dict(pairs), "keyterm": list(xai_listen.keyterms_of(pairs))}
        self._check_model(entry.fields.get("model", ""))
        if entry.fields.get("format") == "true" and not entry.fields.get("language"):
            raise refused("format needs language", "format")
        self.take(entry.audio)
        await trio.sleep(self.first_token_after_s)
        speakers = ("0", "1") if entry.fields.get("diarize") == "true" else ()
        result: Transcript = heard(self.words_of(self.uploaded), self.length_s(), speakers=speakers)
        await answer.send_complete(b'{"text":' if self.malformed else xai_listen.encode_recording(result), "application/json")

    async def _tts(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = xai_speak.parse_body(body)
        entry.fields = json_of(body) | {"voice": request.voice, "text": request.text}
        if self.voices is not None and request.voice not in self.voices:
            await answer.error(404, "voice_not_found", f"Voice {request.voice} not found")
            return
        await trio.sleep(self.first_token_after_s)
        await answer.start(CONTENT_TYPES[request.format.encoding])
        await self.answer_speech(answer, [] if self.empty else list(self.recorded(request.text, request.format)))
        await answer.end()

    async def _listen(self, peer: Peer) -> None:
        request = xai_listen.parse_query(peer.query)
        peer.entry.fields |= dict(parse_qsl(peer.query.decode())) | {"keyterm": list(request.keyterms)}
        server = XaiListenServer(request)
        await trio.sleep(self.created_after_s)
        await peer.send(*server.opening())
        listener = self.make_listener(request.format, speakers=("0", "1") if request.diarize else ())
        endpoint_s = (request.endpointing_ms or 0) / 1000
        await self.hear_turns(peer, server, TurnListener(listener, endpoint_s) if self.endpoint_s else OpenTurn(listener))

    async def _speak(self, peer: Peer) -> None:
        request = xai_speak.parse_query(peer.query)
        peer.entry.fields |= {"voice": request.voice, "text": ""}
        if self.voices is not None and request.voice not in self.voices:
            await peer.send(xai_speak.error_frame(f"Voice {request.voice} not found"))
            await peer.close(1008)
            return
        server, text = xai_speak.XaiSpeakServer(timestamps=request.want_timings), ""
        while (frame := await peer.receive()) is not None:
            try:
                (message,) = server.receive(frame)
            except ClientProtocolError as error:
                await peer.send(xai_speak.error_frame(error.what))
                continue
            match message:
                case Text(piece):
                    text += piece
                case TtsCommand.CLEAR:
                    text = ""
                    await peer.send(xai_speak.cleared())
                case TtsCommand.FLUSH if not text.strip():
                    await peer.send(xai_speak.error_frame("there is no text to speak"))
                case _:
                    spoken, text = text, ""
                    peer.entry.fields["text"] += spoken
                    await self._utter(peer, server, request, spoken)

    async def _utter(self, peer: Peer, server: xai_speak.XaiSpeakServer, request: SpeakLiveRequest, text: str) -> None:
        async def send(piece: tuple[bytes, list[WordTiming]]) -> None:
            data, words = piece
            await peer.send(*server.encode([*words, AudioChunk(data=data)]))

        await self.utter(peer, self.timed_voice(text, request.format), send)
        await peer.send(*server.encode([Flushed()]))


def _fields_before_file(entry: Entry, body: bytes) -> list[tuple[str, str]]:
    """Return the fields of a form in order: the page says that the file must come last, so those after it are not read."""
    decoder = multipart.MultipartDecoder(multipart.boundary_of(entry.headers.get("content-type", "").encode()))
    pairs = []
    for part in decoder.feed(body):
        if isinstance(part, multipart.FileData):
            break
        if isinstance(part, multipart.Field):
            pairs.append((part.name, part.value))
    return pairs
