"""ElevenLabs' speech over HTTP, client and server, and what it shares with the socket: formats and alignments.

Source: elevenlabs 2.78.0 (November 2026). The format is in the query (`output_format=pcm_24000`), the voice in the path.
`/stream/with-timestamps` answers with lines of JSON that have audio and the times of its characters.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import attrs
import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import AudioChunk, SpeakEvent, SpeakRequest, WordTiming
from gw.wire import vendor_errors
from gw.wire.json_codec import BAD_JSON, MEMBERS, decode_client, decode_request
from gw.wire.json_lines import SpeechLinesDecoder
from gw.wire.query import SAMPLE_RATES_HZ, query_pairs

_MP3, _OPUS = "mp3_44100_128", "opus_48000_96"
_RAW = re.compile(r"(pcm|ulaw|alaw|wav)_(\d{4,6})")
_MP3_NAME = re.compile(r"mp3_(\d{4,5})_(\d{1,3})")
_MP3_KBIT = {22_050: (32,), 24_000: (48,), 44_100: (128, 32, 64, 96, 192)}
"""Sample rate of MP3 → its bit rates, the usual one first: the values of `output_format` in elevenlabs 2.78.0."""
_SERVED: dict[str, Encoding] = {"pcm": "pcm_s16le", "ulaw": "mulaw", "alaw": "alaw", "wav": "wav"}
_QUERY = "query:"  # prefix of the name of an `extra` member that came in the query and is unknown here
_IN_QUERY = frozenset({"output_format", "enable_logging", "optimize_streaming_latency"})
_SERVED_EXTRA = frozenset({"output_format", "enable_logging", "optimize_streaming_latency", "voice_settings"})
_NOT_EXTRA = frozenset({"text", "model_id", "language_code"}) | _IN_QUERY
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000})
SLOWEST, FASTEST = 0.7, 1.2
_TAKE_LANGUAGE = ("eleven_flash_v2_5", "eleven_turbo_v2_5", "eleven_v3", "eleven_v4")
"""Prefixes of the models that accept a language; multilingual ones ignore it (the SDK on `convert`), others refuse it (Pipecat 1.14.0)."""

Character = tuple[str, float, float]
"""A character with its start and end in seconds."""


def sent_for(fmt: AudioFormat) -> AudioFormat:
    """Return the format to ask the vendor for: the caller's, or the samples, else the mp3, from which it can be made."""
    match fmt.encoding:
        case "mulaw" | "alaw" if fmt.sample_rate_hz == 8_000:
            return fmt
        case "pcm_s16le" | "wav" | "mulaw" | "alaw" | "pcm_f32le":
            return AudioFormat(encoding="pcm_s16le", sample_rate_hz=fmt.sample_rate_hz or 24_000)
        case "mp3" | "opus" | "ogg":
            return fmt
    return AudioFormat(encoding="mp3")


def output_format(fmt: AudioFormat, callers: str = "") -> str:
    """Return the vendor's name of a format that `sent_for` returned; the caller's own name is kept where it fits."""
    match fmt.encoding:
        case "pcm_s16le":
            return f"pcm_{fmt.sample_rate_hz}"
        case "mulaw":
            return "ulaw_8000"
        case "alaw":
            return "alaw_8000"
        case "opus" | "ogg":
            return callers if callers.startswith("opus_") else _OPUS
    if callers.startswith("mp3_") and (not fmt.is_named_mp3 or parse_format(callers) == fmt):
        return callers
    rate = fmt.sample_rate_hz or 44_100
    return f"mp3_{rate}_{fmt.kbit_per_s or _MP3_KBIT[rate][0]}" if fmt.encoding == "mp3" else _MP3


def makes_mp3(fmt: AudioFormat) -> bool:
    """Return whether the vendor has MP3 of this sample rate and bit rate."""
    kbit = _MP3_KBIT.get(fmt.sample_rate_hz or 44_100, ())
    return fmt.channels == 1 and (fmt.kbit_per_s in kbit if fmt.kbit_per_s else bool(kbit))


def language_of(language: str | None, model: str) -> str | None:
    """Return the language without its region; None for a model that accepts none."""
    return language.partition("-")[0].lower() if language and model.startswith(_TAKE_LANGUAGE) else None


_ENGLISH_ONLY = ("eleven_flash_v2", "eleven_turbo_v2", "eleven_monolingual_v1")


def speaks(language: str | None, model: str) -> bool:
    """Return whether a model speaks this language. Multilingual models recognise it by the text, without a setting."""
    return model not in _ENGLISH_ONLY or (language or "").partition("-")[0].lower() == "en"


def speed_of(speed: float) -> float:
    return min(FASTEST, max(SLOWEST, speed))


def parse_format(value: str) -> AudioFormat:
    """Raises ClientProtocolError."""
    if (mp3 := _MP3_NAME.fullmatch(value)) is not None:
        return AudioFormat(encoding="mp3", sample_rate_hz=int(mp3[1]), kbit_per_s=int(mp3[2]))
    if value.startswith("opus_"):
        return AudioFormat(encoding="opus")
    match = _RAW.fullmatch(value)
    if match is None:
        raise ClientProtocolError(
            what="output_format must be one such as pcm_24000, ulaw_8000, mp3_44100_128 or opus_48000_96", param="output_format"
        )
    if int(match[2]) not in SAMPLE_RATES_HZ:
        raise ClientProtocolError(what="output_format: the rate must be between 4000 and 192000", param="output_format")
    return AudioFormat(encoding=_SERVED[match[1]], sample_rate_hz=int(match[2]))


# ---- alignments


class Alignment(msgspec.Struct, gc=False):
    """Times per character of an HTTP answer, in seconds from the beginning of the request's audio."""

    characters: list[str] = []
    character_start_times_seconds: list[float] = []
    character_end_times_seconds: list[float] = []


class WordBuilder:
    """Joins characters, as they come, to words with times in seconds."""

    def __init__(self) -> None:
        self._word = ""
        self._start_s = self._end_s = 0.0

    def feed(self, characters: Iterable[Character]) -> list[WordTiming]:
        words: list[WordTiming] = []
        for character, start_s, end_s in characters:
            if character.isspace():
                words += self.end()
                continue
            if not self._word:
                self._start_s = start_s
            self._word += character
            self._end_s = end_s
        return words

    def end(self) -> list[WordTiming]:
        word, self._word = self._word, ""
        return [WordTiming(word=word, start_s=self._start_s, end_s=self._end_s)] if word else []


def characters_of(timings: list[WordTiming]) -> list[Character]:
    """Return the characters of words, spread evenly over each word's time, and a space after each word."""
    characters: list[Character] = []
    for timing in timings:
        start_s, step_s = timing.start_s, (timing.end_s - timing.start_s) / max(1, len(timing.word))
        characters += ((c, start_s + n * step_s, start_s + (n + 1) * step_s) for n, c in enumerate(timing.word))
        characters.append((" ", timing.end_s, timing.end_s))
    return characters


# ---- client


def http_path(request: SpeakRequest) -> str:
    """Return path and query. A caller of this dialect has its own settings passed on."""
    own = {name: _text(request.extra[name]) for name in sorted(_own(request).keys() & _IN_QUERY)}
    own |= {name[len(_QUERY) :]: _text(raw) for name, raw in _own(request).items() if name.startswith(_QUERY)}
    fields = {**own, "output_format": output_format(sent_for(request.format), own.get("output_format", ""))}
    if request.no_store and request.dialect != "elevenlabs":
        fields["enable_logging"] = "false"
    form = "/stream/with-timestamps" if request.want_timings else "/stream"
    return f"/v1/text-to-speech/{quote(request.voice, safe='')}{form}?" + urlencode(fields)


def body(request: SpeakRequest, model: str) -> bytes:
    members: dict[str, Any] = {"text": request.text, "model_id": model}
    if language := language_of(request.language, model):
        members["language_code"] = language
    if request.speed is not None:
        members["voice_settings"] = {"speed": speed_of(request.speed)}
    own = _own(request).items()
    members |= {name: raw for name, raw in own if name not in _NOT_EXTRA and not name.startswith(_QUERY)}
    return msgspec.json.encode(members)


def _own(request: SpeakRequest) -> Mapping[str, msgspec.Raw]:
    return request.extra if request.dialect == "elevenlabs" else {}


def _text(raw: msgspec.Raw) -> str:
    """Return a field of the query, which `extra` has as a JSON string."""
    try:
        return msgspec.json.decode(raw, type=str)
    except BAD_JSON:
        return ""


class _Line(msgspec.Struct, gc=False):
    audio_base64: str | None = None
    alignment: Alignment | None = None
    detail: object = None
    error: object = None


_LINE = msgspec.json.Decoder(_Line)


class TimedDecoder(SpeechLinesDecoder):
    """Decoder of the lines of `/stream/with-timestamps`."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._words = WordBuilder()

    def _last(self) -> list[SpeakEvent]:
        return [*self._words.end()]

    def _decode(self, line: bytes) -> list[SpeakEvent]:
        message = self._object(_LINE, line)
        if message.detail is not None or message.error is not None:
            raise vendor_errors.error_within(self._provider, line)
        events = self._audio(message.audio_base64)
        if (a := message.alignment) is not None:
            times = zip(a.characters, a.character_start_times_seconds, a.character_end_times_seconds, strict=False)
            events += self._words.feed(times)
        return events


# ---- server

_ERROR_TYPES = {
    401: "authentication_error", 402: "payment_required", 403: "authorization_error", 404: "not_found", 429: "rate_limit_error"
}  # fmt: skip


def error_body(status: int, code: str, message: str, request_id: str, **facts: object) -> bytes:
    kind = _ERROR_TYPES.get(status, "validation_error" if status < 500 else "server_error")
    error = {"type": kind, "code": code, "status": code, "message": message, "request_id": request_id}
    return msgspec.json.encode({"detail": {**error, **facts, **error}})


class _Settings(msgspec.Struct, gc=False):
    speed: float | None = None


class _Request(msgspec.Struct, gc=False):
    text: str
    model_id: str = ""
    language_code: str | None = None
    voice_settings: _Settings | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def settings_of(query: bytes) -> tuple[tuple[str, str], ...]:
    """Return the query fields that are passed on to an upstream of this dialect."""
    fields = dict(query_pairs(query))
    return tuple((name, value) for name, value in fields.items() if name not in ("model_id", "language_code"))


def parse(voice: str, query: bytes, received: bytes, *, timings: bool) -> SpeakRequest:
    """Decode a request over HTTP. Raises ClientProtocolError, with `param`."""
    request, members = decode_request(_REQUEST, received), decode_request(MEMBERS, received)
    if not request.text.strip():
        raise ClientProtocolError(what="text: nothing to speak", param="text")
    extra = {name: raw for name, raw in members.items() if name not in _NOT_EXTRA and bytes(raw) != b"null"}
    for name, value in settings_of(query):
        extra[name if name in _IN_QUERY else _QUERY + name] = msgspec.Raw(msgspec.json.encode(value))
    return SpeakRequest(
        model=request.model_id,
        text=request.text,
        voice=voice,
        format=parse_format(named)
        if (named := dict(query_pairs(query)).get("output_format"))
        else AudioFormat(encoding="mp3"),
        speed=request.voice_settings.speed if request.voice_settings is not None else None,
        language=request.language_code,
        want_timings=timings,
        dialect="elevenlabs",
        extra=extra,
        no_store=is_no_store(query),
        ignorable=tuple(name.removeprefix(_QUERY) for name in extra if name not in _SERVED_EXTRA and name != _QUERY + "enable_logging"),
    )


_ID_LISTS = ("previous_request_ids", "next_request_ids")
_IDS = msgspec.json.Decoder(list[str])


def keep_ids(request: SpeakRequest, own: Callable[[list[str]], list[str]]) -> SpeakRequest:
    """Leave out the ids of earlier speech that are not the caller's own, and note it. Raises ClientProtocolError, with `param`."""
    for name in _ID_LISTS:
        if (raw := request.extra.get(name)) is None:
            continue
        named = decode_client(_IDS, raw, f"'{name}' must be a list of strings", name)
        if len(kept := own(named)) < len(named):
            extra = {**request.extra, name: msgspec.Raw(msgspec.json.encode(kept))}
            if not kept:
                del extra[name]
            request = attrs.evolve(request, extra=extra, left_out=(*request.left_out, name))
    return request


def is_no_store(query: bytes) -> bool:
    """Return whether the vendor must keep nothing."""
    return dict(query_pairs(query)).get("enable_logging", "").lower() == "false"


def timed_object(audio: bytes, timings: list[WordTiming]) -> dict[str, Any]:
    """Return the JSON object of audio and its alignment in an HTTP answer."""
    characters = characters_of(timings)
    alignment = {
        "characters": [c for c, _, _ in characters],
        "character_start_times_seconds": [round(start_s, 3) for _, start_s, _ in characters],
        "character_end_times_seconds": [round(end_s, 3) for _, _, end_s in characters],
    } if characters else None  # fmt: skip
    return {"audio_base64": b64encode(audio).decode(), "alignment": alignment, "normalized_alignment": alignment}


def encode_lines(events: list[SpeakEvent]) -> bytes:
    """Encode audio and word times as a line of JSON; b"" if there are none."""
    audio = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    timings = [event for event in events if isinstance(event, WordTiming)]
    return msgspec.json.encode(timed_object(audio, timings)) + b"\n" if audio or timings else b""
