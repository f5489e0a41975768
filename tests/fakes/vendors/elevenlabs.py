"""A vendor that speaks ElevenLabs' protocols: a plain ASGI app made from the server role of our own codecs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
import msgspec
import trio

from gw.providers.sim import fsk
from gw.types.audio import CONTENT_TYPES
from gw.types.stt import Final, Interim
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, WordTiming
from gw.wire import elevenlabs_listen, elevenlabs_speak, elevenlabs_speak_live, wav
from gw.wire.live_messages import Audio, Control, TtsCommand
from tests.fakes.vendors.heard import REDACTED, heard, refused
from tests.fakes.vendors.live import LiveVendor, Peer, Session, TurnListener, form_of
from tests.fakes.vendors.scripted import Answer, Entry, json_of

_SPEECH = re.compile(r"/v1/text-to-speech/([^/]+)(/.*)?")


def _check(asked: Mapping[str, Any]) -> None:
    """Refuse what the vendor refuses (descriptions of the fields of `speech_to_text.convert`, elevenlabs 2.78.0)."""
    term = asked.get("keyterms", "")
    if len(term) > 50 or len(term.split()) > 5:
        raise refused("a keyterm is too long", "keyterms")
    detected, redacted = (msgspec.json.decode(asked.get(f"entity_{kind}", "[]")) for kind in ("detection", "redaction"))
    if not set(redacted) <= set(detected):
        raise refused("entity_redaction must be a subset of entity_detection", "entity_redaction")
    if "-" in asked.get("language_code", ""):
        raise refused("language_code must be an ISO-639-1 or ISO-639-3 code", "language_code")


MAX_CONTEXTS = 5
TOO_MANY = "Maximum simultaneous contexts per WebSocket connection exceeded (5)."
"""Wording of livekit/agents-js#1985."""


@attrs.define
class _Context:
    server: elevenlabs_speak_live.ElevenSpeakServer
    text: str = ""


def credits_of(text: str, model: str) -> int:
    """Return what the vendor bills: a credit per character, half of one with the flash and turbo models (its price list)."""
    return -(-len(text) // 2) if "flash" in model or "turbo" in model else len(text)


@attrs.define(kw_only=True)
class FakeElevenLabs(LiveVendor):
    models: tuple[str, ...] = ("eleven_flash_v2_5", "scribe_v2")
    full_code: str = "concurrent_limit_exceeded"
    vad_silence_s: float = 0.0
    """Silence after which the vendor commits; its default is 1.5 s (elevenlabs 2.78.0: `vad_silence_threshold_secs`)."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", "/v1/text-to-speech"): self._speech,
            ("POST", "/v1/speech-to-text"): self._recording,
            ("GET", "/v1/user/subscription"): self._subscription,
        }

    def sockets(self) -> Mapping[str, Session]:
        return {"/v1/text-to-speech": self._speak, "/v1/speech-to-text/realtime": self._listen}

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("xi-api-key", "")

    def _seen(self, scope):  # type: ignore[no-untyped-def]
        """The voice stands in the path; it is noted, and taken out."""
        entry = super()._seen(scope)
        entry.fields = {"query": scope.get("query_string", b"").decode()}
        if match := _SPEECH.fullmatch(entry.path.removeprefix(self.prefix)):
            entry.fields |= {"voice": match[1], "form": match[2] or ""}
            entry.path = self.prefix + "/v1/text-to-speech"
        return entry

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return elevenlabs_speak.error_body(status, code, message, "r")

    def stream_error_event(self, code: str) -> bytes:
        return elevenlabs_speak.error_body(500, code, "scripted failure", "r") + b"\n"

    def full_message(self) -> str:
        """In the words of the vendor's answers that its users quote (lfnovo/open-notebook#103)."""
        return (
            f"Too many concurrent requests. Your current subscription is associated with a maximum of {self.slots} concurrent requests "
            "(running in parallel). This is done such that a single user does not overwhelm our systems and affect other users "
            "negatively. Please upgrade your subscription or contact sales if you want to increase this limit."
        )

    def slot_headers(self) -> list[tuple[str, str]]:
        """Every answer has them (the vendor's page "Models", on concurrency)."""
        if self.slots is None:
            return []
        return [("current-concurrent-requests", str(self.in_use)), ("maximum-concurrent-requests", str(self.slots))]

    def counts_socket(self, entry: Entry) -> bool:
        """Return False: a socket counts while audio is generated, and more calls wait in a queue at first (the same page)."""
        return False

    def socket_error_frame(self) -> str:
        """One for both sockets: each reads its own members."""
        decoded = {"message_type": "transcriber_error", "error": self.error_code, "message": "scripted failure", "code": 1011}
        return msgspec.json.encode(decoded).decode()

    async def _subscription(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"tier":"pro","character_count":1,"character_limit":10}', "application/json")

    async def _speech(self, entry: Entry, body: bytes, answer: Answer) -> None:
        timed = entry.fields["form"].endswith("with-timestamps")
        request = elevenlabs_speak.parse(entry.fields["voice"], entry.fields["query"].encode(), body, timings=timed)
        entry.fields |= json_of(body)
        if self.voices is not None and request.voice not in self.voices:
            # elevenlabs-docs, pull request 1317 (July 2025): 404, before that 400 (elevenlabs-python, issue 454)
            await answer.error(404, "voice_not_found", f"A voice with the voice_id {request.voice} was not found.")
            return
        await trio.sleep(self.first_token_after_s)
        pieces = [] if self.empty else list(self.recorded(request.text, request.format))
        if not timed:
            cost = str(credits_of(request.text, request.model))
            # `request-id` is what its guide on request stitching reads from the head, for `previous_request_ids`.
            about = (("character-cost", cost), ("request-id", f"speech{len(self.ledger)}"))
            await answer.start(CONTENT_TYPES[request.format.encoding], *about)
            await self.answer_speech(answer, pieces)
        elif entry.fields["form"] == "/with-timestamps":
            timings = [WordTiming(word=w, start_s=a, end_s=b) for w, a, b in fsk.word_spans(request.text)]
            decoded = elevenlabs_speak.timed_object(b"".join(pieces), timings)
            await answer.send_complete(msgspec.json.encode(decoded), "application/json")
            return
        else:
            await answer.start("application/json")
            events: list[SpeakEvent] = [
                *(AudioChunk(data=piece) for piece in pieces),
                *(WordTiming(word=w, start_s=a, end_s=b) for w, a, b in fsk.word_spans(request.text)),
            ]
            await answer.paced(events, self.speech_gap_s, lambda event: elevenlabs_speak.encode_lines([event]))
        await answer.end()

    async def _recording(self, entry: Entry, body: bytes, answer: Answer) -> None:
        fields, entry.audio = form_of(entry, body)
        entry.fields |= {name: value for name, value in fields.items() if value != "null"}  # unset, as the SDK writes it (2.78.0)
        _check(entry.fields)
        info = wav.parse(entry.audio)
        length_s = info.format.seconds(len(entry.audio) - info.data_offset) if info is not None else 1.0
        if named := entry.fields.get("source_url") or entry.fields.get("cloud_storage_url"):
            if entry.audio:  # "Exactly one of the file or cloud_storage_url parameters must be provided" (2.78.0)
                raise refused("provide a file or an address, not both", "file")
            entry.fields["url"], length_s = named, self.remote_s
        await trio.sleep(self.first_token_after_s)
        asked = entry.fields
        result = heard(
            self.words_of(entry.audio), length_s, words=asked.get("timestamps_granularity") != "none",
            speakers=("speaker_0", "speaker_1") if asked.get("diarize") == "true" else (), private=self.private,
            redact="entity_redaction" in asked,
        )
        result = msgspec.structs.replace(result, language=asked.get("language_code", "en"))
        decoded = elevenlabs_listen.encode_transcript(result, request_id="r", duration_s=length_s)
        await answer.send_complete(b'{"text":' if self.malformed else decoded, "application/json")

    async def _speak(self, peer: Peer) -> None:
        """Speak what is flushed. `close_context` drops the remaining text and ends the context, unless `auto_mode` is on.

        Source: gojargo/jargo#55, which tried the sequences on the vendor's own endpoint; `CloseContext` of elevenlabs 2.78.0.
        """
        many = peer.entry.fields["form"] == "/multi-stream-input"
        request = elevenlabs_speak_live.parse_query(peer.entry.fields["voice"], peer.query)
        auto = dict(request.options).get("auto_mode") == "true"
        contexts: dict[str, _Context] = {}
        while (frame := await peer.receive()) is not None:
            decoded = elevenlabs_speak_live.parse_frame(frame, many=many)
            if isinstance(decoded, TtsCommand):
                break
            peer.entry.fields.setdefault("set", dict(decoded.settings))
            name = decoded.context
            if name not in contexts and len(contexts) == MAX_CONTEXTS:
                await peer.send(elevenlabs_speak_live.error_frame("max_active_conversations", TOO_MANY, 1008))
                await peer.close(1008, TOO_MANY)
                return
            if name not in contexts:
                peer.entry.fields["contexts"] = peer.entry.fields.get("contexts", 0) + 1
                contexts[name] = _Context(elevenlabs_speak_live.ElevenSpeakServer(name if many else None, request.format))
            context = contexts[name]
            context.text += decoded.text
            if decoded.flush or (decoded.finish and (auto or not many)):
                text, context.text = context.text.lstrip(), ""
                if text.strip():
                    await self._utter(peer, context.server, text, request)
            if decoded.finish:
                del contexts[name]
                await peer.send(*context.server.encode([SpeakEnd()]))
                if not many:
                    break
        peer.entry.outcome = "ended"
        await peer.close()

    async def _utter(self, peer, server, text, request):  # type: ignore[no-untyped-def]
        peer.entry.fields["text"] = peer.entry.fields.get("text", "") + text
        at_s = server._audio_s

        async def send(piece: tuple[bytes, list[WordTiming]]) -> None:
            data, words = piece
            timings = [WordTiming(word=w.word, start_s=w.start_s + at_s, end_s=w.end_s + at_s) for w in words]
            await peer.send(*server.encode([AudioChunk(data=data), *timings]))

        await self.utter(peer, self.timed_voice(text, request.format), send)

    async def _listen(self, peer: Peer) -> None:
        requested = elevenlabs_listen.parse_query(peer.query)
        redacts, requested = bool(requested.request.redact), self._unredacted(requested)
        server, listener = elevenlabs_listen.ElevenListenServer(requested, session_id="s"), self.make_listener(requested.request.format)
        by_ear = dict(requested.request.options).get("commit_strategy") == "vad"
        turns = TurnListener(listener, self.vad_silence_s) if by_ear and self.vad_silence_s else None
        acquired: list[Final] = []
        await peer.send(*server.opening())
        while (frame := await peer.receive()) is not None:
            messages = server.receive(frame)
            data = b"".join(message.data for message in messages if isinstance(message, Audio))
            commit = Control.FLUSH in messages
            peer.entry.audio += data
            peer.entry.fields["commits"] = peer.entry.fields.get("commits", 0) + commit
            events = peer.heard(listener.feed(data) if turns is None else turns.feed(data) + (turns.end() if commit else []))
            if not by_ear:
                acquired += [event for event in events if isinstance(event, Final)]
                events = [event for event in events if isinstance(event, Interim)]
            await trio.sleep(self.speech_gap_s if any(isinstance(event, Final) for event in events) else 0)
            await peer.send(*server.encode(events))
            committed = [event for event in events if isinstance(event, Final)]
            if commit:
                text = " ".join(final.text for final in acquired)
                end_s = max((final.end_s for final in acquired), default=0.0)
                answered, committed = bool(committed), [Final(text=text, end_s=end_s)] if acquired else committed
                if acquired or not answered:
                    await peer.send(*(server.encode(committed) if acquired else server.committed(Final(text=""))))
                acquired.clear()
            if redacts:
                await peer.send(*(self._redacted(final.text) for final in committed))

    @staticmethod
    def _unredacted(requested: elevenlabs_listen.ScribeOptions) -> elevenlabs_listen.ScribeOptions:
        """Return the request as our own server would answer it unredacted."""
        return msgspec.structs.replace(requested, request=attrs.evolve(requested.request, redact=()))

    def _redacted(self, text: str) -> str:
        """Return the event beside the others, which stay unredacted (elevenlabs 2.78.0: `_RealtimeSharedOptions`).

        It has both texts (`RedactedTranscript`).
        """
        redacted = text.replace(self.private, REDACTED) if self.private else text
        frame = {"message_type": "redacted_transcript", "text": text, "redacted_text": redacted}
        return msgspec.json.encode(frame).decode()
