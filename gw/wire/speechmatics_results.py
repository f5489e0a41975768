"""Speechmatics' common parts of its live and batch APIs: languages, vocabulary, results to words, errors.

Source: github.com/speechmatics/docs at 2026-08-13 (`spec/realtime.yaml`, `spec/batch.yaml`, "Models", "Languages", "Custom
dictionary"), speechmatics-rt 1.2.1 and speechmatics-batch 1.1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gw.types import stt
from gw.types.speech_settings import DETECT
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.wire.bounds import seconds
from gw.wire.query import bare_language
from gw.wire.vendor_errors import ErrorDialect

MULTILINGUAL = "melia-1"
"""The model that detects languages, and takes neither a vocabulary nor the name of one language."""
_LANGUAGES = (
    " ar ba be bg bn ca cmn cs cy da de el en eo es et eu fa fi fr ga gl he hi hr hu ia id it ja ko lt lv mn mr ms mt nl no pl pt"
    " ro ru sk sl sv sw ta th tl tr ug uk ur vi yue "
)
_SPELLED = {"zh": "cmn", "nb": "no", "fil": "tl", "iw": "he"}
"""ISO code → the vendor's for the same language."""
_USUAL_LANGUAGE = "en"  # the default of the vendor's SDK; the API requires one
_MOST_TERMS, _MOST_WORDS, _MOST_LETTERS = 1_000, 6, 4_000
"""The vendor drops a longer term without an error."""
ERRORS = ErrorDialect(
    code=("type",), message=("detail", "error", "reason"), alias=("error",),
    out_of_money=lambda status, facts: "timelimit_exceeded" if facts.code == "timelimit_exceeded" else "",
    is_candidate_fault=lambda status, facts: status == 400,
)
"""Errors of the batch API, `{"code", "error", "detail"}`, and those of an `Error` frame. A 400 is about the configuration or the recording:
another vendor may take it."""


def language_of(language: str | None, model: str) -> str | None:
    """Return a language as the vendor writes it, without region; None for one that it does not have.

    `auto` is for recordings only, and `multi` for one model.
    """
    if model == MULTILINGUAL:
        return "multi"
    if language == DETECT:
        return "auto"
    bare = bare_language(language) if language else _USUAL_LANGUAGE
    bare = _SPELLED.get(bare or "", bare)
    return bare if f" {bare} " in _LANGUAGES else None


def takes_keyterms(terms: Iterable[str], model: str) -> bool:
    """Return whether the vendor takes all of these terms."""
    terms = tuple(terms)
    fits = all(len(term.split()) <= _MOST_WORDS and max(map(len, term.split()), default=0) <= _MOST_LETTERS for term in terms)
    return model != MULTILINGUAL and len(terms) <= _MOST_TERMS and fits


def transcription_config(request: ListenRequest | TranscribeRequest, model: str) -> dict[str, Any]:
    """Return the settings that recordings and live sessions have in common."""
    members: dict[str, Any] = {"language": language_of(request.language, model) or _USUAL_LANGUAGE, "model": model}
    if request.keyterms:
        members["additional_vocab"] = [{"content": term} for term in request.keyterms]
    if request.diarize:
        members["diarization"] = "speaker"
    return members


# ---- results


class _Alternative(msgspec.Struct, gc=False):
    content: str = ""
    confidence: float | None = None
    language: str | None = None
    speaker: str | None = None


class ResultItem(msgspec.Struct, gc=False, rename={"kind": "type"}):
    kind: str = "word"
    start_time: float | None = None
    end_time: float | None = None
    attaches_to: str | None = None
    alternatives: list[_Alternative] | None = None


_NOBODY = "UU"
"""Label of a speaker that the vendor does not know, and of all of them without diarization."""


def words_of(items: Iterable[ResultItem], *, confidence: bool = True) -> tuple[stt.Word, ...]:
    """Return the words with their punctuation. `confidence`: False for partial results, whose figures mean nothing."""
    words: list[stt.Word] = []
    opening = ""
    for item in items:
        if not item.alternatives:
            continue
        best = item.alternatives[0]
        if item.kind == "punctuation":
            if item.attaches_to == "next":
                opening += best.content
            elif words:
                words[-1] = msgspec.structs.replace(words[-1], text=words[-1].text + best.content)
        elif item.kind in ("word", "entity"):
            start_s = seconds(item.start_time) or 0.0
            speaker = best.speaker if best.speaker != _NOBODY else None
            words.append(
                stt.Word(
                    text=opening + best.content, start_s=start_s, end_s=max(start_s, seconds(item.end_time) or 0.0),
                    confidence=best.confidence if confidence else None, speaker=speaker,
                )
            )
            opening = ""
    return tuple(words)


def language_in(items: Iterable[ResultItem]) -> str | None:
    """Return the language of the first word."""
    return next((item.alternatives[0].language for item in items if item.alternatives and item.alternatives[0].language), None)


# ---- server


_ENDS = ".,?!"


def encode_words(words: Sequence[stt.Word], language: str = "en") -> list[dict[str, Any]]:
    """Return results: a mark at the end of a word is a result of its own."""
    results: list[dict[str, Any]] = []
    for word in words:
        text, mark = (word.text[:-1], word.text[-1]) if len(word.text) > 1 and word.text[-1] in _ENDS else (word.text, "")
        times = {"start_time": round(word.start_s, 3), "end_time": round(word.end_s, 3)}
        confidence = 0.99 if word.confidence is None else word.confidence
        about = {"confidence": confidence, "language": language, "speaker": word.speaker or _NOBODY}
        results.append({"type": "word", **times, "alternatives": [{"content": text, **about}]})
        if mark:
            at = {"start_time": times["end_time"], "end_time": times["end_time"], "attaches_to": "previous", "is_eos": mark != ","}
            results.append({"type": "punctuation", **at, "alternatives": [{"content": mark, **about}]})
    return results


def error_body(status: int, error: str, detail: str) -> bytes:
    """Return an error of the batch API, and of a refused handshake."""
    return msgspec.json.encode({"code": status, "error": error, "detail": detail})
