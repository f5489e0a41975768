"""Hume's speech over HTTP, `POST /v0/tts/stream/json`: both roles.

Source: hume 0.14.1 (`tts/raw_client.py`, `tts/types`), livekit-plugins-hume 1.8.9 and pipecat-ai 1.14.0 (November 2026). The answer is a
line of JSON for each piece of audio, mono at 48 kHz. The text is spoken in snippets; `is_last_chunk` marks the last piece of each, so
that an answer which ends before it was cut. Word times are not read: no source says whether they count from the snippet or the answer.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UpstreamCut
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import SpeakEvent, SpeakRequest
from gw.wire import vendor_errors
from gw.wire.json_codec import decode_request
from gw.wire.json_lines import SpeechLinesDecoder
from gw.wire.vendor_errors import ErrorDialect, ErrorFacts, error_of

PATH = "/v0/tts/stream/json"
ENCODINGS: dict[Encoding, str] = {"pcm_s16le": "pcm", "mp3": "mp3"}
_SERVED = {name: encoding for encoding, name in ENCODINGS.items()}
RATE_HZ = 48_000
_SLOWEST, _FASTEST = 0.5, 2.0
_MODEL_PREFIX = "octave-"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
ACTING_MODEL = "octave-1"
"""The model that takes a description of how to speak (pipecat-ai)."""
_OF_THE_CANDIDATE = re.compile(r"(?i)\b(voice|version|model)")
_ERRORS = ErrorDialect(
    code=("code",), message=("message", "error"),
    is_candidate_fault=lambda status, facts: status in (400, 422) and _OF_THE_CANDIDATE.search(facts.message) is not None,
)  # fmt: skip
classify = partial(vendor_errors.classify, dialect=_ERRORS)


# ---- client


def body(request: SpeakRequest, model: str) -> bytes:
    """Return the body of a request. A voice that is a UUID is one of the account's own; any other names one of the library."""
    if _ID.fullmatch(request.voice):
        voice = {"id": request.voice, "provider": "CUSTOM_VOICE"}
    else:
        voice = {"name": request.voice, "provider": "HUME_AI"}
    utterance: dict[str, Any] = {"text": request.text, "voice": voice}
    if request.speed is not None:
        utterance["speed"] = min(_FASTEST, max(_SLOWEST, request.speed))
    if request.instructions and model == ACTING_MODEL:
        utterance["description"] = request.instructions
    members = {
        "utterances": [utterance], "version": model.removeprefix(_MODEL_PREFIX), "instant_mode": True, "strip_headers": True,
        "format": {"type": ENCODINGS[request.format.encoding]},
    }  # fmt: skip
    return msgspec.json.encode(members)


class _Line(msgspec.Struct, gc=False):
    type: str = ""
    audio: str | None = None
    is_last_chunk: bool = False
    code: str | None = None
    message: str | None = None
    error: str | None = None


_LINE = msgspec.json.Decoder(_Line)


class HumeDecoder(SpeechLinesDecoder):
    """Decoder of an answer. `secrets` are taken out of the text of an error."""

    def __init__(self, provider: str, secrets: Iterable[str] = ()) -> None:
        super().__init__(provider)
        self._secrets = tuple(secrets)
        self._in_snippet = False

    def _decode(self, line: bytes) -> list[SpeakEvent]:
        message = self._object(_LINE, line)
        if message.type == "error" or message.error is not None:
            facts = ErrorFacts(code=message.code or "", message=message.message or message.error or "")
            raise error_of(self._provider, 500, facts, self._secrets, dialect=_ERRORS)
        if message.type != "audio":
            return []
        self._in_snippet = not message.is_last_chunk
        return self._audio(message.audio)

    def _last(self) -> list[SpeakEvent]:
        if self._in_snippet:
            raise UpstreamCut(provider=self._provider, detail="the stream ended without the last chunk of a snippet")
        return []


# ---- server


class _Voice(msgspec.Struct, gc=False):
    id: str = ""
    name: str = ""
    provider: str = "CUSTOM_VOICE"


class _Utterance(msgspec.Struct, gc=False):
    text: str
    voice: _Voice | None = None
    speed: float | None = None
    description: str | None = None


class _Format(msgspec.Struct, gc=False):
    type: str = "mp3"


class _Request(msgspec.Struct, gc=False):
    utterances: list[_Utterance]
    version: str | None = None
    format: _Format | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse(received: bytes) -> SpeakRequest:
    """Decode a request of one utterance. Raises ClientProtocolError, with `param`."""
    request = decode_request(_REQUEST, received)
    encoding = _SERVED.get((request.format or _Format()).type)
    if encoding is None or len(request.utterances) != 1:
        raise ClientProtocolError(what="one utterance, as pcm or mp3, is expected", param="utterances")
    (utterance,) = request.utterances
    voice = utterance.voice or _Voice()
    if not utterance.text.strip():
        raise ClientProtocolError(what="text is empty", param="utterances.0.text")
    if request.version not in ("1", "2", None) or (request.version == "2" and utterance.voice is None):
        raise ClientProtocolError(what="version must be 1 or 2, and 2 needs a voice", param="version")
    if utterance.speed is not None and not _SLOWEST <= utterance.speed <= _FASTEST:
        raise ClientProtocolError(what="speed must be 0.5 to 2", param="utterances.0.speed")
    return SpeakRequest(
        model=_MODEL_PREFIX + (request.version or "2"), text=utterance.text, voice=voice.id or voice.name, speed=utterance.speed,
        format=AudioFormat(encoding=encoding, sample_rate_hz=RATE_HZ if encoding == "pcm_s16le" else 0),
        instructions=utterance.description, dialect="hume",
    )  # fmt: skip


def encode_lines(pieces: list[bytes], text: str, encoding: Encoding) -> list[bytes]:
    """Return the lines of an answer of one snippet."""
    ids = {"generation_id": "g", "request_id": "r", "snippet_id": "s"}
    common = {"type": "audio", "audio_format": ENCODINGS[encoding], "text": text, "utterance_index": 0, **ids}
    return [
        msgspec.json.encode({
            **common, "audio": b64encode(piece).decode(), "chunk_index": n, "is_last_chunk": n + 1 == len(pieces),
        }) + b"\n"
        for n, piece in enumerate(pieces)
    ]  # fmt: skip


def error_line(message: str) -> bytes:
    return msgspec.json.encode({"type": "error", "error": "server_error", "message": message}) + b"\n"


def error_body(code: str, message: str) -> bytes:
    return msgspec.json.encode({"code": code, "error": "error", "message": message})
