"""POST /audio/speech, and the request of /audio/transcriptions, both roles. For transcripts see `openai_transcript`.

Source: openai-python 3.52.0, groq-python 1.7.0, Kokoro-FastAPI of August 2026.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from math import isfinite
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UpstreamCut
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import AudioSource, TranscribeRequest
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import tokens
from gw.wire.json_codec import BAD_JSON, decode_request
from gw.wire.openai_transcript import RESPONSE_FORMATS
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import error_within

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODINGS: dict[str, Encoding] = {
    "mp3": "mp3", "opus": "opus", "aac": "aac", "flac": "flac", "wav": "wav", "pcm": "pcm_s16le", "ogg": "ogg",
    "mulaw": "mulaw", "alaw": "alaw",
}
"""`response_format` → encoding; ogg and mulaw are Groq's."""
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
    """Decode a request body; unknown members are kept raw. Raises ClientProtocolError."""
    speech = decode_request(_SPEECH, body)
    fields = decode_request(_FIELDS, body)
    if not speech.input.strip():
        raise ClientProtocolError(what="'input' must not be empty", param="input")
    wire_format = speech.response_format or "mp3"
    encoding = _ENCODINGS.get(wire_format)
    if encoding is None:
        known = ", ".join(_ENCODINGS)
        raise ClientProtocolError(what=f"'response_format' must be one of {known}", param="response_format")
    if speech.speed is not None and not 0.25 <= speech.speed <= 4:
        raise ClientProtocolError(what="'speed' must be between 0.25 and 4", param="speed")
    if speech.stream_format not in (None, "audio", "sse"):
        raise ClientProtocolError(what="'stream_format' must be audio or sse", param="stream_format")
    rate = speech.sample_rate
    if rate is not None and not 4_000 <= rate <= 192_000:
        raise ClientProtocolError(what="'sample_rate' is out of range", param="sample_rate")
    return SpeakRequest(
        model=speech.model or "",
        text=speech.input,
        voice=speech.voice.id if isinstance(speech.voice, _Voice) else speech.voice or "",
        format=AudioFormat(encoding=encoding, sample_rate_hz=rate or _RATES.get(encoding, 0)),
        speed=speech.speed,
        instructions=speech.instructions,
        want_events=speech.stream_format == "sse",
        extra={name: raw for name, raw in fields.items() if name not in _SPEECH_MEMBERS},
    )


def speech_body(request: SpeakRequest, model: str, voice: str) -> bytes:
    """Return the body for an upstream of this dialect, for the event form if the request wants that.

    Unknown members are passed on only if the caller speaks this dialect.
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


class SpeechDecoder(SseStreamDecoder[SpeakEvent]):
    """The event form of speech: bytes in, audio out."""

    def end(self) -> list[SpeakEvent]:
        """Return [] after the connection ended cleanly. Raises UpstreamCut unless the vendor has sent the closing event."""
        if not self._ended:
            raise UpstreamCut(provider=self._provider, detail="the stream ended without speech.audio.done")
        return []

    def _decode(self, event: sse.SseEvent, events: list[SpeakEvent]) -> None:
        if event.data == b"[DONE]":
            return
        try:
            decoded = _SPEECH_EVENT.decode(event.data)
            if decoded.type == "speech.audio.delta" and decoded.audio is not None:
                events.append(AudioChunk(data=b64decode(decoded.audio, validate=True)))
                return
        except (*BAD_JSON, ValueError):
            raise self._malformed("an event is not the JSON expected") from None
        if decoded.error is not None or decoded.type == "error":
            raise error_within(self._provider, event.data if decoded.error is None else decoded.error)
        if decoded.type == "speech.audio.done":
            self._ended = True
            events.append(SpeakEnd(usage=_speech_usage(decoded.usage)))


def _speech_usage(value: object) -> Usage | None:
    """Return usage; None if it is missing or unreadable, which is no reason to lose the audio."""
    try:
        usage = msgspec.convert(value, _SpeechUsage)
    except msgspec.ValidationError:
        return None
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    output = tokens(usage.output_tokens)   # a speech model's output is audio
    return Usage(
        input_tokens=tokens(usage.input_tokens), output_tokens=output, output_audio_tokens=output, source="vendor"
    )


def encode_speech(events: Iterable[SpeakEvent]) -> bytes:
    """Return the event form. Clients require usage at the end: zeros if it is unknown. Word timings are left out."""
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
    """Build a request from form fields and the file; the last of a repeated field counts. Raises ClientProtocolError."""
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
    """Parse a flag; SDKs write `true`, command lines also `1` and `True`."""
    word = (text or "false").lower()
    if word not in ("true", "false", "1", "0"):
        raise ClientProtocolError(what="'stream' must be true or false", param="stream")
    return word in ("true", "1")


def transcription_fields(request: TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Return the form fields for an upstream of this dialect, without the file.

    For a caller of another dialect: the language without its region, key terms as the prompt, no further fields.
    """
    own = request.dialect == "openai"
    optional = {
        "language": request.language if own else bare_language(request.language),
        "prompt": request.prompt if own or request.prompt is not None else ", ".join(request.keyterms) or None,
        "temperature": f"{request.temperature:g}" if request.temperature is not None else None,
    }
    fields = [("model", model), ("response_format", request.response_format)]
    fields += [(name, value) for name, value in optional.items() if value is not None]
    fields += [("timestamp_granularities[]", kind) for kind in sorted(request.timestamps)]
    if request.stream:
        fields.append(("stream", "true"))
    return fields + list(request.fields) if own else fields


def bare_language(language: str | None) -> str | None:
    """Return the ISO 639 code without region (`en-US` → `en`); None for `multi` and the like: the vendor detects it."""
    bare = (language or "").partition("-")[0].lower()
    return bare if len(bare) in (2, 3) and bare.isalpha() else None
