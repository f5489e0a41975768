"""ElevenLabs' speech over HTTP and what its forms share: formats, alignments, errors; both sides.

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
from gw.wire import openai_errors

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_KNOWN = frozenset({"text", "model_id", "language_code"})
_MP3, _OPUS = "mp3_44100_128", "opus_48000_96"
_RAW = re.compile(r"(pcm|ulaw|alaw|wav)_(\d{4,6})")
_NOT_SETTINGS = frozenset({"output_format", "single_use_token", "token", "model_id", "language_code"})
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000})


def output_format(fmt: AudioFormat) -> str:
    """Ours as theirs; mp3 where they have no name for it."""
    match fmt.encoding:
        case "pcm_s16le" | "wav":
            return f"pcm_{fmt.sample_rate_hz or 24_000}"
        case "mulaw":
            return "ulaw_8000"
        case "alaw":
            return "alaw_8000"
        case "opus" | "ogg":
            return _OPUS
    return _MP3


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
    form = "/stream/with-timestamps" if request.want_timings else "/stream"
    voice = quote(request.voice, safe="")
    return f"/v1/text-to-speech/{voice}{form}?" + urlencode({"output_format": output_format(request.format)})


def body(request: SpeakRequest, model: str) -> bytes:
    asked: dict[str, Any] = {"text": request.text, "model_id": model}
    if request.language:
        asked["language_code"] = request.language
    if request.speed is not None:
        asked["voice_settings"] = {"speed": min(1.2, max(0.7, request.speed))}
    if request.dialect == "elevenlabs":
        asked |= {name: raw for name, raw in request.extra.items() if name not in _KNOWN}
    return msgspec.json.encode(asked)


class _Line(msgspec.Struct, gc=False):
    audio_base64: str | None = None
    alignment: Alignment | None = None


class TimedDecoder:
    """Lines of `/stream/with-timestamps`: bytes in, events out."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._rest = b""
        self._words = Words()
        self._seen = False

    def feed(self, data: bytes) -> list[SpeakEvent]:
        """Raises UpstreamProtocolError."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [event for line in lines if line.strip() for event in self._line(line)]

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
        events: list[SpeakEvent] = []
        if audio:
            self._seen = True
            events.append(AudioChunk(data=audio))
        if told.alignment is not None:
            a = told.alignment
            times = zip(a.characters, a.character_start_times_seconds, a.character_end_times_seconds, strict=False)
            events += self._words.feed(times)
        return events


# ---- errors


class _Detail(msgspec.Struct, gc=False):
    status: str = ""
    code: str = ""
    type: str = ""
    message: str = ""


class _Body(msgspec.Struct, gc=False):
    detail: Any = None


_MONEY = frozenset({"quota_exceeded", "payment_required", "insufficient_credits"})
_LIMITS = frozenset({"too_many_concurrent_requests", "concurrent_limit_exceeded", "rate_limit_exceeded", "system_busy"})


def classify(
    provider: str,
    status: int,
    retry_after: bytes | None,
    body: bytes,
    secrets: Iterable[str] = (),
    date: bytes | None = None,
) -> ProviderError:
    """The error that `status` and `detail` of an answer stand for; never raises. As `openai_errors.classify`.

    A spent quota is a 401 here.
    """
    try:
        detail = msgspec.json.decode(body, type=_Body).detail
        told = msgspec.convert(detail, _Detail) if isinstance(detail, dict) else _Detail(message=str(detail or ""))
    except (*_BAD_JSON, msgspec.ValidationError):
        told = _Detail()
    code = told.code or told.status or told.type
    if code in _MONEY:
        code = "insufficient_credits"
    if code or told.message:
        body = msgspec.json.encode({"error": {"code": code, "message": told.message}})
    return openai_errors.classify(provider, status, retry_after, body, secrets, date)


def error_body(status: int, code: str, message: str, request_id: str, **facts: object) -> bytes:
    told = {**facts, "type": _type(status), "code": code, "status": code, "message": message, "request_id": request_id}
    return msgspec.json.encode({"detail": told})


def _type(status: int) -> str:
    named = {401: "authentication_error", 402: "payment_required", 403: "authorization_error", 404: "not_found", 429: "rate_limit_error"}
    return named.get(status, "validation_error" if status < 500 else "server_error")


# ---- the server's side


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
    if not asked.text:
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
        extra={name: raw for name, raw in extra.items() if name not in _KNOWN},
    )


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
