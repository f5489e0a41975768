"""POST /audio/speech, and the request of /audio/transcriptions, both roles. Transcripts are in `openai_transcript`.

Source: openai-python 3.52.0, groq-python 1.7.0, Kokoro-FastAPI of August 2026.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from math import isfinite
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, ProviderError, UpstreamCut, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import AudioSource, TranscribeRequest
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import tokens
from gw.wire.json_codec import BAD_JSON
from gw.wire.openai_transcript import (
    RESPONSE_FORMATS,
    TranscriptDecoder,
    decode_transcript,
    encode_transcript,
    encode_transcript_events,
)
from gw.wire.stream_decoder import StreamDecoder
from gw.wire.vendor_errors import error_within

__all__ = [
    "RESPONSE_FORMATS", "SpeechDecoder", "TranscriptDecoder", "decode_transcript", "encode_speech", "encode_transcript",
    "encode_transcript_events", "parse_speech", "parse_transcription", "speech_body", "transcription_fields",
]

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODINGS: dict[str, Encoding] = {
    "mp3": "mp3", "opus": "opus", "aac": "aac", "flac": "flac", "wav": "wav", "pcm": "pcm_s16le", "ogg": "ogg",
    "mulaw": "mulaw", "alaw": "alaw",
}
"""The wire's response_format → encoding; ogg, mulaw are Groq's."""
_WIRE_FORMATS = {encoding: name for name, encoding in _ENCODINGS.items()}
_RATES = {"pcm_s16le": 24_000, "wav": 24_000, "mulaw": 8_000, "alaw": 8_000}
_SPEECH_MEMBERS = frozenset({"model", "input", "voice", "response_format", "speed", "instructions", "stream_format"})


class _Voice(msgspec.Struct):
    id: str


class _Speech(msgspec.Struct):
    input: str
    model: str | None = None
    voice: str | _Voice | None = None
    response_format: str | None = None
    speed: float | None = None
    instructions: str | None = None
    stream_format: str | None = None
    sample_rate: int | None = None


_SPEECH = msgspec.json.Decoder(_Speech)


def parse_speech(body: bytes) -> SpeakRequest:
    """A request body → what to speak; members we do not know are kept raw. Raises ClientProtocolError."""
    try:
        body.decode()   # raw members are not checked by the parser
        fields = _FIELDS.decode(body)
        found = _SPEECH.decode(body)
    except msgspec.ValidationError as error:
        raise ClientProtocolError(what=f"the body is not of the expected form: {error}", param=_member(error)) from None
    except BAD_JSON:
        raise ClientProtocolError(what="the body is not JSON") from None
    if not found.input.strip():
        raise ClientProtocolError(what="'input' must not be empty", param="input")
    wire_format = found.response_format or "mp3"
    encoding = _ENCODINGS.get(wire_format)
    if encoding is None:
        known = ", ".join(_ENCODINGS)
        raise ClientProtocolError(what=f"'response_format' must be one of {known}", param="response_format")
    if found.speed is not None and not 0.25 <= found.speed <= 4:
        raise ClientProtocolError(what="'speed' must be between 0.25 and 4", param="speed")
    if found.stream_format not in (None, "audio", "sse"):
        raise ClientProtocolError(what="'stream_format' must be audio or sse", param="stream_format")
    rate = found.sample_rate
    if rate is not None and not 4_000 <= rate <= 192_000:
        raise ClientProtocolError(what="'sample_rate' is out of range", param="sample_rate")
    return SpeakRequest(
        model=found.model or "",
        text=found.input,
        voice=found.voice.id if isinstance(found.voice, _Voice) else found.voice or "",
        format=AudioFormat(encoding=encoding, sample_rate_hz=rate or _RATES.get(encoding, 0)),
        speed=found.speed,
        instructions=found.instructions,
        want_events=found.stream_format == "sse",
        extra={name: raw for name, raw in fields.items() if name not in _SPEECH_MEMBERS},
    )


def _member(error: msgspec.ValidationError) -> str | None:
    """The member that a validation error names, at `$.name` or in "missing required field `name`"."""
    text = str(error)
    at = text.rpartition("`$.")[2] if "`$." in text else text.rpartition("field `")[2] if "field `" in text else ""
    return at.partition("`")[0].partition(".")[0] or None


def speech_body(request: SpeakRequest, model: str, voice: str) -> bytes:
    """The body for an upstream of this dialect; asks for the event form when the request wants it.

    Members we do not know go along only where the caller speaks this dialect.
    """
    body: dict[str, Any] = {"model": model, "input": request.text, "voice": voice}
    encoding = request.format.encoding
    body["response_format"] = _WIRE_FORMATS.get(encoding, encoding)
    if request.speed is not None:
        body["speed"] = request.speed
    if request.instructions is not None:
        body["instructions"] = request.instructions
    if request.want_events:
        body["stream_format"] = "sse"
    extra = request.extra if request.dialect == "openai" else {}
    return msgspec.json.encode({**extra, **body})


class _SpeechUsage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _SpeechEvent(msgspec.Struct, gc=False):
    type: str = ""
    audio: str | None = None
    usage: Any = None
    error: Any = None


_SPEECH_EVENT = msgspec.json.Decoder(_SpeechEvent)


class SpeechDecoder(StreamDecoder[SpeakEvent]):
    """The event form of speech: bytes in, audio out."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._sse = sse.SseDecoder()
        self._ended = False

    def feed(self, data: bytes) -> list[SpeakEvent]:
        """Raises UpstreamProtocolError, and ProviderFailed for an error event."""
        try:
            pieces = self._sse.feed(data)
        except sse.SseTooLong as error:
            raise UpstreamProtocolError(provider=self._provider, detail=str(error)) from None
        events: list[SpeakEvent] = []
        try:
            for piece in pieces:
                event = None if self._ended else self._event(piece.data)
                if event is not None:
                    events.append(event)
        except ProviderError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[SpeakEvent]:
        """The connection has ended cleanly. Raises UpstreamCut unless the vendor has said that all audio was sent."""
        if not self._ended:
            raise UpstreamCut(provider=self._provider, detail="the stream ended without speech.audio.done")
        return []

    def _event(self, payload: bytes) -> SpeakEvent | None:
        if payload in (b"", b"[DONE]"):
            return None
        try:
            event = _SPEECH_EVENT.decode(payload)
            if event.type == "speech.audio.delta" and event.audio is not None:
                return AudioChunk(data=b64decode(event.audio, validate=True))
        except (*BAD_JSON, ValueError):
            raise UpstreamProtocolError(provider=self._provider, detail="an event is not what was expected") from None
        if event.error is not None or event.type == "error":
            raise error_within(self._provider, payload if event.error is None else event.error)
        if event.type != "speech.audio.done":
            return None
        self._ended = True
        return SpeakEnd(usage=_speech_usage(event.usage))


def _speech_usage(told: object) -> Usage | None:
    """None where there is none, or none that can be read: all audio is there, whatever its bill looks like."""
    try:
        found = msgspec.convert(told, _SpeechUsage)
    except msgspec.ValidationError:
        return None
    if found.input_tokens is None and found.output_tokens is None:
        return None
    spoken = tokens(found.output_tokens)   # what comes out of a speech model is audio
    return Usage(
        input_tokens=tokens(found.input_tokens), output_tokens=spoken, output_audio_tokens=spoken, source="vendor"
    )


def encode_speech(events: Iterable[SpeakEvent]) -> bytes:
    """The event form. Clients require usage at the end: zeros where it is not known. Word timings are left out."""
    parts: list[bytes] = []
    for event in events:
        if isinstance(event, AudioChunk):
            parts.append(b'data: {"type":"speech.audio.delta","audio":"' + b64encode(event.data) + b'"}\n\n')
        elif isinstance(event, SpeakEnd):
            used = event.usage or Usage()
            total = used.input_tokens + used.output_tokens
            usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "total_tokens": total}
            parts.append(sse.encode(msgspec.json.encode({"type": "speech.audio.done", "usage": usage})))
    return b"".join(parts)


def parse_transcription(
    fields: list[tuple[str, str]],
    audio: AudioSource,
    fmt: AudioFormat | None,
    audio_seconds: float,
    task: str = "transcribe",
) -> TranscribeRequest:
    """Form fields and the file → a request. The last of a repeated single field stands. Raises ClientProtocolError."""
    known: dict[str, str] = {}
    timestamps: set[str] = set()
    others: list[tuple[str, str]] = []
    for name, value in fields:
        plain = name.removesuffix("[]")
        if plain == "timestamp_granularities":
            timestamps.add(value)
        elif name in ("model", "response_format", "language", "prompt", "temperature", "stream"):
            known[name] = value
        else:
            others.append((name, value))
    response_format = known.get("response_format") or "json"
    if response_format not in RESPONSE_FORMATS:
        expected = ", ".join(RESPONSE_FORMATS)
        raise ClientProtocolError(what=f"'response_format' must be one of {expected}", param="response_format")
    if not timestamps <= {"word", "segment"}:
        raise ClientProtocolError(
            what="'timestamp_granularities' must be word or segment", param="timestamp_granularities[]"
        )
    return TranscribeRequest(
        model=known.get("model", ""),
        audio=audio,
        format=fmt,
        audio_seconds=audio_seconds,
        response_format=response_format,
        language=known.get("language") or None,
        prompt=known.get("prompt") or None,
        temperature=_temperature(known.get("temperature")),
        timestamps=frozenset(timestamps),
        stream=_truth(known.get("stream")),
        fields=tuple(others),
        task=task,
    )


def _temperature(text: str | None) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value >= 0):
        raise ClientProtocolError(what="'temperature' must be a number of at least 0", param="temperature")
    return value


def _truth(text: str | None) -> bool:
    """SDKs write `true`, command lines also `1` and `True`."""
    word = (text or "false").lower()
    if word not in ("true", "false", "1", "0"):
        raise ClientProtocolError(what="'stream' must be true or false", param="stream")
    return word in ("true", "1")


def transcription_fields(request: TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Form fields for an upstream of this dialect, without the file.

    Of a caller of another dialect: the language without its region, key terms as the prompt, none of its own fields.
    """
    own = request.dialect == "openai"
    fields = [("model", model), ("response_format", request.response_format)]
    language = request.language if own else _bare_language(request.language)
    if language is not None:
        fields.append(("language", language))
    prompt = request.prompt if own or request.prompt is not None else ", ".join(request.keyterms) or None
    if prompt is not None:
        fields.append(("prompt", prompt))
    if request.temperature is not None:
        fields.append(("temperature", f"{request.temperature:g}"))
    fields += [("timestamp_granularities[]", kind) for kind in sorted(request.timestamps)]
    if request.stream:
        fields.append(("stream", "true"))
    return fields + list(request.fields) if own else fields


def _bare_language(language: str | None) -> str | None:
    """`en-US` is `en` here (ISO 639); `multi` and the like are no language: the vendor finds it out."""
    bare = (language or "").partition("-")[0].lower()
    return bare if len(bare) in (2, 3) and bare.isalpha() else None
