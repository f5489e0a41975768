"""xAI's speech, complete (`POST /tts`) and live (`WS /tts`): both roles.

Source: pipecat-ai 1.14.0 (`services/xai/tts.py`), livekit-plugins-xai 1.8.9 (`tts.py`), @ai-sdk/xai (`xai-speech-model.ts`,
github.com/vercel/ai at 1c421194), and the vendor's pages docs.x.ai/developers/model-capabilities/audio/text-to-speech and
developers/rest-api-reference/inference/voice (November 2026).

==========================  =============================================================================================
Client sends                Server answers
==========================  =============================================================================================
the settings, in a query    nothing; an error in place of the handshake, if it refuses them
`text.delta`                `audio.delta` when it sees fit, audio or `audio_timestamps` or both
`text.done`                 the remaining audio, then `audio.done`; the socket takes another utterance
`text.clear`                `audio.clear`; the utterance is dropped
==========================  =============================================================================================

Times of characters count from the beginning of the utterance. No client sends text of the next utterance before `audio.done` of the one
before has come (LiveKit waits for it), so the client here keeps it back until then. It sends whole words with their spaces: LiveKit sends
words without any, so it is not certain that the vendor joins pieces as they are. The vendor has one model, which no request names.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Any
from urllib.parse import urlencode

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest, WordTiming
from gw.wire.bounds import seconds
from gw.wire.elevenlabs_speak import WordBuilder, characters_of
from gw.wire.json_codec import NO_TYPE, decode_client, decode_request, decode_upstream
from gw.wire.json_frames import Frame, session_failure, typed_frame
from gw.wire.live_messages import SpeakMessage, Text, TtsCommand
from gw.wire.query import encoding_field, int_field, is_true, query_pairs
from gw.wire.whole_words import WholeWords

PATH = "/tts"
MODEL = "grok-tts"
"""Name of the one model, as @ai-sdk/gateway and Oracle's cloud have it."""
RAW: dict[Encoding, str] = {"pcm_s16le": "pcm", "mulaw": "mulaw", "alaw": "alaw"}
CODECS: dict[Encoding, str] = {**RAW, "wav": "wav", "mp3": "mp3"}
_SERVED: dict[str, Encoding] = {name: encoding for encoding, name in CODECS.items()}
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
_MP3_KBIT = (128, 192)
"""Bit rates of MP3 that the page names: the usual one, and that of its example."""
_USUAL_HZ, _USUAL_KBIT = 24_000, 128
_SLOWEST, _FASTEST = 0.7, 1.5
_LONGEST_TEXT = 15_000
_LANGUAGES = (
    "en", "ar-EG", "ar-SA", "ar-AE", "bn", "zh", "fr", "de", "hi", "id", "it", "ja", "ko", "pt-BR", "pt-PT", "ru", "es-MX", "es-ES", "tr",
    "vi",
)  # fmt: skip
_USUAL_REGIONS = {"ar": "ar-EG", "es": "es-ES", "pt": "pt-PT"}
"""Region of a language without one (pipecat-ai)."""
_DETECTED = "auto"
_CLEAR, _DONE = typed_frame("text.clear"), typed_frame("text.done")


# ---- client


def language_of(language: str | None) -> str | None:
    """Return a language in the vendor's words; None for one that it does not list."""
    wanted = (language or "").lower().replace("_", "-")
    exact = next((name for name in _LANGUAGES if name.lower() == wanted), None)
    bare = wanted.partition("-")[0]
    return exact or _USUAL_REGIONS.get(bare) or (bare if bare in _LANGUAGES else None)


def takes_speed(speed: float | None) -> bool:
    return speed is not None and _SLOWEST <= speed <= _FASTEST


def makes_mp3(fmt: AudioFormat) -> bool:
    """Return whether the vendor has MP3 of this sample rate and bit rate."""
    rate_hz, kbit = fmt.sample_rate_hz or _USUAL_HZ, fmt.kbit_per_s or _USUAL_KBIT
    return fmt.channels == 1 and rate_hz in RATES_HZ and kbit in _MP3_KBIT


def body(request: SpeakRequest) -> bytes:
    """Return the body of `POST /tts`."""
    fmt = request.format
    output: dict[str, Any] = {"codec": CODECS[fmt.encoding], "sample_rate": fmt.sample_rate_hz or _USUAL_HZ}
    if fmt.encoding == "mp3":
        output["bit_rate"] = 1_000 * (fmt.kbit_per_s or _USUAL_KBIT)
    members: dict[str, Any] = {"text": request.text, "language": language_of(request.language) or _DETECTED, "output_format": output}
    if request.voice:
        members["voice_id"] = request.voice
    if takes_speed(request.speed):
        members["speed"] = request.speed
    return msgspec.json.encode(members)


def live_path(request: SpeakLiveRequest) -> str:
    """Return path and query of a session. The times of words show where another provider has to continue."""
    pairs = [("voice", request.voice)] if request.voice else []
    pairs += [
        ("language", language_of(request.language) or _DETECTED), ("codec", RAW[request.format.encoding]),
        ("sample_rate", str(request.format.sample_rate_hz)), ("with_timestamps", "true"),
    ]  # fmt: skip
    if takes_speed(request.speed):
        pairs.append(("speed", f"{request.speed:g}"))
    return f"{PATH}?" + urlencode(pairs)


class _Times(msgspec.Struct, gc=False):
    graph_chars: list[str] | None = None
    graph_times: list[tuple[float, float]] | None = None


class _Message(msgspec.Struct, gc=False):
    type: str
    delta: str | None = None
    audio_timestamps: _Times | None = None
    message: str | None = None
    error: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


class _End(Enum):
    """Commands that end an utterance."""

    FLUSH = auto()
    FINISH = auto()


class XaiSpeakClient:
    """One session. Commands queue frames, which `next_frame` returns in order, and events without a frame, in `due`.

    =========  =====================  =====================================================
    Utterance  Event                  Effect
    =========  =====================  =====================================================
    none       text with a word       `text.delta`; speaking
    none       flush, finish          answered at once
    speaking   flush, finish          `text.done`; ending
    ending     text, flush, finish    kept until `audio.done`
    ending     `audio.done`           `Flushed` or `SpeakEnd`; none, then what was kept
    speaking,  clear                  `text.clear`; none. Audio before `audio.clear` is ignored
    ending
    =========  =====================  =====================================================
    """

    def __init__(self, provider: str, request: SpeakLiveRequest, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self.due: list[SpeakEvent] = []
        self._provider = provider
        self._secrets = tuple(secrets)
        self._format = request.format
        self._frames: deque[str] = deque()
        self._waiting: deque[str | _End] = deque()
        self._text = WholeWords()
        self._early_text = ""  # text before the first word of an utterance
        self._speaking = False
        self._ending: _End | None = None
        self._clears = 0  # not answered yet
        self._finishing = False
        self._words = WordBuilder()
        self._audio_s = self._start_s = 0.0  # audio received, and how much of it before this utterance

    def next_frame(self) -> str | None:
        return self._frames.popleft() if self._frames else None

    def text(self, text: str) -> None:
        if words := self._text.add(text):
            self._waiting.append(words)
            self._advance()

    def flush(self) -> None:
        self._end_text(_End.FLUSH)

    def finish(self) -> None:
        if not self._finishing:
            self._finishing = True
            self._end_text(_End.FINISH)

    def _end_text(self, end: _End) -> None:
        if last := self._text.end():
            self._waiting.append(last)
        self._waiting.append(end)
        self._advance()

    def forward(self, frame: str) -> None:
        """Drop a caller's frame: no caller speaks this protocol."""

    def clear(self) -> None:
        self._waiting.clear()
        self._text.end()
        self._early_text = ""
        self.due = [event for event in self.due if isinstance(event, SpeakEnd)]
        if self._speaking or self._ending is not None:
            self._frames.append(_CLEAR)
            self._clears += 1
        self._leave()
        if self._finishing and not self.ended:
            self._end()

    def _advance(self) -> None:
        """Do what was kept, as far as the utterance allows."""
        while self._waiting and self._ending is None:
            match self._waiting.popleft():
                case str(text):
                    self._say(text)
                case end if self._speaking:
                    self._ending = end
                    self._frames.append(_DONE)
                case _End.FLUSH:
                    self._early_text = ""
                    self.due.append(Flushed())
                case _:
                    self._end()

    def _say(self, text: str) -> None:
        if not self._speaking:
            text = self._early_text + text
            if not any(map(str.isalnum, text)):
                self._early_text = text
                return
            self._early_text, self._speaking = "", True
        self._frames.append(typed_frame("text.delta", delta=text))

    def _leave(self) -> None:
        self._speaking, self._ending = False, None
        self._words = WordBuilder()
        self._start_s = self._audio_s

    def _end(self) -> None:
        self.ended = True
        self.due.append(SpeakEnd())

    def receive(self, frame: Frame) -> list[SpeakEvent]:
        """Decode a frame. Raises ProviderError for an error, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        match message.type:
            case "error":
                raise session_failure(self._provider, message.message or message.error or "", "", self._secrets)
            case "audio.clear":
                self._clears = max(0, self._clears - 1)
            case "audio.delta" if not self._clears:
                return self._spoken(message)
            case "audio.done" if not self._clears and self._ending is not None:
                return self._done(self._ending)
        return []

    def _spoken(self, message: _Message) -> list[SpeakEvent]:
        times = message.audio_timestamps or _Times()
        characters, spans = times.graph_chars or [], times.graph_times or []
        events: list[SpeakEvent] = []
        if len(characters) == len(spans):
            timed = ((c, self._session_s(start), self._session_s(end)) for c, (start, end) in zip(characters, spans, strict=True))
            events += self._words.feed(timed)
        if message.delta:
            try:
                data = b64decode(message.delta, validate=True)
            except ValueError:
                raise UpstreamProtocolError(provider=self._provider, detail="audio is not base64") from None
            self._audio_s += self._format.seconds(len(data))
            events.append(AudioChunk(data=data))
        return events

    def _session_s(self, time: float) -> float:
        return self._start_s + (seconds(time) or 0.0)

    def _done(self, ending: _End) -> list[SpeakEvent]:
        events: list[SpeakEvent] = [*self._words.end()]
        self._leave()
        if ending is _End.FINISH:
            self.ended = True
            return [*events, SpeakEnd()]
        self._advance()
        return [*events, Flushed()]


# ---- server


class _Output(msgspec.Struct, gc=False):
    codec: str = "mp3"
    sample_rate: int = _USUAL_HZ
    bit_rate: int | None = None


class _Request(msgspec.Struct, gc=False):
    text: str
    language: str
    voice_id: str = "eve"
    output_format: _Output | None = None
    speed: float | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse_body(received: bytes) -> SpeakRequest:
    """Decode a `POST /tts`. Raises ClientProtocolError, with `param`."""
    request = decode_request(_REQUEST, received)
    if not 0 < len(request.text) <= _LONGEST_TEXT:
        raise ClientProtocolError(what=f"text must have 1 to {_LONGEST_TEXT} characters", param="text")
    output = request.output_format or _Output()
    encoding = encoding_field(output.codec, _SERVED)
    if output.bit_rate is not None and encoding != "mp3":
        raise ClientProtocolError(what="bit_rate is for mp3", param="bit_rate")
    kbit = (output.bit_rate or 1_000 * _USUAL_KBIT) // 1_000 if encoding == "mp3" else 0
    return SpeakRequest(
        model=MODEL, text=request.text, voice=request.voice_id, language=_language(request.language), speed=_speed(request.speed),
        format=AudioFormat(encoding=encoding, sample_rate_hz=_rate(output.sample_rate), kbit_per_s=kbit), dialect="xai",
    )  # fmt: skip


def parse_query(query: bytes) -> SpeakLiveRequest:
    """Decode the settings of a session. Raises ClientProtocolError, with `param`."""
    fields = dict(query_pairs(query))
    encoding = encoding_field(fields.get("codec", "pcm"), {name: raw for raw, name in RAW.items()})
    rate_hz = _rate(int_field(fields, "sample_rate", _USUAL_HZ))
    speed = fields.get("speed")
    try:
        pace = None if speed is None else float(speed)
    except ValueError:
        raise ClientProtocolError(what="speed must be a number", param="speed") from None
    return SpeakLiveRequest(
        model=MODEL, voice=fields.get("voice", "eve"), language=_language(fields.get("language", _DETECTED)), speed=_speed(pace),
        format=AudioFormat(encoding=encoding, sample_rate_hz=rate_hz), want_timings=is_true(fields.get("with_timestamps", "false")),
        dialect="xai",
    )  # fmt: skip


def _language(language: str) -> str | None:
    """Return a language; None for one that is to be detected. Names are not case-sensitive."""
    if language.lower() == _DETECTED:
        return None
    if language.lower() not in map(str.lower, _LANGUAGES):
        raise ClientProtocolError(what=f"language must be auto or one of {', '.join(_LANGUAGES)}", param="language")
    return language


def _rate(rate_hz: int) -> int:
    if rate_hz not in RATES_HZ:
        raise ClientProtocolError(what=f"sample_rate must be one of {sorted(RATES_HZ)}", param="sample_rate")
    return rate_hz


def _speed(speed: float | None) -> float | None:
    if speed is not None and not takes_speed(speed):
        raise ClientProtocolError(what=f"speed must be {_SLOWEST} to {_FASTEST}", param="speed")
    return speed


class XaiSpeakServer:
    """One session of a client."""

    def __init__(self, *, timestamps: bool) -> None:
        self._timestamps = timestamps

    def receive(self, frame: Frame) -> Sequence[SpeakMessage]:
        """Decode a frame. Raises ClientProtocolError."""
        message = decode_client(_MESSAGE, frame, NO_TYPE)
        match message.type:
            case "text.delta":
                return (Text(message.delta or ""),)
            case "text.done":
                return (TtsCommand.FLUSH,)
            case "text.clear":
                return (TtsCommand.CLEAR,)
        raise ClientProtocolError(what=f"unknown type {message.type[:40]}", param="type")

    def encode(self, events: list[SpeakEvent]) -> list[str]:
        frames: list[str] = []
        words = [event for event in events if isinstance(event, WordTiming)]
        for event in events:
            if isinstance(event, AudioChunk):
                frames.append(typed_frame("audio.delta", delta=b64encode(event.data).decode()))
            elif isinstance(event, Flushed):
                frames.append(typed_frame("audio.done", trace_id="6f1b1f2e-0000-4000-8000-000000000001"))
        if words and self._timestamps:
            characters = characters_of(words)
            times = {
                "graph_chars": [character for character, _, _ in characters],
                "graph_times": [[round(start_s, 3), round(end_s, 3)] for _, start_s, end_s in characters],
            }
            frames.insert(0, typed_frame("audio.delta", delta="", audio_timestamps=times))
        return frames


def cleared() -> str:
    return typed_frame("audio.clear")


def error_frame(message: str) -> str:
    return typed_frame("error", message=message)
