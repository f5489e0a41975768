"""Inworld's speech over HTTP, `POST /tts/v1/voice:stream`: both roles.

Source: inworld-tts 1.2.1 (`_client.py`, `_timestamps.py`, `_config.py`), livekit-plugins-inworld 1.8.9 and pipecat-ai 1.14.0
(November 2026). The answer is a line of JSON for each piece: `{"result": {"audioContent", "timestampInfo"}}`, or
`{"error": {"code", "message"}}`. A refused request has `{"code", "message", "details"}`. Codes are gRPC's, or HTTP's.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, ProviderRejected
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import SpeakEvent, SpeakRequest, WordTiming
from gw.wire import vendor_errors
from gw.wire.bounds import seconds
from gw.wire.json_codec import decode_request
from gw.wire.json_lines import SpeechLinesDecoder
from gw.wire.query import bare_language
from gw.wire.vendor_errors import ErrorDialect, ErrorFacts, error_of

PATH = "/tts/v1/voice:stream"
ENCODINGS: dict[Encoding, str] = {"pcm_s16le": "PCM", "mp3": "MP3"}
"""`LINEAR16` has a WAV header in each piece."""
_SERVED = {name: encoding for encoding, name in ENCODINGS.items()}
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
MOST_CHARACTERS = 2_000
_SLOWEST, _FASTEST = 0.5, 1.5
_LANGUAGES = {
    "ar": "ar-SA", "de": "de-DE", "en": "en-US", "es": "es-ES", "fr": "fr-FR", "he": "he-IL", "hi": "hi-IN", "it": "it-IT",
    "ja": "ja-JP", "ko": "ko-KR", "nl": "nl-NL", "pl": "pl-PL", "pt": "pt-BR", "ru": "ru-RU", "zh": "zh-CN",
}  # fmt: skip
"""pipecat-ai 1.14.0, `services/inworld/tts.py`."""
_STATUSES = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 13: 500, 14: 503, 16: 401}
"""gRPC code → HTTP status, as the gateway of gRPC maps them."""
_ERRORS = ErrorDialect(message=("message",), is_candidate_fault=lambda status, facts: "voice" in facts.message.lower())
classify = partial(vendor_errors.classify, dialect=_ERRORS)


def speaks(language: str | None) -> bool:
    """Return whether the vendor speaks this language."""
    return bare_language(language) in _LANGUAGES


def check_length(request: SpeakRequest, provider: str) -> None:
    """Raise ProviderRejected for a text that is longer than the vendor takes; another one may take it."""
    if len(request.text) > MOST_CHARACTERS:
        detail = f"the text is longer than {MOST_CHARACTERS:,} characters"
        raise ProviderRejected(provider=provider, detail=detail, upstream_status=413, fault="request")


# ---- client


def body(request: SpeakRequest, model: str) -> bytes:
    audio: dict[str, Any] = {"audioEncoding": ENCODINGS[request.format.encoding]}
    if request.format.encoding != "mp3":
        audio["sampleRateHertz"] = request.format.sample_rate_hz
    if request.speed is not None:
        audio["speakingRate"] = min(_FASTEST, max(_SLOWEST, request.speed))
    members: dict[str, Any] = {"text": request.text, "voiceId": request.voice, "modelId": model, "audioConfig": audio}
    if language := _LANGUAGES.get(bare_language(request.language) or ""):
        members["language"] = language
    if request.want_timings:
        members |= {"timestampType": "WORD", "timestampTransportStrategy": "SYNC"}
    return msgspec.json.encode(members)


class _Words(msgspec.Struct, gc=False, rename="camel"):
    words: list[str] = []
    word_start_time_seconds: list[float] = []
    word_end_time_seconds: list[float] = []


class _Timestamps(msgspec.Struct, gc=False, rename="camel"):
    word_alignment: _Words | None = None


class _Result(msgspec.Struct, gc=False, rename="camel"):
    audio_content: str | None = None
    timestamp_info: _Timestamps | None = None


class _Error(msgspec.Struct, gc=False):
    code: int = 13
    message: str = ""


class _Line(msgspec.Struct, gc=False):
    result: _Result | None = None
    error: _Error | None = None


_LINE = msgspec.json.Decoder(_Line)


class InworldDecoder(SpeechLinesDecoder):
    """Decoder of an answer. `secrets` are taken out of the text of an error."""

    def __init__(self, provider: str, secrets: Iterable[str] = ()) -> None:
        super().__init__(provider)
        self._secrets = tuple(secrets)

    def _decode(self, line: bytes) -> list[SpeakEvent]:
        message = self._object(_LINE, line)
        if (error := message.error) is not None:
            status = _STATUSES.get(error.code, error.code if 400 <= error.code < 600 else 500)
            facts = ErrorFacts(message=error.message)
            raise error_of(self._provider, status, facts, self._secrets, dialect=_ERRORS)
        if (result := message.result) is None:
            return []
        words = result.timestamp_info.word_alignment if result.timestamp_info is not None else None
        return [*self._audio(result.audio_content), *(_timings(words) if words is not None else ())]


def _timings(found: _Words) -> list[SpeakEvent]:
    times = zip(found.words, found.word_start_time_seconds, found.word_end_time_seconds, strict=False)
    timings: list[SpeakEvent] = []
    for word, start, end in times:
        start_s, end_s = seconds(start), seconds(end)
        if start_s is not None and end_s is not None and word.strip():
            timings.append(WordTiming(word=word.strip(), start_s=start_s, end_s=max(start_s, end_s)))
    return timings


# ---- server


class _Audio(msgspec.Struct, gc=False, rename="camel"):
    audio_encoding: str = "MP3"
    sample_rate_hertz: int | None = None
    speaking_rate: float | None = None


class _Request(msgspec.Struct, gc=False, rename="camel"):
    text: str
    voice_id: str = ""
    model_id: str = ""
    audio_config: _Audio | None = None
    language: str | None = None
    timestamp_type: str | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse(received: bytes) -> SpeakRequest:
    """Decode a request over HTTP. Raises ClientProtocolError, with `param`."""
    request = decode_request(_REQUEST, received)
    audio = request.audio_config or _Audio()
    encoding = _SERVED.get(audio.audio_encoding)
    if encoding is None:
        raise ClientProtocolError(what="audioEncoding must be " + " or ".join(_SERVED), param="audioConfig")
    for name, value in (("text", request.text), ("voiceId", request.voice_id), ("modelId", request.model_id)):
        if not value.strip():
            raise ClientProtocolError(what=f"{name} is required", param=name)
    if len(request.text) > MOST_CHARACTERS:
        raise ClientProtocolError(what="text is too long", param="text")
    rate_hz = 0 if encoding == "mp3" else audio.sample_rate_hertz or 48_000
    return SpeakRequest(
        model=request.model_id, text=request.text, voice=request.voice_id, format=AudioFormat(encoding=encoding, sample_rate_hz=rate_hz),
        speed=audio.speaking_rate, language=request.language, want_timings=request.timestamp_type == "WORD", dialect="inworld",
    )  # fmt: skip


def encode_line(audio: bytes, timings: Iterable[WordTiming] = ()) -> bytes:
    timings = list(timings)
    result: dict[str, Any] = {"audioContent": b64encode(audio).decode()}
    if timings:
        result["timestampInfo"] = {"wordAlignment": {
            "words": [one.word for one in timings], "wordStartTimeSeconds": [round(one.start_s, 3) for one in timings],
            "wordEndTimeSeconds": [round(one.end_s, 3) for one in timings],
        }}  # fmt: skip
    return msgspec.json.encode({"result": result}) + b"\n"


def error_line(code: int, message: str) -> bytes:
    return msgspec.json.encode({"error": {"code": code, "message": message}}) + b"\n"


def error_body(status: int, message: str) -> bytes:
    code = next((code for code, http in _STATUSES.items() if http == status), 2)
    return msgspec.json.encode({"code": code, "message": message, "details": []})
