"""Gladia's utterances, settings and errors, common to live sessions and recordings.

Source: gladiaio-sdk 2.2.1 (`v2/live/generated_types.py`, `v2/prerecorded/generated_types.py`, `network/http_client.py`, November
2026), which is generated from the vendor's OpenAPI description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gw.types import stt
from gw.types.speech_settings import DETECT
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.wire.bounds import seconds
from gw.wire.query import bare_language
from gw.wire.vendor_errors import ErrorDialect

ID = re.compile(r"[\w-]{1,64}")
"""Ids of sessions and jobs."""
_LANGUAGES = (
    " af am ar as az ba be bg bn bo br bs ca cs cy da de el en es et eu fa fi fo fr gl gu ha haw he hi hr ht hu hy id is it ja jw ka"
    " kk km kn ko la lb ln lo lt lv mg mi mk ml mn mr ms mt my ne nl nn no oc pa pl ps pt ro ru sa sd si sk sl sn so sq sr su sv sw"
    " ta te tg th tk tl tr tt uk ur uz vi yi yo zh "
)
ERRORS = ErrorDialect(message=("message",), is_candidate_fault=lambda status, facts: status in (400, 422))
"""`{"statusCode", "message", "validation_errors", "request_id"}`. A 400 or 422 is about the model or the settings, which the
gateway writes: another candidate may do better."""


class GladiaWord(msgspec.Struct, gc=False):
    word: str = ""
    start: float | None = None
    end: float | None = None
    confidence: float | None = None


class GladiaUtterance(msgspec.Struct, gc=False):
    text: str = ""
    start: float | None = None
    end: float | None = None
    confidence: float | None = None
    language: str | None = None
    words: list[GladiaWord] | None = None
    speaker: int | None = None


# ---- client


def takes_language(language: str | None) -> bool:
    """Return whether the vendor transcribes this language, or is to detect it."""
    return language == DETECT or f" {bare_language(language)} " in _LANGUAGES


def language_config(request: ListenRequest | TranscribeRequest) -> dict[str, Any]:
    """Return the setting of the language; nothing without one."""
    if request.language == DETECT:
        return {"language_config": {"languages": [], "code_switching": True}}
    language = bare_language(request.language)
    return {"language_config": {"languages": [language], "code_switching": False}} if language else {}


def vocabulary(keyterms: Sequence[str]) -> dict[str, Any]:
    """Return the setting of key terms; nothing without any."""
    return {"custom_vocabulary": True, "custom_vocabulary_config": {"vocabulary": list(keyterms)}} if keyterms else {}


def words_of(utterance: GladiaUtterance) -> tuple[stt.Word, ...]:
    """Return the words of an utterance, which begin with a space there."""
    speaker = None if utterance.speaker is None else str(utterance.speaker)
    words = []
    for word in utterance.words or ():
        start_s = seconds(word.start) or 0.0
        end_s = max(start_s, seconds(word.end) or 0.0)
        if text := word.word.strip():
            words.append(stt.Word(text=text, start_s=start_s, end_s=end_s, confidence=word.confidence, speaker=speaker))
    return tuple(words)


# ---- server


class GladiaVocabulary(msgspec.Struct, gc=False):
    vocabulary: list[Any]


class GladiaLanguages(msgspec.Struct, gc=False):
    languages: list[str] = []
    code_switching: bool | None = None


def language_of(config: GladiaLanguages | None) -> str | None:
    """Return the language of a request: the only one, or DETECT for several and for none."""
    if config is None:
        return None
    return config.languages[0] if len(config.languages) == 1 else DETECT


def encode_utterance(result: stt.Interim | stt.Final, language: str | None, speaker: str | None = None) -> dict[str, Any]:
    words = result.words or (stt.Word(text=result.text, start_s=result.start_s, end_s=result.end_s),)
    said = [
        {
            "word": f" {word.text}", "start": word.start_s, "end": word.end_s,
            "confidence": 0.9 if word.confidence is None else word.confidence,
        }
        for word in words
    ]  # fmt: skip
    utterance = {
        "text": result.text, "start": result.start_s, "end": result.end_s, "confidence": 0.9, "channel": 0, "words": said,
        "language": language or "en",
    }  # fmt: skip
    return utterance | ({"speaker": int(speaker)} if speaker is not None else {})


def error_body(status: int, message: str, invalid: Iterable[str] = ()) -> bytes:
    members = {"timestamp": "2026-11-26T10:00:00.000Z", "path": "/v2/live", "request_id": "G-1", "statusCode": status, "message": message}
    return msgspec.json.encode(members | ({"validation_errors": list(invalid)} if invalid else {}))
