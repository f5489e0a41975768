"""Azure Speech's fast transcription of recordings, `POST /speechtotext/transcriptions:transcribe`: both roles.

Source: azure-ai-transcription 1.0.0 (`models/_models.py`, `_operations`), the vendor's page "Use the fast transcription API"
(MicrosoftDocs/azure-ai-docs, January 2026) and its table of languages. The recording and a JSON `definition` go as a form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gw.types import stt
from gw.types.speech_settings import DETECT
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.usage import Usage
from gw.wire.bounds import plausible, seconds
from gw.wire.json_codec import decode_request, decode_upstream
from gw.wire.query import bare_language, language_tag
from gw.wire.vendor_errors import ErrorDialect

PATH = "/speechtotext/transcriptions:transcribe?api-version=2025-10-15"
MODEL = "standard"
_LOCALES = (
    " af-ZA am-ET ar-AE ar-BH ar-DZ ar-EG ar-IL ar-IQ ar-JO ar-KW ar-LB ar-LY ar-MA ar-OM ar-PS ar-QA ar-SA ar-SY ar-TN ar-YE as-IN"
    " az-AZ bg-BG bn-IN bs-BA ca-ES cs-CZ cy-GB da-DK de-AT de-CH de-DE el-GR en-AU en-CA en-GB en-GH en-HK en-IE en-IN en-KE en-NG"
    " en-NZ en-PH en-SG en-TZ en-US en-ZA es-AR es-BO es-CL es-CO es-CR es-CU es-DO es-EC es-ES es-GQ es-GT es-HN es-MX es-NI es-PA"
    " es-PE es-PR es-PY es-SV es-US es-UY es-VE et-EE eu-ES fa-IR fi-FI fil-PH fr-BE fr-CA fr-CH fr-FR ga-IE gl-ES gu-IN he-IL hi-IN"
    " hr-HR hu-HU hy-AM id-ID is-IS it-CH it-IT ja-JP jv-ID ka-GE kk-KZ km-KH kn-IN ko-KR lo-LA lt-LT lv-LV mk-MK ml-IN mn-MN mr-IN"
    " ms-MY mt-MT my-MM nb-NO ne-NP nl-BE nl-NL or-IN pa-IN pl-PL ps-AF pt-BR pt-PT ro-RO ru-RU si-LK sk-SK sl-SI so-SO sq-AL sr-ME"
    " sr-RS sr-XK sv-SE sw-KE sw-TZ ta-IN te-IN th-TH tr-TR uk-UA ur-IN uz-UZ vi-VN wuu-CN yue-CN zh-CN zh-HK zh-TW zu-ZA "
)
_NOT_FAST = (
    " ar-DZ ar-MA ar-TN ar-YE as-IN bs-BA el-GR fr-BE fr-CA fr-CH gu-IN it-CH km-KH kn-IN ne-NP nl-BE or-IN pa-IN si-LK sr-ME sr-XK"
    " sw-TZ te-IN wuu-CN yue-CN zh-TW "
)
_USUAL = {
    "ar": "ar-EG", "de": "de-DE", "en": "en-US", "es": "es-ES", "fr": "fr-FR", "it": "it-IT", "nl": "nl-NL", "no": "nb-NO",
    "pt": "pt-BR", "sr": "sr-RS", "sw": "sw-TZ", "zh": "zh-CN",
}  # fmt: skip
"""Language without region → the region that it most likely stands for (Unicode CLDR, "Likely Subtags")."""
ERRORS = ErrorDialect(code=("error.code", "code"), message=("error.message", "message"))


def locale_of(request: TranscribeRequest | ListenRequest) -> str | None:
    """Return the vendor's locale for the language of a request; None for one that the vendor does not transcribe."""
    if (tag := language_tag(request.language)) is None:
        return None
    bare = bare_language(tag) or ""
    if tag == bare:
        tag = _USUAL.get(bare) or next((locale for locale in _LOCALES.split() if locale.startswith(bare + "-")), "")
    unknown = not tag or f" {tag} " not in _LOCALES
    if unknown or (isinstance(request, TranscribeRequest) and f" {tag} " in _NOT_FAST):
        return None
    return tag


class _Word(msgspec.Struct, gc=False, rename="camel"):
    text: str
    offset_milliseconds: float
    duration_milliseconds: float


class _Phrase(msgspec.Struct, gc=False, rename="camel"):
    text: str
    offset_milliseconds: float
    duration_milliseconds: float
    words: list[_Word] | None = None
    locale: str | None = None
    confidence: float | None = None
    speaker: int | None = None


class _Combined(msgspec.Struct, gc=False):
    text: str


class _Answer(msgspec.Struct, gc=False, rename="camel"):
    combined_phrases: list[_Combined]
    phrases: list[_Phrase] = []
    duration_milliseconds: float | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


# ---- client


def definition(request: TranscribeRequest) -> str:
    """Return the settings. Without a locale the vendor detects the language. Profanity is kept, which the vendor masks by itself."""
    members: dict[str, Any] = {"profanityFilterMode": "Masked" if request.profanity_filter else "None"}
    if request.language and request.language != DETECT:
        members["locales"] = [locale_of(request)]
    if request.keyterms:
        members["phraseList"] = {"phrases": list(request.keyterms)}
    if request.diarize:
        members["diarization"] = {"enabled": True}
    return msgspec.json.encode(members).decode()


def decode(body: bytes, provider: str) -> stt.Transcript:
    """Decode an answer. Raises UpstreamProtocolError."""
    answer = decode_upstream(_ANSWER, body, provider, "the answer")
    segments = tuple(map(_segment, answer.phrases))
    billed_s = None if answer.duration_milliseconds is None else seconds(answer.duration_milliseconds / 1_000)
    return stt.Transcript(
        text=" ".join(combined.text for combined in answer.combined_phrases).strip(), segments=segments,
        words=tuple(word for segment in segments for word in segment.words), duration_s=billed_s,
        language=next((phrase.locale for phrase in answer.phrases if phrase.locale), None),
        usage=None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor")),
    )  # fmt: skip


def _segment(phrase: _Phrase) -> stt.Final:
    speaker = None if phrase.speaker is None else str(phrase.speaker)
    words = tuple(
        stt.Word(text=word.text, start_s=start_s, end_s=end_s, speaker=speaker)
        for word in phrase.words or ()
        for start_s, end_s in (_span(word.offset_milliseconds, word.duration_milliseconds),)
    )
    start_s, end_s = _span(phrase.offset_milliseconds, phrase.duration_milliseconds)
    return stt.Final(text=phrase.text, start_s=start_s, end_s=end_s, words=words, speaker=speaker, confidence=phrase.confidence)


def _span(offset_ms: float, duration_ms: float) -> tuple[float, float]:
    start_s = seconds(offset_ms / 1_000) or 0.0
    return start_s, start_s + (seconds(duration_ms / 1_000) or 0.0)


# ---- server


class _PhraseList(msgspec.Struct, gc=False):
    phrases: list[str]


class _Diarization(msgspec.Struct, gc=False, rename="camel"):
    enabled: bool = True
    max_speakers: int | None = None


class Definition(msgspec.Struct, gc=False, rename="camel"):
    locales: list[str] | None = None
    profanity_filter_mode: str = "Masked"
    phrase_list: _PhraseList | None = None
    diarization: _Diarization | None = None


_DEFINITION = msgspec.json.Decoder(Definition)


def parse_definition(text: str) -> Definition:
    """Decode the settings of a client. Raises ClientProtocolError."""
    return decode_request(_DEFINITION, text.encode())


def encode(transcript: stt.Transcript, segments: Sequence[stt.Final], locale: str) -> bytes:
    phrases = [
        {
            "offsetMilliseconds": round(segment.start_s * 1_000), "durationMilliseconds": round((segment.end_s - segment.start_s) * 1_000),
            "text": segment.text, "locale": locale, "confidence": segment.confidence or 0.9,
            "words": [
                {
                    "text": word.text, "offsetMilliseconds": round(word.start_s * 1_000),
                    "durationMilliseconds": round((word.end_s - word.start_s) * 1_000),
                }
                for word in segment.words
            ],
            **({"speaker": int(segment.speaker)} if segment.speaker else {}),
        }
        for segment in segments
    ]  # fmt: skip
    duration_ms = round((transcript.duration_s or 0.0) * 1_000)
    return msgspec.json.encode({"durationMilliseconds": duration_ms, "combinedPhrases": [{"text": transcript.text}], "phrases": phrases})


def error_body(status: int, code: str, message: str) -> bytes:
    return msgspec.json.encode({"error": {"code": code, "message": message}})
