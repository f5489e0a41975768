"""A vendor that speaks Deepgram's protocols: a plain ASGI app made from the server role of our own codecs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

import attrs
import msgspec
import trio

from gw.types.audio import CONTENT_TYPES, AudioFormat
from gw.types.stt import ListenEnd
from gw.types.tts import Flushed
from gw.wire import deepgram_flux_listen, deepgram_listen_server, deepgram_recordings, deepgram_speak, wav
from gw.wire.deepgram_flux_listen import FluxListenServer
from gw.wire.deepgram_listen_server import DeepgramListenServer
from gw.wire.live_messages import Audio, Control, DirectReply, Forward, Text, TtsCommand
from tests.fakes.vendors.heard import heard, refused
from tests.fakes.vendors.live import FakeListener, LiveVendor, OpenTurn, Peer, Session, TurnListener
from tests.fakes.vendors.scripted import Answer, Entry

SHA = "0" * 64


def _check(query: list[tuple[str, str]]) -> None:
    """Refuse what the vendor refuses (docs "Keyterm prompting", "Redaction", "Supported entity types", November 2026)."""
    asked = dict(query)
    model = asked.get("model", "")
    if "keyterm" in asked and not model.startswith(("nova-3", "flux-")):
        raise refused("Keyterm Prompting is available for Nova-3 and Flux only", "keyterm")
    values = [value for name, value in query if name == "redact"]
    if model.startswith("flux-") and not {"numbers", "aggressive_numbers"}.issuperset(values):
        raise refused("Flux redacts numbers only", "redact")
    if not {"cardinal", "ordinal", "percent"}.isdisjoint(values):
        raise refused("this entity cannot be redacted", "redact")


_COMBINATIONS = {
    "linear16": (("wav", "none"), (8_000, 16_000, 24_000, 32_000, 48_000), ()),
    "mulaw": (("wav", "none"), (8_000, 16_000), ()),
    "alaw": (("wav", "none"), (8_000, 16_000), ()),
    "mp3": ((), (), (8_000, 16_000, 24_000, 32_000, 40_000, 48_000)),
    "opus": (("ogg",), (), range(4_000, 650_001)),
    "flac": ((), (8_000, 16_000, 22_050, 32_000, 48_000), ()),
    "aac": ((), (), range(4_000, 192_001)),
}
"""Encoding → containers, sample rates and bit rates: developers.deepgram.com/docs/tts-media-output-settings (November 2026)."""


def _check_speech(query: Mapping[str, str]) -> bool:
    """Refuse what the vendor refuses, in its words (its page of text-to-speech errors); return whether it answers with a WAV."""
    encoding = query.get("encoding", "mp3")
    containers, rates, bit_rates = _COMBINATIONS[encoding]
    container = query.get("container")
    if container is not None and container not in containers:
        fault = f"`container={container}` is invalid" if containers else "`container` is not applicable"
        raise refused(f"Unsupported audio format: {fault} when `encoding={encoding}`", "container")
    if query.get("model", "").startswith("flux-") and encoding == "linear16":
        rates = (*rates, 44_100)  # developers.deepgram.com/docs/flux-tts/feature-overview
    for name, known in (("sample_rate", rates), ("bit_rate", bit_rates)):
        if name in query and int(query[name]) not in known:
            fault = f"must be one of {list(known)}" if known else "is not applicable"
            raise refused(f"Unsupported audio format: `{name}` {fault} when `encoding={encoding}`", name)
    return containers[:1] == ("wav",) and container != "none"


_PRONOUNCED = re.compile(r'\\\{"word": "(.*?)", "pronounce": ".*?"\\\}')
"""A marker, which counts as its word (deepgram-sdk 7.17.0, `TextBuilder`)."""


def _check_speed(query: Mapping[str, str]) -> None:
    """Refuse a speed as the vendor does (its changelog of 2026-08-31; the words: a user's report of September 2026)."""
    if "speed" not in query:
        return
    speed, is_flux = float(query["speed"]), query.get("model", "").startswith("flux-")
    slowest = 0.5 if is_flux else 0.7
    if not slowest <= speed <= 1.5:
        raise refused(f"'speed' must be between {slowest} and 1.5.", "speed")
    if is_flux and round(speed * 100) % 5:
        raise refused("'speed' must be provided in increments of 0.05.", "speed")


async def _part(peer: Peer) -> None:
    """The vendor closes; a client that does so itself goes first, because some hosts cannot bear both at once."""
    with trio.move_on_after(0.05):
        if await peer.receive() is None:
            return
    await peer.close()


@attrs.define(kw_only=True)
class FakeDeepgram(LiveVendor):
    models: tuple[str, ...] = ("nova-3", "aura-2-thalia-en")
    full_code: str = "TOO_MANY_REQUESTS"
    final_after_s: float = 0.0
    """Silence for which a final waits whose interim has come: smart formatting holds a number back that may go on, for up to
    three seconds (developers.deepgram.com/docs/smart-format). `Finalize` ends that wait (developers.deepgram.com/docs/finalize);
    where no audio is left to process it may have no answer."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", "/v1/listen"): self._recording,
            ("POST", "/v1/speak"): self._speech,
            ("POST", "/v2/speak"): self._speech,
            ("GET", "/v1/projects"): self._projects,
        }

    def sockets(self) -> Mapping[str, Session]:
        return {"/v1/listen": self._listen, "/v2/listen": self._turns, "/v1/speak": self._speak, "/v2/speak": self._flux_speech}

    def check_handshake(self, path: str, query: bytes) -> None:
        if path.endswith("/listen"):
            _check(parse_qsl(query.decode()))
        elif path.endswith("/speak"):
            asked = dict(parse_qsl(query.decode()))
            _check_speech({"encoding": "linear16", "container": "none", **asked})
            _check_speed(asked)

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Token ").removeprefix("Bearer ")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return msgspec.json.encode({"err_code": code, "err_msg": message, "request_id": "r"})

    def socket_error_frame(self) -> str:
        return deepgram_listen_server.error_frame(self.error_code, "scripted failure")

    def _seen(self, scope):  # type: ignore[no-untyped-def]
        entry = super()._seen(scope)
        entry.fields = {"query": scope.get("query_string", b"").decode()}
        return entry

    async def _projects(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"projects":[{"project_id":"p","name":"n"}]}', "application/json")

    async def _recording(self, entry: Entry, body: bytes, answer: Answer) -> None:
        if entry.headers.get("content-type") == "application/json":  # deepgram 5, `listen.v1.media.transcribe_url`
            entry.fields["url"] = msgspec.json.decode(body)["url"]
            length_s = self.remote_s
        else:
            entry.audio = body
            info = wav.parse(body)
            length_s = info.format.seconds(len(body) - info.data_offset) if info is not None else 1.0
        query = parse_qsl(entry.fields["query"])
        _check(query)
        await trio.sleep(self.first_token_after_s)
        asked = dict(query)
        result = heard(
            self.words_of(entry.audio), length_s, speakers=("0", "1") if asked.get("diarize") == "true" else (),
            private=self.private, redact="redact" in asked,
        )
        if asked.get("language") or asked.get("detect_language") == "true":
            result = msgspec.structs.replace(result, language=asked.get("language", "en"))
        decoded = deepgram_recordings.encode_transcript(
            result, request_id="r", created="", duration_s=length_s, sha256=SHA, utterances=asked.get("utterances") == "true"
        )
        await answer.send_complete(b'{"results":' if self.malformed else decoded, "application/json")

    async def _speech(self, entry: Entry, body: bytes, answer: Answer) -> None:
        query = entry.fields["query"].encode()
        request = deepgram_speak.parse_http(query, body)
        asked = dict(parse_qsl(query.decode()))
        is_wav = _check_speech(asked)
        _check_speed(asked)
        entry.fields |= {"text": request.text}
        await trio.sleep(self.first_token_after_s)
        more = (("dg-char-count", str(len(_PRONOUNCED.sub(r"\1", request.text)))),)
        fmt = request.format
        await answer.start(CONTENT_TYPES["wav" if is_wav else fmt.encoding], *more)
        pieces = [] if self.empty else list(self.recorded(request.text, fmt))
        await self.answer_speech(answer, [wav.header(fmt, None), *pieces] if is_wav and fmt.encoding != "wav" else pieces)
        await answer.end()

    def listener(self, fmt: AudioFormat, query: bytes = b"") -> FakeListener:
        """Return the listener of a live session."""
        asked = dict(parse_qsl(query.decode()))
        speakers = ("0", "1") if asked.get("diarize") == "true" else ()
        return self.make_listener(fmt, speakers=speakers, private=self.private, redact="redact" in asked)

    async def _listen(self, peer: Peer) -> None:
        requested = deepgram_listen_server.parse_query(peer.query)
        server = DeepgramListenServer(requested, request_id="r")
        listener = self.listener(requested.request.format, peer.query)
        open_turn = TurnListener(listener, self.final_after_s) if self.final_after_s else OpenTurn(listener)
        while (frame := await peer.receive()) is not None:
            match server.receive(frame):
                case (Audio(data=data),):
                    peer.entry.audio += data
                    await peer.send(*server.encode(peer.heard(open_turn.feed(data))))
                case (Control.FLUSH,):
                    peer.entry.fields["finalized"] = True
                    await peer.send(*server.encode(peer.heard(open_turn.end())))
                case ():
                    peer.entry.fields["kept"] = peer.entry.fields.get("kept", 0) + 1
                case (Forward(frame=other),):
                    peer.entry.fields["other"] = other
                case (Control.FINISH,):
                    peer.entry.outcome = "ended"
                    await peer.send(*server.encode([*peer.heard(open_turn.end()), ListenEnd()]))
                    await _part(peer)
                    return

    async def _turns(self, peer: Peer) -> None:
        """Ends no turn when it is told to close."""
        request = deepgram_flux_listen.parse_query(peer.query)
        server, listener = FluxListenServer(request_id="r"), self.listener(request.format, peer.query)
        open_turn = TurnListener(listener, self.final_after_s) if self.final_after_s else OpenTurn(listener)
        await peer.send(*server.opening())
        while (frame := await peer.receive()) is not None:
            match server.receive(frame):
                case (Audio(data=data),):
                    peer.entry.audio += data
                    await peer.send(*server.encode(peer.heard(open_turn.feed(data))))
                case (Control.FLUSH,):
                    await peer.send(*server.encode(peer.heard(open_turn.end())))
                case (Forward(frame=other), *replies):
                    peer.entry.fields["other"] = other
                    await peer.send(*(reply.frame for reply in replies if isinstance(reply, DirectReply)))
                case (Control.FINISH,):
                    peer.entry.outcome = "ended"
                    await _part(peer)
                    return

    async def _flux_speech(self, peer: Peer) -> None:
        """Flux TTS."""
        request = deepgram_speak.parse_live_query(peer.query)

        async def send_event(kind: str, **members: object) -> None:
            await peer.send(msgspec.json.encode({"type": kind, **members}).decode())

        await send_event("Connected", request_id="r", model_name=request.model, model_version="1", model_uuids=["u"])
        text, speech = "", 0
        while (frame := await peer.receive()) is not None:
            order = msgspec.json.decode(frame)
            match order["type"]:
                case "Speak":
                    text += order["text"]
                case "Flush":
                    speech += 1
                    await send_event("SpeechStarted", speech_id=f"dg_sp_{speech}")
                    await self.utter(peer, self.voice(text, request.format), peer.send)
                    counts = {"input_character_count": len(text), "billable_character_count": len(text)}
                    await send_event("SpeechMetadata", speech_id=f"dg_sp_{speech}", audio_duration_ms=1, controls_applied={}, **counts)
                    await send_event("Flushed", speech_id=f"dg_sp_{speech}")
                    peer.entry.fields["text"] = peer.entry.fields.get("text", "") + text
                    text = ""
                case "Interrupt":
                    counts = {"input_character_count": len(text), "billable_character_count": len(text)}
                    text = ""
                    await send_event("SpeechInterrupted", audio_played_ms=0, metadata={"speech_id": "s", "audio_duration_ms": 0, **counts})
                case "Close":
                    peer.entry.outcome = "ended"
                    await send_event("SessionMetadata", total_billable_character_count=0)
                    await _part(peer)
                    return

    async def _speak(self, peer: Peer) -> None:
        request = deepgram_speak.parse_live_query(peer.query)
        server = deepgram_speak.DeepgramSpeakServer(request_id="r", model=request.model)
        await peer.send(server.opening())
        text = ""
        while (frame := await peer.receive()) is not None:
            match server.receive(frame):
                case (Text(text=more),):
                    text += more
                case (TtsCommand.FINISH,):
                    await self.utter(peer, self.voice(text, request.format), peer.send)
                    peer.entry.fields["text"] = peer.entry.fields.get("text", "") + text
                    text = ""
                    await peer.send(*server.encode([Flushed()]))
                case (TtsCommand.CLEAR,):
                    text = ""
                    await peer.send(server.cleared())
                case (TtsCommand.CLOSE,):
                    peer.entry.outcome = "ended"
                    await _part(peer)
                    return
