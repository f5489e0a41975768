"""ElevenLabs' speech over HTTP and what its forms share: formats, alignments; both sides.

Source: elevenlabs 2.78.0 (November 2026). The format stands in the query (`output_format=pcm_24000`), the voice in the path.
`/stream/with-timestamps` answers lines of JSON with audio and, per character, when it is spoken.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from gw.errors import ClientProtocolError, ProviderError, UpstreamCut, UpstreamProtocolError
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest, WordTiming
from gw.wire import vendor_errors
from gw.wire.stream_decoder import StreamDecoder

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_KNOWN = frozenset({"text", "model_id", "language_code"})
_MP3, _OPUS = "mp3_44100_128", "opus_48000_96"
_RAW = re.compile(r"(pcm|ulaw|alaw|wav)_(\d{4,6})")
_NOT_SETTINGS = frozenset({"single_use_token", "token", "access_token", "api_key", "model_id", "language_code"})
_QUERY = "query:"
"""Begins the name of an `extra` member that came in the query and that nobody here knows."""
_IN_QUERY = frozenset({"output_format", "enable_logging", "optimize_streaming_latency"})
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000})
SLOWEST, FASTEST = 0.7, 1.2
_TAKE_LANGUAGE = ("eleven_flash_v2_5", "eleven_turbo_v2_5", "eleven_v3", "eleven_v4")
"""Beginnings of the models that take a language; the others refuse it (Pipecat 1.14.0)."""
_LINE_BYTES = 4 * 2**20


def sent_for(asked: AudioFormat) -> AudioFormat:
    """What the vendor is asked for: what the caller wants, or the samples, else the mp3, that it can be made from."""
    match asked.encoding:
        case "mulaw" | "alaw" if asked.sample_rate_hz == 8_000:
            return asked
        case "pcm_s16le" | "wav" | "mulaw" | "alaw" | "pcm_f32le":
            return AudioFormat(encoding="pcm_s16le", sample_rate_hz=asked.sample_rate_hz or 24_000)
        case "mp3" | "opus" | "ogg":
            return asked
    return AudioFormat(encoding="mp3")


def output_format(fmt: AudioFormat, told: str = "") -> str:
    """A form that `sent_for` gave, as the vendor names it. `told`: the caller's own word, kept where it names that form."""
    match fmt.encoding:
        case "pcm_s16le":
            return f"pcm_{fmt.sample_rate_hz}"
        case "mulaw":
            return "ulaw_8000"
        case "alaw":
            return "alaw_8000"
        case "opus" | "ogg":
            return told if told.startswith("opus_") else _OPUS
    return told if told.startswith("mp3_") else _MP3


def language_of(language: str | None, model: str) -> str | None:
    """The language without its region, for a model that takes one."""
    return language.partition("-")[0].lower() if language and model.startswith(_TAKE_LANGUAGE) else None


def speed_of(speed: float) -> float:
    return min(FASTEST, max(SLOWEST, speed))


def parse_format(value: str) -> AudioFormat:
    """Raises ClientProtocolError."""
    if value.startswith("mp3_"):
        return AudioFormat(encoding="mp3")
    if value.startswith("opus_"):
        return AudioFormat(encoding="opus")
    match = _RAW.fullmatch(value)
    if match is None:
        raise ClientProtocolError(
            what="output_format must be one such as pcm_24000, ulaw_8000, mp3_44100_128 or opus_48000_96", param="output_format"
        )
    rate = int(match[2])
    if not 4_000 <= rate <= 192_000:
        raise ClientProtocolError(what="output_format: the rate must be between 4000 and 192000", param="output_format")
    match match[1]:
        case "ulaw":
            return AudioFormat(encoding="mulaw", sample_rate_hz=rate)
        case "alaw":
            return AudioFormat(encoding="alaw", sample_rate_hz=rate)
        case "wav":
            return AudioFormat(encoding="wav", sample_rate_hz=rate)
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate)


# ---- alignments


class Alignment(msgspec.Struct, gc=False):
    """Of HTTP answers: seconds from the beginning of the request's audio."""

    characters: list[str] = []
    character_start_times_seconds: list[float] = []
    character_end_times_seconds: list[float] = []


class Words:
    """Characters, as they come, to words with times in seconds."""

    def __init__(self) -> None:
        self._word = ""
        self._start_s = self._end_s = 0.0

    def feed(self, characters: Iterable[tuple[str, float, float]]) -> list[WordTiming]:
        found: list[WordTiming] = []
        for character, start_s, end_s in characters:
            if character.isspace():
                found += self.end()
                continue
            if not self._word:
                self._start_s = start_s
            self._word += character
            self._end_s = end_s
        return found

    def end(self) -> list[WordTiming]:
        word, self._word = self._word, ""
        return [WordTiming(word=word, start_s=self._start_s, end_s=self._end_s)] if word else []


def spread(timing: WordTiming) -> list[tuple[str, float, float]]:
    """The characters of a word and the space after it, evenly over its time."""
    step = (timing.end_s - timing.start_s) / max(1, len(timing.word))
    told = [(c, timing.start_s + n * step, timing.start_s + (n + 1) * step) for n, c in enumerate(timing.word)]
    return [*told, (" ", timing.end_s, timing.end_s)]


# ---- the client's side


def http_path(request: SpeakRequest) -> str:
    """Path and query. A caller who speaks this dialect has its own settings passed on."""
    own = {name: _text(request.extra[name]) for name in sorted(_own(request).keys() & _IN_QUERY)}
    own |= {name[len(_QUERY) :]: _text(raw) for name, raw in _own(request).items() if name.startswith(_QUERY)}
    fields = {**own, "output_format": output_format(sent_for(request.format), own.get("output_format", ""))}
    form = "/stream/with-timestamps" if request.want_timings else "/stream"
    return f"/v1/text-to-speech/{quote(request.voice, safe='')}{form}?" + urlencode(fields)


def body(request: SpeakRequest, model: str) -> bytes:
    asked: dict[str, Any] = {"text": request.text, "model_id": model}
    if language := language_of(request.language, model):
        asked["language_code"] = language
    if request.speed is not None:
        asked["voice_settings"] = {"speed": speed_of(request.speed)}
    own = _own(request).items()
    asked |= {name: raw for name, raw in own if name not in _KNOWN | _IN_QUERY and not name.startswith(_QUERY)}
    return msgspec.json.encode(asked)


def _own(request: SpeakRequest) -> Mapping[str, msgspec.Raw]:
    return request.extra if request.dialect == "elevenlabs" else {}


def _text(raw: msgspec.Raw) -> str:
    """A field of the query, which is kept as a JSON text."""
    try:
        return msgspec.json.decode(raw, type=str)
    except _BAD_JSON:
        return ""


class _Line(msgspec.Struct, gc=False):
    audio_base64: str | None = None
    alignment: Alignment | None = None
    detail: object = None
    error: object = None


class TimedDecoder(StreamDecoder[SpeakEvent]):
    """Lines of `/stream/with-timestamps`: bytes in, events out."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._rest = b""
        self._words = Words()
        self._seen = False

    def feed(self, data: bytes) -> list[SpeakEvent]:
        """Raises UpstreamProtocolError, and ProviderFailed for an error among the lines."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LINE_BYTES:
            raise UpstreamProtocolError(provider=self._provider, detail="a line without end")
        events: list[SpeakEvent] = []
        try:
            for line in lines:
                events += self._line(line) if line.strip() else []
        except ProviderError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[SpeakEvent]:
        """The connection has ended cleanly. Raises UpstreamCut in the middle of a line."""
        events: list[SpeakEvent] = []
        if self._rest.strip():
            try:
                events += self._line(self._rest)
            except UpstreamProtocolError:
                raise UpstreamCut(provider=self._provider, detail="the stream ended in the middle of a line") from None
        if not self._seen:
            raise UpstreamProtocolError(provider=self._provider, detail="empty answer")
        return [*events, *self._words.end(), SpeakEnd()]

    def _line(self, line: bytes) -> list[SpeakEvent]:
        try:
            told = msgspec.json.decode(line, type=_Line)
            audio = b64decode(told.audio_base64 or "", validate=True)
        except (*_BAD_JSON, ValueError):
            raise UpstreamProtocolError(provider=self._provider, detail="a line is not the JSON expected") from None
        if told.detail is not None or told.error is not None:
            raise vendor_errors.error_within(self._provider, line)
        events: list[SpeakEvent] = []
        if audio:
            self._seen = True
            events.append(AudioChunk(data=audio))
        if told.alignment is not None:
            a = told.alignment
            times = zip(a.characters, a.character_start_times_seconds, a.character_end_times_seconds, strict=False)
            events += self._words.feed(times)
        return events


# ---- the server's side


def error_body(status: int, code: str, message: str, request_id: str, **facts: object) -> bytes:
    told = {**facts, "type": _type(status), "code": code, "status": code, "message": message, "request_id": request_id}
    return msgspec.json.encode({"detail": told})


def _type(status: int) -> str:
    named = {401: "authentication_error", 402: "payment_required", 403: "authorization_error", 404: "not_found", 429: "rate_limit_error"}
    return named.get(status, "validation_error" if status < 500 else "server_error")


class _Settings(msgspec.Struct, gc=False):
    speed: float | None = None


class _Asked(msgspec.Struct, gc=False):
    text: str
    model_id: str = ""
    language_code: str | None = None
    voice_settings: _Settings | None = None


def query_of(query: bytes) -> dict[str, str]:
    found = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    return {name: value for name, value in found if not name.startswith("gw_")}


def settings_of(query: bytes) -> tuple[tuple[str, str], ...]:
    """The query's fields that are passed on where the upstream is ElevenLabs too."""
    return tuple((name, value) for name, value in query_of(query).items() if name not in _NOT_SETTINGS)


def parse(voice: str, query: bytes, received: bytes, *, timings: bool) -> SpeakRequest:
    """Raises ClientProtocolError, with `param`."""
    fields = query_of(query)
    try:
        asked = msgspec.json.decode(received, type=_Asked)
        extra: Mapping[str, msgspec.Raw] = msgspec.json.decode(received, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError as error:
        raise ClientProtocolError(what=f"the body is not of the expected form: {error}") from None
    except _BAD_JSON:
        raise ClientProtocolError(what="the body is not JSON") from None
    if not asked.text.strip():
        raise ClientProtocolError(what="text: nothing to speak", param="text")
    return SpeakRequest(
        model=asked.model_id,
        text=asked.text,
        voice=voice,
        format=parse_format(fields.get("output_format", _MP3)),
        speed=asked.voice_settings.speed if asked.voice_settings is not None else None,
        language=asked.language_code,
        want_timings=timings,
        dialect="elevenlabs",
        extra={name: raw for name, raw in extra.items() if name not in _KNOWN | _IN_QUERY and bytes(raw) != b"null"}
        | {_named(name): msgspec.Raw(msgspec.json.encode(value)) for name, value in settings_of(query)},
    )


def _named(field: str) -> str:
    return field if field in _IN_QUERY else _QUERY + field


def timed_object(audio: bytes, timings: list[WordTiming]) -> dict[str, Any]:
    """Audio and its alignment, as HTTP tells them."""
    told = [one for timing in timings for one in spread(timing)]
    alignment = {
        "characters": [c for c, _, _ in told],
        "character_start_times_seconds": [round(start, 3) for _, start, _ in told],
        "character_end_times_seconds": [round(end, 3) for _, _, end in told],
    } if told else None  # fmt: skip
    return {"audio_base64": b64encode(audio).decode(), "alignment": alignment, "normalized_alignment": alignment}


def encode_lines(events: list[SpeakEvent]) -> bytes:
    """What is spoken, as lines of JSON."""
    audio = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    timings = [event for event in events if isinstance(event, WordTiming)]
    return msgspec.json.encode(timed_object(audio, timings)) + b"\n" if audio or timings else b""
