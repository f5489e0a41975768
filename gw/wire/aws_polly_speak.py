"""Amazon Polly's speech, `POST /v1/speech`: both roles.

Source: botocore 1.43.117, `data/polly/2016-06-10/service-2.json` (members, formats, rates, errors), and the vendor's page "Supported
SSML tags" (November 2026). The body of the answer is the audio, the header `x-amzn-RequestCharacters` what is billed. An error is
`{"message": "text"}`; its name is in the header `x-amzn-ErrorType`. A voice without the engine is a 400 with the words "This voice does
not support the selected engine"; too many requests are one with "Rate exceeded" (botocore, `data/_retry.json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import msgspec

from gw.errors import ClientProtocolError, ProviderError
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import SpeakRequest
from gw.wire import vendor_errors
from gw.wire.aws_sigv4 import key_parts
from gw.wire.json_codec import decode_request
from gw.wire.query import bare_language, language_tag
from gw.wire.vendor_errors import ErrorDialect

PATH, VOICES_PATH = "/v1/speech", "/v1/voices"
ENGINES = ("standard", "neural", "long-form", "generative")
_WITH_SPEED = ("standard", "neural", "long-form")
FORMATS: dict[Encoding, str] = {"pcm_s16le": "pcm", "mp3": "mp3", "mulaw": "mulaw", "alaw": "alaw"}
_SERVED = {name: encoding for encoding, name in FORMATS.items()}
CONTENT_TYPES = {"pcm": "audio/pcm", "mp3": "audio/mpeg", "mulaw": "audio/mulaw", "alaw": "audio/alaw"}
RATES_HZ = frozenset({8_000, 16_000})
"""Sample rates of raw samples."""
_MP3_RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
_RATES = (0.2, 2.0)
"""Slowest and fastest `rate` of `prosody`."""
_LANGUAGES = (
    " arb cmn-CN cy-GB da-DK de-DE en-AU en-GB en-GB-WLS en-IN en-US es-ES es-MX es-US fr-CA fr-FR is-IS it-IT ja-JP hi-IN ko-KR nb-NO"
    " nl-NL pl-PL pt-BR pt-PT ro-RO ru-RU sv-SE tr-TR en-NZ en-ZA ca-ES de-AT yue-CN ar-AE fi-FI en-IE nl-BE fr-BE cs-CZ de-CH en-SG "
)
_OTHER_NAMES = {"zh": "cmn", "no": "nb", "ar": "arb"}


def language_code(language: str | None) -> str | None:
    """Return the vendor's code for a language with a region; None for one without, where the voice decides."""
    tag = language_tag(language) or ""
    bare, _, region = tag.partition("-")
    code = f"{_OTHER_NAMES.get(bare, bare)}-{region}"
    return next((known for known in (tag, code) if "-" in known and f" {known} " in _LANGUAGES), None)


def speaks(language: str | None) -> bool:
    """Return whether some voice speaks this language; the vendor refuses a voice that does not speak that of the request."""
    bare = bare_language(language_tag(language)) or ""
    if "-" in (language_tag(language) or ""):
        return language_code(language) is not None
    return any(f" {name}{end}" in _LANGUAGES for name in (bare, _OTHER_NAMES.get(bare, bare)) if name for end in ("-", " "))


def takes_speed(model: str) -> bool:
    return model in _WITH_SPEED


def makes_mp3(fmt: AudioFormat) -> bool:
    """Return whether the vendor has MP3 of this sample rate; it chooses the bit rate."""
    return fmt.channels == 1 and not fmt.kbit_per_s and fmt.sample_rate_hz in {0, *_MP3_RATES_HZ}


def made_format(fmt: AudioFormat) -> AudioFormat:
    """Return the format that the vendor makes for a request: of raw samples the next rate below that it has."""
    if fmt.encoding == "mp3":
        return fmt
    rate_hz = 16_000 if fmt.encoding == "pcm_s16le" and not 0 < fmt.sample_rate_hz < 16_000 else 8_000
    return AudioFormat(encoding=fmt.encoding, sample_rate_hz=rate_hz)


# ---- client


def body(request: SpeakRequest, engine: str) -> bytes:
    fmt = made_format(request.format)
    members: dict[str, Any] = {
        "Engine": engine, "OutputFormat": FORMATS[fmt.encoding], "VoiceId": request.voice,
        "Text": request.text, "TextType": "text",
    }  # fmt: skip
    if fmt.sample_rate_hz:
        members["SampleRate"] = str(fmt.sample_rate_hz)
    if code := language_code(request.language):
        members["LanguageCode"] = code
    if request.speed and takes_speed(engine):
        slowest, fastest = _RATES
        rate = round(100 * min(fastest, max(slowest, request.speed)))
        members |= {"TextType": "ssml", "Text": f'<speak><prosody rate="{rate}%">{escape(request.text)}</prosody></speak>'}
    return msgspec.json.encode(members)


_OF_A_VOICE = re.compile(r"(?i)\b(voice|voiceId|engine|language|text length)\b")
_BUSY = re.compile(rb"(?i)rate exceeded|too many requests|throttl")
_ERRORS = ErrorDialect(
    code=("__type",), message=("message", "Message"),
    is_candidate_fault=lambda status, facts: status == 400 and _OF_A_VOICE.search(facts.message) is not None,
)  # fmt: skip


def classify(
    provider: str, status: int, retry_after: bytes | None, body: bytes, secrets: Iterable[str] = (), date: bytes | None = None
) -> ProviderError:
    """Return the error for an answer. The secrets are the parts of the key as well; a key without parts is named as the cause."""
    keys = tuple(secrets)
    parts = [part for key in keys for part in key_parts(key)]
    if status == 403 and keys and not any(":" in key for key in keys):
        body = error_body("the key must have the form ACCESS_KEY_ID:SECRET_ACCESS_KEY")
    if status == 400 and _BUSY.search(body):
        status = 429
    return vendor_errors.classify(provider, status, retry_after, body, parts, date, dialect=_ERRORS)


# ---- server


class _Request(msgspec.Struct, gc=False, rename="pascal"):
    output_format: str
    text: str
    voice_id: str
    engine: str = "standard"
    language_code: str | None = None
    sample_rate: str | None = None
    text_type: str = "text"


_REQUEST = msgspec.json.Decoder(_Request)


def parse(received: bytes) -> SpeakRequest:
    """Decode a request. Raises ClientProtocolError, with `param`."""
    request = decode_request(_REQUEST, received)
    if (encoding := _SERVED.get(request.output_format)) is None:
        raise ClientProtocolError(what=f"{request.output_format!r} is not a format", param="OutputFormat")
    usual_hz = {"pcm_s16le": 16_000, "mp3": 0}.get(encoding, 8_000)
    rates_hz = {"pcm_s16le": RATES_HZ, "mp3": _MP3_RATES_HZ}.get(encoding, frozenset({8_000}))
    rate_hz = int(request.sample_rate) if request.sample_rate and request.sample_rate.isdigit() else usual_hz
    if rate_hz not in {usual_hz, *rates_hz}:
        raise ClientProtocolError(what="The specified sample rate is not valid.", param="SampleRate")
    if request.engine not in ENGINES:
        raise ClientProtocolError(what=f"{request.engine!r} is not an engine", param="Engine")
    text, speed = _spoken(request)
    for name, value in (("Text", text.strip()), ("VoiceId", request.voice_id)):
        if not value:
            raise ClientProtocolError(what=f"{name} is empty", param=name)
    return SpeakRequest(
        model=request.engine, text=text, voice=request.voice_id, dialect="aws_polly", language=request.language_code, speed=speed,
        format=AudioFormat(encoding=encoding, sample_rate_hz=rate_hz),
    )  # fmt: skip


def _spoken(request: _Request) -> tuple[str, float | None]:
    if request.text_type != "ssml":
        return request.text, None
    try:
        root = ElementTree.fromstring(request.text)
    except ElementTree.ParseError:
        raise ClientProtocolError(what="Invalid SSML request", param="Text") from None
    prosody = next(root.iter("prosody"), None)
    rate = "" if prosody is None else prosody.get("rate", "")
    return "".join(root.itertext()), float(rate.removesuffix("%")) / 100 if rate.endswith("%") else None


def error_body(message: str) -> bytes:
    return msgspec.json.encode({"message": message})
