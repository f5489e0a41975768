"""Google Cloud's Text-to-Speech, `POST /v1/text:synthesize`: both roles.

Source: google-cloud-texttospeech 2.38.0 (`types/cloud_tts.py`, `transports/rest_base.py`), google-auth 2.63.0 (`api_key.py`), November
2026. The answer is `{"audioContent": base64}`. Streams exist by gRPC only. An error is
`{"error": {"code": 400, "message": "text", "status": "INVALID_ARGUMENT"}}`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import SpeakRequest
from gw.wire.json_codec import decode_request, decode_upstream
from gw.wire.query import bare_language
from gw.wire.vendor_errors import ErrorDialect

PATH, VOICES_PATH = "/v1/text:synthesize", "/v1/voices"
FORMATS: dict[Encoding, str] = {"pcm_s16le": "PCM", "mp3": "MP3"}
"""The vendor wraps µ-law and A-law in a WAV."""
_SERVED = {name: encoding for encoding, name in FORMATS.items()}
_USUAL_LOCALE = "en-US"
_RATES = (0.25, 2.0)
"""Slowest and fastest `speakingRate`."""
_VOICE = re.compile(r"([a-z]{2,3}-[A-Z]{2})-(.+)-[^-]+")
_MENDED_ELSEWHERE = re.compile(
    r"(?i)\bvoice\b|api key|sample rate|longer than the limit|sync input too long|payload size exceeds|duration exceeds"
    r"|\blanguage\b|\bmodel\b|recognizer|encoding|\bphrase|\bfeature|not supported"
)
"""In the message of a 400 that another vendor would not return: a wrong key, what this one does not have, or more than it takes."""
ERRORS = ErrorDialect(
    code=("error.status",), message=("error.message",),
    is_candidate_fault=lambda status, facts: status == 400 and _MENDED_ELSEWHERE.search(facts.message) is not None,
)  # fmt: skip


def model_of(voice: str) -> str:
    """Return the kind of a voice, which has a price: `chirp3-hd` for `en-US-Chirp3-HD-Charon`; "" for a name of another form."""
    named = _VOICE.fullmatch(voice)
    return named[2].lower() if named is not None else ""


def locale_of(voice: str) -> str:
    """Return the locale that the name of a voice begins with; "" for a name of another form."""
    named = _VOICE.fullmatch(voice)
    return named[1] if named is not None else ""


def speaks(language: str | None, voice: str) -> bool:
    """Return whether a voice speaks this language; of a name of another form the vendor decides."""
    return bare_language(locale_of(voice)) in (None, bare_language(language))


# ---- client


def body(request: SpeakRequest) -> bytes:
    audio: dict[str, Any] = {"audioEncoding": FORMATS[request.format.encoding]}
    if request.format.sample_rate_hz:
        audio["sampleRateHertz"] = request.format.sample_rate_hz
    if request.speed:
        slowest, fastest = _RATES
        audio["speakingRate"] = min(fastest, max(slowest, request.speed))
    voice = {"languageCode": locale_of(request.voice) or request.language or _USUAL_LOCALE, "name": request.voice}
    return msgspec.json.encode({"input": {"text": request.text}, "voice": voice, "audioConfig": audio})


class _Answer(msgspec.Struct, gc=False, rename="camel"):
    audio_content: str


_ANSWER = msgspec.json.Decoder(_Answer)


def decode(body: bytes, provider: str) -> bytes:
    """Return the audio of an answer. Raises UpstreamProtocolError."""
    content = decode_upstream(_ANSWER, body, provider, "the answer").audio_content
    try:
        return b64decode(content, validate=True)
    except NotBase64:
        raise UpstreamProtocolError(provider=provider, detail="the audio is not base64") from None


# ---- server


class _Input(msgspec.Struct, gc=False):
    text: str


class _Voice(msgspec.Struct, gc=False, rename="camel"):
    language_code: str
    name: str = ""


class _Audio(msgspec.Struct, gc=False, rename="camel"):
    audio_encoding: str | int
    sample_rate_hertz: int = 0
    speaking_rate: float = 0.0


class _Request(msgspec.Struct, gc=False, rename="camel"):
    input: _Input
    voice: _Voice
    audio_config: _Audio


_REQUEST = msgspec.json.Decoder(_Request)
_NUMBERS = {2: "MP3", 7: "PCM"}
"""Numbers of encodings, which protobuf's JSON accepts in place of their names and the vendor's SDK sends."""


def parse(received: bytes) -> SpeakRequest:
    """Decode a request. Raises ClientProtocolError, with `param`."""
    request = decode_request(_REQUEST, received)
    audio = request.audio_config
    name = audio.audio_encoding if isinstance(audio.audio_encoding, str) else _NUMBERS.get(audio.audio_encoding, "")
    if (encoding := _SERVED.get(name)) is None:
        raise ClientProtocolError(what=f"{audio.audio_encoding!r} is not an encoding", param="audioEncoding")
    for param, value in (("text", request.input.text.strip()), ("languageCode", request.voice.language_code)):
        if not value:
            raise ClientProtocolError(what=f"{param} is empty", param=param)
    rate_hz = audio.sample_rate_hertz or (0 if encoding == "mp3" else 24_000)
    return SpeakRequest(
        model=model_of(request.voice.name), text=request.input.text, voice=request.voice.name, dialect="google_cloud",
        language=request.voice.language_code, speed=audio.speaking_rate or None,
        format=AudioFormat(encoding=encoding, sample_rate_hz=rate_hz),
    )  # fmt: skip


def encode(audio: bytes) -> bytes:
    return msgspec.json.encode({"audioContent": b64encode(audio).decode()})


def error_body(status: int, kind: str, message: str) -> bytes:
    return msgspec.json.encode({"error": {"code": status, "message": message, "status": kind}})
