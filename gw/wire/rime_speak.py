"""Rime's speech over HTTP, `POST /v1/rime-tts`: both roles.

Source: the vendor's pages "Streaming HTTP" of Coda, Mist v3 and Mist v2 and "Error reference", rimelabs-sdk 0.1.0a24 (README),
livekit-plugins-rime 1.8.9 and pipecat-ai 1.14.0 (November 2026). The header `Accept` names the format; the body of the answer is
the audio. An error is plain text; the body of an older server is `{"error": "text"}` (pipecat-ai/pipecat#1976).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from gw.errors import ClientProtocolError, ProviderError
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import SpeakRequest
from gw.wire import vendor_errors
from gw.wire.json_codec import decode_request
from gw.wire.query import bare_language
from gw.wire.vendor_errors import ErrorDialect, ErrorFacts

PATH = "/v1/rime-tts"
RATES_HZ = frozenset({8_000, 16_000, 24_000})
"""The rates that every model has (rimelabs-sdk 0.1.0a24; Mist v2: 4,000 to 44,100 Hz)."""
ACCEPTS: dict[Encoding, str] = {"pcm_s16le": "audio/L16", "mulaw": "audio/PCMU", "mp3": "audio/mpeg"}
"""The formats that every model has. Coda and Mist v3 have more."""
_SERVED: dict[str, Encoding] = {
    **{accept.lower(): encoding for encoding, accept in ACCEPTS.items()},
    "audio/pcm": "pcm_s16le", "audio/mp3": "mp3", "audio/x-mulaw": "mulaw", "audio/wav": "wav",
}  # fmt: skip
"""`Accept` in small letters, with the older names that the vendor still accepts."""
_SCALES = (0.4, 2.5)
"""Shortest and longest `timeScaleFactor` (rimelabs-sdk 0.1.0a24)."""
_LANGUAGES = {
    "coda": "ar de en es fr hi it ja pt", "mistv3": "de en es fr hi", "mistv2": "de en es fr", "mist": "en",
}  # fmt: skip
"""Coda's: pipecat-ai 1.14.0; the others': LiveKit's page on Rime."""
_BY_DURATION = ("coda", "mistv3")
_BY_ALPHA = ("mist", "mistv2")


def takes_speed(model: str) -> bool:
    """Return whether a model has a setting of speed."""
    return model in (*_BY_DURATION, *_BY_ALPHA)


def speaks(language: str | None, model: str) -> bool:
    """Return whether a model speaks this language; of a model that is not known here, the vendor decides."""
    return (bare_language(language) or "") in _LANGUAGES[model].split() if model in _LANGUAGES else True


# ---- client


def body(request: SpeakRequest, model: str) -> bytes:
    """Both settings of speed are factors of duration: more than 1 is slower."""
    members: dict[str, str | int | float] = {"text": request.text, "speaker": request.voice, "modelId": model}
    if language := bare_language(request.language):
        members["lang"] = language
    if request.format.encoding != "mp3" and request.format.sample_rate_hz:
        members["samplingRate"] = request.format.sample_rate_hz
    if request.speed and takes_speed(model):
        shortest, longest = _SCALES
        members["timeScaleFactor" if model in _BY_DURATION else "speedAlpha"] = round(min(longest, max(shortest, 1 / request.speed)), 3)
    return msgspec.json.encode(members)


_OF_A_VOICE = re.compile(r"(?i)\b(speaker|voices?|modelid|language)\b")


def _out_of_money(status: int, facts: ErrorFacts) -> str:
    return "invalid_subscription" if status == 401 and "subscription" in facts.message.lower() else ""


_ERRORS = ErrorDialect(
    message=("message", "error"), out_of_money=_out_of_money,
    is_candidate_fault=lambda status, facts: status == 400 and _OF_A_VOICE.search(facts.message) is not None,
)  # fmt: skip
_MAX_MESSAGE_BYTES = 1_000


def classify(
    provider: str, status: int, retry_after: bytes | None, body: bytes, secrets: Iterable[str] = (), date: bytes | None = None
) -> ProviderError:
    """Return the error for an answer. Its text is the message, unless it is JSON, or the page of a proxy."""
    text = body.strip()
    if not text.startswith((b"{", b"<")) and len(text) <= _MAX_MESSAGE_BYTES:
        body = msgspec.json.encode({"message": text.decode("utf-8", "replace")})
    return vendor_errors.classify(provider, status, retry_after, body, secrets, date, dialect=_ERRORS)


# ---- server


class _Request(msgspec.Struct, gc=False, rename="camel"):
    text: str
    speaker: str = ""
    model_id: str = "mist"
    lang: str | None = None
    sampling_rate: int | None = None
    time_scale_factor: float | None = None
    speed_alpha: float | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse(accept: str, received: bytes) -> SpeakRequest:
    """Decode a request over HTTP. Raises ClientProtocolError, with `param`."""
    request = decode_request(_REQUEST, received)
    encoding = _SERVED.get(accept.lower())
    if encoding is None:
        raise ClientProtocolError(what="Accept must be one of " + ", ".join(ACCEPTS.values()), param="accept")
    for name, value in (("text", request.text), ("speaker", request.speaker)):
        if not value.strip():
            raise ClientProtocolError(what=f"{name} is empty", param=name)
    scale = request.time_scale_factor or request.speed_alpha
    rate_hz = 8_000 if encoding == "mulaw" else 24_000
    return SpeakRequest(
        model=request.model_id, text=request.text, voice=request.speaker, dialect="rime", language=request.lang,
        format=AudioFormat(encoding=encoding, sample_rate_hz=0 if encoding == "mp3" else request.sampling_rate or rate_hz),
        speed=1 / scale if scale else None,
    )  # fmt: skip
