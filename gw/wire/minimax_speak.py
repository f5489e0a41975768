"""MiniMax's speech over HTTP, `POST /v1/t2a_v2` as an event stream: both roles.

Source: livekit-plugins-minimax-ai 1.8.9 and pipecat-ai 1.14.0 (November 2026), and the vendor's pages "T2A HTTP" and "Error codes". An
event is `{"data": {"audio": hex, "status": 1}, "base_resp": {"status_code": 0}}`. The last one has the status 2, the characters that
are billed, and no audio if `exclude_aggregated_audio` was set. A refusal comes with HTTP status 200, as JSON or as an event: its
`status_code` is one of the vendor's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, ProviderError, ProviderRejected, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.types.usage import Usage, VendorFigure
from gw.wire import vendor_errors
from gw.wire.json_codec import decode_request, decode_upstream
from gw.wire.query import bare_language
from gw.wire.sse_event import SseEvent
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import ErrorDialect, ErrorFacts, error_of

PATH, VOICES = "/v1/t2a_v2", "/v1/get_voice"
ENCODINGS: dict[Encoding, str] = {"pcm_s16le": "pcm", "mp3": "mp3"}
_SERVED = {name: encoding for encoding, name in ENCODINGS.items()}
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 32_000, 44_100})
MOST_CHARACTERS = 9_999
"""A text must have fewer than 10,000 characters."""
_SLOWEST, _FASTEST = 0.5, 2.0
_LANGUAGES = {
    "af": "Afrikaans", "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "ms": "Malay",
    "nb": "Norwegian", "nl": "Dutch", "nn": "Nynorsk", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian",
    "vi": "Vietnamese", "yue": "Chinese,Yue", "zh": "Chinese",
}  # fmt: skip
_LANGUAGES_OF_2_6 = {"fa": "Persian", "fil": "Filipino", "ta": "Tamil"}
"""Both: pipecat-ai 1.14.0, `services/minimax/tts.py`."""
_STATUSES = {
    1001: 504, 1002: 429, 1004: 401, 1008: 402, 1026: 400, 1027: 400, 1039: 429, 1041: 429, 1042: 400, 2013: 400, 2042: 404,
    2045: 429, 2049: 401, 2056: 429, 20132: 400,
}  # fmt: skip
"""The vendor's code → the HTTP status that it would have; any other is 500."""
_FILTERED = (1026, 1027)
_OF_THE_CALLER = (1042,)
"""Codes of a text that no vendor would speak; others with status 400 are about the voice, the model or the settings."""
_ERRORS = ErrorDialect(
    code=("base_resp.status_code",), message=("base_resp.status_msg", "message"),
    is_candidate_fault=lambda status, facts: status == 400 and facts.code not in map(str, _OF_THE_CALLER),
)  # fmt: skip
classify = partial(vendor_errors.classify, dialect=_ERRORS)


def language_of(language: str | None, model: str) -> str | None:
    """Return the vendor's name of a language; None for one that the model does not have."""
    bare = bare_language(language) or ""
    if model.startswith("speech-2.6") and bare in _LANGUAGES_OF_2_6:
        return _LANGUAGES_OF_2_6[bare]
    return _LANGUAGES.get(bare)


def check_text(request: SpeakRequest, provider: str) -> None:
    """Raise ProviderRejected for a text without words, and for one that is longer than the vendor takes; another one may take that."""
    if not request.text.strip():
        raise ProviderRejected(provider=provider, detail="the text is empty", upstream_status=400, fault="caller")
    if len(request.text) > MOST_CHARACTERS:
        detail = f"the text is longer than {MOST_CHARACTERS:,} characters"
        raise ProviderRejected(provider=provider, detail=detail, upstream_status=413, fault="request")


# ---- client


def body(request: SpeakRequest, model: str) -> bytes:
    voice: dict[str, Any] = {"voice_id": request.voice}
    if request.speed is not None:
        voice["speed"] = min(_FASTEST, max(_SLOWEST, request.speed))
    audio: dict[str, Any] = {"format": ENCODINGS[request.format.encoding], "channel": 1}
    if request.format.sample_rate_hz:
        audio["sample_rate"] = request.format.sample_rate_hz
    members: dict[str, Any] = {
        "model": model, "text": request.text, "stream": True, "stream_options": {"exclude_aggregated_audio": True},
        "voice_setting": voice, "audio_setting": audio,
    }  # fmt: skip
    if language := language_of(request.language, model):
        members["language_boost"] = language
    return msgspec.json.encode(members)


class _Data(msgspec.Struct, gc=False):
    audio: str | None = None
    status: int | None = None


class _Base(msgspec.Struct, gc=False):
    status_code: int = 0
    status_msg: str = ""


class _Extra(msgspec.Struct, gc=False):
    usage_characters: int | None = None


class _Event(msgspec.Struct, gc=False):
    data: _Data | None = None
    base_resp: _Base | None = None
    extra_info: _Extra | None = None
    error: Any = None


_EVENT = msgspec.json.Decoder(_Event)


class MiniMaxDecoder(SseStreamDecoder[SpeakEvent]):
    """Decoder of an answer. `secrets` are taken out of the text of an error."""

    CLOSING_EVENT = "an event of status 2"

    def __init__(self, provider: str, secrets: Iterable[str] = ()) -> None:
        super().__init__(provider)
        self._secrets = tuple(secrets)
        self._has_audio = False
        self._whole: bytes | None = None  # an answer that is no event stream
        self._first = True

    def feed(self, data: bytes) -> list[SpeakEvent]:
        if self._first and (start := data.lstrip()):
            self._first = False
            if start.startswith(b"{"):
                self._whole = b""
        if self._whole is None:
            return super().feed(data)
        self._whole += data
        if len(self._whole) > _MAX_REFUSAL_BYTES:
            raise self._malformed("JSON where an event stream was expected")
        return []

    def end(self) -> list[SpeakEvent]:
        """Raises the error of an answer in JSON, UpstreamCut without the last event."""
        if self._whole is not None:
            raise self._error(decode_upstream(_EVENT, self._whole, self._provider, "the answer"))
        return super().end()

    def _decode(self, event: SseEvent, events: list[SpeakEvent]) -> None:
        message = decode_upstream(_EVENT, event.data, self._provider, "an event")
        if message.error is not None or (message.base_resp is not None and message.base_resp.status_code != 0):
            raise self._error(message)
        data = message.data or _Data()
        if data.status == 2:
            self._ended = True
            if not self._has_audio:
                raise self._malformed("empty answer")
            events.append(SpeakEnd(usage=_usage(message.extra_info)))
        elif data.audio:
            try:
                audio = bytes.fromhex(data.audio)
            except ValueError:
                raise self._malformed("audio that is not hexadecimal") from None
            self._has_audio = True
            events.append(AudioChunk(data=audio))

    def _error(self, message: _Event) -> ProviderError:
        if message.error is not None:
            return vendor_errors.error_within(self._provider, message.error)
        if message.base_resp is None or message.base_resp.status_code == 0:
            return UpstreamProtocolError(provider=self._provider, detail="JSON where an event stream was expected")
        return error_for(self._provider, message.base_resp.status_code, message.base_resp.status_msg, self._secrets)


_MAX_REFUSAL_BYTES = 64 * 1024


def error_for(provider: str, code: int, message: str, secrets: Iterable[str] = ()) -> ProviderError:
    """Return the error for the vendor's own code of one."""
    facts = ErrorFacts(code="content_filter" if code in _FILTERED else str(code), message=message)
    return error_of(provider, _STATUSES.get(code, 500), facts, secrets, dialect=_ERRORS)


def check_answer(received: bytes, provider: str, secrets: Iterable[str] = ()) -> None:
    """Raise ProviderError unless an answer in JSON says that the request succeeded."""
    answer = decode_upstream(_EVENT, received, provider, "the answer").base_resp
    if answer is None:
        raise UpstreamProtocolError(provider=provider, detail="the answer has no base_resp")
    if answer.status_code != 0:
        raise error_for(provider, answer.status_code, answer.status_msg, secrets)


def _usage(extra: _Extra | None) -> Usage | None:
    """Return the characters that the vendor bills."""
    count = extra.usage_characters if extra is not None else None
    if count is None or not 0 <= count <= 10 * MOST_CHARACTERS:
        return None
    return Usage(characters=count, source="vendor", vendor_figure=VendorFigure(amount=float(count), unit="characters"))


# ---- server


class _Voice(msgspec.Struct, gc=False):
    voice_id: str = ""
    speed: float | None = None


class _Audio(msgspec.Struct, gc=False):
    format: str = "mp3"
    sample_rate: int | None = None


class _Options(msgspec.Struct, gc=False):
    exclude_aggregated_audio: bool = False


class _Request(msgspec.Struct, gc=False):
    model: str = ""
    text: str = ""
    stream: bool = False
    voice_setting: _Voice | None = None
    audio_setting: _Audio | None = None
    stream_options: _Options | None = None
    language_boost: str | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse(received: bytes) -> tuple[SpeakRequest, bool]:
    """Decode a request; the second value says whether the last event repeats all audio. Raises ClientProtocolError, with `param`."""
    request = decode_request(_REQUEST, received)
    voice, audio = request.voice_setting or _Voice(), request.audio_setting or _Audio()
    for name, value in (("text", request.text), ("model", request.model), ("voice_setting.voice_id", voice.voice_id)):
        if not value.strip():
            raise ClientProtocolError(what=f"invalid params, {name} is required", param=name)
    encoding, speed = _SERVED.get(audio.format), voice.speed
    if encoding is None or not request.stream:
        raise ClientProtocolError(what="invalid params, a stream of pcm or mp3 is expected", param="audio_setting")
    if len(request.text) > MOST_CHARACTERS or (speed is not None and not _SLOWEST <= speed <= _FASTEST):
        raise ClientProtocolError(what="invalid params, text or speed is out of range", param="text")
    if audio.sample_rate is not None and audio.sample_rate not in RATES_HZ:
        raise ClientProtocolError(what="invalid params, sample_rate", param="audio_setting.sample_rate")
    rate_hz = audio.sample_rate or (0 if encoding == "mp3" else 32_000)
    speech = SpeakRequest(
        model=request.model, text=request.text, voice=voice.voice_id, format=AudioFormat(encoding=encoding, sample_rate_hz=rate_hz),
        speed=speed, language=request.language_boost, dialect="minimax",
    )  # fmt: skip
    return speech, not (request.stream_options or _Options()).exclude_aggregated_audio


def _event(members: dict[str, Any]) -> bytes:
    base = {"status_code": 0, "status_msg": ""}
    return b"data: " + msgspec.json.encode({**members, "trace_id": "t", "base_resp": base}) + b"\n\n"


def encode_piece(audio: bytes) -> bytes:
    return _event({"data": {"audio": audio.hex(), "status": 1, "ced": ""}})


def encode_last(text: str, aggregated: bytes = b"") -> bytes:
    extra = {"audio_length": 1, "audio_size": 1, "word_count": len(text.split()), "usage_characters": len(text)}
    return _event({"data": {"audio": aggregated.hex(), "status": 2, "ced": ""}, "extra_info": extra})


def error_body(code: int, message: str) -> bytes:
    """Return a refusal, whose HTTP status is 200."""
    return msgspec.json.encode({"data": None, "trace_id": "t", "base_resp": {"status_code": code, "status_msg": message}})


def error_event(code: int, message: str) -> bytes:
    return b"data: " + error_body(code, message) + b"\n\n"
